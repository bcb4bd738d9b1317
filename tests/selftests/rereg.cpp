// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Re-registration of memory regions: PD, rights and memory, alone and together, what becomes of
// the keys, what is refused and leaves the region as it was, and changes while the peer writes
// and reads. B owns the region, A is the peer.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/uverbs.hpp"
#include "common/verbs.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

constexpr unsigned change_memory = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr unsigned change_pd = IBV_REREG_MR_CHANGE_PD;
constexpr unsigned change_access = IBV_REREG_MR_CHANGE_ACCESS;

constexpr std::byte poison{0xa5};
constexpr size_t buffer_size = 64 * page_size;

bool holds_only(std::span<const std::byte> memory, std::byte value)
{
    return std::all_of(memory.begin(), memory.end(), [value](std::byte b) { return b == value; });
}

void poison_all(const Buffer &buffer)
{
    std::fill_n(buffer.data(), buffer.size(), poison);
}

struct Bench {
    const Sides &sides;
    Link link;
    // outlives the region that moves into it
    Pd pd;
    Buffer from{buffer_size};
    Buffer first{buffer_size};
    Buffer second{buffer_size};
    Mr mr_a;
    Mr mr;

    Bench(const Sides &sides_, const Link &link_, int access = all_access)
        : sides(sides_), link(link_), pd(ibv_alloc_pd(sides.b.context.get())),
          mr_a(make_mr(sides.a, from.span(), all_access)),
          mr(make_mr(sides.b, first.span(), access))
    {
        require(bool(pd), "ibv_alloc_pd: {}", std::strerror(errno));
        fill_pattern(from.span(), 1);
        poison_all(first);
        poison_all(second);
    }

    void must_rereg(unsigned flags, const Rereg &want)
    {
        const int error = rereg_mr(mr.get(), flags, want);
        require(!error, "rereg with flags {}: {}", flags, std::strerror(error));
    }
    void must_fail(unsigned flags, const Rereg &want, int expected, const char *what)
    {
        const uint32_t lkey = mr->lkey, rkey = mr->rkey;
        const int error = rereg_mr(mr.get(), flags, want);
        require(error == expected, "{}: \"{}\", expected \"{}\"", what, std::strerror(error),
                std::strerror(expected));
        require(mr->lkey == lkey && mr->rkey == rkey, "{}: the keys changed", what);
    }

    // B's QP in another PD than its side's
    Pair pair_in(ibv_pd *other) const
    {
        Pair pair = make_pair(sides, link);
        if (!other)
            return pair;
        ibv_qp_init_attr init{};
        init.qp_type = IBV_QPT_RC;
        init.send_cq = pair.b.send_cq.get();
        init.recv_cq = pair.b.recv_cq.get();
        init.cap = {64, 64, 1, 1, 0};
        pair.b.qp = Qp(ibv_create_qp(other, &init));
        require(bool(pair.b.qp), "ibv_create_qp in another PD: {}", std::strerror(errno));
        must_modify(pair.a.qp.get(), state_step(IBV_QPS_RESET), "to RESET");
        connect(sides.a, pair.a.qp.get(), sides.b, pair.b.qp.get(), link);
        return pair;
    }

    ibv_wc_status request(Pair &pair, ibv_wr_opcode opcode, uint32_t rkey, void *addr,
                          uint32_t length = 8) const
    {
        ibv_sge sge = sge_of(from.span(0, length), mr_a.get());
        ibv_send_wr wr = remote_request(opcode, {&sge, 1}, reinterpret_cast<uint64_t>(addr), rkey, 1);
        post_send(pair.a.qp.get(), wr);
        return must_poll(pair.a.send_cq.get(), "request").status;
    }

    // by a fresh pair of QPs: a refusal ends it
    void expect(ibv_pd *qp_pd, ibv_wr_opcode opcode, uint32_t rkey, void *addr, ibv_wc_status want,
                const char *what) const
    {
        Pair pair = pair_in(qp_pd);
        const ibv_wc_status status = request(pair, opcode, rkey, addr);
        require(status == want, "{}: \"{}\", expected \"{}\"", what, ibv_wc_status_str(status),
                ibv_wc_status_str(want));
        drain_events(sides.b.context.get());
    }
    void expect_write(const Buffer &into, const char *what)
    {
        poison_all(first);
        poison_all(second);
        Pair pair = pair_in(mr->pd == pd.get() ? pd.get() : nullptr);
        const auto status = request(pair, IBV_WR_RDMA_WRITE, mr->rkey, into.data(), buffer_size);
        require(status == IBV_WC_SUCCESS, "{}: a WRITE: \"{}\"", what, ibv_wc_status_str(status));
        require(std::ranges::equal(into.span(), from.span()), "{}: wrong data", what);
        require(holds_only((&into == &first ? second : first).span(), poison),
                "{}: the other buffer was written", what);
    }
};

void flags_together(const Sides &sides, const Link &link, unsigned flags)
{
    Bench b(sides, link, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    const uint32_t old_rkey = b.mr->rkey, old_lkey = b.mr->lkey;
    Pair before = b.pair_in(nullptr);
    // so that the cache of its QP knows the region
    require(b.request(before, IBV_WR_RDMA_WRITE, old_rkey, b.first.data()) == IBV_WC_SUCCESS,
            "a WRITE before");
    b.must_rereg(flags, {b.pd.get(), b.second.span(), all_access});

    const bool moved = flags & change_memory;
    ibv_pd *const qp_pd = flags & change_pd ? b.pd.get() : nullptr;
    void *const addr = moved ? b.second.data() : b.first.data();
    if (moved)
        require(b.mr->rkey != old_rkey && b.mr->lkey != old_lkey, "new memory, old keys");
    else
        require(b.mr->rkey == old_rkey && b.mr->lkey == old_lkey, "same memory, other keys");
    // the QP that knew it before
    poison_all(b.first);
    const auto status = b.request(before, IBV_WR_RDMA_WRITE, b.mr->rkey, addr);
    require(status == (flags & change_pd ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS),
            "a WRITE by a QP that has cached it: \"{}\"", ibv_wc_status_str(status));
    b.expect_write(moved ? b.second : b.first, "after");
    b.expect(qp_pd, IBV_WR_RDMA_READ, b.mr->rkey, addr,
             flags & change_access ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR, "a READ");
    b.expect(qp_pd, IBV_WR_ATOMIC_FETCH_AND_ADD, b.mr->rkey, addr,
             flags & change_access ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR, "an atomic");
    if (flags & change_pd)
        b.expect(nullptr, IBV_WR_RDMA_WRITE, b.mr->rkey, addr, IBV_WC_REM_ACCESS_ERR,
                 "a WRITE by a QP of the old PD");
    if (moved) {
        poison_all(b.first);
        b.expect(nullptr, IBV_WR_RDMA_WRITE, old_rkey, b.first.data(), IBV_WC_REM_ACCESS_ERR,
                 "a WRITE by the old key");
        b.expect(qp_pd, IBV_WR_RDMA_WRITE, b.mr->rkey, b.first.data(), IBV_WC_REM_ACCESS_ERR,
                 "a WRITE to the old address");
        require(holds_only(b.first.span(), poison), "the old memory was written");
    }
}

// Each right alone is granted and taken away.
void rights(const Sides &sides, const Link &link)
{
    Bench b(sides, link, IBV_ACCESS_LOCAL_WRITE);
    const struct {
        unsigned access;
        ibv_wr_opcode opcode;
    } rows[] = {
        {IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE},
        {IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ},
        {IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD},
    };
    for (const auto &granted : rows) {
        b.must_rereg(change_access, {nullptr, {}, IBV_ACCESS_LOCAL_WRITE | granted.access});
        for (const auto &tried : rows)
            b.expect(nullptr, tried.opcode, b.mr->rkey, b.first.data(),
                     tried.opcode == granted.opcode ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR,
                     fmt::format("granted {:#x}, opcode {}", granted.access,
                                 static_cast<int>(tried.opcode)).c_str());
    }
}

// Memory that may only be read was pinned for reading: writing it needs pages of its own.
void writable_later(const Sides &sides, const Link &link)
{
    Bench b(sides, link, IBV_ACCESS_REMOTE_READ);
    b.must_rereg(change_access, {nullptr, {}, all_access});
    b.expect_write(b.first, "writable");
    b.must_rereg(change_access, {nullptr, {}, IBV_ACCESS_REMOTE_READ});
    b.expect(nullptr, IBV_WR_RDMA_WRITE, b.mr->rkey, b.first.data(), IBV_WC_REM_ACCESS_ERR,
             "a WRITE, read-only again");
    b.expect(nullptr, IBV_WR_RDMA_READ, b.mr->rkey, b.first.data(), IBV_WC_SUCCESS, "a READ");
}

// Pages shared with nobody but pinned for reading: a mapping that cannot be written stays as it is.
void not_writable(const Sides &sides, const Link &link)
{
    Bench b(sides, link, IBV_ACCESS_REMOTE_READ);
    require(!mprotect(b.first.data(), b.first.size(), PROT_READ), "mprotect");
    b.must_fail(change_access, {nullptr, {}, all_access}, EFAULT, "rights to write read-only memory");
    b.expect(nullptr, IBV_WR_RDMA_READ, b.mr->rkey, b.first.data(), IBV_WC_SUCCESS, "a READ");
    b.expect(nullptr, IBV_WR_RDMA_WRITE, b.mr->rkey, b.first.data(), IBV_WC_REM_ACCESS_ERR,
             "a WRITE");
    require(!mprotect(b.first.data(), b.first.size(), PROT_READ | PROT_WRITE), "mprotect");
}

// What a receive WQE names is looked at when the message comes.
void posted_receive(const Sides &sides, const Link &link, unsigned flags)
{
    Bench b(sides, link);
    Pair pair = make_pair(sides, link);
    ibv_sge to = sge_of(b.first.span(0, 64), b.mr.get());
    post_recv(pair.b.qp.get(), 5, {&to, 1});
    b.must_rereg(flags, {b.pd.get(), b.second.span(), IBV_ACCESS_REMOTE_READ});
    ibv_sge sge = sge_of(b.from.span(0, 64), b.mr_a.get());
    ibv_send_wr wr{};
    wr.wr_id = 6;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    post_send(pair.a.qp.get(), wr);
    check_wc(must_poll(pair.a.send_cq.get(), "SEND"), IBV_WC_REM_OP_ERR, 6, pair.a.qp.get(), "SEND");
    check_wc(must_poll(pair.b.recv_cq.get(), "receive"), IBV_WC_LOC_PROT_ERR, 5, pair.b.qp.get(),
             "receive");
    require(holds_only(b.first.span(), poison) && holds_only(b.second.span(), poison),
            "refused, but memory changed");
    drain_events(sides.b.context.get());
}

void refused(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    void *const hole = mmap(nullptr, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const std::span<std::byte> nowhere(static_cast<std::byte *>(hole), page_size);
    b.must_fail(0, {}, EINVAL, "no flags");
    b.must_fail(8, {}, EOPNOTSUPP, "an unknown flag");
    b.must_fail(change_memory, {nullptr, nowhere, 0}, EFAULT, "memory that is not there");
    b.must_fail(change_access, {nullptr, {}, IBV_ACCESS_REMOTE_WRITE}, EINVAL,
                "REMOTE_WRITE without LOCAL_WRITE");
    b.must_fail(change_memory,
                {nullptr, std::span<std::byte>(b.first.data(), size_t{1} << 41), 0}, EINVAL,
                "more than max_mr_size");
    munmap(hole, page_size);
    b.expect_write(b.first, "after all that");
}

// Windows have rights and page table of their region.
void windows_bound(const Sides &sides, const Link &link)
{
    Bench b(sides, link, all_access | IBV_ACCESS_MW_BIND);
    Handle<ibv_mw, ibv_dealloc_mw> mw(ibv_alloc_mw(sides.b.pd.get(), IBV_MW_TYPE_1));
    require(bool(mw), "ibv_alloc_mw: {}", std::strerror(errno));
    Pair pair = make_pair(sides, link);
    ibv_mw_bind bind{};
    bind.wr_id = 5;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {b.mr.get(), reinterpret_cast<uint64_t>(b.first.data()), page_size,
                      IBV_ACCESS_REMOTE_WRITE};
    require(!ibv_bind_mw(pair.b.qp.get(), mw.get(), &bind), "ibv_bind_mw");
    check_wc(must_poll(pair.b.send_cq.get(), "bind"), IBV_WC_SUCCESS, 5, pair.b.qp.get(), "bind");
    b.must_fail(change_access, {nullptr, {}, all_access}, EBUSY, "rights while a window is bound");
    b.must_fail(change_memory, {nullptr, b.second.span(), 0}, EBUSY, "memory while a window is bound");
    b.must_fail(change_pd, {b.pd.get(), {}, 0}, EBUSY, "PD while a window is bound");
    require(b.request(pair, IBV_WR_RDMA_WRITE, mw->rkey, b.first.data()) == IBV_WC_SUCCESS,
            "a WRITE through the window");
    mw.reset();
    b.must_rereg(change_access | change_memory, {nullptr, b.second.span(), all_access});
    b.expect_write(b.second, "without the window");
}

// A child that has inherited the context has other pages at the address.
void other_process(const Sides &sides, const Link &link)
{
    Bench b(sides, link, IBV_ACCESS_REMOTE_READ);
    const pid_t child = fork();
    require(child >= 0, "fork");
    if (!child)
        _exit(rereg_mr(b.mr.get(), change_access, {nullptr, {}, all_access}));
    int status = 0;
    require(waitpid(child, &status, 0) == child && WIFEXITED(status), "waitpid");
    require(WEXITSTATUS(status) == EPERM, "in a child: \"{}\", expected EPERM",
            std::strerror(WEXITSTATUS(status)));
    b.must_rereg(change_access, {nullptr, {}, all_access});
    b.expect_write(b.first, "in the parent");
}

// ---------------------------------------------------------------------------
// Under traffic

// A keeps a few WRITEs (or READs) of the whole buffer in flight until something ends them.
class Stream {
public:
    Stream(Bench &bench, ibv_wr_opcode opcode)
        : bench_(bench), pair_(make_pair(bench.sides, bench.link)), opcode_(opcode),
          thread_([this] { run(); })
    {
    }
    ~Stream()
    {
        stop_ = true;
        thread_.join();
    }
    uint64_t done() const { return done_; }
    // of the request that failed; success while none has
    ibv_wc_status status() const { return status_; }

private:
    void post(uint64_t id)
    {
        ibv_sge sge = sge_of(bench_.from.span(), bench_.mr_a.get());
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.opcode = opcode_;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = addr_;
        wr.wr.rdma.rkey = rkey_;
        ibv_send_wr *bad;
        if (ibv_post_send(pair_.a.qp.get(), &wr, &bad))
            report_failure("ibv_post_send failed");
    }
    void run()
    {
        for (int i = 0; i < 4; i++)
            post(0);
        for (int left = 4; left;) {
            ibv_wc wc;
            if (ibv_poll_cq(pair_.a.send_cq.get(), 1, &wc) < 1)
                continue;
            left--;
            if (wc.status == IBV_WC_SUCCESS)
                done_++;
            else if (status_ == IBV_WC_SUCCESS)
                status_ = wc.status;
            if (!stop_ && status_ == IBV_WC_SUCCESS) {
                post(0);
                left++;
            }
        }
    }

    Bench &bench_;
    Pair pair_;
    ibv_wr_opcode opcode_;
    uint64_t addr_ = reinterpret_cast<uint64_t>(bench_.first.data());
    uint32_t rkey_ = bench_.mr->rkey;
    std::atomic<bool> stop_ = false;
    std::atomic<uint64_t> done_ = 0;
    std::atomic<ibv_wc_status> status_ = IBV_WC_SUCCESS;
    std::thread thread_;
};

void must_flow(const Stream &stream, uint64_t more)
{
    const uint64_t before = stream.done();
    require(wait_until(std::chrono::seconds(20),
                       [&] { return stream.done() >= before + more ||
                                    stream.status() != IBV_WC_SUCCESS; }),
            "no traffic");
    require(stream.status() == IBV_WC_SUCCESS, "traffic ended with \"{}\"",
            ibv_wc_status_str(stream.status()));
}

// Changes that leave the peer its rights are not seen by it.
void traffic_goes_on(const Sides &sides, const Link &link, ibv_wr_opcode opcode)
{
    Bench b(sides, link, all_access);
    {
        Stream stream(b, opcode);
        must_flow(stream, 1);
        const auto end = Clock::now() + milliseconds(1500);
        int changes = 0;
        while (Clock::now() < end || changes < 50) {
            b.must_rereg(change_access, {nullptr, {}, changes % 2
                         ? unsigned{all_access}
                         : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ});
            changes++;
        }
        must_flow(stream, 1);
        diag(fmt::format("{} changes of rights during {} messages", changes, stream.done()));
    }
    if (opcode == IBV_WR_RDMA_WRITE)
        require(std::ranges::equal(b.first.span(), b.from.span()), "wrong data");
}

// Once the call has returned, what was taken away is not used: not one byte more.
void traffic_ends(const Sides &sides, const Link &link, ibv_wr_opcode opcode, unsigned flags)
{
    for (int round = 0; round < 8; round++) {
        Bench b(sides, link, all_access);
        Stream stream(b, opcode);
        must_flow(stream, 1);
        b.must_rereg(flags, {b.pd.get(), b.second.span(), IBV_ACCESS_LOCAL_WRITE});
        if (opcode == IBV_WR_RDMA_WRITE) {
            poison_all(b.first);
        } else {
            // READs must not bring what was stored afterwards
            fill_pattern(b.first.span(), 2);
        }
        require(wait_until(std::chrono::seconds(20),
                           [&] { return stream.status() != IBV_WC_SUCCESS; }),
                "the peer goes on");
        require(stream.status() == IBV_WC_REM_ACCESS_ERR, "traffic ended with \"{}\"",
                ibv_wc_status_str(stream.status()));
        if (opcode == IBV_WR_RDMA_WRITE) {
            require(holds_only(b.first.span(), poison), "written after the right was taken away");
        } else {
            std::vector<std::byte> later(buffer_size);
            fill_pattern(later, 2);
            for (size_t at = 0; at < buffer_size; at += 64)
                require(std::memcmp(b.from.data() + at, later.data() + at, 64),
                        "read after the right was taken away, at {}", at);
        }
        require(holds_only(b.second.span(), poison), "a message went on in the new memory");
        drain_events(sides.b.context.get());
    }
}

void nothing_left(const Sides &sides, const Link &link)
{
    const auto before = resource_counts(sides.b.device);
    {
        Bench b(sides, link);
        for (int i = 0; i < 1000; i++)
            b.must_rereg(i % 2 ? change_access : change_memory,
                         {nullptr, i % 4 ? b.second.span() : b.first.span(), all_access});
        const auto during = resource_counts(sides.b.device);
        require(during.at("mr") == before.at("mr") + 1, "{} regions, expected {}",
                during.at("mr"), before.at("mr") + 1);
    }
    require(resource_counts(sides.b.device) == before, "objects are left");
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options)
{
    const Link link = link_from(options);
    const auto add = [&](std::string name, auto run) {
        ktap.add(std::move(name), [&sides, link, run] { run(sides, link); });
    };
    for (unsigned flags = 1; flags < 8; flags++)
        add(fmt::format("flags{}{}{}", flags & change_memory ? ".memory" : "",
                        flags & change_pd ? ".pd" : "", flags & change_access ? ".access" : ""),
            [flags](const Sides &s, const Link &l) { flags_together(s, l, flags); });
    add("rights", rights);
    add("writable_later", writable_later);
    add("not_writable", not_writable);
    add("posted_receive.memory",
        [](const Sides &s, const Link &l) { posted_receive(s, l, change_memory); });
    add("posted_receive.pd", [](const Sides &s, const Link &l) { posted_receive(s, l, change_pd); });
    add("posted_receive.access",
        [](const Sides &s, const Link &l) { posted_receive(s, l, change_access); });
    add("refused", refused);
    add("windows_bound", windows_bound);
    add("other_process", other_process);
    for (const auto &[name, opcode] : {std::pair{"write", IBV_WR_RDMA_WRITE},
                                       std::pair{"read", IBV_WR_RDMA_READ}}) {
        add(fmt::format("traffic.{}.goes_on", name),
            [opcode](const Sides &s, const Link &l) { traffic_goes_on(s, l, opcode); });
        for (const auto &[what, flags] : {std::pair{"memory", change_memory},
                                          std::pair{"pd", change_pd},
                                          std::pair{"access", change_access},
                                          std::pair{"all", change_memory | change_pd | change_access}})
            add(fmt::format("traffic.{}.ends.{}", name, what),
                [opcode, flags](const Sides &s, const Link &l) { traffic_ends(s, l, opcode, flags); });
    }
    add("nothing_left", nothing_left);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Re-registration of memory regions.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("rereg", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) { add_cases(ktap, sides, options); });
}
