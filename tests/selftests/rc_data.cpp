// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Moves seeded random data by every RC opcode, both directions at once, and
// verifies every byte on both sides, the bytes around each target, and the
// exact stream of completions.  Also run under netem by rc_data_netem.sh.
#include "common/ring.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <tuple>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

enum class Kind { send, send_imm, write, write_imm, read, cmp_swap, fetch_add };

const std::map<std::string, Kind> kind_names{
    {"send", Kind::send},         {"send_imm", Kind::send_imm}, {"write", Kind::write},
    {"write_imm", Kind::write_imm}, {"read", Kind::read},       {"cmp_swap", Kind::cmp_swap},
    {"fetch_add", Kind::fetch_add}};

const std::string &name_of(Kind kind)
{
    return std::find_if(kind_names.begin(), kind_names.end(),
                        [&](const auto &pair) { return pair.second == kind; })
        ->first;
}

bool needs_receive(Kind kind)
{
    return kind == Kind::send || kind == Kind::send_imm || kind == Kind::write_imm;
}

bool has_imm(Kind kind)
{
    return kind == Kind::send_imm || kind == Kind::write_imm;
}

bool is_write(Kind kind)
{
    return kind == Kind::write || kind == Kind::write_imm;
}

bool is_atomic(Kind kind)
{
    return kind == Kind::cmp_swap || kind == Kind::fetch_add;
}

ibv_wr_opcode wr_opcode(Kind kind)
{
    switch (kind) {
    case Kind::send:
        return IBV_WR_SEND;
    case Kind::send_imm:
        return IBV_WR_SEND_WITH_IMM;
    case Kind::write:
        return IBV_WR_RDMA_WRITE;
    case Kind::write_imm:
        return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Kind::read:
        return IBV_WR_RDMA_READ;
    case Kind::cmp_swap:
        return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Kind::fetch_add:
        return IBV_WR_ATOMIC_FETCH_AND_ADD;
    }
    fail("no such opcode");
}

ibv_wc_opcode wc_opcode(Kind kind)
{
    switch (kind) {
    case Kind::send:
    case Kind::send_imm:
        return IBV_WC_SEND;
    case Kind::write:
    case Kind::write_imm:
        return IBV_WC_RDMA_WRITE;
    case Kind::read:
        return IBV_WC_RDMA_READ;
    case Kind::cmp_swap:
        return IBV_WC_COMP_SWAP;
    case Kind::fetch_add:
        return IBV_WC_FETCH_ADD;
    }
    fail("no such opcode");
}

constexpr uint32_t max_inline = 512;
constexpr uint32_t max_sges = 32;
constexpr uint32_t queue_depth = 64;
constexpr size_t counters = 8;

struct Settings {
    Options common;
    uint32_t ops = 240;
    std::vector<std::string> opcodes;
    bool events = false;
    bool huge = false;
    Paging paging = Paging::mixed;
    bool no_rnr = false;
    int stall_limit_s = 20;
    std::uint8_t ack_timeout = Link{}.timeout;
};

// One work request, from its choice to the last check.
struct Op {
    uint64_t id = 0;
    Kind kind{};
    std::vector<std::byte> message; // what must arrive; empty for atomics
    bool signaled = true;
    bool inlined = false;
    bool fenced = false;
    uint32_t imm = 0;
    std::optional<Chunk> local;
    bool frees_local = true;
    std::optional<Chunk> remote;
    uint64_t expected_old = 0;
    bool target_verified = false;
};

struct Receive {
    std::shared_ptr<Op> op;
    Chunk chunk;
};

// The memory of one direction.  Made once for all cases: populating and
// pinning it takes far longer than a case.
struct Workspace {
    static constexpr size_t ring_size = 4u << 20;

    Ring local;
    Ring remote;
    Ring receive;
    Buffer counter_memory{page_size};
    Mr counter_mr;

    Workspace(const Side &me, const Side &peer, Paging paging, Rng rng)
        : local(me, ring_size, IBV_ACCESS_LOCAL_WRITE, paging, rng),
          remote(peer, ring_size, all_access, paging, rng),
          receive(peer, ring_size, IBV_ACCESS_LOCAL_WRITE, paging, rng),
          counter_mr(make_mr(peer, counter_memory.span(), all_access))
    {
    }
};

struct Workspaces {
    Workspace forth;
    Workspace back;

    // The buffers lie in huge pages, and the module knows it: one entry of its table a page at most.
    void demand_huge_pages(const Sides &sides) const
    {
        for (const auto &[space, me, peer] : {std::tuple(&forth, &sides.a, &sides.b),
                                              std::tuple(&back, &sides.b, &sides.a)})
            for (const auto &[ring, owner] : {std::pair(&space->local, me),
                                              std::pair(&space->remote, peer),
                                              std::pair(&space->receive, peer)})
                require(ring->block_shift(*owner) >= huge_page_shift,
                        "a region in huge pages was registered in blocks of 2^{} bytes",
                        ring->block_shift(*owner));
    }
    void demand_crossings() const
    {
        for (const Workspace *space : {&forth, &back})
            for (const Ring *ring : {&space->local, &space->remote, &space->receive})
                require(ring->huge_crossings() >= 1, "{} segments crossed a huge-page border",
                        ring->huge_crossings());
    }
};

// One direction: requests of one QP and the receives of its peer.
class Flow {
public:
    Flow(std::string name, Endpoint &me, Endpoint &peer, Workspace &space, const Settings &settings,
         std::vector<Kind> kinds, uint32_t mtu, uint64_t seed)
        : name_(std::move(name)), me_(me), peer_(peer), settings_(settings),
          kinds_(std::move(kinds)), mtu_(mtu), seed_(seed), rng_(seed),
          local_(space.local), remote_(space.remote), receive_(space.receive),
          counter_memory_(space.counter_memory), counter_mr_(space.counter_mr)
    {
        for (Ring *ring : {&local_, &remote_, &receive_})
            ring->release_all();
        for (uint64_t &value : counter_values_)
            value = rng_.next();
        std::memcpy(counter_memory_.data(), counter_values_.data(), sizeof(counter_values_));
    }

    bool done() const
    {
        return issued_ >= settings_.ops && !pending_ && !dependent_ &&
            outstanding_.empty() && receives_.empty();
    }

    // Does what can be done now; false if that was nothing.
    bool pump()
    {
        bool progress = post_late_receives(false);
        while (can_issue() && issue())
            progress = true;
        // Receives first: a completion here proves that everything the
        // requester posted before is in place too.
        progress |= harvest(peer_.recv_cq.get(), [this](const ibv_wc &wc) { on_receive(wc); });
        progress |= harvest(me_.send_cq.get(), [this](const ibv_wc &wc) { on_send(wc); });
        return progress;
    }

    void final_checks()
    {
        must_be_empty(me_.send_cq.get(), "after the last request");
        must_be_empty(peer_.recv_cq.get(), "after the last receive");
        require(query_state(me_.qp.get()) == IBV_QPS_RTS, "{}: QP left RTS", name_);
        if (std::memcmp(counter_memory_.data(), counter_values_.data(), sizeof(counter_values_)))
            fail("{}: the peer's counters differ from the model", name_);
    }

    std::string state() const
    {
        return fmt::format("{}: {} of {} issued, {} outstanding{}, {} receives", name_, issued_,
                           settings_.ops, outstanding_.size(),
                           outstanding_.empty()
                               ? ""
                               : fmt::format(" (first {} {} of {} bytes)", outstanding_.front()->id,
                                             name_of(outstanding_.front()->kind),
                                             outstanding_.front()->message.size()),
                           receives_.size());
    }

    uint64_t bytes() const { return bytes_; }
    // A receive is held back and will be posted by the clock.
    bool waits_for_time() const { return unposted_ != 0; }

private:
    template <typename Handler>
    bool harvest(ibv_cq *cq, Handler handler)
    {
        std::array<ibv_wc, 16> wcs;
        const int n = ibv_poll_cq(cq, static_cast<int>(wcs.size()), wcs.data());
        require(n >= 0, "{}: ibv_poll_cq returned {}", name_, n);
        for (int i = 0; i < n; i++)
            handler(wcs[static_cast<size_t>(i)]);
        return n > 0;
    }

    bool can_issue() const
    {
        return (issued_ < settings_.ops || pending_ || dependent_) &&
            outstanding_.size() < queue_depth && receives_.size() < queue_depth;
    }

    uint32_t pick_length(Kind kind)
    {
        const uint32_t m = mtu_;
        const std::array borders{0u,    1u,        2u,    3u,        4u,        5u,   m - 1,
                                 m,     m + 1,     m + 4, 2 * m - 1, 2 * m,     2 * m + 1,
                                 3 * m, max_inline, 17 * m + 3, 4096u, (1u << 20) + 3};
        // A run with one opcode visits every border first.
        if (kinds_.size() == 1 && issued_ < borders.size())
            return borders[issued_];
        if (rng_.one_in(80))
            return borders.back();
        if (kind == Kind::read && rng_.one_in(8))
            return rng_.between(1u, 40 * m);
        if (rng_.one_in(2))
            return borders[rng_.between<size_t>(0, borders.size() - 2)];
        if (rng_.one_in(3))
            return rng_.between(0u, max_inline);
        return rng_.between(0u, 65536u);
    }

    std::vector<uint32_t> pick_split(uint32_t length)
    {
        if (!length && rng_.one_in(2))
            return {};
        const uint32_t pieces = rng_.one_in(4) ? 1 : rng_.one_in(4) ? max_sges
                                                                   : rng_.between(1u, max_sges);
        return random_split(length, pieces, rng_);
    }

    // Chooses, prepares and posts the next request; false if there is no
    // room for it now.
    bool issue()
    {
        std::shared_ptr<Op> op = dependent_ ? std::exchange(dependent_, nullptr) : choose();
        if (!op)
            return ensure_signaled();
        ibv_send_wr wr{};
        std::vector<ibv_sge> sges;
        if (op->local)
            sges = local_.sges(*op->local, rng_);

        // A fenced request may use what the READ before it fetches.
        if (op->kind == Kind::read && op->message.size() && rng_.one_in(4) &&
            std::find(kinds_.begin(), kinds_.end(), Kind::write) != kinds_.end()) {
            auto next = std::make_shared<Op>();
            next->kind = Kind::write;
            next->message = op->message;
            next->local = op->local;
            const std::array whole{static_cast<uint32_t>(op->message.size())};
            next->remote = remote_.take(whole, 1, rng_);
            if (next->remote) {
                op->frees_local = false;
                next->fenced = true;
                dependent_ = next;
            }
        }

        op->id = next_id_++;
        wr.wr_id = op->id;
        wr.opcode = wr_opcode(op->kind);
        wr.sg_list = sges.data();
        wr.num_sge = static_cast<int>(sges.size());
        if (is_write(op->kind) || op->kind == Kind::read) {
            if (op->remote) {
                const auto target = remote_.remote(op->remote->segments[0], rng_);
                wr.wr.rdma.remote_addr = target.address;
                wr.wr.rdma.rkey = target.rkey;
            }
        } else if (is_atomic(op->kind)) {
            prepare_atomic(*op, wr);
        }
        if (has_imm(op->kind)) {
            op->imm = rng_.next32();
            wr.imm_data = htonl(op->imm);
        }
        unsignaled_ = op->signaled ? 0 : unsignaled_ + 1;
        const bool fence = op->fenced || rng_.one_in(16);
        wr.send_flags = flag_if(op->signaled, IBV_SEND_SIGNALED) |
            flag_if(op->inlined, IBV_SEND_INLINE) | flag_if(fence, IBV_SEND_FENCE) |
            flag_if(needs_receive(op->kind) && rng_.one_in(2), IBV_SEND_SOLICITED);
        if (op->inlined)
            for (ibv_sge &sge : sges) // inline data is read by address, the key does not count
                sge.addr = reinterpret_cast<uint64_t>(
                    local_.at(op->local->segments[static_cast<size_t>(&sge - sges.data())]).data()),
                sge.lkey = 0xdeadbeef;

        if (needs_receive(op->kind))
            prepare_receive(op);
        note(fmt::format("{} (posting request {})", state(), op->id));
        post_send(me_.qp.get(), wr);
        // The memory of inline data belongs to the caller again at once.
        if (op->inlined)
            for (const Segment &segment : op->local->segments)
                std::memset(local_.at(segment).data(), 0xee, segment.length);
        bytes_ += op->message.size();
        outstanding_.push_back(std::move(op));
        return true;
    }

    // Nothing fits until something is freed, and only a signaled request
    // frees: if none is on its way, send an empty one.
    bool ensure_signaled()
    {
        if (std::any_of(outstanding_.begin(), outstanding_.end(),
                        [](const auto &op) { return op->signaled; }) ||
            outstanding_.empty())
            return false;
        auto op = std::make_shared<Op>();
        op->id = next_id_++;
        op->kind = Kind::write;
        ibv_send_wr wr{};
        wr.wr_id = op->id;
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        post_send(me_.qp.get(), wr);
        unsignaled_ = 0;
        outstanding_.push_back(std::move(op));
        return true;
    }

    std::shared_ptr<Op> choose()
    {
        auto op = std::exchange(pending_, nullptr);
        if (!op) {
            op = std::make_shared<Op>();
            op->kind = kinds_[rng_.between<size_t>(0, kinds_.size() - 1)];
            if (!is_atomic(op->kind)) {
                const uint32_t length = pick_length(op->kind);
                if (op->kind != Kind::read && rng_.one_in(4) && length <= max_inline)
                    op->inlined = true;
                op->message.resize(length);
                fill_pattern(op->message, seed_ ^ mix64(issued_));
            }
            issued_++;
            const bool last = issued_ == settings_.ops;
            op->signaled = last || unsignaled_ >= queue_depth / 4 || rng_.one_in(3);
        }
        if (take_memory(*op))
            return op;
        pending_ = std::move(op);
        return nullptr;
    }

    bool take_memory(Op &op)
    {
        const auto length = static_cast<uint32_t>(op.message.size());
        if (!op.local) {
            const auto split = is_atomic(op.kind) ? std::vector<uint32_t>{8} : pick_split(length);
            op.local = local_.take(split, 1, rng_);
            if (!op.local)
                return false;
            if (op.kind != Kind::read)
                local_.store(*op.local, op.message);
        }
        // An empty WRITE or READ must not have its R_Key checked (C9-88).
        const bool no_target = !length && rng_.one_in(2);
        if ((is_write(op.kind) || op.kind == Kind::read) && !op.remote && !no_target) {
            const std::array whole{length};
            op.remote = remote_.take(whole, 1, rng_);
            if (!op.remote)
                return false;
            if (op.kind == Kind::read)
                remote_.store(*op.remote, op.message);
        }
        if (needs_receive(op.kind) && !next_receive_) {
            // Room for the message and some more; a WRITE with immediate
            // data takes a receive but must not touch its memory.
            const uint32_t room = op.kind == Kind::write_imm
                ? rng_.between(0u, 64u)
                : length + (rng_.one_in(2) ? 0 : rng_.between(1u, 100u));
            next_receive_ = receive_.take(pick_split(room), 1, rng_);
            if (!next_receive_)
                return false;
        }
        return true;
    }

    void prepare_atomic(Op &op, ibv_send_wr &wr)
    {
        const auto i = rng_.between<size_t>(0, counters - 1);
        uint64_t &value = counter_values_[i];
        op.expected_old = value;
        wr.wr.atomic.remote_addr = reinterpret_cast<uint64_t>(counter_memory_.data()) + 8 * i;
        wr.wr.atomic.rkey = counter_mr_->rkey;
        if (op.kind == Kind::fetch_add) {
            wr.wr.atomic.compare_add = rng_.next();
            value += wr.wr.atomic.compare_add;
        } else {
            wr.wr.atomic.compare_add = rng_.one_in(2) ? value : rng_.next();
            wr.wr.atomic.swap = rng_.next();
            if (wr.wr.atomic.compare_add == value)
                value = wr.wr.atomic.swap;
        }
        op.message.resize(8);
        std::memcpy(op.message.data(), &op.expected_old, 8);
    }

    void prepare_receive(const std::shared_ptr<Op> &op)
    {
        receives_.push_back({op, *std::exchange(next_receive_, std::nullopt)});
        // Now and then the receive comes late and the responder must answer
        // receiver-not-ready.
        if (unposted_ == 0 && !settings_.no_rnr && rng_.one_in(24))
            late_until_ = Clock::now() + milliseconds(rng_.between(0, 3));
        unposted_++;
        post_late_receives(false);
    }

    bool post_late_receives(bool force)
    {
        if (!unposted_ || (!force && Clock::now() < late_until_))
            return false;
        for (; unposted_; unposted_--) {
            const Receive &one = receives_[receives_.size() - unposted_];
            auto sges = receive_.sges(one.chunk, rng_);
            post_recv(peer_.qp.get(), one.op->id, sges);
        }
        return true;
    }

    void verify_target(Op &op)
    {
        if (op.target_verified || !op.remote)
            return;
        op.target_verified = true;
        const std::string wrong = remote_.verify(*op.remote, op.message);
        require(wrong.empty(), "{}: target of {} {}: {}", name_, name_of(op.kind), op.id, wrong);
    }

    void on_receive(const ibv_wc &wc)
    {
        require(!receives_.empty(), "{}: receive completion {} out of nothing", name_, wc.wr_id);
        const Receive one = receives_.front();
        receives_.pop_front();
        const Op &op = *one.op;
        const std::string what = fmt::format("{}: receive of {}", name_, name_of(op.kind));
        check_wc(wc, IBV_WC_SUCCESS, op.id, peer_.qp.get(), what.c_str());
        const ibv_wc_opcode opcode =
            op.kind == Kind::write_imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
        require(wc.opcode == opcode, "{} {}: opcode is {}, expected {}", what, op.id,
                static_cast<int>(wc.opcode), static_cast<int>(opcode));
        require(wc.byte_len == op.message.size(), "{} {}: byte_len is {}, expected {}", what, op.id,
                wc.byte_len, op.message.size());
        require(bool(wc.wc_flags & IBV_WC_WITH_IMM) == has_imm(op.kind), "{} {}: wc_flags are {:#x}",
                what, op.id, static_cast<unsigned>(wc.wc_flags));
        if (has_imm(op.kind))
            require(ntohl(wc.imm_data) == op.imm, "{} {}: immediate is {:#x}, expected {:#x}", what,
                    op.id, ntohl(wc.imm_data), op.imm);
        const bool carries = op.kind != Kind::write_imm;
        const std::string wrong =
            receive_.verify(one.chunk, carries ? std::span(op.message) : std::span<const std::byte>{});
        require(wrong.empty(), "{} {}: {}", what, op.id, wrong);
        receive_.release(one.chunk.end);

        // Every WRITE before this one is visible now, acknowledged or not.
        for (const auto &before : outstanding_) {
            if (before->id > op.id)
                break;
            if (is_write(before->kind))
                verify_target(*before);
        }
    }

    void on_send(const ibv_wc &wc)
    {
        // A failed request completes even if unsignaled: before anything is
        // taken for done.
        require(wc.status == IBV_WC_SUCCESS, "{}: request {} failed: \"{}\" (vendor_err {:#x}); {}",
                name_, wc.wr_id, ibv_wc_status_str(wc.status), wc.vendor_err, state());
        // Completions come in the order of posting; one covers all
        // unsignaled requests before it.
        while (!outstanding_.empty() && !outstanding_.front()->signaled)
            complete_front();
        require(!outstanding_.empty(), "{}: completion {} out of nothing", name_, wc.wr_id);
        const Op &op = *outstanding_.front();
        const std::string what = fmt::format("{}: {} of {} bytes", name_, name_of(op.kind),
                                             op.message.size());
        check_wc(wc, IBV_WC_SUCCESS, op.id, me_.qp.get(), what.c_str());
        require(wc.opcode == wc_opcode(op.kind), "{} {}: opcode is {}, expected {}", what, op.id,
                static_cast<int>(wc.opcode), static_cast<int>(wc_opcode(op.kind)));
        if (op.kind == Kind::read || is_atomic(op.kind))
            require(wc.byte_len == op.message.size(), "{} {}: byte_len is {}", what, op.id,
                    wc.byte_len);
        complete_front();
    }

    void complete_front()
    {
        Op &op = *outstanding_.front();
        verify_target(op);
        if (op.local && !op.inlined) {
            const std::string wrong = local_.verify(*op.local, op.message);
            require(wrong.empty(), "{}: local memory of {} {}: {}", name_, name_of(op.kind), op.id,
                    wrong);
        }
        if (op.local && op.frees_local)
            local_.release(op.local->end);
        if (op.remote)
            remote_.release(op.remote->end);
        outstanding_.pop_front();
    }

    std::string name_;
    Endpoint &me_;
    Endpoint &peer_;
    const Settings &settings_;
    std::vector<Kind> kinds_;
    uint32_t mtu_;
    uint64_t seed_;
    Rng rng_;
    Ring &local_;
    Ring &remote_;
    Ring &receive_;
    const Buffer &counter_memory_;
    const Mr &counter_mr_;
    std::array<uint64_t, counters> counter_values_{};

    uint64_t next_id_ = 1;
    uint32_t issued_ = 0;
    uint32_t unsignaled_ = 0;
    uint64_t bytes_ = 0;
    std::shared_ptr<Op> pending_;   // chosen, waits for memory
    std::shared_ptr<Op> dependent_; // must follow the READ just posted
    std::optional<Chunk> next_receive_;
    std::deque<std::shared_ptr<Op>> outstanding_;
    std::deque<Receive> receives_;
    size_t unposted_ = 0; // the last ones of receives_
    Clock::time_point late_until_{};
};

struct EventWait {
    Channel a;
    Channel b;
};

Channel make_channel(const Side &side)
{
    Channel channel(ibv_create_comp_channel(side.context.get()));
    if (!channel)
        fail("ibv_create_comp_channel: {}", std::strerror(errno));
    return channel;
}

// Waits for an event of either completion channel; false if none came.
bool sleep_on_events(const EventWait &wait, milliseconds limit)
{
    std::array<pollfd, 2> fds{pollfd{wait.a->fd, POLLIN, 0}, pollfd{wait.b->fd, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), static_cast<int>(limit.count())) <= 0)
        return false;
    for (const Channel *channel : {&wait.a, &wait.b}) {
        if (!(fds[channel == &wait.a ? 0 : 1].revents & POLLIN))
            continue;
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        require(!ibv_get_cq_event(channel->get(), &cq, &context), "ibv_get_cq_event: {}",
                std::strerror(errno));
        ibv_ack_cq_events(cq, 1);
    }
    return true;
}

void arm(const Endpoint &end)
{
    for (const Cq *cq : {&end.send_cq, &end.recv_cq}) {
        const int error = ibv_req_notify_cq(cq->get(), 0);
        require(!error, "ibv_req_notify_cq: {}", std::strerror(error));
    }
}

constexpr QpSize data_qp{.send_wr = queue_depth,
                         .recv_wr = queue_depth,
                         .send_sge = max_sges,
                         .recv_sge = max_sges,
                         .inline_data = max_inline,
                         .signal_all = false};

Endpoint data_endpoint(const Side &side, ibv_comp_channel *channel)
{
    Endpoint end;
    end.side = &side;
    end.send_cq = make_cq(side, 2 * queue_depth, channel);
    end.recv_cq = make_cq(side, 2 * queue_depth, channel);
    end.qp = make_qp(side, end.send_cq.get(), end.recv_cq.get(), data_qp);
    return end;
}

uint8_t read_atomic_limit(const Side &requester, const Side &responder)
{
    const int limit = std::min(requester.attr.max_qp_init_rd_atom, responder.attr.max_qp_rd_atom);
    return static_cast<uint8_t>(std::clamp(limit, 1, 16));
}

Link data_link(const Sides &sides, const Settings &settings, ibv_mtu mtu)
{
    Link link = link_from(settings.common);
    link.mtu = mtu;
    link.timeout = settings.ack_timeout;
    link.max_rd_atomic =
        std::min(read_atomic_limit(sides.a, sides.b), read_atomic_limit(sides.b, sides.a));
    link.max_dest_rd_atomic = link.max_rd_atomic;
    return link;
}

// The error completions still in the CQs, without the flushed ones.
std::string errors_behind(std::initializer_list<const Endpoint *> ends)
{
    std::string text;
    for (const Endpoint *end : ends)
        for (const Cq *cq : {&end->send_cq, &end->recv_cq}) {
            ibv_wc wc{};
            while (ibv_poll_cq(cq->get(), 1, &wc) == 1)
                if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR)
                    text += fmt::format("; side {}: wr_id {} \"{}\"", end->side->name, wc.wr_id,
                                        ibv_wc_status_str(wc.status));
        }
    return text;
}

void run_traffic(const Sides &sides, Workspaces &spaces, const Settings &settings, ibv_mtu mtu, std::vector<Kind> kinds,
                 const std::string &name, bool events)
{
    EventWait wait;
    if (events)
        wait = {make_channel(sides.a), make_channel(sides.b)};
    Endpoint a = data_endpoint(sides.a, wait.a.get());
    Endpoint b = data_endpoint(sides.b, wait.b.get());
    connect(sides.a, a.qp.get(), sides.b, b.qp.get(), data_link(sides, settings, mtu));

    const uint64_t seed = hash_name(settings.common.seed, name);
    Flow forth("A to B", a, b, spaces.forth, settings, kinds, mtu_bytes(mtu), seed);
    Flow back("B to A", b, a, spaces.back, settings, kinds, mtu_bytes(mtu), seed ^ 1);
    if (events) {
        arm(a);
        arm(b);
    }
    auto last_progress = Clock::now();
    bool armed = true;
    const auto move = [&] {
    while (!forth.done() || !back.done()) {
        const bool progress = forth.pump() | back.pump();
        if (progress) {
            last_progress = Clock::now();
            armed = false;
            continue;
        }
        require(Clock::now() - last_progress < std::chrono::seconds(settings.stall_limit_s),
                "no progress for {} s; {}; {}", settings.stall_limit_s, forth.state(),
                back.state());
        if (!events) {
            sched_yield();
        } else if (!armed) {
            // Arm, then look once more before sleeping: a completion between
            // the last poll and the arming raises no event.
            arm(a);
            arm(b);
            armed = true;
        } else {
            armed = false;
            const bool timed = forth.waits_for_time() || back.waits_for_time();
            if (!sleep_on_events(wait, timed ? milliseconds(1) : milliseconds(2000)) && !timed)
                require(!(forth.pump() | back.pump()), "a completion raised no event");
        }
    }
    };
    try {
        move();
    } catch (const Failure &failure) {
        // A flushed receive is seen before the error that caused the flush.
        fail("{}{}", failure.what(), errors_behind({&a, &b}));
    }
    forth.final_checks();
    back.final_checks();
    diag(fmt::format("{}: {} bytes verified", name, forth.bytes() + back.bytes()));
}

// A single message far longer than the rings, by WRITE, READ and SEND, with
// guard bytes after it.
void long_message(const Sides &sides, const Settings &settings, ibv_mtu mtu, size_t length)
{
    constexpr size_t guard = page_size;
    constexpr size_t step = 1u << 20;
    Pair pair = make_pair(sides, data_link(sides, settings, mtu),
                          {.send_wr = 4, .recv_wr = 4, .send_sge = 4, .recv_sge = 4});
    Buffer source(length + guard, Paging::huge);
    Buffer target(length + guard, Paging::mixed);
    Mr source_mr = make_mr(sides.a, source.span(), all_access);
    Mr target_mr = make_mr(sides.b, target.span(), all_access);
    std::vector<std::byte> expected(step);

    const auto pieces = [](std::span<std::byte> memory, size_t size, const ibv_mr *mr) {
        const size_t half = size / 2;
        return std::array{sge_of(memory.first(half), mr),
                          sge_of(memory.subspan(half, size - half), mr)};
    };
    const auto check = [&](const Buffer &buffer, uint64_t seed, const char *what) {
        for (size_t at = 0; at < length; at += step) {
            const size_t n = std::min(step, length - at);
            fill_pattern(std::span(expected).first(n), seed, at);
            require(!std::memcmp(buffer.data() + at, expected.data(), n),
                    "{}: wrong data in bytes {} to {}", what, at, at + n);
        }
        for (const std::byte b : buffer.span(length, guard))
            require(b == std::byte{0x5a}, "{}: byte after the end written", what);
    };
    const auto wait = [&](ibv_cq *cq, const char *what) {
        note(fmt::format("{} of {} bytes", what, length));
        return must_poll(cq, what, std::chrono::seconds(settings.stall_limit_s * 6));
    };
    std::memset(source.data() + length, 0x5a, guard);
    std::memset(target.data() + length, 0x5a, guard);

    const uint64_t seed = hash_name(settings.common.seed, "long message");
    auto local = pieces(source.span(), length, source_mr.get());
    ibv_send_wr wr{};
    wr.sg_list = local.data();
    wr.num_sge = 2;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(target.data());
    wr.wr.rdma.rkey = target_mr->rkey;

    fill_pattern(source.span(0, length), seed);
    wr.wr_id = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    post_send(pair.a.qp.get(), wr);
    check_wc(wait(pair.a.send_cq.get(), "WRITE"), IBV_WC_SUCCESS, 1, pair.a.qp.get(), "WRITE");
    check(target, seed, "WRITE target");

    std::memset(source.data(), 0, length);
    wr.wr_id = 2;
    wr.opcode = IBV_WR_RDMA_READ;
    post_send(pair.a.qp.get(), wr);
    const ibv_wc read = wait(pair.a.send_cq.get(), "READ");
    check_wc(read, IBV_WC_SUCCESS, 2, pair.a.qp.get(), "READ");
    require(read.byte_len == length, "READ: byte_len is {}, expected {}", read.byte_len, length);
    check(source, seed, "READ target");

    std::memset(target.data(), 0, length);
    auto receive = pieces(target.span(), length, target_mr.get());
    post_recv(pair.b.qp.get(), 3, receive);
    wr.wr_id = 4;
    wr.opcode = IBV_WR_SEND;
    post_send(pair.a.qp.get(), wr);
    const ibv_wc received = wait(pair.b.recv_cq.get(), "SEND");
    check_wc(received, IBV_WC_SUCCESS, 3, pair.b.qp.get(), "receive");
    require(received.byte_len == length, "receive: byte_len is {}, expected {}", received.byte_len,
            length);
    check_wc(wait(pair.a.send_cq.get(), "SEND"), IBV_WC_SUCCESS, 4, pair.a.qp.get(), "SEND");
    check(target, seed, "receive");
}

// A CQ armed for solicited completions wakes for those and no others.
void solicited(const Sides &sides, const Settings &settings)
{
    Channel channel = make_channel(sides.b);
    Endpoint a = make_endpoint(sides.a);
    Endpoint b = data_endpoint(sides.b, channel.get());
    connect(sides.a, a.qp.get(), sides.b, b.qp.get(),
            data_link(sides, settings, common_mtu(sides)));
    Buffer memory(page_size);
    Mr mr_a = make_mr(sides.a, memory.span(), IBV_ACCESS_LOCAL_WRITE);
    Mr mr_b = make_mr(sides.b, memory.span(), IBV_ACCESS_LOCAL_WRITE);
    std::array sge_a{sge_of(memory.span(0, 16), mr_a.get())};
    std::array sge_b{sge_of(memory.span(64, 16), mr_b.get())};

    const auto send = [&](uint64_t id, unsigned flags, ibv_wr_opcode opcode) {
        post_recv(b.qp.get(), id, sge_b);
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.sg_list = sge_a.data();
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED | flags;
        if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
            wr.num_sge = 0;
        post_send(a.qp.get(), wr);
        check_wc(must_poll(a.send_cq.get(), "SEND"), IBV_WC_SUCCESS, id, a.qp.get(), "SEND");
    };
    const auto event_within = [&](milliseconds limit) {
        pollfd fd{channel->fd, POLLIN, 0};
        if (poll(&fd, 1, static_cast<int>(limit.count())) != 1)
            return false;
        ibv_cq *cq = nullptr;
        void *context = nullptr;
        require(!ibv_get_cq_event(channel.get(), &cq, &context), "ibv_get_cq_event failed");
        require(cq == b.recv_cq.get(), "the event is for another CQ");
        ibv_ack_cq_events(cq, 1);
        return true;
    };

    require(!ibv_req_notify_cq(b.recv_cq.get(), 1), "ibv_req_notify_cq failed");
    for (uint64_t id = 1; id <= 3; id++)
        send(id, 0, IBV_WR_SEND);
    require(!event_within(milliseconds(50)), "an unsolicited SEND woke a solicited-only CQ");
    send(4, IBV_SEND_SOLICITED, IBV_WR_SEND);
    require(event_within(milliseconds(2000)), "no event for a solicited SEND");
    send(5, IBV_SEND_SOLICITED, IBV_WR_SEND);
    require(!event_within(milliseconds(50)), "an event though the CQ was not armed again");
    require(!ibv_req_notify_cq(b.recv_cq.get(), 1), "ibv_req_notify_cq failed");
    send(6, IBV_SEND_SOLICITED, IBV_WR_RDMA_WRITE_WITH_IMM);
    require(event_within(milliseconds(2000)), "no event for a solicited WRITE with immediate");
    require(!ibv_req_notify_cq(b.recv_cq.get(), 0), "ibv_req_notify_cq failed");
    send(7, 0, IBV_WR_SEND);
    require(event_within(milliseconds(2000)), "no event though armed for any completion");
    for (uint64_t id = 1; id <= 7; id++)
        check_wc(must_poll(b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, id, b.qp.get(), "receive");

    // An error completion counts as solicited.
    require(!ibv_req_notify_cq(b.recv_cq.get(), 1), "ibv_req_notify_cq failed");
    post_recv(b.qp.get(), 8, sge_b);
    must_modify(b.qp.get(), state_step(IBV_QPS_ERR), "ERR");
    require(event_within(milliseconds(2000)), "no event for a flushed receive");
    check_wc(must_poll(b.recv_cq.get(), "flush"), IBV_WC_WR_FLUSH_ERR, 8, b.qp.get(), "flush");
}

void add_cases(Ktap &ktap, Sides &sides, Workspaces &spaces, const Settings &settings)
{
    std::vector<Kind> all;
    for (const auto &[name, kind] : kind_names)
        if (settings.opcodes.empty() ||
            std::find(settings.opcodes.begin(), settings.opcodes.end(), name) !=
                settings.opcodes.end())
            all.push_back(kind);

    if (settings.paging != Paging::mixed)
        ktap.add("huge_pages.registered", [&sides, &spaces] { spaces.demand_huge_pages(sides); });
    const auto kinds = usable_kinds(sides, settings.common);
    const ibv_mtu top = common_mtu(sides);
    for (const GidKind gid : kinds) {
        for (int mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
            const std::string name = fmt::format("{}.mtu_{}.mixed", to_string(gid),
                                                 mtu_bytes(static_cast<ibv_mtu>(mtu)));
            ktap.add(name, [&sides, &spaces, &settings, gid, mtu, top, all, name] {
                if (mtu > top)
                    skip("the path allows an MTU of {} only", mtu_bytes(top));
                select_gids(sides, settings.common, gid);
                run_traffic(sides, spaces, settings, static_cast<ibv_mtu>(mtu), all, name,
                            settings.events);
            });
        }
    }
    for (const Kind kind : all) {
        const std::string name = fmt::format("opcode.{}", name_of(kind));
        ktap.add(name, [&sides, &spaces, &settings, kind, top, name] {
            select_default_gids(sides, settings.common);
            run_traffic(sides, spaces, settings, top, {kind}, name, settings.events);
        });
    }
    ktap.add("events", [&sides, &spaces, &settings, all, top] {
        select_default_gids(sides, settings.common);
        run_traffic(sides, spaces, settings, top, all, "events", true);
    });
    ktap.add("solicited", [&sides, &settings] {
        select_default_gids(sides, settings.common);
        solicited(sides, settings);
    });
    ktap.add("long_message", [&sides, &settings] {
        select_default_gids(sides, settings.common);
        long_message(sides, settings, IBV_MTU_256, (8u << 20) + 5);
    });
    if (settings.paging != Paging::mixed)
        ktap.add("huge_pages.crossed", [&spaces] { spaces.demand_crossings(); });
    if (settings.huge)
        ktap.add("message_limit", [&sides, &settings, top] {
            select_default_gids(sides, settings.common);
            const size_t length = std::min<size_t>({sides.a.port_attr.max_msg_sz,
                                                    sides.b.port_attr.max_msg_sz, 1u << 31});
            if (available_memory() < 2 * length + (512u << 20))
                skip("needs {} MiB of free memory", (2 * length >> 20) + 512);
            long_message(sides, settings, top, length);
        }, 900);
}

} // namespace

int main(int argc, char **argv)
{
    Settings settings;
    CLI::App app("Moves random data over RC by every opcode and verifies every byte.");
    add_common_options(app, settings.common);
    app.add_option("--ops", settings.ops, "requests per direction and case")
        ->check(CLI::Range(1u, 100000000u));
    std::vector<std::string> names;
    for (const auto &[name, kind] : kind_names)
        names.push_back(name);
    app.add_option("--opcodes", settings.opcodes, "use only these opcodes")
        ->delimiter(',')
        ->check(CLI::IsMember(names));
    app.add_flag("--events", settings.events, "wait for completion events in every case");
    app.add_flag("--huge", settings.huge, "also send messages of the 2 GiB limit");
    app.add_option("--pages", settings.paging,
                   "pages of the buffers: mixed (huge ones if there are some), or all of them "
                   "hugetlb or transparent huge pages")
        ->transform(CLI::CheckedTransformer(std::map<std::string, Paging>{
            {"mixed", Paging::mixed},
            {"hugetlb", Paging::hugetlb},
            {"transparent", Paging::transparent}}));
    app.add_flag("--no-rnr", settings.no_rnr, "never post a receive late");
    app.add_option("--ack-timeout", settings.ack_timeout, "of the QPs, as in struct ibv_qp_attr: 4.096 us * 2^N")
        ->check(CLI::Range(1, 31));
    app.add_option("--stall-limit", settings.stall_limit_s,
                   "seconds without any completion that fail a case");
    CLI11_PARSE(app, argc, argv);
    settle_options("rc_data", settings.common);

    Ktap ktap;
    Sides sides;
    std::optional<Workspaces> spaces;
    try {
        sides = open_sides(settings.common);
        require(!usable_kinds(sides, settings.common).empty(),
                "{} and {} have no kind of RoCE v2 GID in common", sides.a.device, sides.b.device);
        const Rng rng(settings.common.seed);
        spaces.emplace(Workspaces{Workspace(sides.a, sides.b, settings.paging, rng),
                                   Workspace(sides.b, sides.a, settings.paging, rng)});
    } catch (const std::exception &error) {
        fmt::print("Bail out! {}\n", error.what());
        return 1;
    }
    add_cases(ktap, sides, *spaces, settings);
    return ktap.run(settings.common.filters, settings.common.list, settings.common.case_limit_s);
}
