// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See load.hpp. A message is a header of 8 bytes, and a slice of one random pattern that begins elsewhere in
// each message: what an earlier message has left in a receive buffer is never what the next must bring.
#include "bench/load.hpp"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace rocev2::test {

namespace {

constexpr uint32_t header_bytes = 8;
constexpr uint64_t slices = 4096;
// prime: consecutive messages begin in different words, and a slot's next one far away
constexpr uint64_t slice_step = 61;
constexpr std::chrono::seconds patience{20};

Channel make_channel(const Side &side)
{
    Channel channel(ibv_create_comp_channel(side.context.get()));
    require(static_cast<bool>(channel), "ibv_create_comp_channel: {}", std::strerror(errno));
    return channel;
}

// The completion queue is armed no more when it returns.
void take_event(ibv_comp_channel *channel)
{
    ibv_cq *cq = nullptr;
    void *context = nullptr;
    require(!ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event: {}", std::strerror(errno));
    ibv_ack_cq_events(cq, 1);
}

void arm(ibv_cq *cq, bool &armed)
{
    if (armed)
        return;
    const int error = ibv_req_notify_cq(cq, 0);
    require(!error, "ibv_req_notify_cq: {}", std::strerror(error));
    armed = true;
}

void require_success(const ibv_wc &wc, const char *whose)
{
    require(wc.status == IBV_WC_SUCCESS, "a {} completed with \"{}\"", whose, ibv_wc_status_str(wc.status));
}

} // namespace

Traffic::Traffic(const Sides &sides, const Load &load, uint64_t seed)
    : load_(load), seed_(seed), rng_(seed), mtu_(mtu_bytes(common_mtu(sides))), channel_(make_channel(sides.b)),
      channel_a_(make_channel(sides.a)), cq_a_(make_cq(sides.a, static_cast<int>(load.window), channel_a_.get())),
      cq_b_(make_cq(sides.b, static_cast<int>(load.window), channel_.get())), unused_(make_cq(sides.b, 1)),
      a_(make_qp(sides.a, cq_a_.get(), cq_a_.get(), {.send_wr = load.window, .recv_wr = 1, .send_sge = 2})),
      b_(make_qp(sides.b, unused_.get(), cq_b_.get(), {.send_wr = 1, .recv_wr = load.window})),
      headers_(size_t{load.window} * header_bytes), pattern_(load.message_bytes + slices),
      received_bytes_(size_t{load.window} * load.message_bytes), headers_mr_(make_mr(sides.a, headers_.span(), 0)),
      pattern_mr_(make_mr(sides.a, pattern_.span(), 0)),
      received_mr_(make_mr(sides.b, received_bytes_.span(), IBV_ACCESS_LOCAL_WRITE)), posted_at_(load.window),
      next_(Clock::now())
{
    fill_pattern(pattern_.span(), seed);
    connect(sides.a, a_.get(), sides.b, b_.get(), {.mtu = common_mtu(sides)});
    for (uint32_t slot = 0; slot < load.window; slot++)
        post_receive(slot);
}

uint32_t Traffic::packets_per_message() const
{
    return (load_.message_bytes + mtu_ - 1) / mtu_;
}

uint64_t Traffic::header_of(uint64_t message) const
{
    return mix64(seed_ ^ mix64(message));
}

std::span<std::byte> Traffic::pattern_of(uint64_t message) const
{
    return pattern_.span(message * slice_step % slices, load_.message_bytes - header_bytes);
}

// Of the window: a receive buffer is posted for each message that is, and its send is complete.
uint32_t Traffic::room() const
{
    return load_.window - static_cast<uint32_t>(posted_ - std::min(sent_, received_));
}

void Traffic::post_receive(uint64_t slot)
{
    ibv_sge sge = sge_of(received_bytes_.span(slot * load_.message_bytes, load_.message_bytes), received_mr_.get());
    post_recv(b_.get(), slot, {&sge, 1});
}

// All of one call, as an application posts what it has at hand.
void Traffic::post_chain(uint32_t count)
{
    std::vector<std::array<ibv_sge, 2>> sges(count);
    std::vector<ibv_send_wr> wrs(count);
    const auto now = Clock::now();

    for (uint32_t i = 0; i < count; i++, posted_++) {
        const uint64_t slot = posted_ % load_.window;
        const auto header = headers_.span(slot * header_bytes, header_bytes);
        const auto pattern = pattern_of(posted_);
        const uint64_t word = header_of(posted_);

        std::memcpy(header.data(), &word, sizeof(word));
        posted_at_[slot] = now;
        sges[i] = {sge_of(header, headers_mr_.get()), sge_of(pattern, pattern_mr_.get())};
        wrs[i].wr_id = slot;
        wrs[i].opcode = IBV_WR_SEND;
        wrs[i].send_flags = IBV_SEND_SIGNALED;
        wrs[i].sg_list = sges[i].data();
        wrs[i].num_sge = pattern.empty() ? 1 : 2;
        wrs[i].next = i + 1 < count ? &wrs[i + 1] : nullptr;
    }
    post_send(a_.get(), wrs.front());
}

bool Traffic::post(Clock::time_point now)
{
    const uint32_t count = std::min(load_.burst, room());

    if (now < next_ || count == 0)
        return false;
    post_chain(count);
    if (load_.interval.count() != 0) {
        const auto mean = std::chrono::nanoseconds(load_.interval).count();

        next_ = now + std::chrono::nanoseconds(rng_.between(mean / 2, mean + mean / 2));
    }
    return true;
}

void Traffic::check(const ibv_wc &wc)
{
    const auto data = received_bytes_.span(wc.wr_id * load_.message_bytes, load_.message_bytes);
    const auto pattern = pattern_of(received_);
    const uint64_t word = header_of(received_);

    require_success(wc, "receive");
    require(wc.byte_len == load_.message_bytes && wc.wr_id == received_ % load_.window &&
                std::memcmp(data.data(), &word, sizeof(word)) == 0 &&
                std::memcmp(data.data() + header_bytes, pattern.data(), pattern.size()) == 0,
            "message {} has not arrived as it was sent", received_);
}

bool Traffic::take_received(Arrivals &arrivals)
{
    std::array<ibv_wc, 16> wcs;
    const int count = ibv_poll_cq(cq_b_.get(), wcs.size(), wcs.data());

    require(count >= 0, "ibv_poll_cq returned {}", count);
    if (count == 0)
        return false;
    const auto now = Clock::now();
    for (size_t i = 0; i < static_cast<size_t>(count); i++, received_++) {
        const std::chrono::nanoseconds latency = now - posted_at_[received_ % load_.window];

        check(wcs[i]);
        arrivals.latencies_ns.push_back(static_cast<uint32_t>(std::min<int64_t>(latency.count(), UINT32_MAX)));
        arrivals.messages++;
        post_receive(wcs[i].wr_id);
    }
    return true;
}

bool Traffic::take_sent()
{
    std::array<ibv_wc, 16> wcs;
    const int count = ibv_poll_cq(cq_a_.get(), wcs.size(), wcs.data());

    require(count >= 0, "ibv_poll_cq returned {}", count);
    for (size_t i = 0; i < static_cast<size_t>(count); i++, sent_++)
        require_success(wcs[i], "send");
    return count > 0;
}

// A's completions are waited for only when nothing can be sent without them.
void Traffic::sleep(Clock::time_point until, Arrivals &arrivals)
{
    const bool full = room() == 0;

    arm(cq_b_.get(), armed_);
    if (full)
        arm(cq_a_.get(), armed_a_);
    // what came before the arming makes no event
    if (static_cast<int>(take_received(arrivals)) + static_cast<int>(take_sent()) > 0)
        return;
    const std::chrono::nanoseconds left = (full ? until : std::min(until, next_)) - Clock::now();
    if (left.count() <= 0)
        return;
    const timespec timeout{left.count() / 1000000000, left.count() % 1000000000};
    std::array<pollfd, 2> waits{{{channel_->fd, POLLIN, 0}, {channel_a_->fd, POLLIN, 0}}};
    require(ppoll(waits.data(), waits.size(), &timeout, nullptr) >= 0 || errno == EINTR, "ppoll: {}",
            std::strerror(errno));
    if (waits[0].revents != 0) {
        take_event(channel_.get());
        armed_ = false;
    }
    if (waits[1].revents != 0) {
        take_event(channel_a_.get());
        armed_a_ = false;
    }
}

Arrivals Traffic::run(Receiver receiver, Clock::duration length)
{
    const auto end = Clock::now() + length;
    Arrivals arrivals;

    for (auto now = Clock::now(); now < end; now = Clock::now()) {
        bool busy = post(now);
        busy |= take_received(arrivals);
        busy |= take_sent();
        if (busy)
            continue;
        if (receiver == Receiver::polls)
            sched_yield();
        else
            sleep(end, arrivals);
    }
    return arrivals;
}

void Traffic::drain()
{
    Arrivals ignored;
    const auto end = Clock::now() + patience;

    while (received_ != posted_ || sent_ != posted_) {
        require(Clock::now() < end, "{} messages were posted, {} have arrived, {} are complete", posted_, received_,
                sent_);
        take_received(ignored);
        take_sent();
        sched_yield();
    }
}

} // namespace rocev2::test
