// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Memory windows of type 1 and 2B: what a bound window lets a peer do and what
// not, binding anew, LOCAL_INV and SEND with Invalidate, and each refusal with its
// exact completion and counter. B owns the windows, A is the peer that uses them.
#include "common/memory.hpp"
#include "common/verbs.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <functional>
#include <sstream>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

using Mw = Handle<ibv_mw, ibv_dealloc_mw>;

constexpr std::byte poison{0xa5};
constexpr std::byte payload{0x3c};
constexpr size_t buffer_size = 16 * page_size;
// The region lies inside the buffer and the window inside the region, off the page borders.
constexpr size_t region_at = page_size + 64;
constexpr size_t region_size = 8 * page_size;
constexpr size_t window_at = page_size + 8;
constexpr uint64_t window_size = 2 * page_size + 40;
constexpr unsigned remote_access =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

using Counters = std::map<std::string, long>;

Counters read_counters(const Side &side)
{
    // "link DEV/1 name value name value ..."
    std::istringstream words(
        run_command({"rdma", "statistic", "show", "link", side.device + "/1"}));
    Counters counters;
    std::string name, value;
    words >> name >> name;
    while (words >> name >> value)
        counters[name] = std::strtol(value.c_str(), nullptr, 10);
    return counters;
}

uint32_t next_key(uint32_t key, uint32_t by = 1)
{
    return (key & 0xffffff00) | ((key + by) & 0xff);
}

Mw make_mw(ibv_pd *pd, ibv_mw_type type)
{
    Mw mw(ibv_alloc_mw(pd, type));
    if (!mw)
        fail("ibv_alloc_mw: {}", std::strerror(errno));
    return mw;
}

struct Bench {
    const Sides &sides;
    Link link;
    Pair pair;
    std::optional<Pair> kept;
    Buffer buffer_a{buffer_size};
    Buffer buffer_b{buffer_size};
    Mr mr_a;
    // windows before their region
    Mr mr;
    Mw one;
    Mw two;
    Counters before_a, before_b;

    Bench(const Sides &sides_, const Link &link_, int access = mr_access)
        : sides(sides_), link(link_), pair(new_pair()),
          mr_a(make_mr(sides.a, buffer_a.span(), all_access)),
          mr(make_mr(sides.b, region(), access)),
          one(make_mw(sides.b.pd.get(), IBV_MW_TYPE_1)),
          two(make_mw(sides.b.pd.get(), IBV_MW_TYPE_2))
    {
        poison_all();
        std::fill_n(buffer_a.data(), buffer_size, payload);
        drain_events(sides.a.context.get());
        drain_events(sides.b.context.get());
        before_a = read_counters(sides.a);
        before_b = read_counters(sides.b);
    }

    Pair new_pair() const
    {
        return make_pair(sides, link, {.send_wr = 64, .recv_wr = 64, .send_sge = 2, .recv_sge = 2});
    }
    void poison_all() { std::fill_n(buffer_b.data(), buffer_size, poison); }

    std::span<std::byte> region() const { return buffer_b.span(region_at, region_size); }
    std::span<std::byte> window() const { return region().subspan(window_at, window_size); }
    uint64_t va() const { return reinterpret_cast<uint64_t>(window().data()); }

    // The right bind of a window; cases change what it returns.
    ibv_send_wr bind(const Mw &mw, uint32_t key, unsigned access = remote_access) const
    {
        ibv_send_wr wr{};
        wr.wr_id = 1;
        wr.opcode = IBV_WR_BIND_MW;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.bind_mw.mw = mw.get();
        wr.bind_mw.rkey = key;
        wr.bind_mw.bind_info = {mr.get(), va(), window_size, access};
        return wr;
    }
    static ibv_send_wr invalidate(uint32_t key, ibv_wr_opcode opcode = IBV_WR_LOCAL_INV)
    {
        ibv_send_wr wr{};
        wr.wr_id = 2;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.invalidate_rkey = key;
        return wr;
    }

    void must(Endpoint &end, ibv_send_wr wr, ibv_wc_opcode opcode, const char *what) const
    {
        wr.next = nullptr;
        post_send(end.qp.get(), wr);
        const ibv_wc wc = must_poll(end.send_cq.get(), what);
        check_wc(wc, IBV_WC_SUCCESS, wr.wr_id, end.qp.get(), what);
        require(wc.opcode == opcode, "{}: completion opcode is {}, expected {}", what,
                static_cast<int>(wc.opcode), static_cast<int>(opcode));
    }
    // Binds the type 2 window with the next key and returns that.
    uint32_t must_bind(unsigned access = remote_access)
    {
        const uint32_t key = next_key(two->rkey);
        must(pair.b, bind(two, key, access), IBV_WC_BIND_MW, "bind");
        return key;
    }

    // The type 1 verb; returns the key it gives.
    uint32_t must_bind_one(uint64_t addr, uint64_t length, unsigned access = remote_access)
    {
        ibv_mw_bind request{};
        request.wr_id = 5;
        request.send_flags = IBV_SEND_SIGNALED;
        request.bind_info = {mr.get(), addr, length, access};
        const int error = ibv_bind_mw(pair.b.qp.get(), one.get(), &request);
        require(!error, "ibv_bind_mw: {}", std::strerror(error));
        const ibv_wc wc = must_poll(pair.b.send_cq.get(), "bind");
        check_wc(wc, IBV_WC_SUCCESS, 5, pair.b.qp.get(), "bind");
        require(wc.opcode == IBV_WC_BIND_MW, "bind: completion opcode is {}",
                static_cast<int>(wc.opcode));
        return one->rkey;
    }

    // An RDMA request of A; the status it completes with.
    ibv_wc_status request(Pair &by, ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
                          uint32_t length) const
    {
        ibv_sge sge = sge_of(buffer_a.span(0, length), mr_a.get());
        ibv_send_wr wr = remote_request(opcode, {&sge, 1}, addr, rkey, 1);
        post_send(by.a.qp.get(), wr);
        return must_poll(by.a.send_cq.get(), "request").status;
    }
    ibv_wc_status write(Pair &by, uint32_t rkey, uint64_t addr, uint32_t length) const
    {
        return request(by, IBV_WR_RDMA_WRITE, rkey, addr, length);
    }

    // The whole window takes a WRITE, and nothing beside it changes.
    void expect_works(Pair &by, uint32_t rkey, uint64_t addr)
    {
        poison_all();
        const auto status = write(by, rkey, addr, window_size);
        require(status == IBV_WC_SUCCESS, "a WRITE to the whole window: \"{}\"",
                ibv_wc_status_str(status));
        const auto is = [](std::byte want) { return [want](std::byte b) { return b == want; }; };
        require(std::all_of(window().begin(), window().end(), is(payload)), "wrong data");
        const size_t first = region_at + window_at;
        require(std::all_of(buffer_b.data(), buffer_b.data() + first, is(poison)) &&
                    std::all_of(buffer_b.data() + first + window_size,
                                buffer_b.data() + buffer_size, is(poison)),
                "memory beside the window was written");
        poison_all();
    }
    bool untouched() const
    {
        return std::all_of(buffer_b.data(), buffer_b.data() + buffer_size,
                           [](std::byte b) { return b == poison; });
    }
    // A fresh pair of QPs is refused; an old one would not be the same afterwards.
    void expect_refused(Pair &by, ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
                        uint32_t length, const char *what)
    {
        poison_all();
        const auto status = request(by, opcode, rkey, addr, length);
        require(status == IBV_WC_REM_ACCESS_ERR, "{}: \"{}\", expected a remote access error", what,
                ibv_wc_status_str(status));
        require(untouched(), "{}: refused, but memory changed", what);
    }

    static long moved(const Side &side, Counters before, const char *name)
    {
        require(before.count(name), "{} has no counter {}", side.device, name);
        return read_counters(side).at(name) - before.at(name);
    }
    long moved_a(const char *name) const { return moved(sides.a, before_a, name); }
    long moved_b(const char *name) const { return moved(sides.b, before_b, name); }

    // B's request fails with this status, alone; what is behind flushes.
    void expect_failure(Endpoint &end, ibv_send_wr wr, ibv_wc_status status)
    {
        ibv_send_wr behind = invalidate(0, IBV_WR_SEND);
        behind.wr_id = 77;
        wr.next = &behind;
        post_send(end.qp.get(), wr);
        check_wc(must_poll(end.send_cq.get(), "refused request"), status, wr.wr_id, end.qp.get(),
                 "refused request");
        check_wc(must_poll(end.send_cq.get(), "request behind"), IBV_WC_WR_FLUSH_ERR, 77,
                 end.qp.get(), "request behind");
        require(wait_until(milliseconds(500),
                           [&] { return query_state(end.qp.get()) == IBV_QPS_ERR; }),
                "the QP is not in the error state");
        require(moved_b("req_mem_mgmt_errors") == 1, "req_mem_mgmt_errors moved by {}, expected 1",
                moved_b("req_mem_mgmt_errors"));
    }
};

// ---------------------------------------------------------------------------
// Refused binds

struct Refused {
    const char *name;
    // changes the bind; the bench's window of the given type is unbound
    std::function<void(Bench &, ibv_send_wr &)> spoil;
    int types = 3; // bit 0: type 1, bit 1: type 2
    int access = mr_access;
};

// Objects of a second PD that must outlive the request.
struct Foreign {
    Pd pd;
    Mr mr;
    Mw one, two;
};

const Refused refused_binds[] = {
    {"no_mw_bind", [](Bench &, ibv_send_wr &) {}, 3, all_access},
    {"write_without_local_write",
     [](Bench &, ibv_send_wr &wr) { wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE; },
     3, IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ},
    {"atomic_without_local_write",
     [](Bench &, ibv_send_wr &wr) {
         wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
     },
     3, IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ},
    {"one_byte_past_the_region",
     [](Bench &b, ibv_send_wr &wr) {
         wr.bind_mw.bind_info.addr = reinterpret_cast<uint64_t>(b.region().data());
         wr.bind_mw.bind_info.length = region_size + 1;
     }},
    {"one_byte_before_the_region",
     [](Bench &b, ibv_send_wr &wr) {
         wr.bind_mw.bind_info.addr = reinterpret_cast<uint64_t>(b.region().data()) - 1;
     }},
    {"length_wraps", [](Bench &, ibv_send_wr &wr) { wr.bind_mw.bind_info.length = ~0ull; }},
    {"key_of_another_index", [](Bench &, ibv_send_wr &wr) { wr.bind_mw.rkey ^= 0x10000; }},
    {"access_unknown",
     [](Bench &, ibv_send_wr &wr) { wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ON_DEMAND; }},
    {"zero_based_type_1",
     [](Bench &, ibv_send_wr &wr) { wr.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED; },
     1},
    {"type_1_key_unchanged",
     [](Bench &b, ibv_send_wr &wr) { wr.bind_mw.rkey = b.must_bind_one(b.va(), 8); }, 1},
    {"type_2_length_zero", [](Bench &, ibv_send_wr &wr) { wr.bind_mw.bind_info.length = 0; }, 2},
    {"type_2_bound_already",
     [](Bench &b, ibv_send_wr &wr) { wr.bind_mw.rkey = next_key(b.must_bind(), 1); }, 2},
};

void refused_bind(const Sides &sides, const Link &link, const Refused &row, bool type_2)
{
    Bench b(sides, link, row.access);
    const Mw &mw = type_2 ? b.two : b.one;
    const uint32_t unbound_key = next_key(mw->rkey);
    ibv_send_wr wr = b.bind(mw, unbound_key);
    row.spoil(b, wr);
    b.expect_failure(b.pair.b, wr, IBV_WC_MW_BIND_ERR);
    Pair fresh = b.new_pair();
    if (wr.bind_mw.rkey != b.one->rkey)
        b.expect_refused(fresh, IBV_WR_RDMA_WRITE, wr.bind_mw.rkey, b.va(), 8,
                         "a WRITE by the key of a refused bind");
}

// Objects of a QP, a region or a window that do not fit together: WQEs that the library would not
// write.
void refused_pd(const Sides &sides, const Link &link, bool foreign_window)
{
    Bench b(sides, link);
    Foreign foreign;
    foreign.pd = Pd(ibv_alloc_pd(sides.b.context.get()));
    foreign.mr = Mr(ibv_reg_mr(foreign.pd.get(), b.region().data(), region_size, mr_access));
    require(bool(foreign.mr), "cannot register in a second PD");
    foreign.two = make_mw(foreign.pd.get(), IBV_MW_TYPE_2);
    ibv_send_wr wr = b.bind(b.two, next_key(b.two->rkey));
    if (foreign_window) {
        wr.bind_mw.mw = foreign.two.get();
        wr.bind_mw.rkey = next_key(foreign.two->rkey);
    } else {
        wr.bind_mw.bind_info.mr = foreign.mr.get();
    }
    b.expect_failure(b.pair.b, wr, IBV_WC_MW_BIND_ERR);
}

void refused_lkey(const Sides &sides, const Link &link, bool stale)
{
    Bench b(sides, link);
    ibv_mr copy = *b.mr.get();
    if (stale) {
        b.mr.reset();
        b.mr = make_mr(sides.b, b.region(), mr_access);
    } else {
        copy.lkey ^= 0x7fff0000;
    }
    ibv_send_wr wr = b.bind(b.two, next_key(b.two->rkey));
    wr.bind_mw.bind_info.mr = &copy;
    b.expect_failure(b.pair.b, wr, IBV_WC_MW_BIND_ERR);
}

// ---------------------------------------------------------------------------
// Bound windows

void type_1(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    Pair other = b.new_pair();
    const uint32_t first = b.must_bind_one(b.va(), window_size);
    b.expect_works(b.pair, first, b.va());
    b.expect_works(other, first, b.va()); // any QP of the PD
    note("bind anew");
    const uint32_t second = b.must_bind_one(b.va(), window_size);
    require(second >> 8 == first >> 8 && second != first,
            "keys {:#x} and then {:#x}: only the low 8 bits may and must change", first, second);
    b.expect_works(b.pair, second, b.va());
    b.expect_refused(other, IBV_WR_RDMA_WRITE, first, b.va(), 8, "the key before");
    note("unbind");
    const uint32_t third = b.must_bind_one(b.va(), 0, 0);
    for (const uint32_t key : {second, third}) {
        Pair fresh = b.new_pair();
        b.expect_refused(fresh, IBV_WR_RDMA_WRITE, key, b.va(), 8, "an unbound window");
    }
    b.expect_works(b.pair, b.must_bind_one(b.va(), window_size), b.va());
    require(b.moved_b("resp_remote_access_errors") == 3, "resp_remote_access_errors moved by {}",
            b.moved_b("resp_remote_access_errors"));
    require(b.moved_b("req_mem_mgmt_errors") == 0, "req_mem_mgmt_errors moved");
}

// 300 keys of one window: the variant wraps
void many_rebinds(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    for (int i = 0; i < 300; i++) {
        note(fmt::format("bind {}", i));
        const uint64_t at = b.va() + static_cast<uint64_t>(i) * 8;
        const uint32_t key = b.must_bind_one(at, 8);
        require(b.write(b.pair, key, at, 8) == IBV_WC_SUCCESS, "refused");
    }
}

void bounds(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind_one(b.va(), window_size);
    const struct {
        uint64_t addr;
        uint32_t length;
    } outside[] = {
        {b.va() + window_size, 1},
        {b.va() + window_size - 7, 8},
        {b.va() - 1, 1},
        {b.va() - 1, window_size},
        {b.va(), window_size + 1},
        {reinterpret_cast<uint64_t>(b.region().data()), 8},
        {0, 8},
    };
    for (const auto &[addr, length] : outside)
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            Pair fresh = b.new_pair();
            b.expect_refused(fresh, opcode, key, addr, length, "out of bounds");
        }
    b.expect_works(b.pair, key, b.va());
}

// Each right alone, over a region that itself grants the peer nothing.
void rights(const Sides &sides, const Link &link)
{
    constexpr std::pair<unsigned, ibv_wr_opcode> table[] = {
        {IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
        {IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
        {IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD},
    };
    Bench b(sides, link);
    const uint64_t aligned = (b.va() + 7) & ~uint64_t{7};
    for (const auto &[right, own] : table) {
        const uint32_t key = b.must_bind_one(b.va(), window_size, right);
        for (const auto &[unused, opcode] : table) {
            Pair fresh = b.new_pair();
            if (opcode == own)
                require(b.request(fresh, opcode, key, aligned, 8) == IBV_WC_SUCCESS,
                        "refused with the right it needs");
            else
                b.expect_refused(fresh, opcode, key, aligned, 8, "without the right");
        }
    }
    Pair fresh = b.new_pair();
    b.expect_refused(fresh, IBV_WR_RDMA_WRITE, b.mr->rkey, b.va(), 8, "the region's own key");
}

void zero_based(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind(remote_access | IBV_ACCESS_ZERO_BASED);
    b.expect_works(b.pair, key, 0);
    require(b.request(b.pair, IBV_WR_RDMA_READ, key, window_size - 8, 8) == IBV_WC_SUCCESS,
            "the last bytes were refused");
    b.expect_refused(b.pair, IBV_WR_RDMA_WRITE, key, b.va(), 8, "the region's address");
}

// A window on a region whose addresses are not the application's.
void iova(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    // the core wants the same offset in the page
    const uint64_t start = 0x7ffffff000 + region_at % page_size;
    b.mr = make_mr_iova(sides.b, b.region(), start, mr_access);
    ibv_send_wr wr = b.bind(b.two, next_key(b.two->rkey));
    wr.bind_mw.bind_info = {b.mr.get(), start + window_at, window_size, remote_access};
    b.must(b.pair.b, wr, IBV_WC_BIND_MW, "bind");
    b.expect_works(b.pair, wr.bind_mw.rkey, start + window_at);
}

void rkey_is_no_lkey(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind();
    ibv_sge sge = sge_of(b.window().first(8), b.mr.get());
    sge.lkey = key;
    ibv_send_wr wr = Bench::invalidate(0, IBV_WR_SEND);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    post_recv(b.pair.a.qp.get(), 1, {});
    post_send(b.pair.b.qp.get(), wr);
    check_wc(must_poll(b.pair.b.send_cq.get(), "send"), IBV_WC_LOC_PROT_ERR, 2, b.pair.b.qp.get(),
             "send");
}

void type_2_of_one_qp(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    Pair other = b.new_pair();
    const uint32_t key = b.must_bind();
    b.expect_works(b.pair, key, b.va());
    b.expect_refused(other, IBV_WR_RDMA_WRITE, key, b.va(), 8, "a QP that did not bind it");
    b.expect_works(b.pair, key, b.va());
}

void type_2_dies_with_its_qp(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind();
    b.pair.a.qp.reset();
    b.pair.b.qp.reset();
    b.pair = b.new_pair();
    b.expect_refused(b.pair, IBV_WR_RDMA_WRITE, key, b.va(), 8, "a later QP");
    require(b.mr.try_reset() == EBUSY, "the region went away under a bound window");
}

void region_stays(const Sides &sides, const Link &link, bool by_dealloc)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind_one(b.va(), window_size);
    int error = b.mr.try_reset();
    require(error == EBUSY, "deregistration under a bound window returned {}", std::strerror(error));
    b.expect_works(b.pair, key, b.va());
    if (by_dealloc)
        b.one.reset();
    else
        b.must_bind_one(b.va(), 0, 0);
    error = b.mr.try_reset();
    require(!error, "deregistration after the last window: {}", std::strerror(error));
    b.expect_refused(b.pair, IBV_WR_RDMA_WRITE, key, b.va(), 8, "a window without a region");
}

void dealloc_bound(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind();
    b.expect_works(b.pair, key, b.va());
    b.two.reset();
    b.expect_refused(b.pair, IBV_WR_RDMA_WRITE, key, b.va(), 8, "a window that is no more");
    const int error = b.mr.try_reset();
    require(!error, "deregistration after the window: {}", std::strerror(error));
}

// ---------------------------------------------------------------------------
// Invalidation

void local_inv(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const uint32_t first = b.must_bind();
    b.expect_works(b.pair, first, b.va()); // and is in the QP's translation cache now
    b.must(b.pair.b, Bench::invalidate(first), IBV_WC_LOCAL_INV, "LOCAL_INV");
    const uint32_t second = next_key(first);
    b.must(b.pair.b, b.bind(b.two, second), IBV_WC_BIND_MW, "bind anew");
    b.expect_works(b.pair, second, b.va());
    b.expect_refused(b.pair, IBV_WR_RDMA_WRITE, first, b.va(), 8, "the key before");
    require(b.moved_b("resp_remote_access_errors") == 1, "counter");
}

void local_inv_read(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind();
    require(b.request(b.pair, IBV_WR_RDMA_READ, key, b.va(), 4000) == IBV_WC_SUCCESS, "refused");
    b.must(b.pair.b, Bench::invalidate(key), IBV_WC_LOCAL_INV, "LOCAL_INV");
    b.expect_refused(b.pair, IBV_WR_RDMA_READ, key, b.va(), 4000, "an invalidated key");
}

// What cannot be invalidated, from here and from afar.
struct Uninvalidatable {
    const char *name;
    std::function<uint32_t(Bench &)> key;
    bool remote = true;
};

const Uninvalidatable uninvalidatable[] = {
    {"unknown", [](Bench &b) { return b.two->rkey ^ 0x7fff0000; }},
    {"zero", [](Bench &) { return 0u; }},
    {"region", [](Bench &b) { return b.mr->rkey; }},
    {"type_1", [](Bench &b) { return b.must_bind_one(b.va(), window_size); }},
    {"not_bound", [](Bench &b) { return b.two->rkey; }},
    {"other_variant", [](Bench &b) { return next_key(b.must_bind()); }},
    {"twice",
     [](Bench &b) {
         const uint32_t key = b.must_bind();
         b.must(b.pair.b, Bench::invalidate(key), IBV_WC_LOCAL_INV, "LOCAL_INV");
         return key;
     }},
    {"bound_by_another_qp",
     [](Bench &b) {
         const uint32_t key = b.must_bind();
         b.kept = std::exchange(b.pair, b.new_pair());
         return key;
     }},
};

void refused_local_inv(const Sides &sides, const Link &link, const Uninvalidatable &row)
{
    Bench b(sides, link);
    const uint32_t key = row.key(b);
    b.expect_failure(b.pair.b, Bench::invalidate(key), IBV_WC_MW_BIND_ERR);
}

ibv_wc receive(Endpoint &end, ibv_wc_status status, uint64_t id)
{
    const ibv_wc wc = must_poll(end.recv_cq.get(), "receive");
    check_wc(wc, status, id, end.qp.get(), "receive");
    return wc;
}

void send_with_inv(const Sides &sides, const Link &link, uint32_t length)
{
    Bench b(sides, link);
    const uint32_t key = b.must_bind();
    b.expect_works(b.pair, key, b.va());
    Buffer inbox(buffer_size);
    Mr inbox_mr = make_mr(sides.b, inbox.span(), IBV_ACCESS_LOCAL_WRITE);
    std::array room{sge_of(inbox.span(), inbox_mr.get())};
    post_recv(b.pair.b.qp.get(), 31, room);
    ibv_sge sge = sge_of(b.buffer_a.span(0, length), b.mr_a.get());
    ibv_send_wr wr = Bench::invalidate(key, IBV_WR_SEND_WITH_INV);
    wr.sg_list = &sge;
    wr.num_sge = length ? 1 : 0;
    b.must(b.pair.a, wr, IBV_WC_SEND, "SEND with Invalidate");
    const ibv_wc wc = receive(b.pair.b, IBV_WC_SUCCESS, 31);
    require(wc.opcode == IBV_WC_RECV && wc.wc_flags == IBV_WC_WITH_INV &&
                wc.invalidated_rkey == key && wc.byte_len == length,
            "opcode {} flags {:#x} key {:#x} length {}", static_cast<int>(wc.opcode), wc.wc_flags,
            wc.invalidated_rkey, wc.byte_len);
    require(std::all_of(inbox.data(), inbox.data() + length,
                        [](std::byte byte) { return byte == payload; }), "wrong data");
    // unbound without B's doing: it may be bound anew
    const uint32_t second = next_key(key);
    b.must(b.pair.b, b.bind(b.two, second), IBV_WC_BIND_MW, "bind anew");
    b.expect_works(b.pair, second, b.va());
    b.expect_refused(b.pair, IBV_WR_RDMA_WRITE, key, b.va(), 8, "an invalidated key");
}

void refused_send_with_inv(const Sides &sides, const Link &link, const Uninvalidatable &row)
{
    Bench b(sides, link);
    const uint32_t key = row.key(b);
    post_recv(b.pair.b.qp.get(), 31, {});
    post_recv(b.pair.b.qp.get(), 32, {});
    ibv_send_wr wr = Bench::invalidate(key, IBV_WR_SEND_WITH_INV);
    post_send(b.pair.a.qp.get(), wr);
    check_wc(must_poll(b.pair.a.send_cq.get(), "send"), IBV_WC_REM_ACCESS_ERR, 2,
             b.pair.a.qp.get(), "send");
    receive(b.pair.b, IBV_WC_LOC_ACCESS_ERR, 31);
    receive(b.pair.b, IBV_WC_WR_FLUSH_ERR, 32);
    require(b.moved_b("resp_remote_access_errors") == 1 && b.moved_b("req_mem_mgmt_errors") == 0 &&
                b.moved_a("req_remote_access_errors") == 1,
            "counters");
    require(query_state(b.pair.b.qp.get()) == IBV_QPS_ERR, "the responder is not in error");
    require(!next_event(sides.b.context.get(), milliseconds(20)),
            "an event beside the completion that tells");
}

// ---------------------------------------------------------------------------
// Order

// One post: take the key back, give a new one, tell the peer; completions in order.
void chain(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    uint32_t key = b.must_bind();
    Buffer box(page_size), inbox(page_size);
    Mr box_mr = make_mr(sides.b, box.span(), IBV_ACCESS_LOCAL_WRITE);
    Mr inbox_mr = make_mr(sides.a, inbox.span(), IBV_ACCESS_LOCAL_WRITE);
    for (int i = 0; i < 600; i++) {
        note(fmt::format("round {}", i));
        const uint32_t next = next_key(key);
        std::array room{sge_of(inbox.span(0, 4), inbox_mr.get())};
        post_recv(b.pair.a.qp.get(), 1, room);
        std::memcpy(box.data(), &next, sizeof(next));
        ibv_sge sge = sge_of(box.span(0, 4), box_mr.get());
        ibv_send_wr inv = Bench::invalidate(key);
        inv.wr_id = 10;
        ibv_send_wr bind = b.bind(b.two, next);
        bind.wr_id = 11;
        bind.send_flags = 0;
        ibv_send_wr tell = Bench::invalidate(0, IBV_WR_SEND);
        tell.wr_id = 12;
        tell.sg_list = &sge;
        tell.num_sge = 1;
        inv.next = &bind;
        bind.next = &tell;
        post_send(b.pair.b.qp.get(), inv);
        receive(b.pair.a, IBV_WC_SUCCESS, 1);
        uint32_t told;
        std::memcpy(&told, inbox.data(), sizeof(told));
        const auto status = b.write(b.pair, told, b.va(), 2000);
        require(status == IBV_WC_SUCCESS, "refused: {}", ibv_wc_status_str(status));
        for (const uint64_t id : {10, 12})
            check_wc(must_poll(b.pair.b.send_cq.get(), "chain"), IBV_WC_SUCCESS, id,
                     b.pair.b.qp.get(), "chain");
        must_be_empty(b.pair.b.send_cq.get(), "unsignaled bind");
        key = next;
    }
}

// Local operations between messages that are acknowledged late: nothing overtakes.
void between_messages(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    Mr target = make_mr(sides.a, b.buffer_a.span(), all_access);
    uint32_t key = b.two->rkey;
    std::vector<ibv_send_wr> wrs;
    std::vector<ibv_sge> sges;
    sges.reserve(64);
    for (int i = 0; i < 12; i++) {
        sges.push_back(sge_of(b.region().first(i % 2 ? 5000 : 64), b.mr.get()));
        ibv_send_wr wr{};
        wr.opcode = i % 3 == 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
        wr.sg_list = &sges.back();
        wr.num_sge = 1;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(b.buffer_a.data());
        wr.wr.rdma.rkey = target->rkey;
        wrs.push_back(wr);
        key = next_key(key);
        wrs.push_back(b.bind(b.two, key));
        if (i % 4 == 1)
            wrs.back().send_flags |= IBV_SEND_FENCE;
        wrs.push_back(Bench::invalidate(key));
    }
    for (size_t i = 0; i < wrs.size(); i++) {
        wrs[i].wr_id = 100 + i;
        wrs[i].next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
    }
    post_send(b.pair.b.qp.get(), wrs[0]);
    for (size_t i = 0; i < wrs.size(); i++)
        check_wc(must_poll(b.pair.b.send_cq.get(), "queue"), IBV_WC_SUCCESS, 100 + i,
                 b.pair.b.qp.get(), "queue");
    must_be_empty(b.pair.b.send_cq.get(), "queue");
}

void attributes(const Sides &sides, const Link &)
{
    const ibv_device_attr &attr = sides.b.attr;
    constexpr unsigned needed = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
        IBV_DEVICE_MEM_MGT_EXTENSIONS;
    require((attr.device_cap_flags & needed) == needed, "device_cap_flags {:#x}",
            attr.device_cap_flags);
    require(!(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A),
            "a device has windows of type 2A or 2B, not both");
    require(attr.max_mw > 0, "max_mw is {}", attr.max_mw);
    std::vector<Mw> many;
    for (int i = 0; i < 1000; i++)
        many.push_back(make_mw(sides.b.pd.get(), i % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2));
    require(!ibv_alloc_mw(sides.b.pd.get(), static_cast<ibv_mw_type>(3)), "a window of type 3");
}

// A program that dies with bound windows, its regions younger than they: the kernel must let go in
// the right order.
void killed(const Sides &sides, const Link &link)
{
    const auto counts = [&] {
        auto all = resource_counts(sides.b.device);
        return std::array{all["mr"], all["qp"], all["pd"], all["cq"]};
    };
    const auto before = counts();
    const pid_t child = fork();
    require(child >= 0, "fork: {}", std::strerror(errno));
    if (child == 0) {
        try {
            Sides own{open_side("A", sides.a.device, "", sides.a.port),
                      open_side("B", sides.b.device, "", sides.b.port)};
            own.a.gid = sides.a.gid;
            own.a.gid_index = sides.a.gid_index;
            own.b.gid = sides.b.gid;
            own.b.gid_index = sides.b.gid_index;
            Bench b(own, link);
            b.mr = make_mr(own.b, b.region(), mr_access);
            b.must_bind();
            b.must_bind_one(b.va(), window_size);
            raise(SIGKILL);
        } catch (const std::exception &error) {
            fmt::print("# {}\n", error.what());
        }
        _exit(1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the program ended by itself: {:#x}",
            status);
    require(wait_until(milliseconds(5000), [&] { return counts() == before; }),
            "objects of the dead program remain");
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options)
{
    const Link link = link_from(options);
    const auto add = [&](std::string name, auto run) {
        ktap.add(std::move(name), [&sides, link, run] { run(sides, link); });
    };
    add("attributes", attributes);
    for (const Refused &row : refused_binds)
        for (const bool type_2 : {false, true})
            if (row.types & (type_2 ? 2 : 1))
                add(fmt::format("bind_refused.{}.type_{}", row.name, type_2 ? 2 : 1),
                    [&row, type_2](const Sides &s, const Link &l) { refused_bind(s, l, row, type_2); });
    add("bind_refused.region_of_another_pd",
        [](const Sides &s, const Link &l) { refused_pd(s, l, false); });
    add("bind_refused.window_of_another_pd",
        [](const Sides &s, const Link &l) { refused_pd(s, l, true); });
    add("bind_refused.lkey_unknown", [](const Sides &s, const Link &l) { refused_lkey(s, l, false); });
    add("bind_refused.lkey_stale", [](const Sides &s, const Link &l) { refused_lkey(s, l, true); });
    add("type_1.bind_rebind_unbind", type_1);
    add("type_1.many_rebinds", many_rebinds);
    add("bounds", bounds);
    add("rights", rights);
    add("zero_based", zero_based);
    add("iova", iova);
    add("rkey_is_no_lkey", rkey_is_no_lkey);
    add("type_2.of_one_qp", type_2_of_one_qp);
    add("type_2.dies_with_its_qp", type_2_dies_with_its_qp);
    add("region_stays.until_unbind", [](const Sides &s, const Link &l) { region_stays(s, l, false); });
    add("region_stays.until_dealloc", [](const Sides &s, const Link &l) { region_stays(s, l, true); });
    add("dealloc_bound", dealloc_bound);
    add("local_inv", local_inv);
    add("local_inv.read", local_inv_read);
    for (const Uninvalidatable &row : uninvalidatable) {
        add(fmt::format("local_inv_refused.{}", row.name),
            [&row](const Sides &s, const Link &l) { refused_local_inv(s, l, row); });
        add(fmt::format("send_with_inv_refused.{}", row.name),
            [&row](const Sides &s, const Link &l) { refused_send_with_inv(s, l, row); });
    }
    for (const uint32_t length : {0u, 100u, 5000u})
        add(fmt::format("send_with_inv.{}_bytes", length),
            [length](const Sides &s, const Link &l) { send_with_inv(s, l, length); });
    add("order.chain", chain);
    add("order.between_messages", between_messages);
    add("killed", killed);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Memory windows and the invalidation of their keys.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("mw", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) { add_cases(ktap, sides, options); });
}
