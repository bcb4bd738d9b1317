// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See verbs.hpp.
#include "common/verbs.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace rocev2::test {

using std::chrono::milliseconds;

void destroy_failed(const char *what, int error)
{
    // Only the type is of interest: "... T = ibv_qp; ..."
    std::string_view text = what;
    const size_t at = text.find("T = ");
    if (at != std::string_view::npos)
        text = text.substr(at + 4, text.find(';', at) - at - 4);
    report_failure(fmt::format("destroying an {} failed: {}", text, std::strerror(error)));
}

const char *to_string(GidKind kind)
{
    switch (kind) {
    case GidKind::ipv4:
        return "ipv4";
    case GidKind::ipv6:
        return "ipv6";
    case GidKind::link_local:
        return "ll";
    }
    return "?";
}

std::string to_string(const ibv_gid &gid)
{
    char text[INET6_ADDRSTRLEN] = "";
    inet_ntop(AF_INET6, gid.raw, text, sizeof(text));
    return text;
}

GidKind kind_of(const ibv_gid &gid)
{
    static constexpr std::array<uint8_t, 12> mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (std::equal(mapped.begin(), mapped.end(), gid.raw))
        return GidKind::ipv4;
    if (gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80)
        return GidKind::link_local;
    return GidKind::ipv6;
}

Context open_device(const std::string &name)
{
    require(!name.empty(), "no RDMA device named: give --dev-a and --dev-b");
    int count = 0;
    ibv_device **list = ibv_get_device_list(&count);
    if (!list)
        fail("ibv_get_device_list: {}", std::strerror(errno));
    ibv_context *context = nullptr;
    bool found = false;
    std::string seen;
    for (int i = 0; i < count; i++) {
        seen += fmt::format(" {}", ibv_get_device_name(list[i]));
        if (name == ibv_get_device_name(list[i])) {
            found = true;
            context = ibv_open_device(list[i]);
        }
    }
    const int error = errno;
    ibv_free_device_list(list);
    require(found, "no RDMA device {}; there are:{}", name, seen);
    if (!context)
        fail("ibv_open_device({}): {}", name, std::strerror(error));
    return Context(context);
}

std::vector<ibv_gid_entry> gid_table(ibv_context *context, int port)
{
    std::vector<ibv_gid_entry> table(1024);
    const ssize_t n = ibv_query_gid_table(context, table.data(), table.size(), 0);
    if (n < 0)
        fail("ibv_query_gid_table: {}", std::strerror(static_cast<int>(-n)));
    table.resize(static_cast<size_t>(n));
    std::erase_if(table, [port](const ibv_gid_entry &entry) {
        return entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
            entry.port_num != static_cast<uint32_t>(port);
    });
    return table;
}

Side open_side(const std::string &name, const std::string &device, const std::string &netns,
               int port)
{
    Side side;
    side.name = name;
    side.device = device;
    side.netns = netns;
    side.port = static_cast<uint8_t>(port);
    side.context = open_device(device);
    ibv_context *context = side.context.get();
    // The tests wait for asynchronous events with poll().
    fcntl(context->async_fd, F_SETFL, fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
    side.pd = Pd(ibv_alloc_pd(context));
    if (!side.pd)
        fail("ibv_alloc_pd({}): {}", device, std::strerror(errno));
    int error = ibv_query_device(context, &side.attr);
    require(!error, "ibv_query_device({}): {}", device, std::strerror(error));
    error = ibv_query_port(context, side.port, &side.port_attr);
    require(!error, "ibv_query_port({}): {}", device, std::strerror(error));
    return side;
}

uint64_t hw_counter(const Side &side, const std::string &name)
{
    const std::string path = fmt::format("/sys/class/infiniband/{}/ports/{}/hw_counters/{}",
                                         side.device, side.port, name);
    uint64_t value = 0;
    require(static_cast<bool>(std::ifstream(path) >> value), "cannot read {}", path);
    return value;
}

Sides open_sides(const Options &options)
{
    Sides sides{open_side("A", options.dev_a, options.netns_a, options.port),
                open_side("B", options.dev_b, options.netns_b, options.port)};
    for (const Side *side : {&sides.a, &sides.b})
        require(side->port_attr.state == IBV_PORT_ACTIVE,
                "port of {} is {}, not ACTIVE: is its netdev up?", side->device,
                ibv_port_state_str(side->port_attr.state));
    return sides;
}

namespace {

void use_gid(Side &side, const ibv_gid_entry &entry)
{
    side.gid_index = static_cast<uint8_t>(entry.gid_index);
    side.gid = entry.gid;
}

std::optional<ibv_gid_entry> find_gid(const Side &side, GidKind kind)
{
    for (const ibv_gid_entry &entry : gid_table(side.context.get(), side.port))
        if (kind_of(entry.gid) == kind)
            return entry;
    return {};
}

ibv_gid_entry gid_at(const Side &side, int index)
{
    for (const ibv_gid_entry &entry : gid_table(side.context.get(), side.port))
        if (entry.gid_index == static_cast<uint32_t>(index))
            return entry;
    fail("{} has no RoCE v2 GID with index {}", side.device, index);
}

} // namespace

std::vector<GidKind> usable_kinds(const Sides &sides, const Options &options)
{
    if (options.gid_a >= 0)
        return {kind_of(gid_at(sides.a, options.gid_a).gid)};
    std::vector<GidKind> kinds;
    for (const GidKind kind : {GidKind::ipv4, GidKind::ipv6, GidKind::link_local}) {
        const auto &wanted = options.gid_kinds;
        if (!wanted.empty() &&
            std::find(wanted.begin(), wanted.end(), to_string(kind)) == wanted.end())
            continue;
        if (find_gid(sides.a, kind) && find_gid(sides.b, kind))
            kinds.push_back(kind);
    }
    return kinds;
}

void select_gids(Sides &sides, const Options &options, GidKind kind)
{
    for (Side *side : {&sides.a, &sides.b}) {
        const int index = side == &sides.a ? options.gid_a : options.gid_b;
        if (index >= 0) {
            use_gid(*side, gid_at(*side, index));
        } else if (const auto entry = find_gid(*side, kind)) {
            use_gid(*side, *entry);
        } else {
            fail("{} has no {} GID", side->device, to_string(kind));
        }
    }
}

void select_default_gids(Sides &sides, const Options &options)
{
    const auto kinds = usable_kinds(sides, options);
    require(!kinds.empty(), "{} and {} have no kind of RoCE v2 GID in common: "
            "give both netdevs an address", sides.a.device, sides.b.device);
    select_gids(sides, options, kinds.front());
}

Cq make_cq(const Side &side, int entries, ibv_comp_channel *channel)
{
    Cq cq(ibv_create_cq(side.context.get(), entries, nullptr, channel, 0));
    if (!cq)
        fail("ibv_create_cq({}, {}): {}", side.device, entries, std::strerror(errno));
    return cq;
}

Mr make_mr(const Side &side, std::span<std::byte> memory, int access)
{
    Mr mr(ibv_reg_mr(side.pd.get(), memory.data(), memory.size(), access));
    if (!mr)
        fail("ibv_reg_mr({}, {} bytes): {}", side.device, memory.size(), std::strerror(errno));
    return mr;
}

Mr make_mr_iova(const Side &side, std::span<std::byte> memory, uint64_t iova, int access)
{
    Mr mr(ibv_reg_mr_iova(side.pd.get(), memory.data(), memory.size(), iova, access));
    if (!mr)
        fail("ibv_reg_mr_iova({}, {} bytes at {:#x}): {}", side.device, memory.size(), iova,
             std::strerror(errno));
    return mr;
}

Qp make_qp(const Side &side, ibv_cq *send_cq, ibv_cq *recv_cq, const QpSize &size)
{
    ibv_qp_init_attr attr{};
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.qp_type = IBV_QPT_RC;
    attr.sq_sig_all = size.signal_all;
    attr.cap.max_send_wr = size.send_wr;
    attr.cap.max_recv_wr = size.recv_wr;
    attr.cap.max_send_sge = size.send_sge;
    attr.cap.max_recv_sge = size.recv_sge;
    attr.cap.max_inline_data = size.inline_data;
    attr.srq = size.srq;
    Qp qp(ibv_create_qp(side.pd.get(), &attr));
    if (!qp)
        fail("ibv_create_qp({}): {}", side.device, std::strerror(errno));
    return qp;
}

Srq make_srq(const Side &side, uint32_t max_wr, uint32_t max_sge, ibv_pd *pd)
{
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = max_wr;
    attr.attr.max_sge = max_sge;
    Srq srq(ibv_create_srq(pd ? pd : side.pd.get(), &attr));
    if (!srq)
        fail("ibv_create_srq({}, {} x {}): {}", side.device, max_wr, max_sge,
             std::strerror(errno));
    return srq;
}

Link link_from(const Options &options)
{
    Link link;
    link.timeout = static_cast<uint8_t>(options.timeout);
    link.retry_cnt = static_cast<uint8_t>(options.retry_cnt);
    link.rnr_retry = static_cast<uint8_t>(options.rnr_retry);
    return link;
}

Modify init_step(const Side &side, const Link &link)
{
    Modify step;
    step.attr.qp_state = IBV_QPS_INIT;
    step.attr.pkey_index = 0;
    step.attr.port_num = side.port;
    step.attr.qp_access_flags = static_cast<unsigned>(link.qp_access);
    step.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    return step;
}

Modify rtr_step(const Side &side, const Link &link, uint32_t dest_qpn, const ibv_gid &dest,
                uint32_t rq_psn)
{
    Modify step;
    step.attr.qp_state = IBV_QPS_RTR;
    step.attr.path_mtu = link.mtu;
    step.attr.dest_qp_num = dest_qpn;
    step.attr.rq_psn = rq_psn;
    step.attr.max_dest_rd_atomic = link.max_dest_rd_atomic;
    step.attr.min_rnr_timer = link.min_rnr_timer;
    step.attr.ah_attr.is_global = 1;
    step.attr.ah_attr.port_num = side.port;
    step.attr.ah_attr.grh.dgid = dest;
    step.attr.ah_attr.grh.sgid_index = side.gid_index;
    step.attr.ah_attr.grh.hop_limit = 64;
    step.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    return step;
}

Modify rts_step(const Link &link, uint32_t sq_psn)
{
    Modify step;
    step.attr.qp_state = IBV_QPS_RTS;
    step.attr.sq_psn = sq_psn;
    step.attr.timeout = link.timeout;
    step.attr.retry_cnt = link.retry_cnt;
    step.attr.rnr_retry = link.rnr_retry;
    step.attr.max_rd_atomic = link.max_rd_atomic;
    step.mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
        IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return step;
}

Modify state_step(ibv_qp_state state)
{
    Modify step;
    step.attr.qp_state = state;
    step.mask = IBV_QP_STATE;
    return step;
}

int modify(ibv_qp *qp, Modify step)
{
    return ibv_modify_qp(qp, &step.attr, step.mask);
}

void must_modify(ibv_qp *qp, Modify step, const char *what)
{
    const int error = modify(qp, step);
    require(!error, "ibv_modify_qp to {}: {}", what, std::strerror(error));
}

void to_init(const Side &side, ibv_qp *qp, const Link &link)
{
    must_modify(qp, init_step(side, link), "INIT");
}

void connect(const Side &a, ibv_qp *qp_a, const Side &b, ibv_qp *qp_b, const Link &link)
{
    to_init(a, qp_a, link);
    to_init(b, qp_b, link);
    must_modify(qp_a, rtr_step(a, link, qp_b->qp_num, b.gid, link.psn_b), "RTR");
    must_modify(qp_b, rtr_step(b, link, qp_a->qp_num, a.gid, link.psn_a), "RTR");
    must_modify(qp_a, rts_step(link, link.psn_a), "RTS");
    must_modify(qp_b, rts_step(link, link.psn_b), "RTS");
}

ibv_qp_state query_state(ibv_qp *qp)
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    const int error = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
    require(!error, "ibv_query_qp: {}", std::strerror(error));
    return attr.qp_state;
}

int run_on_sides(const Options &options,
                 const std::function<void(Ktap &ktap, Sides &sides)> &add_cases)
{
    Ktap ktap;
    Sides sides;
    try {
        sides = open_sides(options);
        select_default_gids(sides, options);
    } catch (const std::exception &error) {
        fmt::print("Bail out! {}\n", error.what());
        return 1;
    }
    add_cases(ktap, sides);
    return ktap.run(options.filters, options.list, options.case_limit_s);
}

ibv_mtu common_mtu(const Sides &sides)
{
    return std::min(sides.a.port_attr.active_mtu, sides.b.port_attr.active_mtu);
}

std::optional<ibv_wc> poll_for(ibv_cq *cq, milliseconds limit)
{
    const auto end = Clock::now() + limit;
    ibv_wc wc{};
    for (;;) {
        const int n = ibv_poll_cq(cq, 1, &wc);
        require(n >= 0, "ibv_poll_cq returned {}", n);
        if (n == 1)
            return wc;
        if (Clock::now() > end)
            return {};
        sched_yield();
    }
}

ibv_wc must_poll(ibv_cq *cq, const char *what, milliseconds limit)
{
    const auto wc = poll_for(cq, limit);
    require(wc.has_value(), "{}: no completion in {} ms", what, limit.count());
    return *wc;
}

void must_be_empty(ibv_cq *cq, const char *what)
{
    ibv_wc wc{};
    const int n = ibv_poll_cq(cq, 1, &wc);
    require(n == 0, "{}: unexpected completion wr_id {} status {} opcode {}", what, wc.wr_id,
            ibv_wc_status_str(wc.status), static_cast<int>(wc.opcode));
}

void check_wc(const ibv_wc &wc, ibv_wc_status status, uint64_t wr_id, const ibv_qp *qp,
              const char *what)
{
    require(wc.status == status, "{}: status is \"{}\" (vendor_err {:#x}), expected \"{}\"", what,
            ibv_wc_status_str(wc.status), wc.vendor_err, ibv_wc_status_str(status));
    require(wc.wr_id == wr_id, "{}: wr_id is {}, expected {}", what, wc.wr_id, wr_id);
    require(wc.qp_num == qp->qp_num, "{}: qp_num is {:#x}, expected {:#x}", what, wc.qp_num,
            qp->qp_num);
}

std::optional<AsyncEvent> next_event(ibv_context *context, milliseconds limit)
{
    pollfd wait{context->async_fd, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(limit.count())) <= 0)
        return {};
    ibv_async_event event{};
    if (ibv_get_async_event(context, &event))
        return {};
    AsyncEvent result{event.event_type, nullptr};
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        result.element = event.element.cq;
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        result.element = event.element.qp;
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        result.element = event.element.srq;
        break;
    default:
        break;
    }
    ibv_ack_async_event(&event);
    return result;
}

void drain_events(ibv_context *context)
{
    while (next_event(context, milliseconds(0)))
        ;
}

ibv_send_wr remote_request(ibv_wr_opcode opcode, std::span<ibv_sge> sges, uint64_t addr, uint32_t rkey,
                           uint64_t operand)
{
    ibv_send_wr wr{};
    wr.wr_id = 9;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = addr;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = operand;
    } else {
        wr.wr.rdma.remote_addr = addr;
        wr.wr.rdma.rkey = rkey;
    }
    return wr;
}

void post_send(ibv_qp *qp, ibv_send_wr &wr)
{
    ibv_send_wr *bad = nullptr;
    const int error = ibv_post_send(qp, &wr, &bad);
    require(!error, "ibv_post_send(wr_id {}): {}", wr.wr_id, std::strerror(error));
}

void post_recv(ibv_qp *qp, uint64_t wr_id, std::span<ibv_sge> sges)
{
    ibv_recv_wr wr{};
    ibv_recv_wr *bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    const int error = ibv_post_recv(qp, &wr, &bad);
    require(!error, "ibv_post_recv(wr_id {}): {}", wr_id, std::strerror(error));
}

void post_srq_recv(ibv_srq *srq, uint64_t wr_id, std::span<ibv_sge> sges)
{
    ibv_recv_wr wr{};
    ibv_recv_wr *bad = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    const int error = ibv_post_srq_recv(srq, &wr, &bad);
    require(!error, "ibv_post_srq_recv(wr_id {}): {}", wr_id, std::strerror(error));
}

ibv_sge sge_of(std::span<std::byte> memory, const ibv_mr *mr)
{
    return {reinterpret_cast<uintptr_t>(memory.data()), static_cast<uint32_t>(memory.size()),
            mr->lkey};
}

Endpoint make_endpoint(const Side &side, const QpSize &size, int cq_entries)
{
    Endpoint end;
    end.side = &side;
    end.send_cq = make_cq(side, cq_entries);
    end.recv_cq = make_cq(side, cq_entries);
    end.qp = make_qp(side, end.send_cq.get(), end.recv_cq.get(), size);
    return end;
}

Pair make_pair(const Sides &sides, const Link &link, const QpSize &size)
{
    Pair pair{make_endpoint(sides.a, size), make_endpoint(sides.b, size)};
    connect(sides.a, pair.a.qp.get(), sides.b, pair.b.qp.get(), link);
    return pair;
}

} // namespace rocev2::test
