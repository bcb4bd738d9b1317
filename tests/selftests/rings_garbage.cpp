// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The rings are mapped into the application, so the kernel must expect
// anything in them.  This program writes nonsense into every mapped field of
// send, receive (shared ones too) and completion rings, rings the doorbell, lets
// traffic run into it, and requires that the damage stays with the QP that did it: the
// process lives, an innocent pair of QPs on the same devices still moves
// data, and everything can be destroyed.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/verbs.hpp"

// Debian 12's definition is not valid in C++: an empty struct has a size there.
#include <linux/stddef.h>
#undef __DECLARE_FLEX_ARRAY
#define __DECLARE_FLEX_ARRAY(TYPE, NAME) TYPE NAME[0]
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <thread>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

static_assert(offsetof(rxe_queue_buf, data) == 384);
static_assert(offsetof(rxe_send_wqe, dma.sge) == sizeof(rxe_send_wqe));

// ---------------------------------------------------------------------------
// Finding and changing the rings

std::vector<std::pair<uintptr_t, uintptr_t>> ring_mappings()
{
    std::vector<std::pair<uintptr_t, uintptr_t>> found;
    std::ifstream maps("/proc/self/maps");
    std::string line;
    while (std::getline(maps, line)) {
        uintptr_t start = 0;
        uintptr_t end = 0;
        if (line.find("uverbs") != std::string::npos &&
            std::sscanf(line.c_str(), "%lx-%lx", &start, &end) == 2)
            found.emplace_back(start, end);
    }
    return found;
}

// One mapped ring; the geometry is remembered from before it is spoiled.
class RingView {
public:
    RingView() = default;
    RingView(uintptr_t start, uintptr_t end)
        : queue_(reinterpret_cast<rxe_queue_buf *>(start)), bytes_(end - start),
          element_(size_t{1} << queue_->log2_elem_size), mask_(queue_->index_mask),
          log2_(queue_->log2_elem_size)
    {
        require(queue_->log2_elem_size < 16 &&
                    sizeof(*queue_) + (size_t{mask_} + 1) * element_ <= bytes_,
                "ring at {:#x} of {} bytes has elements of 2^{} and mask {:#x}", start, bytes_,
                queue_->log2_elem_size, mask_);
    }

    rxe_queue_buf *header() const { return queue_; }
    uint32_t mask() const { return mask_; }
    size_t element() const { return element_; }
    std::byte *slot(uint32_t index) const
    {
        return reinterpret_cast<std::byte *>(queue_->data) + element_ * (index & mask_);
    }
    std::span<std::byte> all() const { return {reinterpret_cast<std::byte *>(queue_), bytes_}; }
    uint32_t producer() const { return std::atomic_ref(queue_->producer_index).load(); }
    void set_producer(uint32_t value) const
    {
        std::atomic_ref(queue_->producer_index).store(value, std::memory_order_release);
    }
    void set_consumer(uint32_t value) const
    {
        std::atomic_ref(queue_->consumer_index).store(value, std::memory_order_release);
    }
    void restore_geometry() const
    {
        queue_->log2_elem_size = log2_;
        queue_->index_mask = mask_;
    }

private:
    rxe_queue_buf *queue_ = nullptr;
    size_t bytes_ = 0;
    size_t element_ = 0;
    uint32_t mask_ = 0;
    uint32_t log2_ = 0;
};

std::vector<RingView> rings_made_by(const std::function<void()> &make)
{
    const auto before = ring_mappings();
    make();
    std::vector<RingView> rings;
    for (const auto &one : ring_mappings())
        if (std::find(before.begin(), before.end(), one) == before.end())
            rings.emplace_back(one.first, one.second);
    return rings;
}

// The POST_SEND write command with no work request, as the library sends it.
void doorbell(const ibv_qp *qp)
{
    struct {
        ib_uverbs_cmd_hdr hdr;
        __u64 response;
        __u32 qp_handle;
        __u32 wr_count;
        __u32 sge_count;
        __u32 wqe_size;
    } command{};
    ib_uverbs_post_send_resp response{};
    static_assert(sizeof(command) == sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_post_send));
    command.hdr.command = IB_USER_VERBS_CMD_POST_SEND;
    command.hdr.in_words = sizeof(command) / 4;
    command.hdr.out_words = sizeof(response) / 4;
    command.response = reinterpret_cast<uintptr_t>(&response);
    command.qp_handle = qp->handle;
    command.wqe_size = sizeof(ibv_send_wr);
    // A QP in error may refuse: only that the call returns counts here.
    const ssize_t n = write(qp->context->cmd_fd, &command, sizeof(command));
    (void)n;
}

constexpr size_t memory_size = 4 * page_size;
constexpr std::byte poison{0xa5};
constexpr uint32_t message = 64;

// The QP whose rings are spoiled (on side A) and its peer (on side B).
struct Victim {
    Srq srq; // outlives the QP
    Endpoint a;
    Endpoint b;
    RingView sq;
    RingView rq;
    RingView send_cq;
    RingView recv_cq;
    Buffer memory_a{memory_size};
    Buffer memory_b{memory_size};
    Mr mr_a;
    Mr mr_b;

    Victim(const Sides &sides, const Link &link, bool shared = false)
    {
        QpSize size{.send_wr = 16, .recv_wr = 16, .send_sge = 4, .recv_sge = 4,
                    .inline_data = 128};
        if (shared) {
            const auto srqs = rings_made_by([&] { srq = make_srq(sides.a, 16, 4); });
            require(srqs.size() == 1, "{} mappings for an SRQ, expected 1", srqs.size());
            rq = srqs[0];
            size.srq = srq.get();
        }
        a.side = &sides.a;
        const auto cq1 = rings_made_by([&] { a.send_cq = make_cq(sides.a, 64); });
        const auto cq2 = rings_made_by([&] { a.recv_cq = make_cq(sides.a, 64); });
        auto both = rings_made_by(
            [&] { a.qp = make_qp(sides.a, a.send_cq.get(), a.recv_cq.get(), size); });
        if (shared)
            both.push_back(rq);
        require(cq1.size() == 1 && cq2.size() == 1 && both.size() == 2,
                "{} + {} + {} mappings for two CQs and a QP, expected 1 + 1 + 2", cq1.size(),
                cq2.size(), both.size());
        send_cq = cq1[0];
        recv_cq = cq2[0];
        // For the same number of SGEs a send element is the larger one.
        const size_t rq_index = both[0].element() < both[1].element() ? 0 : 1;
        rq = both[rq_index];
        sq = both[1 - rq_index];
        require(rq.element() < sq.element() && rq.element() >= sizeof(rxe_recv_wqe),
                "cannot tell the rings of a QP apart: elements of {} and {} bytes", rq.element(),
                sq.element());
        b = make_endpoint(sides.b, {.send_wr = 64, .recv_wr = 64});
        std::memset(memory_a.data(), 0x11, memory_size);
        std::memset(memory_b.data(), static_cast<int>(poison), memory_size);
        mr_a = make_mr(sides.a, memory_a.span(), all_access);
        mr_b = make_mr(sides.b, memory_b.span(page_size, page_size), all_access);
        connect(sides.a, a.qp.get(), sides.b, b.qp.get(), link);
    }

    ~Victim()
    {
        for (const RingView *ring : {&sq, &rq, &send_cq, &recv_cq})
            if (ring->header())
                ring->restore_geometry();
    }

    Victim(const Victim &) = delete;
    Victim &operator=(const Victim &) = delete;

    // A right WRITE of one SGE, as the library would put it into the ring.
    rxe_send_wqe &put_write(uint32_t index, uint64_t id) const
    {
        std::memset(sq.slot(index), 0, sq.element());
        auto &wqe = *reinterpret_cast<rxe_send_wqe *>(sq.slot(index));
        wqe.wr.wr_id = id;
        wqe.wr.opcode = IBV_WR_RDMA_WRITE;
        wqe.wr.send_flags = IBV_SEND_SIGNALED;
        wqe.wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(memory_b.data()) + page_size;
        wqe.wr.wr.rdma.rkey = mr_b->rkey;
        wqe.iova = wqe.wr.wr.rdma.remote_addr;
        wqe.dma.length = message;
        wqe.dma.resid = message;
        wqe.dma.num_sge = 1;
        wqe.dma.sge[0].addr = reinterpret_cast<uint64_t>(memory_a.data());
        wqe.dma.sge[0].length = message;
        wqe.dma.sge[0].lkey = mr_a->lkey;
        return wqe;
    }

    rxe_recv_wqe &put_receive(uint32_t index, uint64_t id) const
    {
        std::memset(rq.slot(index), 0, rq.element());
        auto &wqe = *reinterpret_cast<rxe_recv_wqe *>(rq.slot(index));
        wqe.wr_id = id;
        wqe.dma.length = message;
        wqe.dma.resid = message;
        wqe.dma.num_sge = 1;
        wqe.dma.sge[0].addr = reinterpret_cast<uint64_t>(memory_a.data()) + page_size;
        wqe.dma.sge[0].length = message;
        wqe.dma.sge[0].lkey = mr_a->lkey;
        return wqe;
    }

    // The peer sends to this QP.
    void send_from_peer(int count) const
    {
        ibv_sge sge{reinterpret_cast<uint64_t>(memory_b.data()) + page_size, message, mr_b->lkey};
        for (int i = 0; i < count; i++) {
            ibv_send_wr wr{};
            ibv_send_wr *bad = nullptr;
            wr.wr_id = static_cast<uint64_t>(i);
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.opcode = IBV_WR_SEND;
            wr.send_flags = IBV_SEND_SIGNALED;
            if (ibv_post_send(b.qp.get(), &wr, &bad))
                break;
        }
    }
};

// A pair on the same devices that has nothing to do with any of this.
class Innocent {
public:
    Innocent(const Sides &sides, const Link &link)
        : pair_(make_pair(sides, link)), a_(2 * page_size), b_(2 * page_size),
          mr_a_(make_mr(sides.a, a_.span(), all_access)),
          mr_b_(make_mr(sides.b, b_.span(), all_access))
    {
    }

    void must_work()
    {
        for (int i = 0; i < 4; i++) {
            exchange(pair_.a, a_, mr_a_.get(), pair_.b, b_, mr_b_.get());
            exchange(pair_.b, b_, mr_b_.get(), pair_.a, a_, mr_a_.get());
        }
    }

private:
    void exchange(const Endpoint &from, const Buffer &source, const ibv_mr *source_mr,
                  const Endpoint &to, const Buffer &target, const ibv_mr *target_mr)
    {
        id_++;
        fill_pattern(source.span(), id_);
        std::memset(target.data(), 0, target.size());
        std::array receive{sge_of(target.span(), target_mr)};
        std::array sges{sge_of(source.span(), source_mr)};
        post_recv(to.qp.get(), id_, receive);
        ibv_send_wr wr{};
        wr.wr_id = id_;
        wr.sg_list = sges.data();
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        post_send(from.qp.get(), wr);
        check_wc(must_poll(to.recv_cq.get(), "innocent receive"), IBV_WC_SUCCESS, id_, to.qp.get(),
                 "innocent receive");
        check_wc(must_poll(from.send_cq.get(), "innocent send"), IBV_WC_SUCCESS, id_,
                 from.qp.get(), "innocent send");
        require(!std::memcmp(source.data(), target.data(), source.size()),
                "the innocent pair received wrong data");
    }

    Pair pair_;
    Buffer a_;
    Buffer b_;
    Mr mr_a_;
    Mr mr_b_;
    uint64_t id_ = 1;
};

struct Bed {
    Sides sides;
    Link link;
    uint64_t seed = 0;
    std::optional<Innocent> innocent;
};

// ---------------------------------------------------------------------------
// What may come of it

enum class Outcome {
    success, // the field is not the application's to write: no effect at all
    error,   // an error completion or a QP in the error state
    harmless // whatever, as long as it stays with this QP
};

// Lets the garbage act, then judges.
void settle(Bed &bed, const Victim &victim, Outcome outcome, ibv_cq *cq, const ibv_qp *qp)
{
    bool failed = false;
    bool succeeded = false;
    const auto end = Clock::now() + milliseconds(outcome == Outcome::harmless ? 20 : 1000);
    while (Clock::now() < end && !failed && !succeeded) {
        ibv_wc wc{};
        const int n = cq ? ibv_poll_cq(cq, 1, &wc) : 0;
        if (n > 0) {
            failed = wc.status != IBV_WC_SUCCESS;
            succeeded = !failed;
            if (wc.qp_num != qp->qp_num && outcome != Outcome::harmless)
                fail("completion for QP {:#x}, expected {:#x}", wc.qp_num, qp->qp_num);
        } else if (outcome == Outcome::error) {
            failed = query_state(victim.a.qp.get()) == IBV_QPS_ERR;
        }
        std::this_thread::sleep_for(milliseconds(1));
    }
    drain_events(bed.sides.a.context.get());
    drain_events(bed.sides.b.context.get());
    bed.innocent->must_work();
    for (size_t i = 0; i < memory_size; i++)
        if (i < page_size || i >= 2 * page_size)
            require(victim.memory_b.data()[i] == poison, "memory outside the peer's MR was written");
    require(outcome != Outcome::success || succeeded, "{}",
            failed ? "an error completion for a field the kernel should not look at"
                   : "no completion, though only a field of the kernel's was written");
    require(outcome != Outcome::error || failed, "{}",
            succeeded ? "a request that makes no sense succeeded"
                      : "neither an error completion nor a QP in error");
}

struct SendCase {
    const char *name;
    Outcome outcome;
    std::function<void(rxe_send_wqe &)> spoil;
};

std::vector<SendCase> send_cases()
{
    using W = rxe_send_wqe &;
    std::vector<SendCase> cases{
        {"control", Outcome::success, [](W) {}},
        {"opcode_unknown", Outcome::error, [](W w) { w.wr.opcode = 0x7f; }},
        {"opcode_huge", Outcome::error, [](W w) { w.wr.opcode = ~0u; }},
        {"opcode_one_past_the_table", Outcome::error, [](W w) { w.wr.opcode = 16; }},
        {"opcode_kernel_reg_mr", Outcome::error, [](W w) { w.wr.opcode = 0x20; }},
        {"opcode_tso", Outcome::error, [](W w) { w.wr.opcode = IBV_WR_TSO; }},
        {"opcode_local_inv", Outcome::error,
         [](W w) {
             w.wr.opcode = IBV_WR_LOCAL_INV;
             w.wr.ex.invalidate_rkey = 0xffffffff;
         }},
        {"opcode_bind_mw", Outcome::error,
         [](W w) {
             w.wr.opcode = IBV_WR_BIND_MW;
             std::memset(&w.wr.wr, 0xff, sizeof(w.wr.wr));
         }},
        {"num_sge_one_too_many", Outcome::error, [](W w) { w.dma.num_sge = 33; }},
        {"num_sge_negative", Outcome::error, [](W w) { w.dma.num_sge = 0x80000000; }},
        {"num_sge_huge", Outcome::error, [](W w) { w.dma.num_sge = ~0u; }},
        {"num_sge_overflows_the_slot", Outcome::error, [](W w) { w.dma.num_sge = 0x10000001; }},
        // The kernel may add up the SGEs or believe the length; no byte beyond
        // the SGEs may move either way.
        {"length_more_than_sges", Outcome::harmless, [](W w) { w.dma.length = w.dma.resid = 2000; }},
        {"length_huge", Outcome::harmless, [](W w) { w.dma.length = w.dma.resid = ~0u; }},
        {"length_less_than_sges", Outcome::harmless, [](W w) { w.dma.length = w.dma.resid = 10; }},
        {"sge_length_huge", Outcome::error,
         [](W w) { w.dma.sge[0].length = w.dma.length = w.dma.resid = ~0u; }},
        {"sge_lengths_wrap_32_bits", Outcome::error,
         [](W w) {
             w.dma.num_sge = 3;
             w.dma.sge[1] = w.dma.sge[2] = w.dma.sge[0];
             w.dma.sge[0].length = w.dma.sge[1].length = 0x80000000;
         }},
        {"sge_address_wraps", Outcome::error, [](W w) { w.dma.sge[0].addr = ~0ull - 8; }},
        {"sge_address_kernel", Outcome::error, [](W w) { w.dma.sge[0].addr = 0xffff888000000000; }},
        {"lkey_zero", Outcome::error, [](W w) { w.dma.sge[0].lkey = 0; }},
        {"lkey_all_ones", Outcome::error, [](W w) { w.dma.sge[0].lkey = ~0u; }},
        {"inline_too_long", Outcome::error,
         [](W w) {
             w.wr.send_flags |= IBV_SEND_INLINE;
             w.dma.length = w.dma.resid = 4096;
         }},
        {"inline_length_huge", Outcome::error,
         [](W w) {
             w.wr.send_flags |= IBV_SEND_INLINE;
             w.dma.length = w.dma.resid = ~0u;
         }},
        {"inline_num_sge_huge", Outcome::harmless,
         [](W w) {
             w.wr.send_flags |= IBV_SEND_INLINE;
             w.dma.num_sge = ~0u;
         }},
        {"inline_read", Outcome::error,
         [](W w) {
             w.wr.opcode = IBV_WR_RDMA_READ;
             w.wr.send_flags |= IBV_SEND_INLINE;
             w.dma.num_sge = ~0u;
         }},
        {"send_flags_all_ones", Outcome::harmless, [](W w) { w.wr.send_flags = ~0u; }},
        {"resid_huge", Outcome::harmless, [](W w) { w.dma.resid = ~0u; }},
        {"cur_sge_huge", Outcome::harmless, [](W w) { w.dma.cur_sge = ~0u; }},
        {"cur_sge_past_num_sge", Outcome::harmless, [](W w) { w.dma.cur_sge = 1; }},
        {"sge_offset_huge", Outcome::harmless, [](W w) { w.dma.sge_offset = ~0u; }},
        {"iova_garbage", Outcome::harmless, [](W w) { w.iova = ~0ull; }},
        {"state_garbage", Outcome::harmless, [](W w) { w.state = ~0u; }},
        {"status_garbage", Outcome::success, [](W w) { w.status = ~0u; }},
        {"psn_garbage", Outcome::success,
         [](W w) { w.first_psn = w.last_psn = w.ssn = w.ack_length = ~0u; }},
        {"mask_garbage", Outcome::success, [](W w) { w.mask = ~0u; }},
        {"has_rd_atomic_garbage", Outcome::success, [](W w) { w.has_rd_atomic = ~0u; }},
        {"reserved_garbage", Outcome::success,
         [](W w) { w.wr.reserved = w.dma.reserved = w.wr.wr.rdma.reserved = ~0u; }},
        {"atomic_misaligned", Outcome::error,
         [](W w) {
             w.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
             const uint64_t address = w.wr.wr.rdma.remote_addr;
             const uint32_t rkey = w.wr.wr.rdma.rkey;
             w.wr.wr.atomic.remote_addr = address + 3;
             w.wr.wr.atomic.rkey = rkey;
             w.dma.length = w.dma.resid = w.dma.sge[0].length = 8;
         }},
        {"atomic_without_memory", Outcome::error,
         [](W w) {
             w.wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
             const uint64_t address = w.wr.wr.rdma.remote_addr;
             const uint32_t rkey = w.wr.wr.rdma.rkey;
             w.wr.wr.atomic.remote_addr = address;
             w.wr.wr.atomic.rkey = rkey;
             w.dma.length = w.dma.resid = 0;
             w.dma.num_sge = 0;
         }},
        {"atomic_of_64_bytes", Outcome::harmless,
         [](W w) {
             w.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
             const uint64_t address = w.wr.wr.rdma.remote_addr;
             const uint32_t rkey = w.wr.wr.rdma.rkey;
             w.wr.wr.atomic.remote_addr = address;
             w.wr.wr.atomic.rkey = rkey;
         }},
        {"read_without_memory_of_64_bytes", Outcome::harmless,
         [](W w) {
             w.wr.opcode = IBV_WR_RDMA_READ;
             w.dma.num_sge = 0;
         }},
    };
    return cases;
}

void send_case(Bed &bed, const SendCase &one)
{
    Victim victim(bed.sides, bed.link);
    post_recv(victim.b.qp.get(), 1, {});
    one.spoil(victim.put_write(0, 77));
    victim.sq.set_producer(1);
    doorbell(victim.a.qp.get());
    settle(bed, victim, one.outcome, victim.a.send_cq.get(), victim.a.qp.get());
    for (size_t i = page_size + message; i < 2 * page_size; i++)
        require(victim.memory_b.data()[i] == poison, "byte {} behind the SGEs arrived", i);
    if (one.outcome == Outcome::success)
        for (size_t i = 0; i < page_size; i++)
            require(victim.memory_b.data()[page_size + i] == (i < message ? std::byte{0x11} : poison),
                    "the peer's memory has the wrong data at byte {}", i);
}

struct ReceiveCase {
    const char *name;
    Outcome outcome;
    std::function<void(rxe_recv_wqe &)> spoil;
};

std::vector<ReceiveCase> receive_cases()
{
    using W = rxe_recv_wqe &;
    return {
        {"control", Outcome::success, [](W) {}},
        {"num_sge_one_too_many", Outcome::error, [](W w) { w.dma.num_sge = 33; }},
        {"num_sge_huge", Outcome::error, [](W w) { w.dma.num_sge = ~0u; }},
        {"num_sge_overflows_the_slot", Outcome::error, [](W w) { w.dma.num_sge = 0x10000001; }},
        {"length_huge", Outcome::harmless, [](W w) { w.dma.length = w.dma.resid = ~0u; }},
        {"length_zero", Outcome::harmless, [](W w) { w.dma.length = w.dma.resid = 0; }},
        {"sge_shorter_than_length", Outcome::error,
         [](W w) {
             w.dma.length = w.dma.resid = 4096;
             w.dma.sge[0].length = 10;
         }},
        {"sge_length_huge", Outcome::harmless, [](W w) { w.dma.sge[0].length = ~0u; }},
        {"sge_lengths_wrap_32_bits", Outcome::harmless,
         [](W w) {
             w.dma.num_sge = 3;
             w.dma.sge[1] = w.dma.sge[2] = w.dma.sge[0];
             w.dma.sge[0].length = w.dma.sge[1].length = 0x80000000;
         }},
        {"sge_address_wraps", Outcome::error, [](W w) { w.dma.sge[0].addr = ~0ull - 8; }},
        {"sge_address_kernel", Outcome::error, [](W w) { w.dma.sge[0].addr = 0xffff888000000000; }},
        {"lkey_zero", Outcome::error, [](W w) { w.dma.sge[0].lkey = 0; }},
        {"lkey_all_ones", Outcome::error, [](W w) { w.dma.sge[0].lkey = ~0u; }},
        {"resid_huge", Outcome::harmless, [](W w) { w.dma.resid = ~0u; }},
        {"cur_sge_huge", Outcome::harmless, [](W w) { w.dma.cur_sge = ~0u; }},
        {"sge_offset_huge", Outcome::harmless, [](W w) { w.dma.sge_offset = ~0u; }},
        {"reserved_garbage", Outcome::success,
         [](W w) { w.reserved = w.padding = w.dma.reserved = ~0u; }},
    };
}

void receive_case(Bed &bed, const ReceiveCase &one, bool shared)
{
    Victim victim(bed.sides, bed.link, shared);
    one.spoil(victim.put_receive(0, 55));
    victim.rq.set_producer(1);
    victim.send_from_peer(1);
    settle(bed, victim, one.outcome, victim.a.recv_cq.get(), victim.a.qp.get());
    const auto bytes = victim.memory_a.span();
    for (size_t i = 0; i < memory_size; i++)
        if (i < page_size || i >= page_size + message)
            require(bytes[i] == std::byte{0x11}, "byte {} outside the receive was written", i);
}

// Indices and geometry, of any ring.
struct HeaderCase {
    const char *name;
    std::function<void(const RingView &, Rng &)> spoil;
};

std::vector<HeaderCase> header_cases()
{
    using R = const RingView &;
    return {
        {"producer_full", [](R r, Rng &) { r.set_producer(r.mask()); }},
        {"producer_past_the_mask", [](R r, Rng &) { r.set_producer(r.mask() + 3); }},
        {"producer_all_ones", [](R r, Rng &) { r.set_producer(~0u); }},
        {"producer_behind", [](R r, Rng &) { r.set_producer(r.producer() - 5); }},
        {"producer_random", [](R r, Rng &rng) { r.set_producer(rng.next32()); }},
        {"consumer_all_ones", [](R r, Rng &) { r.set_consumer(~0u); }},
        {"consumer_ahead", [](R r, Rng &) { r.set_consumer(r.producer() + 7); }},
        {"consumer_random", [](R r, Rng &rng) { r.set_consumer(rng.next32()); }},
        {"mask_zero", [](R r, Rng &) { r.header()->index_mask = 0; }},
        {"mask_all_ones", [](R r, Rng &) { r.header()->index_mask = ~0u; }},
        {"element_size_zero", [](R r, Rng &) { r.header()->log2_elem_size = 0; }},
        {"element_size_31", [](R r, Rng &) { r.header()->log2_elem_size = 31; }},
        {"element_size_all_ones", [](R r, Rng &) { r.header()->log2_elem_size = ~0u; }},
        {"padding", [](R r, Rng &) {
             std::memset(r.header()->pad_1, 0xff, sizeof(r.header()->pad_1));
             std::memset(r.header()->pad_2, 0xff, sizeof(r.header()->pad_2));
             std::memset(r.header()->pad_3, 0xff, sizeof(r.header()->pad_3));
         }},
        {"whole_ring_zero",
         [](R r, Rng &) { std::memset(r.all().data(), 0, r.all().size()); }},
        {"whole_ring_ones",
         [](R r, Rng &) { std::memset(r.all().data(), 0xff, r.all().size()); }},
        {"whole_ring_random", [](R r, Rng &rng) { fill_pattern(r.all(), rng.next()); }},
    };
}

// Limit and resize look at the indices of an SRQ, and a resize moves what is there.
void modify_spoiled(Victim &victim, const HeaderCase &one, Rng &rng)
{
    for (const uint32_t size : {1u, 7u, 40u}) {
        ibv_srq_attr attr{};
        attr.srq_limit = 1;
        const int error = ibv_modify_srq(victim.srq.get(), &attr, IBV_SRQ_LIMIT);
        require(!error, "arming the limit: {}", std::strerror(error));
        attr.max_wr = size;
        const auto fresh = rings_made_by([&] {
            const int refused = ibv_modify_srq(victim.srq.get(), &attr, IBV_SRQ_MAX_WR);
            require(!refused || refused == EINVAL, "resize: {}", std::strerror(refused));
        });
        if (fresh.size() == 1)
            victim.rq = fresh[0];
        one.spoil(victim.rq, rng);
        victim.send_from_peer(2);
        std::this_thread::sleep_for(milliseconds(2));
    }
}

void header_case(Bed &bed, const std::string &which, const HeaderCase &one, const std::string &name)
{
    Victim victim(bed.sides, bed.link, which == "srq");
    Rng rng(hash_name(bed.seed, name));
    for (uint32_t i = 0; i < 3; i++) {
        victim.put_write(i, 70 + i);
        victim.put_receive(i, 50 + i);
        post_recv(victim.b.qp.get(), i, {});
    }
    victim.rq.set_producer(3);
    victim.sq.set_producer(3);
    const RingView &ring = which == "sq" ? victim.sq
        : which == "rq" || which == "srq" ? victim.rq
        : which == "send_cq"             ? victim.send_cq
                                         : victim.recv_cq;
    one.spoil(ring, rng);
    for (int i = 0; i < 4; i++) {
        doorbell(victim.a.qp.get());
        victim.send_from_peer(2);
        // Arming looks at the indices too.
        ibv_req_notify_cq(victim.a.send_cq.get(), i & 1);
        ibv_req_notify_cq(victim.a.recv_cq.get(), i & 1);
        one.spoil(ring, rng);
        std::this_thread::sleep_for(milliseconds(2));
    }
    if (which == "srq")
        modify_spoiled(victim, one, rng);
    settle(bed, victim, Outcome::harmless, nullptr, victim.a.qp.get());
    must_modify(victim.a.qp.get(), state_step(IBV_QPS_ERR), "ERR with spoiled rings");
}

// Random work requests that are nearly right: most fields hold what the
// library would write, a few hold something else.
void random_requests(Bed &bed, const std::string &name, int rounds, bool shared)
{
    Rng rng(hash_name(bed.seed, name));
    static constexpr std::array<uint32_t, 12> values{0,    1,     2,     33,         64,        255,
                                                     4096, 65535, 65536, 0x7fffffff, 0x80000000, ~0u};
    for (int round = 0; round < rounds; round++) {
        note(fmt::format("{} round {}", name, round));
        Victim victim(bed.sides, bed.link, shared);
        const uint32_t count = rng.between(1u, victim.sq.mask());
        for (uint32_t i = 0; i < count; i++) {
            victim.put_write(i, i);
            victim.put_receive(i & victim.rq.mask(), i);
            for (std::byte *slot : {victim.sq.slot(i), victim.rq.slot(i)}) {
                const size_t words =
                    (slot == victim.sq.slot(i) ? victim.sq.element() : victim.rq.element()) / 4;
                for (uint32_t j = rng.between(0u, 4u); j; j--) {
                    const uint32_t value = rng.one_in(2)
                        ? rng.next32()
                        : values[rng.between<size_t>(0, values.size() - 1)];
                    std::memcpy(slot + 4 * rng.between<size_t>(0, words - 1), &value, 4);
                }
            }
        }
        // Whatever the requests look like, these keys open only this test's
        // own memory.
        victim.sq.set_producer(count);
        victim.rq.set_producer(count & victim.rq.mask());
        doorbell(victim.a.qp.get());
        victim.send_from_peer(4);
        settle(bed, victim, Outcome::harmless, victim.a.send_cq.get(), victim.a.qp.get());
    }
}

// Somebody writes into the rings while the kernel reads them.
void scribble_under_load(Bed &bed, const std::string &name, bool shared)
{
    Rng rng(hash_name(bed.seed, name));
    for (int round = 0; round < 3; round++) {
        note(fmt::format("{} round {}", name, round));
        Victim victim(bed.sides, bed.link, shared);
        std::atomic<bool> stop = false;
        std::thread scribbler([&, seed = rng.next()] {
            Rng own(seed);
            const std::array rings{&victim.sq, &victim.rq, &victim.send_cq, &victim.recv_cq};
            while (!stop) {
                const RingView &ring = *rings[own.between<size_t>(0, rings.size() - 1)];
                const auto bytes = ring.all();
                const size_t limit = own.one_in(4) ? sizeof(rxe_queue_buf) : bytes.size();
                const uint32_t value = own.one_in(3) ? own.between(0u, 64u) : own.next32();
                std::memcpy(bytes.data() + 4 * own.between<size_t>(0, limit / 4 - 1), &value, 4);
            }
        });
        for (uint32_t i = 0; i < 200; i++) {
            victim.put_write(i, i);
            victim.put_receive(i, i);
            victim.sq.set_producer((i + 1) & victim.sq.mask());
            victim.rq.set_producer((i + 1) & victim.rq.mask());
            doorbell(victim.a.qp.get());
            if (i % 8 == 0)
                victim.send_from_peer(1);
            ibv_req_notify_cq(victim.a.send_cq.get(), 0);
        }
        stop = true;
        scribbler.join();
        settle(bed, victim, Outcome::harmless, nullptr, victim.a.qp.get());
    }
}

void add_cases(Ktap &ktap, Bed &bed, int rounds)
{
    ktap.add("innocent", [&] { bed.innocent->must_work(); });
    static const auto sends = send_cases();
    for (const SendCase &one : sends)
        ktap.add(fmt::format("send.{}", one.name), [&] { send_case(bed, one); });
    static const auto receives = receive_cases();
    for (const ReceiveCase &one : receives)
        for (const bool shared : {false, true})
            ktap.add(fmt::format("{}.{}", shared ? "srq_receive" : "receive", one.name),
                     [&, shared] { receive_case(bed, one, shared); });
    static const auto headers = header_cases();
    for (const char *ring : {"sq", "rq", "srq", "send_cq", "recv_cq"})
        for (const HeaderCase &one : headers) {
            const std::string name = fmt::format("{}.{}", ring, one.name);
            ktap.add(name, [&bed, &one, ring, name] { header_case(bed, ring, one, name); });
        }
    for (const bool shared : {false, true}) {
        const std::string end = shared ? "_srq" : "";
        ktap.add("random_requests" + end, [&bed, rounds, shared, end] {
            random_requests(bed, "random" + end, rounds, shared);
        });
        ktap.add("scribble_under_load" + end,
                 [&bed, shared, end] { scribble_under_load(bed, "scribble" + end, shared); });
    }
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    int rounds = 60;
    CLI::App app("Writes garbage into the mapped rings and requires that nothing else suffers.");
    add_common_options(app, options);
    app.add_option("--rounds", rounds, "rounds of random requests");
    CLI11_PARSE(app, argc, argv);
    settle_options("rings_garbage", options);

    Ktap ktap;
    Bed bed;
    try {
        bed.sides = open_sides(options);
        select_default_gids(bed.sides, options);
        bed.link = link_from(options);
        // A victim must not keep its peer trying for long.
        bed.link.timeout = 10;
        bed.link.retry_cnt = 3;
        bed.seed = options.seed;
        bed.innocent.emplace(bed.sides, link_from(options));
    } catch (const std::exception &error) {
        fmt::print("Bail out! {}\n", error.what());
        return 1;
    }
    add_cases(ktap, bed, rounds);
    return ktap.run(options.filters, options.list, options.case_limit_s);
}
