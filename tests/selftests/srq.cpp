// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Shared receive queues: data of many QPs through one SRQ, with every byte and
// every completion checked; limit events; resize, at rest and under traffic;
// the last-WQE event of QPs in error; the order of destruction.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/verbs.hpp"

#include <arpa/inet.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

constexpr std::byte poison{0xa5};

void expect_event(const Side &side, ibv_event_type type, const void *element)
{
    const auto event = next_event(side.context.get(), milliseconds(2000));
    require(event.has_value(), "side {}: no asynchronous event, expected \"{}\"", side.name,
            ibv_event_type_str(type));
    require(event->type == type, "side {}: event \"{}\", expected \"{}\"", side.name,
            ibv_event_type_str(event->type), ibv_event_type_str(type));
    require(event->element == element, "side {}: event \"{}\" for the wrong object", side.name,
            ibv_event_type_str(type));
}

void expect_no_event(const Side &side, const char *when)
{
    const auto event = next_event(side.context.get(), milliseconds(20));
    require(!event, "side {}: unexpected event \"{}\" {}", side.name,
            event ? ibv_event_type_str(event->type) : "", when);
}

ibv_srq_attr query(ibv_srq *srq)
{
    ibv_srq_attr attr{};
    const int error = ibv_query_srq(srq, &attr);
    require(!error, "ibv_query_srq: {}", std::strerror(error));
    return attr;
}

int resize(ibv_srq *srq, uint32_t max_wr)
{
    ibv_srq_attr attr{};
    attr.max_wr = max_wr;
    return ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
}

int arm(ibv_srq *srq, uint32_t limit)
{
    ibv_srq_attr attr{};
    attr.srq_limit = limit;
    return ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT);
}

void must_arm(ibv_srq *srq, uint32_t limit)
{
    const int error = arm(srq, limit);
    require(!error, "arming the SRQ limit {}: {}", limit, std::strerror(error));
}

// ---------------------------------------------------------------------------
// QPs of side A, each connected to one of side B; those of B share an SRQ, its
// memory and a CQ.

class Bench {
public:
    static constexpr uint32_t slot_size = 256;

    Bench(const Sides &sides, const Link &link, uint32_t qps, uint32_t max_wr)
        : sides_(sides), slots(size_t{max_wr + 64} * slot_size), send(page_size),
          slots_mr(make_mr(sides.b, slots.span(), IBV_ACCESS_LOCAL_WRITE)),
          send_mr(make_mr(sides.a, send.span(), IBV_ACCESS_LOCAL_WRITE)),
          srq(make_srq(sides.b, max_wr)), recv_cq(make_cq(sides.b, 1024))
    {
        for (uint32_t i = 0; i < qps; i++)
            add(link);
        drain_events(sides.a.context.get());
        drain_events(sides.b.context.get());
    }

    void add(const Link &link)
    {
        Endpoint from = make_endpoint(sides_.a, {.send_wr = 64, .recv_wr = 1}, 128);
        Endpoint to;
        to.side = &sides_.b;
        to.send_cq = make_cq(sides_.b, 16);
        to.qp = make_qp(sides_.b, to.send_cq.get(), recv_cq.get(),
                        {.send_wr = 4, .recv_wr = 0, .recv_sge = 0, .srq = srq.get()});
        connect(sides_.a, from.qp.get(), sides_.b, to.qp.get(), link);
        a.push_back(std::move(from));
        b.push_back(std::move(to));
    }

    void post(uint64_t id)
    {
        std::array sges{sge_of(slot(id), slots_mr.get())};
        post_srq_recv(srq.get(), id, sges);
    }
    void post(uint64_t first, uint64_t count)
    {
        for (uint64_t id = first; id < first + count; id++)
            post(id);
    }

    void request(size_t qp, uint64_t id, uint32_t length)
    {
        std::array sges{sge_of(send.span(0, length), send_mr.get())};
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.sg_list = sges.data();
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        post_send(a[qp].qp.get(), wr);
    }

    // A message that must take the receive with this id.
    void exchange(size_t qp, uint64_t id)
    {
        fill_pattern(send.span(0, 100), ++seed_);
        request(qp, seed_, 100);
        const ibv_wc wc = must_poll(recv_cq.get(), "receive");
        check_wc(wc, IBV_WC_SUCCESS, id, b[qp].qp.get(), "receive");
        require(wc.byte_len == 100, "receive {}: byte_len is {}", id, wc.byte_len);
        require(!std::memcmp(slot(id).data(), send.data(), 100), "receive {}: wrong data", id);
        check_wc(must_poll(a[qp].send_cq.get(), "send"), IBV_WC_SUCCESS, seed_, a[qp].qp.get(),
                 "send");
    }

    std::span<std::byte> slot(uint64_t id)
    {
        return slots.span(static_cast<size_t>(id) * slot_size % slots.size(), slot_size);
    }

private:
    const Sides &sides_;
    uint64_t seed_ = 0;

public:
    Buffer slots;
    Buffer send;
    Mr slots_mr;
    Mr send_mr;
    Srq srq;
    Cq recv_cq;
    std::vector<Endpoint> a;
    std::vector<Endpoint> b;
};

// ---------------------------------------------------------------------------
// Attributes

int create_error(const Side &side, uint32_t max_wr, uint32_t max_sge)
{
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = max_wr;
    attr.attr.max_sge = max_sge;
    errno = 0;
    const Srq srq(ibv_create_srq(side.pd.get(), &attr));
    if (!srq)
        return errno ? errno : EIO;
    require(attr.attr.max_wr >= max_wr && attr.attr.max_sge >= max_sge,
            "an SRQ of {} x {} became {} x {}", max_wr, max_sge, attr.attr.max_wr,
            attr.attr.max_sge);
    const ibv_srq_attr is = query(srq.get());
    require(is.max_wr == attr.attr.max_wr && is.max_sge == attr.attr.max_sge && !is.srq_limit,
            "created {} x {}, query says {} x {}, limit {}", attr.attr.max_wr, attr.attr.max_sge,
            is.max_wr, is.max_sge, is.srq_limit);
    return 0;
}

void limits(const Side &side)
{
    const auto wrs = static_cast<uint32_t>(side.attr.max_srq_wr);
    const auto sges = static_cast<uint32_t>(side.attr.max_srq_sge);
    require(side.attr.max_srq > 200 && wrs >= 1024 && sges >= 16,
            "limits too small: max_srq {}, max_srq_wr {}, max_srq_sge {}", side.attr.max_srq, wrs,
            sges);
    require(side.attr.device_cap_flags & IBV_DEVICE_SRQ_RESIZE, "SRQ_RESIZE is not advertised");
    struct Try {
        uint32_t wr;
        uint32_t sge;
        int error;
    };
    for (const Try &one : {Try{1, 1, 0}, Try{100, 4, 0}, Try{wrs, 1, 0}, Try{16, sges, 0},
                           Try{wrs + 1, 1, EINVAL}, Try{16, sges + 1, EINVAL}, Try{0, 1, EINVAL},
                           Try{~0u, 1, EINVAL}, Try{16, ~0u, EINVAL}}) {
        const int error = create_error(side, one.wr, one.sge);
        require(error == one.error, "an SRQ of {} x {}: {}, expected {}", one.wr, one.sge,
                std::strerror(error), std::strerror(one.error));
    }
    // What it says it holds is what it holds, and no more.
    Srq srq = make_srq(side, 10);
    const uint32_t capacity = query(srq.get()).max_wr;
    for (uint32_t i = 0; i < capacity; i++)
        post_srq_recv(srq.get(), i, {});
    ibv_recv_wr wr{};
    ibv_recv_wr *bad = nullptr;
    require(ibv_post_srq_recv(srq.get(), &wr, &bad) != 0 && bad == &wr,
            "a receive was posted to a full SRQ of {}", capacity);
}

// ---------------------------------------------------------------------------
// Data

enum class Kind { send, send_imm, write_imm };

constexpr uint32_t longest = 12000;
constexpr uint32_t depth = 16; // messages of a QP on their way or not verified
constexpr uint32_t inline_limit = 128;

// Message number @n of QP @qp is a function of these and the seed.
struct Message {
    Kind kind;
    uint32_t length;
    uint32_t imm;
    uint64_t pattern;
    bool inlined;

    Message(uint64_t seed, size_t qp, uint64_t n, uint32_t mtu)
    {
        Rng rng(mix64(seed ^ mix64(qp << 32 ^ n)));
        kind = static_cast<Kind>(rng.between(0u, 2u));
        const std::array borders{0u, 1u, 3u, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 1};
        length = rng.one_in(3) ? borders[rng.between<size_t>(0, borders.size() - 1)]
                               : rng.between(0u, rng.one_in(4) ? longest : 600u);
        imm = rng.next32();
        pattern = rng.next();
        inlined = length <= inline_limit && rng.one_in(3);
    }
};

struct Plan {
    size_t qps = 8;
    uint64_t messages = 150; // of each QP
    uint32_t slots = 64;     // receives in circulation
    bool late = false;       // they come back late
    bool resize = false;
};

class Shared {
public:
    Shared(const Sides &sides, const Link &link, const Plan &plan, uint64_t seed)
        : sides_(sides), plan_(plan), seed_(seed), rng_(seed), mtu_(mtu_bytes(link.mtu)),
          receive_(size_t{plan.slots} * slot_room), send_(plan.qps * depth * longest),
          target_(plan.qps * depth * longest),
          receive_mr_(make_mr(sides.b, receive_.span(), IBV_ACCESS_LOCAL_WRITE)),
          send_mr_(make_mr(sides.a, send_.span(), IBV_ACCESS_LOCAL_WRITE)),
          target_mr_(make_mr(sides.b, target_.span(), all_access)),
          srq_(make_srq(sides.b, plan.slots, 3)),
          recv_cq_(make_cq(sides.b, static_cast<int>(plan.slots) + 16)),
          free_(plan.slots, true), next_(plan.qps), verified_(plan.qps), sent_(plan.qps)
    {
        std::fill(receive_.span().begin(), receive_.span().end(), poison);
        for (size_t i = 0; i < plan.qps; i++) {
            a_.push_back(make_endpoint(
                sides.a, {.send_wr = depth, .recv_wr = 1, .inline_data = inline_limit}));
            Endpoint to;
            to.side = &sides.b;
            to.send_cq = make_cq(sides.b, 1);
            to.qp = make_qp(sides.b, to.send_cq.get(), recv_cq_.get(),
                            {.send_wr = 1, .recv_wr = 0, .recv_sge = 0, .srq = srq_.get()});
            connect(sides.a, a_[i].qp.get(), sides.b, to.qp.get(), link);
            qp_of_[to.qp->qp_num] = i;
            b_.push_back(std::move(to));
        }
        drain_events(sides.a.context.get());
        drain_events(sides.b.context.get());
    }

    void run()
    {
        for (uint32_t i = 0; i < plan_.slots; i++)
            post(i);
        {
            std::vector<std::jthread> threads;
            for (size_t t = 0; t < 3; t++)
                threads.emplace_back([this, t](const std::stop_token &stop) { requests(stop, t, 3); });
            if (plan_.resize)
                threads.emplace_back([this](const std::stop_token &stop) { resizes(stop); });
            receive_all();
        }
        require(!failure_reported(), "a requester failed");
        nothing_lost();
        for (size_t i = 0; i < plan_.qps; i++) {
            require(query_state(a_[i].qp.get()) == IBV_QPS_RTS, "QP {} of A left RTS", i);
            require(query_state(b_[i].qp.get()) == IBV_QPS_RTS, "QP {} of B left RTS", i);
        }
        expect_no_event(sides_.a, "after the traffic");
        expect_no_event(sides_.b, "after the traffic");
    }

    uint64_t resized() const { return resized_; }

private:
    // Three pieces with guard bytes between and behind them.
    static constexpr size_t guard = 8;
    static constexpr std::array<size_t, 3> pieces{100, 1500, longest - 1600};
    static constexpr size_t slot_room = longest + 3 * guard;

    std::array<std::span<std::byte>, 3> slot(uint64_t id)
    {
        const size_t at = static_cast<size_t>(id) * slot_room;
        return {receive_.span(at, pieces[0]), receive_.span(at + pieces[0] + guard, pieces[1]),
                receive_.span(at + pieces[0] + pieces[1] + 2 * guard, pieces[2])};
    }

    void post(uint64_t id)
    {
        std::array<ibv_sge, 3> sges;
        std::ranges::transform(slot(id), sges.begin(),
                               [&](auto piece) { return sge_of(piece, receive_mr_.get()); });
        ibv_recv_wr wr{};
        ibv_recv_wr *bad = nullptr;
        wr.wr_id = id;
        wr.sg_list = sges.data();
        wr.num_sge = 3;
        const int error = ibv_post_srq_recv(srq_.get(), &wr, &bad);
        if (error && plan_.resize) {
            // It was made smaller behind our back.
            held_.emplace_back(Clock::now(), id);
            return;
        }
        require(!error, "ibv_post_srq_recv: {}", std::strerror(error));
        free_[id] = false;
        posted_.push_back(id);
    }

    std::span<std::byte> room(const Buffer &buffer, size_t qp, uint64_t n, uint32_t length) const
    {
        return buffer.span((qp * depth + n % depth) * longest, length);
    }

    void requests(const std::stop_token &stop, size_t first, size_t step)
    {
        try {
            while (!stop.stop_requested()) {
                bool idle = true;
                for (size_t qp = first; qp < plan_.qps; qp += step) {
                    harvest(qp);
                    if (sent_[qp] == plan_.messages || sent_[qp] - verified_[qp] >= depth)
                        continue;
                    request(qp, sent_[qp]++);
                    idle = false;
                }
                if (idle)
                    sched_yield();
            }
            for (size_t qp = first; qp < plan_.qps; qp += step)
                harvest(qp);
        } catch (const std::exception &error) {
            report_failure(error.what());
        }
    }

    void harvest(size_t qp)
    {
        ibv_wc wc{};
        while (ibv_poll_cq(a_[qp].send_cq.get(), 1, &wc) == 1)
            require(wc.status == IBV_WC_SUCCESS, "QP {}: message {} failed: {}", qp, wc.wr_id,
                    ibv_wc_status_str(wc.status));
    }

    void request(size_t qp, uint64_t n)
    {
        const Message message(seed_, qp, n, mtu_);
        const auto from = room(send_, qp, n, message.length);
        const auto to = room(target_, qp, n, longest);
        fill_pattern(from, message.pattern);
        std::array sges{sge_of(from, send_mr_.get())};
        ibv_send_wr wr{};
        wr.wr_id = n;
        wr.sg_list = sges.data();
        wr.num_sge = message.length ? 1 : 0;
        wr.send_flags = IBV_SEND_SIGNALED | flag_if(message.inlined, IBV_SEND_INLINE);
        wr.imm_data = htonl(message.imm);
        wr.opcode = IBV_WR_SEND;
        if (message.kind == Kind::send_imm)
            wr.opcode = IBV_WR_SEND_WITH_IMM;
        if (message.kind == Kind::write_imm) {
            std::fill(to.begin(), to.end(), poison);
            wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(to.data());
            wr.wr.rdma.rkey = target_mr_->rkey;
        }
        post_send(a_[qp].qp.get(), wr);
    }

    void receive_all()
    {
        const uint64_t total = plan_.messages * plan_.qps;
        auto last = Clock::now();
        for (uint64_t received = 0; received < total;) {
            while (!held_.empty() && held_.front().first <= Clock::now()) {
                const uint64_t id = held_.front().second;
                held_.pop_front();
                post(id);
                if (!held_.empty() && held_.back().second == id)
                    break; // no room
            }
            ibv_wc wc{};
            const int n = ibv_poll_cq(recv_cq_.get(), 1, &wc);
            require(n >= 0, "ibv_poll_cq returned {}", n);
            if (n == 0) {
                require(!failure_reported(), "a requester failed");
                require(Clock::now() - last < std::chrono::seconds(20),
                        "no completion for 20 s; {} of {} received, {} slots held", received,
                        total, held_.size());
                sched_yield();
                continue;
            }
            last = Clock::now();
            note(fmt::format("{} of {} received", received++, total));
            check(wc);
            if (plan_.late && rng_.one_in(4))
                held_.emplace_back(Clock::now() + milliseconds(rng_.between(0, 3)), wc.wr_id);
            else
                post(wc.wr_id);
        }
    }

    void check(const ibv_wc &wc)
    {
        require(wc.status == IBV_WC_SUCCESS, "receive {}: {}", wc.wr_id,
                ibv_wc_status_str(wc.status));
        const auto at = qp_of_.find(wc.qp_num);
        require(at != qp_of_.end(), "receive {}: no QP {:#x}", wc.wr_id, wc.qp_num);
        const size_t qp = at->second;
        const uint64_t n = next_[qp]++;
        const Message message(seed_, qp, n, mtu_);
        const std::string what = fmt::format("QP {} message {} in receive {}", qp, n, wc.wr_id);
        require(wc.wr_id < free_.size() && !free_[wc.wr_id],
                "{}: that one was not posted, or taken twice", what);
        free_[wc.wr_id] = true;
        std::erase(posted_, wc.wr_id);
        require(wc.byte_len == message.length, "{}: byte_len is {}, expected {}", what,
                wc.byte_len, message.length);
        require(wc.src_qp == a_[qp].qp->qp_num, "{}: src_qp is {:#x}", what, wc.src_qp);
        const bool imm = message.kind != Kind::send;
        require(bool(wc.wc_flags & IBV_WC_WITH_IMM) == imm, "{}: wc_flags are {:#x}", what,
                static_cast<unsigned>(wc.wc_flags));
        require(!imm || ntohl(wc.imm_data) == message.imm, "{}: wrong immediate data", what);
        const bool write = message.kind == Kind::write_imm;
        require(wc.opcode == (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV),
                "{}: opcode is {}", what, static_cast<int>(wc.opcode));

        std::vector<std::byte> expected(longest, poison);
        fill_pattern(std::span(expected).first(message.length), message.pattern);
        if (write)
            require(std::ranges::equal(room(target_, qp, n, longest), expected),
                    "{}: wrong data in the WRITE's target", what);
        if (write)
            std::ranges::fill(expected, poison);
        auto rest = std::span<const std::byte>(expected);
        for (const auto piece : slot(wc.wr_id)) {
            require(std::ranges::equal(piece, rest.first(piece.size())), "{}: wrong data", what);
            rest = rest.subspan(piece.size());
            std::fill(piece.begin(), piece.end(), poison);
        }
        const auto all = receive_.span(static_cast<size_t>(wc.wr_id) * slot_room, slot_room);
        require(std::ranges::all_of(all, [](std::byte b) { return b == poison; }),
                "{}: bytes between the SGEs were written", what);
        verified_[qp]++;
    }

    void resizes(const std::stop_token &stop)
    {
        try {
            Rng rng(seed_ ^ 0x5151);
            while (!stop.stop_requested()) {
                const uint32_t wanted = rng.between(1u, 4 * plan_.slots);
                const int error = resize(srq_.get(), wanted);
                // With so much posted a small one may be refused.
                require(!error || (error == EINVAL && wanted < plan_.slots),
                        "resize to {} with {} receives: {}", wanted, plan_.slots,
                        std::strerror(error));
                resized_ += error == 0;
                const uint32_t is = query(srq_.get()).max_wr;
                require(error || is >= wanted, "resized to {}, query says {}", wanted, is);
                std::this_thread::sleep_for(milliseconds(rng.between(0, 2)));
            }
        } catch (const std::exception &error) {
            report_failure(error.what());
        }
    }

    // What was posted and not taken is still there, in the order of posting.
    void nothing_lost()
    {
        note("taking what is left");
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        while (!posted_.empty()) {
            post_send(a_[0].qp.get(), wr);
            check_wc(must_poll(recv_cq_.get(), "what is left"), IBV_WC_SUCCESS, posted_.front(),
                     b_[0].qp.get(), "what is left");
            must_poll(a_[0].send_cq.get(), "what is left");
            posted_.pop_front();
        }
        must_be_empty(recv_cq_.get(), "with the SRQ empty");
    }

    const Sides &sides_;
    Plan plan_;
    uint64_t seed_;
    Rng rng_;
    uint32_t mtu_;
    Buffer receive_;
    Buffer send_;
    Buffer target_;
    Mr receive_mr_;
    Mr send_mr_;
    Mr target_mr_;
    Srq srq_;
    Cq recv_cq_;
    std::vector<Endpoint> a_;
    std::vector<Endpoint> b_;
    std::map<uint32_t, size_t> qp_of_;
    std::vector<bool> free_;
    std::deque<uint64_t> posted_;
    std::deque<std::pair<Clock::time_point, uint64_t>> held_;
    std::vector<uint64_t> next_;
    std::vector<std::atomic<uint64_t>> verified_;
    std::vector<uint64_t> sent_; // each by one thread
    std::atomic<uint64_t> resized_ = 0;
};

void data(const Sides &sides, Link link, ibv_mtu mtu, const Plan &plan, uint64_t seed)
{
    link.mtu = std::min(mtu, common_mtu(sides));
    Shared shared(sides, link, plan, seed);
    shared.run();
    if (plan.resize) {
        require(shared.resized() > 10, "only {} resizes", shared.resized());
        diag(fmt::format("{} resizes under traffic", shared.resized()));
    }
}

// A QP with an SRQ has no receive queue, whatever sizes it is asked for.
void no_receive_queue(const Side &side)
{
    Srq srq = make_srq(side, 8);
    Cq cq = make_cq(side, 8);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq.get();
    attr.qp_type = IBV_QPT_RC;
    attr.srq = srq.get();
    attr.cap = {.max_send_wr = 4, .max_recv_wr = ~0u, .max_send_sge = 1, .max_recv_sge = ~0u,
                .max_inline_data = 0};
    const Qp qp(ibv_create_qp(side.pd.get(), &attr));
    require(bool(qp), "ibv_create_qp: {}", std::strerror(errno));
    require(attr.cap.max_recv_wr == 0 && attr.cap.max_recv_sge == 0,
            "the QP has room for {} receives of {} SGEs of its own", attr.cap.max_recv_wr,
            attr.cap.max_recv_sge);
    ibv_qp_attr is{};
    ibv_qp_init_attr init{};
    require(!ibv_query_qp(qp.get(), &is, IBV_QP_CAP, &init), "ibv_query_qp failed");
    require(init.srq == srq.get() && is.cap.max_recv_wr == 0, "query_qp: srq {}, {} receives",
            static_cast<const void *>(init.srq), is.cap.max_recv_wr);
}

// An SRQ of another PD: its receives name keys of that PD, not of the QP's.
void other_pd(const Sides &sides, const Link &link)
{
    Pd pd(ibv_alloc_pd(sides.b.context.get()));
    require(bool(pd), "ibv_alloc_pd: {}", std::strerror(errno));
    Srq srq = make_srq(sides.b, 8, 1, pd.get());
    Buffer memory(page_size);
    Mr own = make_mr(sides.b, memory.span(), IBV_ACCESS_LOCAL_WRITE);
    Mr of_srq(ibv_reg_mr(pd.get(), memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE));
    require(bool(of_srq), "ibv_reg_mr: {}", std::strerror(errno));
    Buffer source(page_size);
    Mr source_mr = make_mr(sides.a, source.span(), IBV_ACCESS_LOCAL_WRITE);
    Endpoint a = make_endpoint(sides.a);
    Endpoint b = make_endpoint(sides.b, {.srq = srq.get()});
    connect(sides.a, a.qp.get(), sides.b, b.qp.get(), link);
    const auto send = [&] {
        std::array sges{sge_of(source.span(0, 64), source_mr.get())};
        ibv_send_wr wr{};
        wr.sg_list = sges.data();
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        post_send(a.qp.get(), wr);
    };
    std::array good{sge_of(memory.span(0, 64), of_srq.get())};
    std::array wrong{sge_of(memory.span(64, 64), own.get())};
    fill_pattern(source.span(), 1);
    post_srq_recv(srq.get(), 1, good);
    post_srq_recv(srq.get(), 2, wrong);
    send();
    check_wc(must_poll(b.recv_cq.get(), "key of the SRQ's PD"), IBV_WC_SUCCESS, 1, b.qp.get(),
             "key of the SRQ's PD");
    require(!std::memcmp(memory.data(), source.data(), 64), "wrong data");
    must_poll(a.send_cq.get(), "send");
    send();
    check_wc(must_poll(b.recv_cq.get(), "key of the QP's PD"), IBV_WC_LOC_PROT_ERR, 2, b.qp.get(),
             "key of the QP's PD");
    check_wc(must_poll(a.send_cq.get(), "send"), IBV_WC_REM_OP_ERR, 0, a.qp.get(), "send");
    drain_events(sides.b.context.get());
}

void rnr(const Sides &sides, Link link)
{
    link.rnr_retry = 1;
    Bench bench(sides, link, 2, 16);
    bench.request(0, 7, 10);
    check_wc(must_poll(bench.a[0].send_cq.get(), "SEND to an empty SRQ"),
             IBV_WC_RNR_RETRY_EXC_ERR, 7, bench.a[0].qp.get(), "SEND to an empty SRQ");
    must_be_empty(bench.recv_cq.get(), "nothing was posted");
    // The others go on, and the responder of the one that gave up lives.
    bench.post(1);
    bench.exchange(1, 1);
    require(query_state(bench.b[0].qp.get()) == IBV_QPS_RTS, "the responder left RTS");

    link.rnr_retry = 7;
    bench.add(link);
    bench.request(2, 8, 100);
    std::this_thread::sleep_for(milliseconds(30));
    must_be_empty(bench.a[2].send_cq.get(), "an SRQ that is still empty");
    bench.post(2);
    check_wc(must_poll(bench.recv_cq.get(), "late receive"), IBV_WC_SUCCESS, 2,
             bench.b[2].qp.get(), "late receive");
    check_wc(must_poll(bench.a[2].send_cq.get(), "SEND"), IBV_WC_SUCCESS, 8, bench.a[2].qp.get(),
             "SEND");
}

// ---------------------------------------------------------------------------
// Limit events

void limit_event(const Sides &sides, const Link &link)
{
    Bench bench(sides, link, 2, 31);
    ibv_srq *srq = bench.srq.get();
    uint64_t id = 0;
    bench.post(0, 20);
    bench.exchange(0, id++);
    expect_no_event(sides.b, "without arming");

    must_arm(srq, 10);
    require(query(srq).srq_limit == 10, "limit is {}, expected 10", query(srq).srq_limit);
    // 19 are posted: 10 remain after nine more, which is not below the limit.
    for (int i = 0; i < 9; i++)
        bench.exchange(static_cast<size_t>(i) % 2, id++);
    expect_no_event(sides.b, "with as many posted as the limit says");
    bench.exchange(1, id++);
    expect_event(sides.b, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
    require(query(srq).srq_limit == 0, "limit is {} after the event", query(srq).srq_limit);
    bench.exchange(0, id++);
    bench.exchange(1, id++);
    expect_no_event(sides.b, "a second time for one arming");

    // Seven are left.
    must_arm(srq, 7);
    expect_no_event(sides.b, "on arming with enough posted");
    bench.exchange(0, id++);
    expect_event(sides.b, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
    // Whoever arms too late hears at once.
    must_arm(srq, 7);
    expect_event(sides.b, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
    require(query(srq).srq_limit == 0, "still armed after the event");
    must_arm(srq, 6);
    must_arm(srq, 0);
    bench.exchange(0, id++);
    expect_no_event(sides.b, "after disarming");

    const uint32_t capacity = query(srq).max_wr;
    must_arm(srq, 3);
    require(arm(srq, capacity + 1) == EINVAL, "a limit above the capacity was accepted");
    require(query(srq).srq_limit == 3, "a refused arming changed the limit to {}",
            query(srq).srq_limit);
    ibv_srq_attr attr{};
    const int error = ibv_modify_srq(srq, &attr, 1 << 7);
    require(error != 0, "an unknown attribute was accepted");
    expect_no_event(sides.b, "at the end");
    expect_no_event(sides.a, "at the end");
}

// Consumers on several CPUs: one event for each arming all the same.
void limit_under_traffic(const Sides &sides, const Link &link)
{
    Bench bench(sides, link, 4, 255);
    uint64_t posted = 0;
    uint64_t received = 0;
    for (int round = 0; round < 30; round++) {
        note(fmt::format("round {}", round));
        bench.post(posted, 64);
        posted += 64;
        must_arm(bench.srq.get(), 32);
        {
            std::vector<std::jthread> threads;
            for (size_t qp = 0; qp < 4; qp++)
                threads.emplace_back([&bench, qp] {
                    for (uint64_t i = 0; i < 16; i++)
                        bench.request(qp, i, 8);
                });
        }
        for (int i = 0; i < 64; i++, received++) {
            const ibv_wc wc = must_poll(bench.recv_cq.get(), "receive");
            require(wc.status == IBV_WC_SUCCESS, "receive: {}", ibv_wc_status_str(wc.status));
        }
        for (const Endpoint &end : bench.a)
            for (uint64_t i = 0; i < 16; i++)
                check_wc(must_poll(end.send_cq.get(), "send"), IBV_WC_SUCCESS, i, end.qp.get(),
                         "send");
        expect_event(sides.b, IBV_EVENT_SRQ_LIMIT_REACHED, bench.srq.get());
        require(!next_event(sides.b.context.get(), milliseconds(0)), "a second event");
    }
}

// ---------------------------------------------------------------------------
// Resize

void resize_at_rest(const Sides &sides, const Link &link)
{
    Bench bench(sides, link, 2, 15);
    ibv_srq *srq = bench.srq.get();
    const auto max = static_cast<uint32_t>(sides.b.attr.max_srq_wr);
    uint64_t posted = 0;
    uint64_t next = 0;
    // Past the end of the ring, so that what moves lies around it.
    for (int i = 0; i < 20; i++) {
        bench.post(posted++);
        bench.exchange(0, next++);
    }
    bench.post(posted, 10);
    posted += 10;

    for (const uint32_t wanted : {100u, 1000u, 12u, max, 10u, 40u}) {
        int error = resize(srq, wanted);
        require(!error, "resize to {} with {} posted: {}", wanted, posted - next,
                std::strerror(error));
        const uint32_t is = query(srq).max_wr;
        require(is >= wanted && is <= max, "resized to {}, query says {}", wanted, is);
        // Two go and two come: in order, from the new ring.
        for (size_t qp : {0u, 1u}) {
            bench.exchange(qp, next++);
            bench.post(posted++);
        }
    }
    // Full to the last entry, then no smaller.
    const uint32_t capacity = query(srq).max_wr;
    while (posted - next < capacity)
        bench.post(posted++);
    ibv_recv_wr wr{};
    ibv_recv_wr *bad = nullptr;
    require(ibv_post_srq_recv(srq, &wr, &bad) != 0, "a receive was posted to a full SRQ");
    for (const uint32_t wanted : {0u, 1u, capacity / 2, max + 1, ~0u}) {
        const int error = resize(srq, wanted);
        require(error == EINVAL, "resize to {} with {} posted: {}", wanted, capacity,
                std::strerror(error));
    }
    require(query(srq).max_wr == capacity, "a refused resize changed the capacity to {}",
            query(srq).max_wr);
    while (next < posted)
        bench.exchange(next % 2, next), next++;

    // The limit counts in the new ring; a resize below it is refused.
    bench.post(posted, 20);
    posted += 20;
    must_arm(srq, 20);
    require(resize(srq, 7) == EINVAL, "resize below limit and contents was accepted");
    ibv_srq_attr attr{};
    attr.max_wr = 60;
    attr.srq_limit = 64;
    require(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) == EINVAL,
            "a limit above the new capacity was accepted");
    require(query(srq).max_wr == capacity && query(srq).srq_limit == 20,
            "a refused change of both left capacity {} and limit {}", query(srq).max_wr,
            query(srq).srq_limit);
    attr.srq_limit = 19;
    const int error = ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
    require(!error, "resize and arming together: {}", std::strerror(error));
    require(query(srq).srq_limit == 19 && query(srq).max_wr >= 60, "not both were changed");
    bench.exchange(0, next++);
    expect_no_event(sides.b, "with as many posted as the limit says");
    bench.exchange(0, next++);
    expect_event(sides.b, IBV_EVENT_SRQ_LIMIT_REACHED, srq);
}

// A message has begun in a receive of the old ring and ends after the resize.
void resize_within_message(const Sides &sides, Link link)
{
    constexpr size_t length = 8u << 20;
    link.mtu = IBV_MTU_256;
    Bench bench(sides, link, 1, 15);
    Buffer source(length);
    Buffer target(length);
    Mr source_mr = make_mr(sides.a, source.span(), IBV_ACCESS_LOCAL_WRITE);
    Mr target_mr = make_mr(sides.b, target.span(), IBV_ACCESS_LOCAL_WRITE);
    fill_pattern(source.span(), 99);
    std::array receive{sge_of(target.span(), target_mr.get())};
    std::array sges{sge_of(source.span(), source_mr.get())};
    post_srq_recv(bench.srq.get(), 1, receive);
    ibv_send_wr wr{};
    wr.sg_list = sges.data();
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    post_send(bench.a[0].qp.get(), wr);
    int resizes = 0;
    std::optional<ibv_wc> wc;
    for (uint32_t i = 0; !wc && i < 100000; i++) {
        require(!resize(bench.srq.get(), i % 2 ? 4 : 200), "resize failed");
        resizes++;
        wc = poll_for(bench.recv_cq.get(), milliseconds(1));
    }
    require(wc.has_value(), "the message did not arrive");
    check_wc(*wc, IBV_WC_SUCCESS, 1, bench.b[0].qp.get(), "long message");
    require(!std::memcmp(source.data(), target.data(), length), "wrong data");
    require(resizes > 2, "only {} resizes during the message", resizes);
    must_poll(bench.a[0].send_cq.get(), "send");
}

// ---------------------------------------------------------------------------
// Last WQE reached

void last_wqe(const Sides &sides, Link link, const std::string &how)
{
    Bench bench(sides, link, 3, 31);
    const Side &b = sides.b;
    bench.post(0, 16);
    bench.exchange(0, 0);
    bench.exchange(1, 1);
    uint64_t next = 2;
    ibv_qp *dying = bench.b[0].qp.get();
    if (how == "modify") {
        must_modify(dying, state_step(IBV_QPS_ERR), "ERR");
    } else if (how == "message_too_long") {
        bench.request(0, 1, Bench::slot_size + 1);
        check_wc(must_poll(bench.recv_cq.get(), "long message"), IBV_WC_LOC_LEN_ERR, next++,
                 dying, "long message");
    } else if (how == "access_error") {
        ibv_send_wr wr{};
        std::array sges{sge_of(bench.send.span(0, 8), bench.send_mr.get())};
        wr.sg_list = sges.data();
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.rkey = 0x12345678;
        post_send(bench.a[0].qp.get(), wr);
    }
    // One event says what happened, where no completion did; one that it is over.
    int last = 0;
    int access = 0;
    while (const auto event = next_event(b.context.get(), milliseconds(last ? 50 : 2000))) {
        require(event->element == dying, "event \"{}\" for another object",
                ibv_event_type_str(event->type));
        last += event->type == IBV_EVENT_QP_LAST_WQE_REACHED;
        access += event->type == IBV_EVENT_QP_ACCESS_ERR;
        require(event->type == IBV_EVENT_QP_LAST_WQE_REACHED ||
                    (how == "access_error" && event->type == IBV_EVENT_QP_ACCESS_ERR),
                "event \"{}\"", ibv_event_type_str(event->type));
    }
    require(last == 1, "{} last-WQE events, expected 1", last);
    require(access == (how == "access_error"), "{} access error events", access);
    require(query_state(dying) == IBV_QPS_ERR, "the QP is not in error");
    must_be_empty(bench.recv_cq.get(), "nothing of the SRQ flushes");

    // Error again, messages to it, receives for the others: no second event.
    must_modify(dying, state_step(IBV_QPS_ERR), "ERR again");
    bench.post(16);
    for (int i = 0; i < 5; i++)
        bench.exchange(static_cast<size_t>(1 + i % 2), next++);
    expect_no_event(b, "from a QP whose last-WQE event was raised");

    // A new life, a new event.
    must_modify(dying, state_step(IBV_QPS_RESET), "RESET");
    expect_no_event(b, "on RESET");
    to_init(b, dying, link);
    must_modify(dying, state_step(IBV_QPS_ERR), "ERR");
    expect_event(b, IBV_EVENT_QP_LAST_WQE_REACHED, dying);
    expect_no_event(b, "after the last-WQE event");
    bench.exchange(2, next++);
    expect_no_event(b, "at the end");
}

// The QP holds a receive when the error comes: it flushes, and then comes the event.
void last_wqe_within_message(const Sides &sides, Link link)
{
    constexpr size_t length = 64u << 20;
    link.mtu = IBV_MTU_256;
    link.timeout = 8;
    link.retry_cnt = 1;
    Bench bench(sides, link, 2, 15);
    Buffer memory(length);
    Mr source_mr = make_mr(sides.a, memory.span(), IBV_ACCESS_LOCAL_WRITE);
    Mr target_mr = make_mr(sides.b, memory.span(), IBV_ACCESS_LOCAL_WRITE);
    std::array receive{sge_of(memory.span(), target_mr.get())};
    std::array sges{sge_of(memory.span(), source_mr.get())};
    post_srq_recv(bench.srq.get(), 1, receive);
    bench.post(2);
    ibv_send_wr wr{};
    wr.sg_list = sges.data();
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    post_send(bench.a[0].qp.get(), wr);
    std::this_thread::sleep_for(milliseconds(5));
    must_be_empty(bench.recv_cq.get(), "the message is on its way");
    must_modify(bench.b[0].qp.get(), state_step(IBV_QPS_ERR), "ERR");
    expect_event(sides.b, IBV_EVENT_QP_LAST_WQE_REACHED, bench.b[0].qp.get());
    // No wait: the completion is there before the event.
    ibv_wc wc{};
    require(ibv_poll_cq(bench.recv_cq.get(), 1, &wc) == 1, "the event came before the completion");
    check_wc(wc, IBV_WC_WR_FLUSH_ERR, 1, bench.b[0].qp.get(), "the receive in use");
    must_be_empty(bench.recv_cq.get(), "nothing else flushes");
    bench.exchange(1, 2);
    expect_no_event(sides.b, "at the end");
}

// Every QP of an SRQ fails under traffic: one event each, and the receives of all
// completions and of what is left are those that were posted.
void last_wqe_under_traffic(const Sides &sides, Link link)
{
    constexpr size_t qps = 8;
    link.timeout = 8;
    link.retry_cnt = 1;
    link.rnr_retry = 1;
    for (int round = 0; round < 5; round++) {
        note(fmt::format("round {}", round));
        Bench bench(sides, link, qps, 255);
        bench.post(0, 250);
        for (size_t qp = 0; qp < qps; qp++)
            for (uint64_t i = 0; i < 30; i++)
                bench.request(qp, i, 200);
        for (size_t qp = 0; qp < qps; qp++)
            must_modify(bench.b[qp].qp.get(), state_step(IBV_QPS_ERR), "ERR");
        std::map<const void *, int> events;
        for (size_t i = 0; i < qps; i++) {
            const auto event = next_event(sides.b.context.get(), milliseconds(2000));
            require(event && event->type == IBV_EVENT_QP_LAST_WQE_REACHED,
                    "event {} of {} is missing or another", i, qps);
            require(++events[event->element] == 1, "two events for one QP");
        }
        expect_no_event(sides.b, "after those of all QPs");
        std::vector<bool> seen(251);
        ibv_wc wc{};
        uint64_t taken = 0;
        while (ibv_poll_cq(bench.recv_cq.get(), 1, &wc) == 1) {
            require(wc.wr_id < 250 && !seen[wc.wr_id], "receive {} completed twice", wc.wr_id);
            seen[wc.wr_id] = true;
            taken++;
        }
        // A ninth QP finds the rest.
        bench.add(link);
        for (; taken < 250; taken++) {
            bench.request(qps, taken, 10);
            wc = must_poll(bench.recv_cq.get(), "what is left");
            require(wc.status == IBV_WC_SUCCESS && wc.wr_id < 250 && !seen[wc.wr_id],
                    "what is left: receive {}, {}", wc.wr_id, ibv_wc_status_str(wc.status));
            seen[wc.wr_id] = true;
            must_poll(bench.a[qps].send_cq.get(), "send");
        }
        bench.post(250);
        bench.exchange(qps, 250);
    }
}

// ---------------------------------------------------------------------------
// Life and death

void destroy_order(const Sides &sides, const Link &link)
{
    const auto before = resource_counts(sides.b.device);
    {
        Bench bench(sides, link, 2, 16);
        require(resource_counts(sides.b.device).at("srq") == before.at("srq") + 1,
                "the SRQ is not counted");
        for (size_t left = 2; left; left--) {
            const int error = bench.srq.try_reset();
            require(error == EBUSY, "destroying an SRQ with {} QPs: {}", left,
                    std::strerror(error));
            // It lives, its ring is still ours.
            bench.post(left);
            bench.exchange(left - 1, left);
            bench.b[left - 1].qp.reset();
        }
        bench.post(3);
        bench.srq.reset();

        Side other = open_side("C", sides.b.device, sides.b.netns, sides.b.port);
        Srq srq = make_srq(other, 4);
        const int error = other.pd.try_reset();
        require(error == EBUSY, "destroying a PD with an SRQ: {}", std::strerror(error));
    }
    for (const auto &[what, count] : resource_counts(sides.b.device))
        require(count == before.at(what), "{}: {} after, {} before", what, count,
                before.at(what));
}

// QPs come and go, some in the middle of messages, while others use the SRQ.
void qps_come_and_go(const Sides &sides, Link link)
{
    link.timeout = 8;
    link.retry_cnt = 1;
    Bench bench(sides, link, 1, 255);
    bench.post(0, 128);
    uint64_t posted = 128;
    const auto repost = [&] {
        ibv_wc wc{};
        while (ibv_poll_cq(bench.recv_cq.get(), 1, &wc) == 1)
            bench.post(posted++ % 256);
    };
    for (int round = 0; round < 60; round++) {
        note(fmt::format("round {}", round));
        bench.add(link);
        for (uint64_t i = 0; i < 8; i++) {
            bench.request(0, i, 200);
            bench.request(1, i, 200);
        }
        if (round % 3 == 0)
            bench.a.pop_back();
        bench.b.pop_back();
        if (round % 3 != 0)
            bench.a.pop_back();
        for (uint64_t i = 0; i < 8; i++) {
            require(wait_until(milliseconds(5000), [&] {
                        repost();
                        ibv_wc wc{};
                        if (ibv_poll_cq(bench.a[0].send_cq.get(), 1, &wc) != 1)
                            return false;
                        check_wc(wc, IBV_WC_SUCCESS, i, bench.a[0].qp.get(), "the QP that stays");
                        return true;
                    }), "the QP that stays got stuck");
        }
        // What a dead QP had in use is lost with it (10.2.9): one at most.
        bench.post(posted++ % 256);
    }
    drain_events(sides.b.context.get());
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options)
{
    const Link link = link_from(options);
    const uint64_t seed = options.seed;
    ktap.add("limits", [&] { limits(sides.a); });
    const auto add_data = [&, link, seed](const std::string &name, ibv_mtu mtu, const Plan &plan) {
        ktap.add("data." + name, [&sides, link, mtu, plan, seed, name] {
            data(sides, link, mtu, plan, hash_name(seed, name));
        });
    };
    add_data("one_qp", IBV_MTU_1024, {.qps = 1, .messages = 400});
    for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
        add_data(fmt::format("eight_qps.mtu_{}", mtu_bytes(static_cast<ibv_mtu>(mtu))),
                 static_cast<ibv_mtu>(mtu), {});
    add_data("sixty_qps", IBV_MTU_4096, {.qps = 60, .messages = 25, .slots = 200});
    add_data("few_receives", IBV_MTU_1024, {.qps = 4, .messages = 60, .slots = 3});
    add_data("late_receives", IBV_MTU_1024, {.messages = 60, .slots = 24, .late = true});
    add_data("resize", IBV_MTU_1024, {.messages = 300, .resize = true});
    add_data("resize_late", IBV_MTU_4096, {.messages = 100, .slots = 24, .late = true, .resize = true});
    ktap.add("no_receive_queue", [&] { no_receive_queue(sides.b); });
    ktap.add("other_pd", [&, link] { other_pd(sides, link); });
    ktap.add("rnr", [&, link] { rnr(sides, link); });
    ktap.add("limit.event", [&, link] { limit_event(sides, link); });
    ktap.add("limit.under_traffic", [&, link] { limit_under_traffic(sides, link); });
    ktap.add("resize.at_rest", [&, link] { resize_at_rest(sides, link); });
    ktap.add("resize.within_message", [&, link] { resize_within_message(sides, link); });
    for (const char *how : {"modify", "message_too_long", "access_error"})
        ktap.add(fmt::format("last_wqe.{}", how), [&, link, how] { last_wqe(sides, link, how); });
    ktap.add("last_wqe.within_message", [&, link] { last_wqe_within_message(sides, link); });
    ktap.add("last_wqe.under_traffic", [&, link] { last_wqe_under_traffic(sides, link); });
    ktap.add("destroy_order", [&, link] { destroy_order(sides, link); });
    ktap.add("qps_come_and_go", [&, link] { qps_come_and_go(sides, link); });
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Shared receive queues: data, limit, resize, last WQE, life and death.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("srq", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) { add_cases(ktap, sides, options); });
}
