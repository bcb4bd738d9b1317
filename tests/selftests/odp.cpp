// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// On-demand paging: operations of all services on memory that is not there yet, at both ends;
// random data while the kernel takes the pages away again and again; memory that is gone;
// prefetch; regions and QPs that go while pages are on their way.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/unreliable.hpp"
#include "common/uverbs.hpp"
#include "common/verbs.hpp"

#include <rdma/ib_user_ioctl_verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

constexpr int odp_access = all_access | IBV_ACCESS_ON_DEMAND;

// Pages that the process has not touched, or of a file in memory: those come back with what was
// in them.
class Map {
public:
    explicit Map(size_t size, bool shared = false) : size_(size)
    {
        int fd = -1;
        if (shared) {
            fd = memfd_create("odp", MFD_CLOEXEC);
            require(fd >= 0 && !ftruncate(fd, static_cast<off_t>(size)), "memfd: {}",
                    std::strerror(errno));
        }
        data_ = static_cast<std::byte *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                              shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
                                              fd, 0));
        if (fd >= 0)
            close(fd);
        require(data_ != MAP_FAILED, "mmap: {}", std::strerror(errno));
    }
    ~Map() { munmap(data_, size_); }
    Map(const Map &) = delete;
    Map &operator=(const Map &) = delete;

    std::byte *data() const { return data_; }
    size_t size() const { return size_; }
    std::span<std::byte> span() const { return {data_, size_}; }
    std::span<std::byte> span(size_t offset, size_t length) const
    {
        return span().subspan(offset, length);
    }
    // The kernel takes the pages; what was in private ones is lost.
    void drop() const { require(!madvise(data_, size_, MADV_DONTNEED), "madvise"); }

private:
    std::byte *data_;
    size_t size_;
};

// A hole that nobody else takes: make what maps memory before, and only use it in between.
void unmap(std::span<std::byte> memory)
{
    require(!munmap(memory.data(), memory.size()), "munmap");
}

void map_again(std::span<std::byte> memory)
{
    require(mmap(memory.data(), memory.size(), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == memory.data(),
            "mmap: {}", std::strerror(errno));
}

bool holds_only(std::span<const std::byte> memory, std::byte value)
{
    return std::all_of(memory.begin(), memory.end(), [value](std::byte b) { return b == value; });
}

ibv_send_wr request(ibv_wr_opcode opcode, ibv_sge *sge, uint64_t addr = 0, uint32_t rkey = 0)
{
    return remote_request(opcode, {sge, 1}, addr, rkey, 5);
}

uint64_t address(const std::byte *p)
{
    return reinterpret_cast<uint64_t>(p);
}

ibv_wc_status run(const Endpoint &end, ibv_send_wr wr)
{
    post_send(end.qp.get(), wr);
    return must_poll(end.send_cq.get(), "request", std::chrono::seconds(20)).status;
}

void must_run(const Endpoint &end, ibv_send_wr wr, const char *what)
{
    const ibv_wc_status status = run(end, wr);
    require(status == IBV_WC_SUCCESS, "{}: \"{}\"", what, ibv_wc_status_str(status));
}

// Behind all that has completed: the kernel gives the same value for a few milliseconds.
uint64_t settled(const Side &side, const std::string &name)
{
    std::this_thread::sleep_for(milliseconds(20));
    return hw_counter(side, name);
}

uint64_t faults(const Side &side)
{
    return settled(side, "odp_page_faults");
}

void attributes(const Sides &sides, const Link &)
{
    ibv_device_attr_ex attr{};
    require(!ibv_query_device_ex(sides.b.context.get(), nullptr, &attr), "ibv_query_device_ex");
    const ibv_odp_caps &caps = attr.odp_caps;
    require(caps.general_caps == IBV_ODP_SUPPORT, "general_caps {:#x}", caps.general_caps);
    const uint32_t both = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
    const uint32_t rc = both | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
    require((caps.per_transport_caps.rc_odp_caps & 0x3f) == rc, "RC caps {:#x}",
            caps.per_transport_caps.rc_odp_caps);
    require(caps.per_transport_caps.uc_odp_caps == (both | IBV_ODP_SUPPORT_WRITE), "UC caps {:#x}",
            caps.per_transport_caps.uc_odp_caps);
    require(caps.per_transport_caps.ud_odp_caps == both, "UD caps {:#x}",
            caps.per_transport_caps.ud_odp_caps);
    errno = 0;
    Mr implicit(ibv_reg_mr(sides.b.pd.get(), nullptr, SIZE_MAX, odp_access));
    require(!implicit && errno == EOPNOTSUPP, "implicit: {}", std::strerror(errno));
    // address space costs nothing, a table for it does: at most 64 GiB
    errno = 0;
    Mr vast(ibv_reg_mr(sides.b.pd.get(), nullptr, (size_t{64} << 30) + 1, odp_access));
    require(!vast && errno == ENOMEM, "more than 64 GiB: {}", std::strerror(errno));
}

// ---------------------------------------------------------------------------
// Operations on memory that is not there

constexpr size_t map_size = 2 << 20;
constexpr uint32_t sizes[] = {8, 4096, 300000, 1 << 20};

struct Bench {
    const Sides &sides;
    Map at_a{map_size};
    Map at_b{map_size};
    Mr mr_a;
    Mr mr_b;

    Bench(const Sides &sides_, bool odp_a, bool odp_b)
        : sides(sides_), mr_a(make_mr(sides.a, at_a.span(), odp_a ? odp_access : all_access)),
          mr_b(make_mr(sides.b, at_b.span(), odp_b ? odp_access : all_access))
    {
    }
};

enum Where { at_responder = 1, at_requester = 2 };

void cold_memory(const Sides &sides, Link link, ibv_wr_opcode opcode, int where)
{
    // every page costs the requester one retry or few
    link.rnr_retry = 6;
    Bench b(sides, where & at_requester, where & at_responder);
    Pair pair = make_pair(sides, link);
    const bool reads = opcode == IBV_WR_RDMA_READ;
    const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const bool receives = opcode == IBV_WR_SEND || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const uint64_t before_a = faults(sides.a), before_b = faults(sides.b);
    const uint64_t naks = settled(sides.b, "resp_odp_rnr_nak");
    uint64_t seed = 1;

    for (const uint32_t size : sizes) {
        if (atomic && size != 8)
            continue;
        // pinned memory would be another one than the process'
        if (where & at_requester)
            b.at_a.drop();
        if (where & at_responder)
            b.at_b.drop();
        const size_t offset = atomic ? 64 : page_size - 3;
        const auto local = b.at_a.span(offset, size), remote = b.at_b.span(offset, size);
        const auto from = reads || atomic ? remote : local, to = reads || atomic ? local : remote;
        // where it comes from is there for the process, not for the device
        fill_pattern(from, ++seed);
        uint64_t before = 0;
        std::memcpy(&before, remote.data(), sizeof(before));
        ibv_sge sge = sge_of(local, b.mr_a.get());
        if (receives) {
            ibv_sge into = sge_of(remote, b.mr_b.get());
            post_recv(pair.b.qp.get(), 5, {&into, 1});
        }
        must_run(pair.a, request(opcode, &sge, address(remote.data()), b.mr_b->rkey), "request");
        if (receives)
            check_wc(must_poll(pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, 5,
                     pair.b.qp.get(), "receive");
        if (atomic) {
            uint64_t result, now;
            std::memcpy(&result, local.data(), sizeof(result));
            std::memcpy(&now, remote.data(), sizeof(now));
            require(result == before && now == before + 5, "atomic: result {:#x}, now {:#x}, was {:#x}",
                    result, now, before);
            continue;
        }
        std::vector<std::byte> want(size);
        fill_pattern(want, seed);
        require(std::ranges::equal(to, want), "{} bytes: wrong data", size);
    }
    if (where & at_requester)
        require(faults(sides.a) > before_a, "no page fault at the requester");
    else
        require(faults(sides.a) == before_a, "page faults at the requester");
    if (where & at_responder) {
        require(faults(sides.b) > before_b, "no page fault at the responder");
        require(settled(sides.b, "resp_odp_rnr_nak") > naks, "no RNR NAK");
    } else {
        require(faults(sides.b) == before_b, "page faults at the responder");
    }
}

// Nothing is lost of UD and UC for memory that is not there.
void cold_datagrams(const Sides &sides, const Link &)
{
    Bench b(sides, true, true);
    const Endpoint from = make_ud(sides.a), to = make_ud(sides.b);
    const Ah ah = make_ah(sides.a, sides.b.gid);
    const uint32_t length = 700, messages = 64;

    fill_pattern(b.at_a.span(0, messages * page_size), 3);
    for (uint32_t i = 0; i < messages; i++) {
        // header and payload lie in two pages
        ibv_sge into = sge_of(b.at_b.span((i + 1) * page_size - grh_bytes, grh_bytes + length),
                              b.mr_b.get());
        post_recv(to.qp.get(), i, {&into, 1});
    }
    for (uint32_t i = 0; i < messages; i++) {
        ibv_sge sge = sge_of(b.at_a.span(i * page_size, length), b.mr_a.get());
        ibv_send_wr wr = request(IBV_WR_SEND, &sge);
        wr.wr_id = i;
        wr.wr.ud.ah = ah.get();
        wr.wr.ud.remote_qpn = to.qp->qp_num;
        wr.wr.ud.remote_qkey = qkey;
        post_send(from.qp.get(), wr);
    }
    for (uint32_t i = 0; i < messages; i++) {
        check_wc(must_poll(from.send_cq.get(), "send"), IBV_WC_SUCCESS, i, from.qp.get(), "send");
        check_wc(must_poll(to.recv_cq.get(), "receive"), IBV_WC_SUCCESS, i, to.qp.get(), "receive");
        require(std::ranges::equal(b.at_b.span((i + 1) * page_size, length),
                                   b.at_a.span(i * page_size, length)), "datagram {}: wrong data", i);
    }
}

void cold_uc(const Sides &sides, const Link &link, ibv_wr_opcode opcode)
{
    Bench b(sides, true, true);
    const Endpoint from = make_unreliable_endpoint(sides.a, IBV_QPT_UC);
    const Endpoint to = make_unreliable_endpoint(sides.b, IBV_QPT_UC);
    uc_connect(from, to, link);
    const uint32_t length = 50000, messages = 24;

    fill_pattern(b.at_a.span(0, messages * length), 4);
    for (uint32_t i = 0; i < messages; i++) {
        ibv_sge into = sge_of(b.at_b.span(i * length, length), b.mr_b.get());
        post_recv(to.qp.get(), i, {&into, 1});
    }
    for (uint32_t i = 0; i < messages; i++) {
        ibv_sge sge = sge_of(b.at_a.span(i * length, length), b.mr_a.get());
        ibv_send_wr wr = request(opcode, &sge, address(b.at_b.data()) + i * length, b.mr_b->rkey);
        wr.wr_id = i;
        post_send(from.qp.get(), wr);
        check_wc(must_poll(from.send_cq.get(), "send"), IBV_WC_SUCCESS, i, from.qp.get(), "send");
        check_wc(must_poll(to.recv_cq.get(), "receive"), IBV_WC_SUCCESS, i, to.qp.get(), "receive");
    }
    require(std::ranges::equal(b.at_b.span(0, messages * length),
                               b.at_a.span(0, messages * length)), "wrong data");
}

void cold_srq(const Sides &sides, const Link &link)
{
    Bench b(sides, false, true);
    Srq srq = make_srq(sides.b, 64);
    Endpoint from = make_endpoint(sides.a), to = make_endpoint(sides.b, {.srq = srq.get()});
    connect(sides.a, from.qp.get(), sides.b, to.qp.get(), link);
    fill_pattern(b.at_a.span(), 5);
    for (uint32_t i = 0; i < 32; i++) {
        ibv_sge into = sge_of(b.at_b.span(i * 20000, 20000), b.mr_b.get());
        post_srq_recv(srq.get(), i, {&into, 1});
    }
    for (uint32_t i = 0; i < 32; i++) {
        ibv_sge sge = sge_of(b.at_a.span(i * 20000, 20000), b.mr_a.get());
        must_run(from, request(IBV_WR_SEND, &sge), "SEND");
        check_wc(must_poll(to.recv_cq.get(), "receive"), IBV_WC_SUCCESS, i, to.qp.get(), "receive");
    }
    require(std::ranges::equal(b.at_b.span(0, 32 * 20000), b.at_a.span(0, 32 * 20000)), "wrong data");
    to.qp.reset();
}

// A window has the pages of its region.
void window(const Sides &sides, const Link &link)
{
    Map at_b(map_size);
    Bench b(sides, false, false);
    Mr mr = make_mr(sides.b, at_b.span(), odp_access | IBV_ACCESS_MW_BIND);
    Handle<ibv_mw, ibv_dealloc_mw> mw(ibv_alloc_mw(sides.b.pd.get(), IBV_MW_TYPE_1));
    require(bool(mw), "ibv_alloc_mw: {}", std::strerror(errno));
    Pair pair = make_pair(sides, link);
    ibv_mw_bind bind{};
    bind.wr_id = 5;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {mr.get(), address(at_b.data()) + 5000, 200000, IBV_ACCESS_REMOTE_WRITE};
    require(!ibv_bind_mw(pair.b.qp.get(), mw.get(), &bind), "ibv_bind_mw");
    check_wc(must_poll(pair.b.send_cq.get(), "bind"), IBV_WC_SUCCESS, 5, pair.b.qp.get(), "bind");
    fill_pattern(b.at_a.span(0, 200000), 6);
    ibv_sge sge = sge_of(b.at_a.span(0, 200000), b.mr_a.get());
    for (int i = 0; i < 3; i++) {
        at_b.drop();
        must_run(pair.a, request(IBV_WR_RDMA_WRITE, &sge, address(at_b.data()) + 5000, mw->rkey),
                 "a WRITE through the window");
        require(std::ranges::equal(at_b.span(5000, 200000), b.at_a.span(0, 200000)), "wrong data");
    }
    mw.reset();
}

// Between pinned and on-demand, and back.
void rereg(const Sides &sides, const Link &link)
{
    Bench b(sides, false, true);
    Pair pair = make_pair(sides, link);
    const uint32_t length = 100000;
    for (int i = 0; i < 6; i++) {
        const bool odp = i % 2;
        const int error = rereg_mr(b.mr_b.get(), IBV_REREG_MR_CHANGE_ACCESS,
                                   {nullptr, {}, odp ? unsigned{odp_access} : unsigned{all_access}});
        require(!error, "rereg: {}", std::strerror(error));
        if (odp)
            b.at_b.drop();
        const uint64_t before = faults(sides.b);
        fill_pattern(b.at_a.span(0, length), static_cast<uint64_t>(i));
        ibv_sge sge = sge_of(b.at_a.span(0, length), b.mr_a.get());
        must_run(pair.a, request(IBV_WR_RDMA_WRITE, &sge, address(b.at_b.data()), b.mr_b->rkey), "WRITE");
        require(std::ranges::equal(b.at_b.span(0, length), b.at_a.span(0, length)), "wrong data");
        require((faults(sides.b) != before) == odp, "{} page faults", faults(sides.b) - before);
    }
}

// ---------------------------------------------------------------------------
// Pages come and go

// Keeps taking pages of a mapping away from the device.
class Disturber {
public:
    Disturber(const Map &map, uint64_t seed) : map_(map), rng_(seed), thread_([this] { run(); }) {}
    ~Disturber()
    {
        stop_ = true;
        thread_.join();
    }

private:
    void run()
    {
        const size_t pages = map_.size() / page_size;
        while (!stop_) {
            const size_t first = rng_.between(size_t{0}, pages - 1);
            const size_t number = rng_.between(size_t{1}, std::min(pages - first, size_t{64}));
            std::byte *const at = map_.data() + first * page_size;
            const size_t length = number * page_size;
            switch (rng_.between(0, 3)) {
            case 0:
            case 1:
                madvise(at, length, MADV_DONTNEED);
                break;
            case 2:
                mprotect(at, length, PROT_READ | PROT_WRITE | PROT_EXEC);
                mprotect(at, length, PROT_READ | PROT_WRITE);
                break;
            default:
                // so that some are there again without a fault of the device
                for (size_t i = 0; i < length; i += page_size)
                    static_cast<void>(*static_cast<volatile std::byte *>(at + i));
            }
            std::this_thread::sleep_for(std::chrono::microseconds(rng_.between(0, 300)));
        }
    }

    const Map &map_;
    Rng rng_;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

// Random operations, several in flight, each in a slot of its own at both ends.
void disturbed(const Sides &sides, const Link &link, uint64_t seed)
{
    constexpr size_t slots = 8, slot_size = 192 * 1024;
    Map at_a(slots * slot_size, true), at_b(slots * slot_size, true);
    Mr mr_a = make_mr(sides.a, at_a.span(), odp_access);
    Mr mr_b = make_mr(sides.b, at_b.span(), odp_access);
    Pair pair = make_pair(sides, link);
    Rng rng(seed);
    const auto end = Clock::now() + milliseconds(4000);
    const uint64_t before_a = faults(sides.a), before_b = faults(sides.b);
    uint64_t messages = 0;

    Disturber disturb_a(at_a, seed + 1), disturb_b(at_b, seed + 2);
    while (Clock::now() < end) {
        struct Op {
            ibv_wr_opcode opcode;
            size_t at_a, at_b;
            uint32_t length;
            uint64_t seed;
        };
        std::array<Op, slots> ops;
        for (size_t i = 0; i < slots; i++) {
            Op &op = ops[i];
            op.opcode = std::array{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}[rng.between(0u, 2u)];
            op.length = rng.one_in(3) ? rng.between(1u, 64u)
                                      : rng.between(1u, static_cast<uint32_t>(slot_size / 2));
            op.at_a = i * slot_size + rng.between(size_t{0}, slot_size - op.length);
            op.at_b = i * slot_size + rng.between(size_t{0}, slot_size - op.length);
            op.seed = rng.next();
            const bool read = op.opcode == IBV_WR_RDMA_READ;
            fill_pattern(read ? at_b.span(op.at_b, op.length) : at_a.span(op.at_a, op.length), op.seed);
            std::ranges::fill(read ? at_a.span(op.at_a, op.length) : at_b.span(op.at_b, op.length),
                              std::byte{0xee});
            if (op.opcode == IBV_WR_SEND) {
                ibv_sge into = sge_of(at_b.span(op.at_b, op.length), mr_b.get());
                post_recv(pair.b.qp.get(), i, {&into, 1});
            }
        }
        for (size_t i = 0; i < slots; i++) {
            ibv_sge sge = sge_of(at_a.span(ops[i].at_a, ops[i].length), mr_a.get());
            ibv_send_wr wr = request(ops[i].opcode, &sge, address(at_b.data()) + ops[i].at_b, mr_b->rkey);
            wr.wr_id = i;
            post_send(pair.a.qp.get(), wr);
        }
        for (size_t i = 0; i < slots; i++)
            check_wc(must_poll(pair.a.send_cq.get(), "request", std::chrono::seconds(20)),
                     IBV_WC_SUCCESS, i, pair.a.qp.get(), "request");
        for (size_t i = 0; i < slots; i++) {
            const Op &op = ops[i];
            if (op.opcode == IBV_WR_SEND)
                check_wc(must_poll(pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, i,
                         pair.b.qp.get(), "receive");
            std::vector<std::byte> want(op.length);
            fill_pattern(want, op.seed);
            require(std::ranges::equal(op.opcode == IBV_WR_RDMA_READ
                                           ? at_a.span(op.at_a, op.length)
                                           : at_b.span(op.at_b, op.length), want),
                    "opcode {}, {} bytes: wrong data", static_cast<int>(op.opcode), op.length);
            messages++;
        }
    }
    diag(fmt::format("{} messages, {} and {} page faults, {} responses dropped", messages,
                     faults(sides.a) - before_a, faults(sides.b) - before_b,
                     settled(sides.a, "rx_drop_odp_response")));
    require(faults(sides.a) > before_a && faults(sides.b) > before_b, "no page faults");
    require(messages > 50, "{} messages", messages);
}

// After a fork the pages are shared for reading: what comes is for the parent alone.
void forked(const Sides &sides, const Link &link)
{
    Bench b(sides, false, true);
    Pair pair = make_pair(sides, link);
    const uint32_t length = 20 * page_size;
    ibv_sge sge = sge_of(b.at_a.span(0, length), b.mr_a.get());
    const auto write_pattern = [&](uint64_t seed) {
        fill_pattern(b.at_a.span(0, length), seed);
        must_run(pair.a, request(IBV_WR_RDMA_WRITE, &sge, address(b.at_b.data()), b.mr_b->rkey), "WRITE");
        require(std::ranges::equal(b.at_b.span(0, length), b.at_a.span(0, length)), "wrong data");
    };

    for (uint64_t round = 0; round < 5; round++) {
        write_pattern(2 * round);
        std::vector<std::byte> want(length);
        fill_pattern(want, 2 * round);
        int start[2];
        require(!pipe(start), "pipe");
        const pid_t child = fork();
        require(child >= 0, "fork");
        if (!child) {
            char c;
            close(start[1]);
            static_cast<void>(!read(start[0], &c, 1));
            _exit(std::ranges::equal(b.at_b.span(0, length), want) ? 0 : 1);
        }
        close(start[0]);
        write_pattern(2 * round + 1);
        close(start[1]);
        int status = 0;
        require(waitpid(child, &status, 0) == child, "waitpid");
        require(WIFEXITED(status) && !WEXITSTATUS(status), "the child sees what came after the fork");
    }
}

// What comes after munmap() has returned touches none of those pages, which others have by now.
void unmapped_under_traffic(const Sides &sides, const Link &link)
{
    constexpr size_t size = 64 * page_size;
    Map from(size);
    std::memset(from.data(), 0xee, size);
    Mr mr_a = make_mr(sides.a, from.span(), all_access);

    for (int round = 0; round < 15; round++) {
        Map at_b(size);
        // addresses for other memory, which must not come to lie in the hole
        std::byte *const others = static_cast<std::byte *>(
            mmap(nullptr, size / 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        require(others != MAP_FAILED, "mmap");
        Mr mr_b = make_mr(sides.b, at_b.span(), odp_access);
        Pair pair = make_pair(sides, link);
        ibv_sge sge = sge_of(from.span(), mr_a.get());
        const ibv_send_wr wr = request(IBV_WR_RDMA_WRITE, &sge, address(at_b.data()), mr_b->rkey);
        int in_flight = 0;
        const auto post = [&] {
            ibv_send_wr copy = wr;
            post_send(pair.a.qp.get(), copy);
            in_flight++;
        };
        for (int i = 0; i < 8; i++)
            post();
        must_poll(pair.a.send_cq.get(), "WRITE", std::chrono::seconds(20));
        in_flight--;

        // the second half goes; new pages most likely are the same ones
        unmap(at_b.span(size / 2, size / 2));
        require(!mprotect(others, size / 2, PROT_READ | PROT_WRITE), "mprotect");
        std::memset(others, 0x11, size / 2);
        post();
        ibv_wc_status status = IBV_WC_SUCCESS;
        while (in_flight--) {
            const ibv_wc wc = must_poll(pair.a.send_cq.get(), "WRITE", std::chrono::seconds(20));
            if (status == IBV_WC_SUCCESS)
                status = wc.status;
        }
        require(status == IBV_WC_REM_ACCESS_ERR, "to memory that is gone: \"{}\"", ibv_wc_status_str(status));
        require(holds_only({others, size / 2}, std::byte{0x11}), "somebody else's page was written");
        munmap(others, size / 2);
        drain_events(sides.b.context.get());
    }
}

// ---------------------------------------------------------------------------
// Memory that is not there and never will be

void gone_at_responder(const Sides &sides, const Link &link, ibv_wr_opcode opcode, bool read_only)
{
    Bench b(sides, false, true);
    const auto remote = b.at_b.span(8 * page_size, 4 * page_size);
    std::ranges::fill(remote, std::byte{0x44});
    const bool works = read_only && opcode == IBV_WR_RDMA_READ;
    const bool receives = opcode == IBV_WR_SEND;
    const uint32_t length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 3 * page_size;
    const uint64_t errors = settled(sides.b, "odp_page_fault_errors");

    Pair pair = make_pair(sides, link), fresh = make_pair(sides, link);
    if (read_only)
        require(!mprotect(remote.data(), remote.size(), PROT_READ), "mprotect");
    else
        unmap(remote);
    ibv_sge sge = sge_of(b.at_a.span(0, length), b.mr_a.get());
    if (receives) {
        ibv_sge into = sge_of(remote, b.mr_b.get());
        post_recv(pair.b.qp.get(), 5, {&into, 1});
    }
    const ibv_wc_status status =
        run(pair.a, request(opcode, &sge, address(remote.data()), b.mr_b->rkey));
    const ibv_wc_status want = works ? IBV_WC_SUCCESS
                                     : receives ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
    require(status == want, "\"{}\", expected \"{}\"", ibv_wc_status_str(status),
            ibv_wc_status_str(want));
    if (receives)
        check_wc(must_poll(pair.b.recv_cq.get(), "receive"), IBV_WC_LOC_PROT_ERR, 5,
                 pair.b.qp.get(), "receive");
    if (works)
        require(holds_only(b.at_a.span(0, length), std::byte{0x44}), "wrong data");
    else
        require(settled(sides.b, "odp_page_fault_errors") > errors, "no error was counted");
    // the region is as good as before where there is memory, and there again when it is back
    if (read_only)
        require(!mprotect(remote.data(), remote.size(), PROT_READ | PROT_WRITE), "mprotect");
    else
        map_again(remote);
    fill_pattern(b.at_a.span(0, length), 7);
    must_run(fresh.a, request(IBV_WR_RDMA_WRITE, &sge, address(remote.data()), b.mr_b->rkey), "WRITE");
    require(std::ranges::equal(remote.first(length), b.at_a.span(0, length)), "wrong data");
    drain_events(sides.b.context.get());
}

void gone_at_requester(const Sides &sides, const Link &link, ibv_wr_opcode opcode)
{
    Bench b(sides, true, false);
    const uint32_t length = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 3 * page_size;
    const auto local = b.at_a.span(8 * page_size, length);
    Pair pair = make_pair(sides, link);
    unmap(b.at_a.span(8 * page_size, 3 * page_size));
    if (opcode == IBV_WR_SEND) {
        ibv_sge into = sge_of(b.at_b.span(0, length), b.mr_b.get());
        post_recv(pair.b.qp.get(), 5, {&into, 1});
    }
    ibv_sge sge = sge_of(local, b.mr_a.get());
    const ibv_wc_status status =
        run(pair.a, request(opcode, &sge, address(b.at_b.data()), b.mr_b->rkey));
    require(status == IBV_WC_LOC_PROT_ERR, "\"{}\"", ibv_wc_status_str(status));
    map_again(b.at_a.span(8 * page_size, 3 * page_size));
}

void gone_unreliable(const Sides &sides, const Link &link)
{
    Bench b(sides, false, true);
    const Endpoint ud_from = make_ud(sides.a), ud_to = make_ud(sides.b);
    const Ah ah = make_ah(sides.a, sides.b.gid);
    const Endpoint from = make_unreliable_endpoint(sides.a, IBV_QPT_UC);
    const Endpoint to = make_unreliable_endpoint(sides.b, IBV_QPT_UC);
    uc_connect(from, to, link);
    unmap(b.at_b.span(0, 4 * page_size));
    // a datagram
    {
        ibv_sge into = sge_of(b.at_b.span(0, 2 * page_size), b.mr_b.get());
        post_recv(ud_to.qp.get(), 5, {&into, 1});
        ibv_sge sge = sge_of(b.at_a.span(0, 64), b.mr_a.get());
        ibv_send_wr wr = request(IBV_WR_SEND, &sge);
        wr.wr.ud.ah = ah.get();
        wr.wr.ud.remote_qpn = ud_to.qp->qp_num;
        wr.wr.ud.remote_qkey = qkey;
        must_run(ud_from, wr, "datagram");
        check_wc(must_poll(ud_to.recv_cq.get(), "receive"), IBV_WC_LOC_PROT_ERR, 5, ud_to.qp.get(),
                 "receive");
    }
    // a UC WRITE vanishes, and the next one, elsewhere, arrives
    fill_pattern(b.at_a.span(0, 9000), 8);
    ibv_sge sge = sge_of(b.at_a.span(0, 9000), b.mr_a.get());
    must_run(from, request(IBV_WR_RDMA_WRITE, &sge, address(b.at_b.data()), b.mr_b->rkey), "WRITE");
    const auto elsewhere = b.at_b.span(8 * page_size, 9000);
    must_run(from, request(IBV_WR_RDMA_WRITE, &sge, address(elsewhere.data()), b.mr_b->rkey), "WRITE");
    require(wait_until(milliseconds(5000),
                       [&] { return std::ranges::equal(elsewhere, b.at_a.span(0, 9000)); }),
            "the WRITE behind has not come");
    map_again(b.at_b.span(0, 4 * page_size));
}

// ---------------------------------------------------------------------------
// Prefetch

struct Prefetch {
    Bench b;
    Pair pair;
    uint32_t length = 200 * page_size;

    Prefetch(const Sides &sides, const Link &link) : b(sides, false, true), pair(make_pair(sides, link)) {}

    int advise(unsigned advice, unsigned flags) const
    {
        const ibv_sge sge = sge_of(b.at_b.span(0, length), b.mr_b.get());
        return advise_mr(b.sides.b.pd.get(), advice, flags, {&sge, 1});
    }
    // how many faults a request takes
    uint64_t faults_of(ibv_wr_opcode opcode)
    {
        ibv_sge sge = sge_of(b.at_a.span(0, length), b.mr_a.get());
        const uint64_t before = faults(b.sides.b);
        must_run(pair.a, request(opcode, &sge, address(b.at_b.data()), b.mr_b->rkey), "request");
        return faults(b.sides.b) - before;
    }
};

void prefetch(const Sides &sides, const Link &link)
{
    constexpr unsigned flush = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
    Prefetch p(sides, link);
    const auto must = [&](unsigned advice, unsigned flags) {
        const int error = p.advise(advice, flags);
        require(!error, "advice {}: {}", advice, std::strerror(error));
    };
    const auto expect = [&](ibv_wr_opcode opcode, bool faulted, const char *what) {
        const uint64_t number = p.faults_of(opcode);
        require((number != 0) == faulted, "{}: {} page faults", what, number);
    };
    must(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, flush);
    expect(IBV_WR_RDMA_WRITE, false, "a WRITE after PREFETCH_WRITE");
    p.b.at_b.drop();
    must(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, flush);
    expect(IBV_WR_RDMA_READ, false, "a READ after PREFETCH");
    expect(IBV_WR_RDMA_WRITE, true, "a WRITE after PREFETCH");
    p.b.at_b.drop();
    must(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, flush);
    expect(IBV_WR_RDMA_READ, true, "a READ after PREFETCH_NO_FAULT of untouched memory");
    p.b.at_b.drop();
    std::ranges::fill(p.b.at_b.span(0, p.length), std::byte{0x22});
    must(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, flush);
    expect(IBV_WR_RDMA_READ, false, "a READ after PREFETCH_NO_FAULT of touched memory");
    // and not at once
    p.b.at_b.drop();
    must(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0);
    std::vector<unsigned char> resident(p.length / page_size);
    require(wait_until(milliseconds(5000),
                       [&] {
                           mincore(p.b.at_b.data(), p.length, resident.data());
                           return std::ranges::all_of(resident, [](unsigned char r) { return r & 1; });
                       }),
            "pages of an asynchronous prefetch have not come");
    // behind it in the same queue
    must(IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, flush);
    expect(IBV_WR_RDMA_WRITE, false, "a WRITE after an asynchronous prefetch");
}

// Deregistration does not wait for the terabytes that somebody has advised.
void prefetch_and_dereg(const Sides &sides, const Link &)
{
    Map map(128 << 20);
    Mr mr = make_mr(sides.b, map.span(), odp_access);
    const std::vector<ibv_sge> sges(4000, sge_of(map.span(), mr.get()));
    ibv_pd *const pd = sides.b.pd.get();
    constexpr unsigned advice = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
    require(!advise_mr(pd, advice, IB_UVERBS_ADVISE_MR_FLAG_FLUSH, std::span(sges).first(1)), "first prefetch");
    for (int i = 0; i < 16; i++)
        require(!advise_mr(pd, advice, 0, sges), "prefetches");
    const auto start = std::chrono::steady_clock::now();
    mr.reset();
    const auto took = std::chrono::steady_clock::now() - start;
    require(took < std::chrono::seconds(3), "deregistration took {} ms",
            std::chrono::duration_cast<milliseconds>(took).count());
}

void prefetch_refused(const Sides &sides, const Link &link)
{
    constexpr unsigned flush = IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
    constexpr unsigned read_advice = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH;
    constexpr unsigned write_advice = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    Prefetch p(sides, link);
    Map other(page_size);
    Mr pinned = make_mr(sides.b, other.span(), all_access);
    Mr to_read = make_mr(sides.b, other.span(), IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
    Pd pd(ibv_alloc_pd(sides.b.context.get()));
    const ibv_sge good = sge_of(p.b.at_b.span(0, page_size), p.b.mr_b.get());
    const auto expect = [&](ibv_pd *in, unsigned advice, unsigned flags, ibv_sge bad, int want,
                            const char *what) {
        const std::array sges{good, bad};
        const int error = advise_mr(in, advice, flags,
                                    in == pd.get() ? std::span(sges).last(1) : std::span(sges));
        require(error == want, "{}: \"{}\", expected \"{}\"", what, std::strerror(error),
                std::strerror(want));
    };
    ibv_pd *const own = sides.b.pd.get();
    ibv_sge bad = good;
    bad.lkey ^= 0x7700;
    expect(own, read_advice, flush, bad, ENOENT, "an unknown key");
    bad = good;
    bad.lkey ^= 1;
    expect(own, read_advice, 0, bad, ENOENT, "a stale key");
    expect(pd.get(), read_advice, 0, good, EPERM, "another PD");
    expect(own, read_advice, 0, sge_of(other.span(), pinned.get()), EINVAL, "a pinned region");
    expect(own, write_advice, 0, sge_of(other.span(), to_read.get()), EPERM, "writing what is to read");
    expect(own, read_advice, flush, sge_of(other.span(), to_read.get()), 0, "reading what is to read");
    bad = good;
    bad.addr += map_size;
    expect(own, read_advice, 0, bad, EFAULT, "out of bounds");
    expect(own, 77, 0, good, EOPNOTSUPP, "an unknown advice");
    unmap(p.b.at_b.span(4 * page_size, page_size));
    bad = sge_of(p.b.at_b.span(0, 8 * page_size), p.b.mr_b.get());
    expect(own, write_advice, flush, bad, EFAULT, "memory that is not there");
    expect(own, write_advice, 0, bad, 0, "memory that is not there, later");
    map_again(p.b.at_b.span(4 * page_size, page_size));
}

// ---------------------------------------------------------------------------
// Going while pages are on their way

void destroyed(const Sides &sides, const Link &link, uint64_t seed)
{
    const auto before_a = resource_counts(sides.a.device), before_b = resource_counts(sides.b.device);
    Rng rng(seed);
    for (int round = 0; round < 40; round++) {
        Bench b(sides, true, true);
        Pair pair = make_pair(sides, link);
        ibv_sge sge = sge_of(b.at_a.span(0, 1 << 20), b.mr_a.get());
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            ibv_send_wr wr = request(opcode, &sge, address(b.at_b.data()), b.mr_b->rkey);
            post_send(pair.a.qp.get(), wr);
        }
        const ibv_sge all = sge_of(b.at_b.span(), b.mr_b.get());
        advise_mr(sides.b.pd.get(), IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, {&all, 1});
        std::this_thread::sleep_for(std::chrono::microseconds(rng.between(0, 2000)));
        switch (round % 4) {
        case 0:
            b.mr_b.reset();
            break;
        case 1:
            pair.b.qp.reset();
            break;
        case 2:
            b.mr_a.reset();
            break;
        default:
            pair.a.qp.reset();
        }
    }
    drain_events(sides.a.context.get());
    drain_events(sides.b.context.get());
    require(resource_counts(sides.a.device) == before_a && resource_counts(sides.b.device) == before_b,
            "objects are left");
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options)
{
    const Link link = link_from(options);
    const auto add = [&](std::string name, auto run) {
        ktap.add(std::move(name), [&sides, link, run] { run(sides, link); });
    };
    add("attributes", attributes);
    const std::pair<const char *, ibv_wr_opcode> rc_ops[] = {
        {"send", IBV_WR_SEND},
        {"write", IBV_WR_RDMA_WRITE},
        {"write_imm", IBV_WR_RDMA_WRITE_WITH_IMM},
        {"read", IBV_WR_RDMA_READ},
        {"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD},
    };
    for (const auto &[name, opcode] : rc_ops)
        for (const auto &[end, where] : {std::pair{"responder", int{at_responder}},
                                         std::pair{"requester", int{at_requester}},
                                         std::pair{"both", at_responder | at_requester}})
            add(fmt::format("cold.rc_{}.{}", name, end), [opcode, where](const Sides &s, const Link &l) {
                cold_memory(s, l, opcode, where);
            });
    add("cold.ud", cold_datagrams);
    add("cold.uc_send", [](const Sides &s, const Link &l) { cold_uc(s, l, IBV_WR_SEND); });
    add("cold.uc_write_imm",
        [](const Sides &s, const Link &l) { cold_uc(s, l, IBV_WR_RDMA_WRITE_WITH_IMM); });
    add("cold.srq", cold_srq);
    add("window", window);
    add("rereg", rereg);
    const uint64_t seed = options.seed;
    add("disturbed", [seed](const Sides &s, const Link &l) { disturbed(s, l, seed); });
    add("forked", forked);
    add("unmapped_under_traffic", unmapped_under_traffic);
    for (const auto &[name, opcode] : rc_ops) {
        if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
            continue;
        add(fmt::format("gone.responder.{}", name),
            [opcode](const Sides &s, const Link &l) { gone_at_responder(s, l, opcode, false); });
        add(fmt::format("gone.responder.{}_read_only", name),
            [opcode](const Sides &s, const Link &l) { gone_at_responder(s, l, opcode, true); });
        add(fmt::format("gone.requester.{}", name),
            [opcode](const Sides &s, const Link &l) { gone_at_requester(s, l, opcode); });
    }
    add("gone.unreliable", gone_unreliable);
    add("prefetch", prefetch);
    add("prefetch_and_dereg", prefetch_and_dereg);
    add("prefetch_refused", prefetch_refused);
    add("destroyed", [seed](const Sides &s, const Link &l) { destroyed(s, l, seed); });
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("On-demand paging.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("odp", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) { add_cases(ktap, sides, options); });
}
