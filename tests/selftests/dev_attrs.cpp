// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What the device says of itself must be true: limits are kept and one more
// is refused, the port follows its netdev, the GID table follows the
// addresses, the MTU follows the MTU, and memory registrations of every
// legal shape work.  Changes the netdev of side A and puts it back.
#include "common/memory.hpp"
#include "common/verbs.hpp"

#include <net/if.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

// The name of the netdev below a device, in its own namespace.
std::string netdev_of(const Side &side)
{
    // "link dev/1 state ACTIVE physical_state LINK_UP netdev eth0 ..."; the
    // netdev is named only inside its namespace.
    std::vector<std::string> argv{"rdma", "link", "show", side.device + "/1"};
    if (!side.netns.empty())
        argv.insert(argv.begin(), {"ip", "netns", "exec", side.netns});
    const std::string text = run_command(argv);
    const size_t at = text.find(" netdev ");
    require(at != std::string::npos, "`rdma link show {}` names no netdev: {}", side.device, text);
    const size_t start = at + 8;
    return text.substr(start, text.find_first_of(" \n", start) - start);
}

ibv_port_attr query_port(const Side &side)
{
    ibv_port_attr attr{};
    const int error = ibv_query_port(side.context.get(), side.port, &attr);
    require(!error, "ibv_query_port: {}", std::strerror(error));
    return attr;
}

int create_qp_error(const Side &side, ibv_cq *cq, const QpSize &size)
{
    ibv_qp_init_attr attr{};
    attr.send_cq = cq;
    attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap.max_send_wr = size.send_wr;
    attr.cap.max_recv_wr = size.recv_wr;
    attr.cap.max_send_sge = size.send_sge;
    attr.cap.max_recv_sge = size.recv_sge;
    attr.cap.max_inline_data = size.inline_data;
    errno = 0;
    ibv_qp *raw = ibv_create_qp(side.pd.get(), &attr);
    const int error = errno;
    if (!raw)
        return error ? error : EIO;
    const Qp qp(raw);
    require(attr.cap.max_send_wr >= size.send_wr && attr.cap.max_recv_wr >= size.recv_wr &&
                attr.cap.max_send_sge >= size.send_sge && attr.cap.max_recv_sge >= size.recv_sge &&
                attr.cap.max_inline_data >= size.inline_data,
            "the QP got less than it was asked for");
    return 0;
}

void device_limits(const Side &side)
{
    const ibv_device_attr &attr = side.attr;
    require(attr.phys_port_cnt == 1, "phys_port_cnt is {}", attr.phys_port_cnt);
    require(attr.max_sge >= 32, "max_sge is {}", attr.max_sge);
    require(attr.max_qp > 200 && attr.max_cq > 200 && attr.max_mr > 200 && attr.max_pd > 1,
            "limits too small: max_qp {}, max_cq {}, max_mr {}, max_pd {}", attr.max_qp,
            attr.max_cq, attr.max_mr, attr.max_pd);
    require(attr.max_qp_rd_atom >= 1 && attr.max_qp_init_rd_atom >= 1, "max_qp_rd_atom {} / {}",
            attr.max_qp_rd_atom, attr.max_qp_init_rd_atom);
    require(attr.atomic_cap == IBV_ATOMIC_HCA || attr.atomic_cap == IBV_ATOMIC_GLOB,
            "atomic_cap is {}", static_cast<int>(attr.atomic_cap));
    require(attr.page_size_cap & page_size, "page_size_cap is {:#x}", attr.page_size_cap);
    require(attr.max_mr_size >= 1ull << 40, "max_mr_size is {:#x}", attr.max_mr_size);
    require(attr.node_guid != 0, "node_guid is 0");
    require(attr.max_pkeys >= 1, "max_pkeys is {}", attr.max_pkeys);
}

void port_attributes(const Side &side)
{
    const ibv_port_attr attr = query_port(side);
    require(attr.state == IBV_PORT_ACTIVE, "state is {}", ibv_port_state_str(attr.state));
    require(attr.phys_state == 5, "phys_state is {}, expected 5 (LinkUp)", attr.phys_state);
    require(attr.link_layer == IBV_LINK_LAYER_ETHERNET, "link_layer is {}", attr.link_layer);
    require(attr.max_mtu == IBV_MTU_4096, "max_mtu is {}", static_cast<int>(attr.max_mtu));
    require(attr.active_mtu >= IBV_MTU_256 && attr.active_mtu <= attr.max_mtu, "active_mtu is {}",
            static_cast<int>(attr.active_mtu));
    require(attr.max_msg_sz == 1u << 31, "max_msg_sz is {:#x}, expected 2 GiB", attr.max_msg_sz);
    require(attr.lid == 0 && attr.sm_lid == 0, "a RoCE port has LID {} and SM LID {}", attr.lid,
            attr.sm_lid);
    require(attr.gid_tbl_len > 3, "gid_tbl_len is {}", attr.gid_tbl_len);
    require(attr.pkey_tbl_len >= 1, "pkey_tbl_len is {}", attr.pkey_tbl_len);
    __be16 pkey = 0;
    require(!ibv_query_pkey(side.context.get(), side.port, 0, &pkey), "ibv_query_pkey(0) failed");
    require(pkey == 0xffff, "P_Key 0 is {:#x}", static_cast<unsigned>(pkey));
    require(ibv_query_pkey(side.context.get(), side.port, attr.pkey_tbl_len, &pkey) != 0,
            "ibv_query_pkey({}) past the end of the table worked", attr.pkey_tbl_len);
    ibv_gid gid{};
    require(ibv_query_gid(side.context.get(), side.port, attr.gid_tbl_len, &gid) != 0,
            "ibv_query_gid({}) past the end of the table worked", attr.gid_tbl_len);
    ibv_port_attr other{};
    for (const uint8_t port : {uint8_t{0}, uint8_t{2}, uint8_t{255}})
        require(ibv_query_port(side.context.get(), port, &other) != 0, "port {} exists", port);
}

void qp_limits(const Side &side)
{
    const Cq cq = make_cq(side, 16);
    const auto sges = static_cast<uint32_t>(side.attr.max_sge);
    const auto wrs = static_cast<uint32_t>(side.attr.max_qp_wr);
    struct Try {
        const char *what;
        QpSize size;
        bool works;
    };
    QpSize base{.send_wr = 4, .recv_wr = 4};
    const auto with = [&](auto change) {
        QpSize size = base;
        change(size);
        return size;
    };
    const std::array table{
        Try{"32 send SGEs", with([](QpSize &s) { s.send_sge = 32; }), true},
        Try{"max_sge send SGEs", with([&](QpSize &s) { s.send_sge = sges; }), true},
        Try{"max_sge + 1 send SGEs", with([&](QpSize &s) { s.send_sge = sges + 1; }), false},
        Try{"max_sge receive SGEs", with([&](QpSize &s) { s.recv_sge = sges; }), true},
        Try{"max_sge + 1 receive SGEs", with([&](QpSize &s) { s.recv_sge = sges + 1; }), false},
        Try{"4 G send SGEs", with([](QpSize &s) { s.send_sge = ~0u; }), false},
        Try{"512 bytes inline", with([](QpSize &s) { s.inline_data = 512; }), true},
        Try{"4 G bytes inline", with([](QpSize &s) { s.inline_data = ~0u; }), false},
        Try{"1 MiB inline", with([](QpSize &s) { s.inline_data = 1u << 20; }), false},
        Try{"max_qp_wr + 1 send requests", with([&](QpSize &s) { s.send_wr = wrs + 1; }), false},
        Try{"max_qp_wr + 1 receives", with([&](QpSize &s) { s.recv_wr = wrs + 1; }), false},
        Try{"4 G receives", with([](QpSize &s) { s.recv_wr = ~0u; }), false},
        Try{"8192 requests", with([](QpSize &s) { s.send_wr = s.recv_wr = 8192; }), true},
        Try{"one of everything",
            QpSize{.send_wr = 1, .recv_wr = 1, .send_sge = 1, .recv_sge = 1}, true},
    };
    std::string wrong;
    for (const Try &one : table) {
        note(one.what);
        const int error = create_qp_error(side, cq.get(), one.size);
        if (one.works && error)
            wrong += fmt::format("{} refused ({}); ", one.what, std::strerror(error));
        else if (!one.works && !error)
            wrong += fmt::format("{} accepted; ", one.what);
    }
    require(wrong.empty(), "{}", wrong);
}

// Automatic path migration (17.2.8) is not done: nothing says it is, and asking for it is refused
// without harm to the QP.
void path_migration(const Sides &sides, const Link &link)
{
    const Side &side = sides.a;
    require(!(side.attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG),
            "the device claims path migration");
    require(!(query_port(side).port_cap_flags & IBV_PORT_AUTO_MIGR_SUP),
            "the port claims path migration");
    Pair pair = make_pair(sides, link);
    ibv_qp *qp = pair.a.qp.get();
    const auto untouched = [&](const char *after) {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        const int error =
            ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH, &init);
        require(!error, "ibv_query_qp: {}", std::strerror(error));
        require(attr.qp_state == IBV_QPS_RTS, "{}: state {}", after,
                static_cast<int>(attr.qp_state));
        require(attr.path_mig_state == IBV_MIG_MIGRATED, "{}: path migration state {}", after,
                static_cast<int>(attr.path_mig_state));
        require(attr.alt_port_num == 0 && attr.alt_timeout == 0 && attr.alt_pkey_index == 0 &&
                    !attr.alt_ah_attr.is_global,
                "{}: there is an alternate path", after);
    };
    untouched("connected");

    Modify alternate;
    alternate.attr.alt_ah_attr = rtr_step(side, link, 0, sides.b.gid, 0).attr.ah_attr;
    alternate.attr.alt_port_num = side.port;
    alternate.attr.alt_timeout = 14;
    alternate.mask = IBV_QP_ALT_PATH;
    const auto state = [](ibv_mig_state wanted) {
        Modify step;
        step.attr.path_mig_state = wanted;
        step.mask = IBV_QP_PATH_MIG_STATE;
        return step;
    };
    Modify both = alternate;
    both.attr.path_mig_state = IBV_MIG_REARM;
    both.mask |= IBV_QP_PATH_MIG_STATE;
    struct Try {
        const char *what;
        Modify step;
    };
    for (const Try &one : {Try{"an alternate path", alternate}, Try{"REARM", state(IBV_MIG_REARM)},
                           Try{"ARMED", state(IBV_MIG_ARMED)},
                           Try{"an alternate path and REARM", both}}) {
        note(one.what);
        const int error = modify(qp, one.step);
        require(error == EINVAL, "{}: {}", one.what, error ? std::strerror(error) : "accepted");
        untouched(one.what);
    }
    // what it is anyway
    must_modify(qp, state(IBV_MIG_MIGRATED), "MIGRATED");
    untouched("MIGRATED");
    drain_events(side.context.get());
}

void cq_limits(const Side &side)
{
    const auto create = [&](int entries) {
        ibv_cq *raw = ibv_create_cq(side.context.get(), entries, nullptr, nullptr, 0);
        if (!raw)
            return -1;
        const Cq cq(raw);
        return cq->cqe;
    };
    require(create(1) >= 1, "a CQ of one entry is refused");
    require(create(1000) >= 1000, "a CQ of 1000 entries is refused or smaller");
    require(create(side.attr.max_cqe) >= side.attr.max_cqe, "a CQ of max_cqe = {} is refused",
            side.attr.max_cqe);
    require(create(0) < 0, "a CQ of no entries is accepted");
    require(create(-1) < 0, "a CQ of -1 entries is accepted");
    if (side.attr.max_cqe < INT32_MAX)
        require(create(side.attr.max_cqe + 1) < 0, "a CQ of max_cqe + 1 = {} is accepted",
                side.attr.max_cqe + 1);
}

void resize_cq(const Side &side)
{
    const Cq cq = make_cq(side, 16);
    const int before = cq->cqe;
    const int error = ibv_resize_cq(cq.get(), 500);
    if (error == EOPNOTSUPP || error == ENOSYS)
        skip("the device does not resize CQs");
    require(!error, "ibv_resize_cq: {}", std::strerror(error));
    require(cq->cqe >= 500, "the CQ has {} entries after resizing from {} to 500", cq->cqe, before);
}

// ---------------------------------------------------------------------------
// Memory registration

int register_error(const Side &side, void *address, size_t length, int access)
{
    errno = 0;
    // A variable, so that the header's macro for constants stays out of it.
    const int flags = access;
    ibv_mr *raw = ibv_reg_mr(side.pd.get(), address, length, flags);
    const int error = errno;
    if (!raw)
        return error ? error : EIO;
    const Mr mr(raw);
    require(mr->addr == address && mr->length == length, "the MR is another than asked for");
    return 0;
}

void mr_shapes(const Side &side)
{
    Buffer memory(8 * page_size);
    std::byte *base = memory.data();
    struct Try {
        const char *what;
        void *address;
        size_t length;
        int access;
        bool works;
    };
    void *unmapped = mmap(nullptr, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *read_only = mmap(nullptr, page_size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const std::array table{
        Try{"one byte", base + 5, 1, all_access, true},
        Try{"the last byte of a page", base + page_size - 1, 1, all_access, true},
        Try{"two bytes over a page border", base + page_size - 1, 2, all_access, true},
        Try{"an odd length", base + 1, 2 * page_size + 1, all_access, true},
        Try{"no access flags", base, page_size, 0, true},
        Try{"remote write without local write", base, page_size, IBV_ACCESS_REMOTE_WRITE, false},
        Try{"remote atomic without local write", base, page_size, IBV_ACCESS_REMOTE_ATOMIC, false},
        Try{"remote read alone", base, page_size, IBV_ACCESS_REMOTE_READ, true},
        Try{"unknown access flags", base, page_size, IBV_ACCESS_LOCAL_WRITE | 1 << 19, false},
        Try{"relaxed ordering, an optional flag", base, page_size,
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING, true},
        Try{"unmapped memory", unmapped, page_size, IBV_ACCESS_LOCAL_WRITE, false},
        Try{"read-only memory for writing", read_only, page_size, IBV_ACCESS_LOCAL_WRITE, false},
        Try{"read-only memory for reading", read_only, page_size, IBV_ACCESS_REMOTE_READ, true},
        Try{"a length that wraps", base, ~size_t{0} - 100, IBV_ACCESS_LOCAL_WRITE, false},
        Try{"a length of 2^63", base, size_t{1} << 63, IBV_ACCESS_LOCAL_WRITE, false},
        Try{"past the end of the mapping", base, size_t{1} << 44, IBV_ACCESS_LOCAL_WRITE, false},
    };
    std::string wrong;
    for (const Try &one : table) {
        note(one.what);
        const int error = register_error(side, one.address, one.length, one.access);
        if (one.works && error)
            wrong += fmt::format("{} refused ({}); ", one.what, std::strerror(error));
        else if (!one.works && !error)
            wrong += fmt::format("{} accepted; ", one.what);
    }
    munmap(unmapped, page_size);
    munmap(read_only, page_size);
    require(wrong.empty(), "{}", wrong);
    // Nothing to read or write through it, but legal to ask for.
    const int zero = register_error(side, base, 0, IBV_ACCESS_LOCAL_WRITE);
    diag(fmt::format("a zero-length registration is {}", zero ? std::strerror(zero) : "accepted"));
}

// One WRITE and one READ through the far end of an MR.
void use_mr(const Sides &sides, const Link &link, const Mr &target_mr, std::byte *target,
            uint64_t remote_address)
{
    Pair pair = make_pair(sides, link);
    Buffer local(2 * page_size);
    const Mr local_mr = make_mr(sides.a, local.span(), all_access);
    constexpr uint32_t length = page_size + 100;
    std::memset(local.data(), 0x3c, length);
    std::array sges{sge_of(local.span(0, length), local_mr.get())};
    ibv_send_wr wr{};
    wr.wr_id = 1;
    wr.sg_list = sges.data();
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote_address;
    wr.wr.rdma.rkey = target_mr->rkey;
    post_send(pair.a.qp.get(), wr);
    check_wc(must_poll(pair.a.send_cq.get(), "write"), IBV_WC_SUCCESS, 1, pair.a.qp.get(), "write");
    require(!std::memcmp(local.data(), target, length), "wrong data written");
    std::memset(target, 0xc3, length);
    wr.wr_id = 2;
    wr.opcode = IBV_WR_RDMA_READ;
    post_send(pair.a.qp.get(), wr);
    check_wc(must_poll(pair.a.send_cq.get(), "read"), IBV_WC_SUCCESS, 2, pair.a.qp.get(), "read");
    require(!std::memcmp(local.data(), target, length), "wrong data read");
}

void large_mr(const Sides &sides, const Link &link, Paging paging, size_t size)
{
    if (available_memory() < size + (128u << 20))
        skip("needs {} MiB of free memory", (size >> 20) + 128);
    Buffer memory(size, paging);
    const uint64_t iova = 0x700000000000;
    note(fmt::format("registering {} MiB", size >> 20));
    const auto start = Clock::now();
    const Mr mr = make_mr_iova(sides.b, memory.span(), iova, all_access);
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    diag(fmt::format("{} MiB registered in {} ms", size >> 20, took.count()));
    for (const size_t at : {size_t{0}, size / 2 - 50, size - page_size - 100, size_t{12345},
                            huge_page_size - 7})
        use_mr(sides, link, mr, memory.data() + at, iova + at);
}

// The same pages many times over make an MR of more than 4 GiB out of little
// memory.
void mr_over_4_gib(const Sides &sides, const Link &link)
{
    constexpr size_t piece = 64u << 20;
    constexpr size_t pieces = 72; // 4.5 GiB
    if (available_memory() < (512u << 20))
        skip("needs 512 MiB of free memory");
    const int fd = memfd_create("mr_over_4_gib", 0);
    require(fd >= 0 && !ftruncate(fd, piece), "memfd: {}", std::strerror(errno));
    void *area = mmap(nullptr, piece * pieces, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                      -1, 0);
    require(area != MAP_FAILED, "mmap: {}", std::strerror(errno));
    auto *base = static_cast<std::byte *>(area);
    for (size_t i = 0; i < pieces; i++)
        require(mmap(base + i * piece, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                     0) != MAP_FAILED,
                "mmap: {}", std::strerror(errno));
    {
        note("registering 4.5 GiB");
        const Mr mr = make_mr_iova(sides.b, {base, piece * pieces}, 0x1000, all_access);
        for (const size_t at : {size_t{0}, (size_t{1} << 32) - 20, piece * pieces - page_size - 100})
            use_mr(sides, link, mr, base + at, 0x1000 + at);
    }
    munmap(area, piece * pieces);
    close(fd);
}

void iova_not_va(const Sides &sides, const Link &link)
{
    Buffer memory(16 * page_size);
    // The page offsets agree, as they must for hardware; then ones that do not.
    for (const uint64_t iova : {uint64_t{0}, uint64_t{0x123456789000}, uint64_t{1} << 63}) {
        note(fmt::format("iova {:#x}", iova));
        const Mr mr = make_mr_iova(sides.b, memory.span(), iova, all_access);
        use_mr(sides, link, mr, memory.data() + 3, iova + 3);
        use_mr(sides, link, mr, memory.data() + 14 * page_size - 100, iova + 14 * page_size - 100);
    }
    const auto odd = memory.span(123, 4 * page_size);
    const Mr mr = make_mr_iova(sides.b, odd, 0x5000 + 123, all_access);
    use_mr(sides, link, mr, odd.data() + 1, 0x5000 + 124);
}

void iova_over_the_top(const Side &side)
{
    Buffer memory(4 * page_size);
    ibv_mr *raw = ibv_reg_mr_iova(side.pd.get(), memory.data(), memory.size(), 0ull - page_size,
                                  static_cast<unsigned>(all_access));
    const Mr mr(raw);
    require(!mr, "an MR whose addresses wrap around is accepted");
}

// ---------------------------------------------------------------------------
// The netdev below

struct PutBack {
    std::function<void()> action;
    ~PutBack()
    {
        try {
            action();
        } catch (const std::exception &error) {
            report_failure(error.what());
        }
    }
};

void wait_for_event(const Side &side, ibv_event_type type)
{
    const auto end = Clock::now() + std::chrono::seconds(3);
    std::string others;
    while (Clock::now() < end) {
        const auto event = next_event(side.context.get(), milliseconds(100));
        if (!event)
            continue;
        if (event->type == type)
            return;
        others += fmt::format(" \"{}\"", ibv_event_type_str(event->type));
    }
    fail("no event \"{}\"{}{}", ibv_event_type_str(type), others.empty() ? "" : "; there were:",
         others);
}

void link_down_up(const Sides &sides, const Link &link)
{
    const Side &side = sides.a;
    const std::string netdev = netdev_of(side);
    drain_events(side.context.get());
    Pair pair = make_pair(sides, link);
    {
        // Setting a link down takes its IPv6 addresses away; keep them.
        const std::string knob = fmt::format("net.ipv6.conf.{}.keep_addr_on_down=1", netdev);
        std::vector<std::string> argv{"sysctl", "-qw", knob};
        if (!side.netns.empty())
            argv.insert(argv.begin(), {"ip", "netns", "exec", side.netns});
        run_command(argv);
        const PutBack up{[&] { run_ip(side.netns, {"link", "set", netdev, "up"}); }};
        run_ip(side.netns, {"link", "set", netdev, "down"});
        wait_for_event(side, IBV_EVENT_PORT_ERR);
        const ibv_port_attr attr = query_port(side);
        require(attr.state == IBV_PORT_DOWN, "state is {} after link down",
                ibv_port_state_str(attr.state));
        require(attr.phys_state != 5, "phys_state is LinkUp after link down");
    }
    wait_for_event(side, IBV_EVENT_PORT_ACTIVE);
    require(query_port(side).state == IBV_PORT_ACTIVE, "port is not ACTIVE after link up");
    require(wait_until(std::chrono::seconds(5),
                       [&] {
                           return std::any_of(
                               sides.a.gid.raw, sides.a.gid.raw + 16,
                               [](uint8_t b) { return b != 0; }) &&
                               [&] {
                                   for (const auto &entry : gid_table(side.context.get(), side.port))
                                       if (!std::memcmp(&entry.gid, &side.gid, 16))
                                           return true;
                                   return false;
                               }();
                       }),
            "the GID {} did not come back with the link", to_string(side.gid));
    // A QP that was idle meanwhile still works.
    Buffer memory(page_size);
    const Mr mr_a = make_mr(sides.a, memory.span(), all_access);
    const Mr mr_b = make_mr(sides.b, memory.span(), all_access);
    std::array sges{sge_of(memory.span(0, 8), mr_a.get())};
    ibv_send_wr wr{};
    wr.wr_id = 9;
    wr.sg_list = sges.data();
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(memory.data()) + 100;
    wr.wr.rdma.rkey = mr_b->rkey;
    post_send(pair.a.qp.get(), wr);
    check_wc(must_poll(pair.a.send_cq.get(), "write"), IBV_WC_SUCCESS, 9, pair.a.qp.get(), "write");
}

bool has_gid(const Side &side, const char *text)
{
    for (const auto &entry : gid_table(side.context.get(), side.port))
        if (to_string(entry.gid) == text)
            return true;
    return false;
}

void gid_follows(const Side &side, const char *address, const char *gid)
{
    const std::string netdev = netdev_of(side);
    require(!has_gid(side, gid), "GID {} is there before its address", gid);
    drain_events(side.context.get());
    std::vector<std::string> add{"addr", "add", address, "dev", netdev};
    if (std::strchr(address, ':'))
        add.push_back("nodad");
    run_ip(side.netns, add);
    {
        const PutBack remove{[&] { run_ip(side.netns, {"addr", "del", address, "dev", netdev}); }};
        wait_for_event(side, IBV_EVENT_GID_CHANGE);
        require(wait_until(std::chrono::seconds(3), [&] { return has_gid(side, gid); }),
                "no GID {} for the new address", gid);
        drain_events(side.context.get());
    }
    wait_for_event(side, IBV_EVENT_GID_CHANGE);
    require(wait_until(std::chrono::seconds(3), [&] { return !has_gid(side, gid); }),
            "GID {} stays after its address", gid);
}

void gid_table_truth(const Side &side)
{
    bool ipv4 = false;
    bool link_local = false;
    std::set<std::string> seen;
    for (const auto &entry : gid_table(side.context.get(), side.port)) {
        ipv4 |= kind_of(entry.gid) == GidKind::ipv4;
        link_local |= kind_of(entry.gid) == GidKind::link_local;
        require(entry.ndev_ifindex != 0, "GID {} names no netdev", to_string(entry.gid));
        require(seen.insert(to_string(entry.gid)).second, "GID {} is there twice",
                to_string(entry.gid));
        ibv_gid gid{};
        require(!ibv_query_gid(side.context.get(), side.port, static_cast<int>(entry.gid_index),
                               &gid) &&
                    !std::memcmp(&gid, &entry.gid, 16),
                "ibv_query_gid({}) disagrees with the table", entry.gid_index);
    }
    require(ipv4, "no IPv4-mapped GID, though the netdev should have an IPv4 address");
    require(link_local, "no link-local GID");
}

void mtu_follows(const Side &side)
{
    const std::string netdev = netdev_of(side);
    const std::string text = run_ip(side.netns, {"-o", "link", "show", netdev});
    const size_t at = text.find(" mtu ");
    require(at != std::string::npos, "no MTU in: {}", text);
    const std::string before = text.substr(at + 5, text.find(' ', at + 5) - at - 5);
    const PutBack back{[&] { run_ip(side.netns, {"link", "set", netdev, "mtu", before}); }};
    struct Expect {
        const char *mtu;
        ibv_mtu active;
    };
    // 1500 leaves no room for 2048; 1280 is the least IPv6 lives with.
    for (const Expect &one : {Expect{"1500", IBV_MTU_1024}, Expect{"2200", IBV_MTU_2048},
                              Expect{"1280", IBV_MTU_1024}, Expect{"9000", IBV_MTU_4096},
                              Expect{"4200", IBV_MTU_4096}}) {
        run_ip(side.netns, {"link", "set", netdev, "mtu", one.mtu});
        require(wait_until(std::chrono::seconds(2),
                           [&] { return query_port(side).active_mtu == one.active; }),
                "netdev MTU {}: active_mtu is {}, expected {}", one.mtu,
                mtu_bytes(query_port(side).active_mtu), mtu_bytes(one.active));
    }
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options, size_t mib,
               bool over_4_gib)
{
    const Link link = link_from(options);
    for (const Side *side : {&sides.a, &sides.b}) {
        const auto name = [side](const char *what) {
            return fmt::format("{}.{}", side->name == "A" ? "a" : "b", what);
        };
        ktap.add(name("device_limits"), [side] { device_limits(*side); });
        ktap.add(name("port_attributes"), [side] { port_attributes(*side); });
        ktap.add(name("gid_table"), [side] { gid_table_truth(*side); });
        ktap.add(name("qp_limits"), [side] { qp_limits(*side); });
        ktap.add(name("cq_limits"), [side] { cq_limits(*side); });
        ktap.add(name("resize_cq"), [side] { resize_cq(*side); });
        ktap.add(name("mr_shapes"), [side] { mr_shapes(*side); });
        ktap.add(name("mr_iova_over_the_top"), [side] { iova_over_the_top(*side); });
    }
    ktap.add("mr.iova_not_va", [&, link] { iova_not_va(sides, link); });
    ktap.add("mr.large_small_pages", [&, link, mib] {
        large_mr(sides, link, Paging::small, mib << 20);
    });
    ktap.add("mr.large_huge_pages",
             [&, link, mib] { large_mr(sides, link, Paging::huge, mib << 20); });
    ktap.add("mr.mixed_pages",
             [&, link] { large_mr(sides, link, Paging::mixed, size_t{16} << 20); });
    if (over_4_gib)
        ktap.add("mr.over_4_gib", [&, link] { mr_over_4_gib(sides, link); }, 300);
    ktap.add("path_migration", [&, link] { path_migration(sides, link); });
    ktap.add("netdev.ipv4_address",
             [&] { gid_follows(sides.a, "10.99.0.1/24", "::ffff:10.99.0.1"); });
    ktap.add("netdev.ipv6_address", [&] { gid_follows(sides.a, "fd99::1/64", "fd99::1"); });
    ktap.add("netdev.link_local_address", [&] { gid_follows(sides.a, "fe80::99/64", "fe80::99"); });
    ktap.add("netdev.mtu", [&] { mtu_follows(sides.a); });
    ktap.add("netdev.down_up", [&, link] { link_down_up(sides, link); });
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Checks that what the device says of itself is true.");
    add_common_options(app, options);
    size_t mib = 128;
    app.add_option("--mr-mib", mib, "size of the large registrations");
    bool over_4_gib = false;
    app.add_flag("--over-4-gib", over_4_gib,
                 "also register 4.5 GiB (too many mappings for a UML kernel)");
    CLI11_PARSE(app, argc, argv);
    settle_options("dev_attrs", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) {
        add_cases(ktap, sides, options, mib, over_4_gib);
    });
}
