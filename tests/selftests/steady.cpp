// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// RC traffic both ways that goes on until it is stopped or what is below it breaks: SENDs, WRITEs and READs, every
// byte verified. For tests that do the breaking; one of these ends it:
//
//   0  SIGTERM: all that was begun is done, and right
//   3  a clean error: a device is gone, or a first request has failed by exceeded retries; whatever was posted on a
//      device that is still there has come back
//   1  anything else: wrong bytes, a request that never ends, another error
//
// Both sides are in one process, so nothing of the traffic depends on the network's other protocols.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/verbs.hpp"

#include <CLI/CLI.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

constexpr int clean_error = 3;
constexpr uint32_t window = 16;
constexpr uint32_t max_length = 20000;
constexpr uint64_t library_seed = 0x11b;
// how often devices are asked for events, and the file is written
constexpr auto tick = milliseconds(20);

volatile std::sig_atomic_t stop = 0;

enum class Kind { send, write, read };

// What message k of a direction is; both ends know.
struct Message {
    Kind kind;
    uint32_t length;
    uint64_t seed;
};

Message message_at(uint64_t direction_seed, uint64_t k)
{
    const uint64_t hash = mix64(direction_seed ^ mix64(k));
    const uint64_t kind = hash % 4;
    return {kind < 2 ? Kind::send : kind == 2 ? Kind::write : Kind::read,
            1 + static_cast<uint32_t>((hash >> 8) % max_length), hash};
}

struct Slots {
    Buffer buffer{size_t{window} * max_length};
    Mr mr;

    explicit Slots(const Side &side) : mr(make_mr(side, buffer.span(), all_access)) {}
    std::span<std::byte> at(uint64_t k, size_t length) const
    {
        return buffer.span(k % window * max_length, length);
    }
};

// One end: what it sends, and what it receives from the other.
class End {
public:
    End(const Side &side, uint64_t sends, uint64_t receives)
        : side_(side), sends_(sends), receives_(receives),
          endpoint_(make_endpoint(side, {.send_wr = window, .recv_wr = window})), out_(side), in_(side),
          written_(side), library_(side)
    {
        fill_pattern(library_.buffer.span(), library_seed);
    }

    // Once connected.
    void post_receives()
    {
        for (uint64_t i = 0; i < window; i++)
            post_receive(i);
    }

    ibv_qp *qp() const { return endpoint_.qp.get(); }
    const Side &side() const { return side_; }
    bool gone() const { return gone_; }
    bool failed() const { return status_ != IBV_WC_SUCCESS; }
    bool idle() const { return posted_ == completed_; }
    uint64_t verified() const { return received_ + reads_; }

    // Posts what the window has room for.
    void post(const End &peer)
    {
        while (!gone_ && !failed() && posted_ - completed_ < window)
            post_one(peer);
    }

    void poll_sends()
    {
        std::array<ibv_wc, window> wcs;
        const int n = gone_ ? 0 : ibv_poll_cq(endpoint_.send_cq.get(), window, wcs.data());
        require(n >= 0, "{}: ibv_poll_cq returned {}", side_.name, n);
        for (int i = 0; i < n; i++)
            sent(wcs[static_cast<size_t>(i)]);
    }

    void poll_receives()
    {
        std::array<ibv_wc, window> wcs;
        const int n = gone_ ? 0 : ibv_poll_cq(endpoint_.recv_cq.get(), window, wcs.data());
        require(n >= 0, "{}: ibv_poll_cq returned {}", side_.name, n);
        for (int i = 0; i < n; i++)
            received(wcs[static_cast<size_t>(i)]);
    }

    void poll_events()
    {
        while (!gone_) {
            const auto event = next_event(side_.context.get(), milliseconds(0));
            if (!event)
                return;
            gone_ = event->type == IBV_EVENT_DEVICE_FATAL;
        }
    }

    void report() const
    {
        fmt::print("{}: {} messages and {} READs verified", side_.name, received_, reads_);
        if (failed())
            fmt::print("; {}, {} more flushed", ibv_wc_status_str(status_), flushed_);
        if (gone_)
            fmt::print("; device gone");
        fmt::print("\n");
    }

private:
    void post_receive(uint64_t i)
    {
        std::array sges{sge_of(in_.at(i, max_length), in_.mr.get())};
        post_recv(qp(), i, sges);
    }

    void post_one(const End &peer)
    {
        const Message message = message_at(sends_, posted_);
        const auto bytes = out_.at(posted_, message.length);
        std::array sges{sge_of(bytes, out_.mr.get())};
        const Slots &target = message.kind == Kind::read ? peer.library_ : peer.written_;
        const auto there = target.at(posted_, message.length);
        ibv_send_wr wr = remote_request(message.kind == Kind::send ? IBV_WR_SEND :
                                        message.kind == Kind::write ? IBV_WR_RDMA_WRITE_WITH_IMM :
                                                                      IBV_WR_RDMA_READ,
                                        sges, reinterpret_cast<uint64_t>(there.data()), target.mr->rkey, 0);
        wr.wr_id = posted_;
        wr.imm_data = static_cast<uint32_t>(posted_);
        if (message.kind == Kind::read)
            std::ranges::fill(bytes, std::byte{0});
        else
            fill_pattern(bytes, message.seed);
        ibv_send_wr *bad = nullptr;
        const int error = ibv_post_send(qp(), &wr, &bad);
        if (error) {
            // a device on its way out refuses before it says so
            require(wait_until(std::chrono::seconds(10), [this] { poll_events(); return gone_; }),
                    "{}: ibv_post_send: {}, and the device is not gone", side_.name, std::strerror(error));
            return;
        }
        posted_++;
    }

    void sent(const ibv_wc &wc)
    {
        require(wc.wr_id == completed_, "{}: wr_id {} completes, expected {}", side_.name, wc.wr_id, completed_);
        completed_++;
        if (wc.status != IBV_WC_SUCCESS) {
            const bool first = !failed();
            const ibv_wc_status expected = first ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR;
            // one that is on its way out may flush, too
            require(wc.status == expected || wc.status == IBV_WC_WR_FLUSH_ERR, "{}: request {} ends with \"{}\"",
                    side_.name, wc.wr_id, ibv_wc_status_str(wc.status));
            if (first)
                status_ = wc.status;
            else
                flushed_++;
            return;
        }
        require(!failed(), "{}: request {} succeeds behind a failed one", side_.name, wc.wr_id);
        const Message message = message_at(sends_, wc.wr_id);
        if (message.kind != Kind::read)
            return;
        reads_++;
        Buffer expected(message.length);
        fill_pattern(expected.span(), library_seed, wc.wr_id % window * max_length);
        must_equal(out_.at(wc.wr_id, message.length), expected, "READ", wc.wr_id);
    }

    void received(const ibv_wc &wc)
    {
        if (wc.status == IBV_WC_WR_FLUSH_ERR)
            return;
        require(wc.status == IBV_WC_SUCCESS, "{}: a receive ends with \"{}\"", side_.name,
                ibv_wc_status_str(wc.status));
        // READs do not consume receives
        while (message_at(receives_, expected_).kind == Kind::read)
            expected_++;
        const Message message = message_at(receives_, expected_);
        const bool write = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
        require(write == (message.kind == Kind::write), "{}: message {} is of the wrong kind", side_.name, expected_);
        require(wc.byte_len == message.length, "{}: message {} has {} bytes, expected {}", side_.name, expected_,
                wc.byte_len, message.length);
        require(!write || wc.imm_data == static_cast<uint32_t>(expected_), "{}: message {} has immediate data {}",
                side_.name, expected_, wc.imm_data);
        Buffer expected(message.length);
        fill_pattern(expected.span(), message.seed);
        must_equal(write ? written_.at(expected_, message.length) : in_.at(wc.wr_id, message.length), expected,
                   write ? "WRITE" : "SEND", expected_);
        received_++;
        expected_++;
        post_receive(wc.wr_id);
    }

    void must_equal(std::span<const std::byte> bytes, const Buffer &expected, const char *what, uint64_t k) const
    {
        const auto [got, wanted] = std::ranges::mismatch(bytes, expected.span());
        require(got == bytes.end(), "{}: {} {} of {} bytes is wrong from byte {} on", side_.name, what, k, bytes.size(),
                got - bytes.begin());
    }

    const Side &side_;
    uint64_t sends_; // seeds of the directions
    uint64_t receives_;
    Endpoint endpoint_;
    Slots out_;
    Slots in_;
    Slots written_; // by the peer
    Slots library_; // READ by the peer
    uint64_t posted_ = 0;
    uint64_t completed_ = 0;
    uint64_t expected_ = 0;
    uint64_t received_ = 0;
    uint64_t reads_ = 0;
    uint64_t flushed_ = 0;
    ibv_wc_status status_ = IBV_WC_SUCCESS;
    bool gone_ = false;
};

// A file with the number of verified messages, for who waits for traffic.
class Progress {
public:
    explicit Progress(const std::string &path)
        : fd_(path.empty() ? -1 : open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644))
    {
        require(path.empty() || fd_ >= 0, "cannot write {}: {}", path, std::strerror(errno));
    }
    ~Progress() { close(fd_); }
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    void tell(uint64_t count) const
    {
        const std::string text = fmt::format("{:020}\n", count);
        require(fd_ < 0 || pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()),
                "cannot write progress: {}", std::strerror(errno));
    }

private:
    int fd_;
};

// Nothing is to come any more. Whose peer's device is gone goes on until a request tells it.
bool done(const End &end, const End &peer)
{
    return end.gone() || (end.idle() && (stop || end.failed() || !peer.gone()));
}

int run(const Options &options, const std::string &progress_file, std::chrono::seconds stall)
{
    Sides sides = open_sides(options);
    select_default_gids(sides, options);
    const uint64_t seed_a = mix64(options.seed);
    const uint64_t seed_b = mix64(seed_a);
    End a(sides.a, seed_a, seed_b);
    End b(sides.b, seed_b, seed_a);
    Link link = link_from(options);
    link.mtu = common_mtu(sides);
    connect(sides.a, a.qp(), sides.b, b.qp(), link);
    a.post_receives();
    b.post_receives();

    const Progress progress(progress_file);
    auto next_tick = Clock::now();
    auto last = Clock::now();
    uint64_t before = 0;
    for (;;) {
        // A request that is done has been received: its slot may be written again once that is verified.
        a.poll_sends();
        b.poll_sends();
        a.poll_receives();
        b.poll_receives();
        const bool failed = a.failed() || b.failed();
        if ((stop || failed || a.gone() || b.gone()) && done(a, b) && done(b, a))
            break;
        if (!stop && !failed) {
            a.post(b);
            b.post(a);
        }
        const auto now = Clock::now();
        if (now >= next_tick) {
            next_tick = now + tick;
            a.poll_events();
            b.poll_events();
            const uint64_t verified = a.verified() + b.verified();
            progress.tell(verified);
            if (verified != before)
                last = now;
            before = verified;
            if (now - last > stall) {
                a.report();
                b.report();
                fail("nothing has moved, and nothing failed, for {} s", stall.count());
            }
        }
        std::this_thread::yield();
    }
    a.report();
    b.report();
    if (!a.failed() && !b.failed() && !a.gone() && !b.gone())
        return 0;
    // objects of a device that is gone cannot be destroyed
    std::fflush(stdout);
    std::_Exit(clean_error);
}

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("RC traffic both ways, verified, until SIGTERM (status 0) or a clean error (status 3).");
    Options options;
    std::string progress;
    int stall = 60;
    add_common_options(app, options);
    app.add_option("--progress", progress, "file that tells how many messages were verified");
    app.add_option("--stall", stall, "seconds without progress and without an error that are a failure");
    CLI11_PARSE(app, argc, argv);

    std::signal(SIGTERM, [](int) { stop = 1; });
    try {
        settle_options("steady", options);
        return run(options, progress, std::chrono::seconds(stall));
    } catch (const std::exception &error) {
        fmt::print("{}\n", error.what());
        std::fflush(stdout);
        std::_Exit(1);
    }
}
