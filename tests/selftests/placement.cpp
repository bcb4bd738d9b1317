// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// ATOMIC WRITE and FLUSH (InfiniBand A19): eight bytes written in one piece, and a WRITE that is
// placed when the FLUSH behind it completes. What lies beside is untouched, and what is refused
// ends with the exact status. And the order in which the bytes of a WRITE appear. A is the requester,
// B the responder.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/verbs.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

using namespace rocev2::test;

namespace {

constexpr std::byte poison{0xa5};
constexpr size_t buffer_size = 8 * page_size;
constexpr int flush_access = all_access | IBV_ACCESS_FLUSH_GLOBAL;

Qp make_qp_ex(const Side &side, ibv_cq *send_cq, ibv_cq *recv_cq)
{
    ibv_qp_init_attr_ex attr{};
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 16;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.pd = side.pd.get();
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH |
        IBV_QP_EX_WITH_ATOMIC_WRITE;
    Qp qp(ibv_create_qp_ex(side.context.get(), &attr));
    if (!qp)
        fail("ibv_create_qp_ex({}): {}", side.device, std::strerror(errno));
    return qp;
}

struct Bench {
    const Sides &sides;
    Pair pair;
    Buffer memory_a{buffer_size};
    Buffer memory_b{buffer_size};
    Mr mr_a;
    Mr mr_b;
    ibv_qp_ex *qpx = nullptr;

    Bench(const Sides &sides_, Link link, int qp_access = flush_access, int mr_access = flush_access)
        : sides(sides_), mr_a(make_mr(sides.a, memory_a.span(), all_access)),
          mr_b(make_mr(sides.b, memory_b.span(), mr_access))
    {
        for (auto [end, side] : {std::pair(&pair.a, &sides.a), std::pair(&pair.b, &sides.b)}) {
            end->side = side;
            end->send_cq = make_cq(*side, 16);
            end->recv_cq = make_cq(*side, 16);
            end->qp = make_qp_ex(*side, end->send_cq.get(), end->recv_cq.get());
        }
        link.qp_access = qp_access;
        connect(sides.a, pair.a.qp.get(), sides.b, pair.b.qp.get(), link);
        qpx = ibv_qp_to_qp_ex(pair.a.qp.get());
        std::fill_n(memory_b.data(), buffer_size, poison);
    }
    uint64_t target(size_t offset) const { return reinterpret_cast<uint64_t>(memory_b.data()) + offset; }

    void start(uint64_t id)
    {
        ibv_wr_start(qpx);
        qpx->wr_id = id;
        qpx->wr_flags = IBV_SEND_SIGNALED;
    }
    void complete()
    {
        const int error = ibv_wr_complete(qpx);
        require(!error, "ibv_wr_complete: {}", std::strerror(error));
    }
    void ends(uint64_t id, ibv_wc_status status, ibv_wc_opcode opcode, const char *what)
    {
        const ibv_wc wc = must_poll(pair.a.send_cq.get(), what);
        check_wc(wc, status, id, pair.a.qp.get(), what);
        require(status != IBV_WC_SUCCESS || wc.opcode == opcode, "{}: completion opcode {}", what,
                static_cast<int>(wc.opcode));
    }
    // All of B's memory is as it was, but for this stretch.
    void untouched_but(size_t offset, size_t length) const
    {
        for (size_t i = 0; i < buffer_size; i++)
            require((i >= offset && i < offset + length) || memory_b.data()[i] == poison,
                    "byte {} was written", i);
    }
};

void atomic_write(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    Rng rng(7);
    for (uint64_t i = 0; i < 50; i++) {
        const size_t offset = rng.between<size_t>(0, buffer_size / 8 - 1) * 8;
        const uint64_t value = rng.next();
        b.start(i);
        ibv_wr_atomic_write(b.qpx, b.mr_b->rkey, b.target(offset), &value);
        b.complete();
        b.ends(i, IBV_WC_SUCCESS, IBV_WC_ATOMIC_WRITE, "ATOMIC WRITE");
        require(!std::memcmp(b.memory_b.data() + offset, &value, sizeof(value)), "wrong bytes");
        b.untouched_but(offset, sizeof(value));
        std::fill_n(b.memory_b.data(), buffer_size, poison);
    }
}

// The target must be a multiple of eight (A19.4.2), the key that of memory.
void refused_atomic_write(const Sides &sides, const Link &link, size_t offset, uint32_t key_change,
                          ibv_wc_status status)
{
    Bench b(sides, link);
    const uint64_t value = 1;
    b.start(3);
    ibv_wr_atomic_write(b.qpx, b.mr_b->rkey ^ key_change, b.target(offset), &value);
    b.complete();
    b.ends(3, status, IBV_WC_ATOMIC_WRITE, "refused ATOMIC WRITE");
    b.untouched_but(0, 0);
}

// A WRITE and the FLUSH of it, as one list of work.
void flush(const Sides &sides, const Link &link, ibv_selectivity_level level)
{
    Bench b(sides, link);
    Rng rng(11);
    for (uint64_t i = 0; i < 30; i++) {
        const size_t length = rng.between<size_t>(1, 5 * page_size);
        const size_t offset = rng.between<size_t>(0, buffer_size - length);
        fill_pattern(b.memory_a.span(0, length), i);
        ibv_wr_start(b.qpx);
        b.qpx->wr_id = 2 * i;
        b.qpx->wr_flags = 0;
        ibv_wr_rdma_write(b.qpx, b.mr_b->rkey, b.target(offset));
        ibv_wr_set_sge(b.qpx, b.mr_a->lkey, reinterpret_cast<uint64_t>(b.memory_a.data()),
                       static_cast<uint32_t>(length));
        b.qpx->wr_id = 2 * i + 1;
        b.qpx->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_flush(b.qpx, b.mr_b->rkey, level == IBV_FLUSH_MR ? 0 : b.target(offset),
                     level == IBV_FLUSH_MR ? 0 : length, IBV_FLUSH_GLOBAL, static_cast<uint8_t>(level));
        b.complete();
        b.ends(2 * i + 1, IBV_WC_SUCCESS, IBV_WC_FLUSH, "FLUSH");
        require(!std::memcmp(b.memory_b.data() + offset, b.memory_a.data(), length), "wrong bytes");
        b.untouched_but(offset, length);
        std::fill_n(b.memory_b.data(), buffer_size, poison);
    }
}

void refused_flush(const Sides &sides, const Link &link, int mr_access, size_t length)
{
    Bench b(sides, link, flush_access, mr_access);
    b.start(5);
    ibv_wr_flush(b.qpx, b.mr_b->rkey, b.target(0), length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
    b.complete();
    b.ends(5, IBV_WC_REM_ACCESS_ERR, IBV_WC_FLUSH, "refused FLUSH");
}

// A thread that polls the last byte of a message in memory, as applications do, and then reads the rest.
class Watcher {
public:
    ~Watcher()
    {
        turn_ = stop;
        thread_.join();
    }
    void watch(const std::byte *message, size_t length)
    {
        message_ = message;
        length_ = length;
        turn_++;
    }
    // How many bytes were not there when the last one was.
    size_t late()
    {
        while (done_ != turn_)
            std::this_thread::yield();
        return late_;
    }

private:
    static constexpr uint64_t stop = ~uint64_t{0};

    void run()
    {
        for (uint64_t turn = 1;; turn++) {
            while (turn_ != turn) {
                if (turn_ == stop)
                    return;
                std::this_thread::yield();
            }
            const volatile std::byte *bytes = message_;
            while (bytes[length_ - 1] == poison)
                if (turn_ == stop)
                    return;
            std::atomic_thread_fence(std::memory_order_acquire);
            late_ = 0;
            for (size_t i = 0; i < length_; i++)
                late_ += bytes[i] == poison;
            done_ = turn;
        }
    }

    const std::byte *message_ = nullptr;
    size_t length_ = 0;
    size_t late_ = 0;
    std::atomic<uint64_t> turn_ = 0, done_ = 0;
    std::thread thread_{&Watcher::run, this};
};

void last_byte_last(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    Watcher watcher;
    Rng rng(13);
    std::fill_n(b.memory_a.data(), buffer_size, std::byte{1});
    for (uint64_t i = 0; i < 200; i++) {
        const size_t length = rng.between<size_t>(2, 4000);
        const size_t offset = rng.between<size_t>(0, buffer_size - length);
        watcher.watch(b.memory_b.data() + offset, length);
        b.start(i);
        ibv_wr_rdma_write(b.qpx, b.mr_b->rkey, b.target(offset));
        ibv_wr_set_sge(b.qpx, b.mr_a->lkey, reinterpret_cast<uint64_t>(b.memory_a.data()), static_cast<uint32_t>(length));
        b.complete();
        b.ends(i, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE, "WRITE");
        const size_t late = watcher.late();
        require(!late, "{} of {} bytes at {} came later than the last one", late, length, offset);
        std::fill_n(b.memory_b.data() + offset, length, poison);
    }
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options)
{
    const Link link = link_from(options);
    const auto add = [&](const char *name, auto body) {
        ktap.add(name, [&sides, link, body] { body(sides, link); });
    };
    add("atomic_write.data", atomic_write);
    add("atomic_write.misaligned", [](const Sides &s, const Link &l) {
        refused_atomic_write(s, l, 4, 0, IBV_WC_REM_INV_REQ_ERR);
    });
    add("atomic_write.wrong_key", [](const Sides &s, const Link &l) {
        refused_atomic_write(s, l, 8, 1, IBV_WC_REM_ACCESS_ERR);
    });
    add("flush.range", [](const Sides &s, const Link &l) { flush(s, l, IBV_FLUSH_RANGE); });
    add("flush.region", [](const Sides &s, const Link &l) { flush(s, l, IBV_FLUSH_MR); });
    add("flush.no_right", [](const Sides &s, const Link &l) { refused_flush(s, l, all_access, 8); });
    add("flush.past_the_end",
        [](const Sides &s, const Link &l) { refused_flush(s, l, flush_access, buffer_size + 1); });
    add("last_byte_last", last_byte_last);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("ATOMIC WRITE, FLUSH, and the order of bytes.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("placement", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) { add_cases(ktap, sides, options); });
}
