// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What `rdma` shows of devices, objects and statistics must be what verbs programs see and did:
// this program makes objects, runs traffic, and compares values with the JSON of the tool.
#include "common/memory.hpp"
#include "common/verbs.hpp"

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <fstream>
#include <thread>

using namespace rocev2::test;
using Json = nlohmann::json;
using std::chrono::milliseconds;

namespace {

// ---------------------------------------------------------------------------
// The tool

Json rdma(std::vector<std::string> arguments)
{
    std::vector<std::string> argv{"rdma", "-j", "-dd"};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    const std::string text = run_command(argv);
    const Json result = Json::parse(text, nullptr, false);
    require(!result.is_discarded(), "not JSON: {}", text);
    return result;
}

// What a refused command says; fails the case if it is not refused.
std::string refused(std::vector<std::string> arguments)
{
    arguments.insert(arguments.begin(), "rdma");
    try {
        run_command(arguments);
    } catch (const Failure &failure) {
        return failure.what();
    }
    fail("`{}` was not refused", fmt::join(arguments, " "));
}

std::string port_name(const Side &side)
{
    return side.device + "/1";
}

// The objects of one device, of those that a predicate wants.
std::vector<Json> objects(const Side &side, const std::string &type,
                          const std::function<bool(const Json &)> &wanted)
{
    std::vector<Json> found;
    for (const Json &one : rdma({"resource", "show", type}))
        if (one.value("ifname", "") == side.device && wanted(one))
            found.push_back(one);
    return found;
}

bool ours(const Json &object)
{
    return object.value("pid", 0) == getpid();
}

Json only(const std::vector<Json> &found, const char *what)
{
    require(found.size() == 1, "{} of {} are shown instead of 1: {}", found.size(), what,
            Json(found).dump());
    return found.front();
}

template <typename T>
void same(const Json &object, const char *field, const T &expected)
{
    const auto at = object.find(field);
    require(at != object.end(), "no {} in {}", field, object.dump());
    require(*at == Json(expected), "{} is {}, expected {}: {}", field, at->dump(),
            Json(expected).dump(), object.dump());
}

// Keys come as text in hexadecimal.
uint64_t number(const Json &object, const char *field)
{
    const auto at = object.find(field);
    require(at != object.end(), "no {} in {}", field, object.dump());
    if (at->is_string())
        return std::stoull(at->get<std::string>(), nullptr, 16);
    return at->get<uint64_t>();
}

void same_number(const Json &object, const char *field, uint64_t expected)
{
    require(number(object, field) == expected, "{} is {:#x}, expected {:#x}: {}", field,
            number(object, field), expected, object.dump());
}

std::string comm()
{
    std::ifstream file("/proc/self/comm");
    std::string name;
    std::getline(file, name);
    return name;
}

Json qp_object(const Side &side, const ibv_qp *qp)
{
    return only(objects(side, "qp",
                        [&](const Json &one) { return one.value("lqpn", 0u) == qp->qp_num; }),
                "the QP");
}

// ---------------------------------------------------------------------------
// Devices and links

std::string guid_text(__be64 guid)
{
    std::array<uint8_t, 8> bytes{};
    std::memcpy(bytes.data(), &guid, bytes.size());
    std::string text;
    for (size_t i = 0; i < bytes.size(); i += 2)
        text += fmt::format("{}{:02x}{:02x}", i ? ":" : "", bytes[i], bytes[i + 1]);
    return text;
}

void device(const Side &side)
{
    const Json dev = only(rdma({"dev", "show", side.device}), "the device");
    same(dev, "ifname", side.device);
    same(dev, "node_type", "ca");
    same(dev, "node_guid", guid_text(side.attr.node_guid));
    same(dev, "sys_image_guid", guid_text(side.attr.sys_image_guid));
    same(dev, "fw", std::string(side.attr.fw_ver));
    const Json caps = dev.at("caps");
    const auto has = [&](const char *cap) {
        return std::find(caps.begin(), caps.end(), Json(cap)) != caps.end();
    };
    require(has("MEM_WINDOW") && has("MEM_MGT_EXTENSIONS") && has("SRQ_RESIZE") &&
                has("RC_RNR_NAK_GEN"),
            "capabilities are missing: {}", caps.dump());
    for (const char *cap : {"AUTO_PATH_MIG", "RAW_MULTI", "UD_AV_PORT_ENFORCE", "XRC",
                            "SIGNATURE_HANDOVER"})
        require(!has(cap), "claims {}: {}", cap, caps.dump());
}

void link(const Side &side)
{
    // the netdev is named inside its namespace only
    const std::string text = run_command(
        {"ip", "netns", "exec", side.netns, "rdma", "-j", "-dd", "link", "show", port_name(side)});
    const Json link = only(Json::parse(text), "the link");
    same(link, "state", "ACTIVE");
    same(link, "physical_state", "LINK_UP");
    const std::string netdev = link.at("netdev");
    const std::string index = run_command({"ip", "netns", "exec", side.netns, "cat",
                                           "/sys/class/net/" + netdev + "/ifindex"});
    same_number(link, "netdev_index", std::stoull(index));
}

// ---------------------------------------------------------------------------
// Objects

void post_sends(Pair &pair, uint32_t length, int count, const Mr &mr, std::span<std::byte> memory)
{
    for (int i = 0; i < count; i++) {
        std::array sges{sge_of(memory.first(length), mr.get())};
        ibv_send_wr wr{};
        wr.wr_id = 1;
        wr.sg_list = sges.data();
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        post_send(pair.a.qp.get(), wr);
        check_wc(must_poll(pair.a.send_cq.get(), "send"), IBV_WC_SUCCESS, 1, pair.a.qp.get(),
                 "send");
    }
}

void post_receives(Pair &pair, uint32_t length, int count, const Mr &mr, std::span<std::byte> memory)
{
    std::array sges{sge_of(memory.first(length), mr.get())};
    for (int i = 0; i < count; i++)
        post_recv(pair.b.qp.get(), 2, sges);
}

// A pair of RC QPs with memory for SENDs of up to a page.
struct Traffic {
    Traffic(const Sides &sides, const Link &link)
        : pair(make_pair(sides, link)), mr_a(make_mr(sides.a, memory_a.span(), all_access)),
          mr_b(make_mr(sides.b, memory_b.span(), all_access))
    {
    }

    void send(int count, uint32_t length = 100)
    {
        post_receives(pair, length, count, mr_b, memory_b.span());
        post_sends(pair, length, count, mr_a, memory_a.span());
        for (int i = 0; i < count; i++)
            check_wc(must_poll(pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, 2,
                     pair.b.qp.get(), "receive");
    }

    ibv_qp *a() const { return pair.a.qp.get(); }
    ibv_qp *b() const { return pair.b.qp.get(); }

    Buffer memory_a{page_size};
    Buffer memory_b{page_size};
    Pair pair;
    Mr mr_a;
    Mr mr_b;
};

void queue_pairs(const Sides &sides, const Link &link)
{
    Traffic traffic(sides, link);
    const auto check = [&](const Side &side, const ibv_qp *qp, const ibv_qp *peer, uint32_t rq_psn,
                           uint32_t sq_psn) {
        const Json shown = qp_object(side, qp);
        same(shown, "port", 1);
        same(shown, "type", "RC");
        same(shown, "state", "RTS");
        same(shown, "rqpn", peer->qp_num);
        same(shown, "rq-psn", rq_psn);
        same(shown, "sq-psn", sq_psn);
        same(shown, "path-mig-state", "MIGRATED");
        same(shown, "pid", getpid());
        same(shown, "comm", comm());
        same_number(shown, "drv_dest_qpn", peer->qp_num);
        same_number(shown, "drv_mtu", mtu_bytes(link.mtu));
        same_number(shown, "drv_resp_epsn", rq_psn);
        same_number(shown, "drv_req_psn", sq_psn);
        same_number(shown, "drv_inflight", 0);
        return shown;
    };
    const auto psn = [](uint32_t first, uint32_t packets) { return (first + packets) & 0xffffff; };
    check(sides.a, traffic.a(), traffic.b(), link.psn_b, link.psn_a);
    check(sides.b, traffic.b(), traffic.a(), link.psn_a, link.psn_b);
    traffic.send(5);
    const Json a = check(sides.a, traffic.a(), traffic.b(), link.psn_b, psn(link.psn_a, 5));
    same_number(a, "drv_sq_una", 5);
    const Json b = check(sides.b, traffic.b(), traffic.a(), psn(link.psn_a, 5), link.psn_b);
    same_number(b, "drv_resp_msn", 5);

    must_modify(traffic.a(), state_step(IBV_QPS_ERR), "ERR");
    same(qp_object(sides.a, traffic.a()), "state", "ERR");
    const uint32_t qpn = traffic.pair.a.qp->qp_num;
    traffic.pair.a.qp.reset();
    require(objects(sides.a, "qp",
                    [&](const Json &one) { return one.value("lqpn", 0u) == qpn; })
                .empty(),
            "a destroyed QP is shown");
}

void services(const Side &side, const Link &link)
{
    const Cq cq = make_cq(side, 16);
    struct Service {
        ibv_qp_type type;
        const char *name;
    };
    for (const Service &one : {Service{IBV_QPT_RC, "RC"}, Service{IBV_QPT_UC, "UC"},
                               Service{IBV_QPT_UD, "UD"}}) {
        ibv_qp_init_attr init{};
        init.send_cq = cq.get();
        init.recv_cq = cq.get();
        init.qp_type = one.type;
        init.cap.max_send_wr = 4;
        init.cap.max_recv_wr = 4;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        const Qp qp(ibv_create_qp(side.pd.get(), &init));
        require(static_cast<bool>(qp), "no {} QP: {}", one.name, std::strerror(errno));
        Json shown = qp_object(side, qp.get());
        same(shown, "type", one.name);
        same(shown, "state", "RESET");
        Modify init_qp = init_step(side, link);
        if (one.type == IBV_QPT_UD) {
            init_qp.attr.qkey = 0x1234;
            init_qp.mask = (init_qp.mask & ~IBV_QP_ACCESS_FLAGS) | IBV_QP_QKEY;
        }
        must_modify(qp.get(), init_qp, "INIT");
        shown = qp_object(side, qp.get());
        same(shown, "state", "INIT");
        // only connected services have a peer, and a path that could migrate
        const bool connected = one.type != IBV_QPT_UD;
        require(shown.contains("path-mig-state") == connected, "{}: {}", one.name, shown.dump());
        require(shown.contains("rqpn") == connected, "{}: {}", one.name, shown.dump());
    }
}

void protection_domains(const Side &outer)
{
    // a context of its own, which then is the only one of this process that has one PD
    const auto contexts = [&] { return objects(outer, "ctx", ours); };
    const std::vector<Json> before = contexts();
    Side side = open_side(outer.name, outer.device, outer.netns, 1);
    side.gid_index = outer.gid_index;
    std::vector<Json> added;
    for (const Json &one : contexts())
        if (std::find(before.begin(), before.end(), one) == before.end())
            added.push_back(one);
    const Json context = only(added, "the new context");
    same(context, "comm", comm());
    const auto in_context = [&](const Json &one) {
        return one.value("ctxn", -1) == context.at("ctxn").get<int>();
    };
    const auto pd = [&] { return only(objects(side, "pd", in_context), "the PD"); };
    same(pd(), "users", 0);
    same(pd(), "pid", getpid());

    const Cq cq = make_cq(side, 100);
    const Json cq_shown = only(objects(side, "cq", in_context), "the CQ");
    same(cq_shown, "cqe", cq->cqe);
    same(cq_shown, "users", 0);
    same(cq_shown, "comm", comm());
    {
        Buffer memory(page_size * 4);
        const Mr mr = make_mr_iova(side, memory.span(5, 12345), 0x10000005, all_access);
        const auto in_pd = [&](const Json &one) {
            return one.value("pdn", -1) == pd().at("pdn").get<int>();
        };
        const Json mr_shown = only(objects(side, "mr", in_pd), "the MR");
        same_number(mr_shown, "lkey", mr->lkey);
        same_number(mr_shown, "rkey", mr->rkey);
        same_number(mr_shown, "mrlen", 12345);
        same(mr_shown, "pid", getpid());
        same_number(mr_shown, "drv_access", static_cast<uint64_t>(all_access));
        same(pd(), "users", 1);
        const Srq srq = make_srq(side, 50);
        const Qp qp = make_qp(side, cq.get(), cq.get(), {.srq = srq.get()});
        // MR, SRQ and QP
        same(pd(), "users", 3);
        const Json srq_shown = only(objects(side, "srq", in_pd), "the SRQ");
        same(srq_shown, "type", "BASIC");
        same(srq_shown, "pid", getpid());
        const Json srq_qps = srq_shown.at("lqpn");
        require(srq_qps.dump().find(std::to_string(qp->qp_num)) != std::string::npos,
                "the SRQ's QP {} is not in {}", qp->qp_num, srq_shown.dump());
        // once to send, once to receive
        same(only(objects(side, "cq", in_context), "the CQ"), "users", 2);
        same(qp_object(side, qp.get()), "pdn", pd().at("pdn"));
        std::array sges{sge_of(memory.span(5, 100), mr.get())};
        post_srq_recv(srq.get(), 1, sges);
    }
    same(pd(), "users", 0);
}

void completion_queues(const Sides &sides, const Link &link)
{
    Traffic traffic(sides, link);
    const auto cqs = [&] {
        std::vector<Json> found = objects(sides.a, "cq", [&](const Json &one) {
            return ours(one) && one.value("users", 0) == 1;
        });
        return found;
    };
    traffic.send(9);
    bool seen = false;
    for (const Json &one : cqs())
        seen = seen || (number(one, "drv_producer") == 9 && number(one, "drv_consumer") == 9 &&
                        one.at("cqe") == traffic.pair.a.send_cq->cqe);
    require(seen, "no CQ with 9 completions made and taken: {}", Json(cqs()).dump());
}

// The counts of `rdma resource show` follow objects.
void summary(const Side &side)
{
    const auto before = resource_counts(side.device);
    {
        const Cq cq = make_cq(side, 10);
        Buffer memory(page_size);
        const Mr mr = make_mr(side, memory.span(), IBV_ACCESS_LOCAL_WRITE);
        const Srq srq = make_srq(side, 10);
        const Qp qp = make_qp(side, cq.get(), cq.get(), {.srq = srq.get()});
        const Pd pd(ibv_alloc_pd(side.context.get()));
        auto now = resource_counts(side.device);
        for (const char *type : {"pd", "cq", "mr", "qp", "srq"})
            require(now[type] == before.at(type) + 1, "{} {}: it was {}", now[type], type,
                    before.at(type));
    }
    require(resource_counts(side.device) == before, "objects remain");
}

// ---------------------------------------------------------------------------
// Statistics

using Counters = std::map<std::string, uint64_t>;

// The numbers among the fields of an object.
Counters numbers(const Json &object)
{
    Counters counters;
    for (const auto &[name, value] : object.items())
        if (value.is_number_unsigned() && name != "port" && name != "cntn" && name != "ifindex" &&
            name != "pid")
            counters[name] = value.get<uint64_t>();
    return counters;
}

Counters port_counters(const Side &side)
{
    return numbers(only(rdma({"statistic", "show", "link", port_name(side)}), "the port"));
}

Counters since(const Counters &now, const Counters &before)
{
    Counters difference;
    for (const auto &[name, value] : now)
        if (value != before.at(name))
            difference[name] = value - before.at(name);
    return difference;
}

std::string to_text(const Counters &counters)
{
    return Json(counters).dump();
}

std::vector<Json> qp_statistics(const Side &side)
{
    return rdma({"statistic", "qp", "show", "link", port_name(side)});
}

std::vector<uint32_t> qps_of(const Json &statistic)
{
    std::vector<uint32_t> qps;
    for (const Json &one : statistic.at("lqpn"))
        qps.push_back(one.is_string() ? static_cast<uint32_t>(std::stoul(one.get<std::string>()))
                                      : one.get<uint32_t>());
    std::sort(qps.begin(), qps.end());
    return qps;
}

// The one counter that a QP is bound to.
Json statistic_of(const Side &side, const ibv_qp *qp)
{
    std::vector<Json> found;
    for (const Json &one : qp_statistics(side)) {
        const std::vector<uint32_t> qps = qps_of(one);
        if (std::find(qps.begin(), qps.end(), qp->qp_num) != qps.end())
            found.push_back(one);
    }
    return only(found, "the QP's counter");
}

// Those that are not 0.
Counters counted(const Side &side, const ibv_qp *qp)
{
    Counters counters = numbers(statistic_of(side, qp));
    std::erase_if(counters, [](const auto &one) { return one.second == 0; });
    return counters;
}

void bind(const Side &side, const ibv_qp *qp, int counter = 0)
{
    std::vector<std::string> argv{"rdma", "statistic", "qp", "bind", "link", port_name(side),
                                  "lqpn", std::to_string(qp->qp_num)};
    if (counter)
        argv.insert(argv.end(), {"cntn", std::to_string(counter)});
    run_command(argv);
}

void unbind(const Side &side, const ibv_qp *qp)
{
    run_command({"rdma", "statistic", "qp", "unbind", "link", port_name(side), "cntn",
                 std::to_string(statistic_of(side, qp).at("cntn").get<int>()), "lqpn",
                 std::to_string(qp->qp_num)});
}

void set_auto(const Side &side, std::vector<std::string> how)
{
    std::vector<std::string> argv{"rdma", "statistic", "qp", "set", "link", port_name(side),
                                  "auto"};
    argv.insert(argv.end(), how.begin(), how.end());
    run_command(argv);
}

// Bytes of one packet from the IP header on: a SEND with so much payload.
uint64_t send_bytes(const Sides &sides, uint32_t payload)
{
    const uint64_t ip = kind_of(sides.a.gid) == GidKind::ipv4 ? 20 : 40;
    return ip + 8 + 12 + ((payload + 3) & ~3u) + 4;
}

void bound(const Sides &sides, const Link &link)
{
    Traffic traffic(sides, link);
    Traffic other(sides, link);
    traffic.send(3);
    const Counters start_a = port_counters(sides.a);
    const Counters start_b = port_counters(sides.b);
    require(qp_statistics(sides.a).empty(), "there are counters already");

    bind(sides.a, traffic.a());
    bind(sides.b, traffic.b());
    require(counted(sides.a, traffic.a()).empty(), "counts from before the QP was bound: {}",
            to_text(counted(sides.a, traffic.a())));
    traffic.send(7);
    Counters a = counted(sides.a, traffic.a());
    Counters b = counted(sides.b, traffic.b());
    require(a["tx_packets"] == 7 && a["tx_bytes"] == 7 * send_bytes(sides, 100), "a: {}",
            to_text(a));
    require(b["rx_packets"] == a["tx_packets"] && b["rx_bytes"] == a["tx_bytes"], "b: {}, a: {}",
            to_text(b), to_text(a));
    require(a["rx_packets"] == 7 && a["rx_packets"] == b["tx_packets"] &&
                a["rx_bytes"] == b["tx_bytes"],
            "acknowledgments: a {}, b {}", to_text(a), to_text(b));
    require(a.count("mr_cache_hit") || a.count("mr_cache_miss"), "memory lookups: {}", to_text(a));
    require(since(port_counters(sides.a), start_a) == a, "the port counts {}, its only QP {}",
            to_text(since(port_counters(sides.a), start_a)), to_text(a));
    require(since(port_counters(sides.b), start_b) == b, "the port counts {}, its only QP {}",
            to_text(since(port_counters(sides.b), start_b)), to_text(b));

    // a QP that is not bound counts at the port alone
    other.send(5);
    require(counted(sides.a, traffic.a()) == a, "counts what another QP does");
    const Counters port = since(port_counters(sides.a), start_a);
    require(port.at("tx_packets") == 12, "the port counts {}", to_text(port));

    // nothing is lost with the binding, and the QP counts at the port again
    unbind(sides.a, traffic.a());
    require(qp_statistics(sides.a).empty(), "the counter is still there");
    require(since(port_counters(sides.a), start_a) == port, "the port counts {}, before {}",
            to_text(since(port_counters(sides.a), start_a)), to_text(port));
    traffic.send(2);
    require(since(port_counters(sides.a), start_a).at("tx_packets") == 14, "the port counts {}",
            to_text(since(port_counters(sides.a), start_a)));

    // ... nor with the QP
    traffic.pair.b.qp.reset();
    require(qp_statistics(sides.b).empty(), "the counter outlives its QP");
    require(since(port_counters(sides.b), start_b).at("rx_packets") == 14, "the port counts {}",
            to_text(since(port_counters(sides.b), start_b)));
}

void shared_counter(const Sides &sides, const Link &link)
{
    Traffic one(sides, link);
    Traffic two(sides, link);
    bind(sides.a, one.a());
    const int id = statistic_of(sides.a, one.a()).at("cntn").get<int>();
    bind(sides.a, two.a(), id);
    std::vector<uint32_t> both{one.a()->qp_num, two.a()->qp_num};
    std::sort(both.begin(), both.end());
    require(qps_of(statistic_of(sides.a, one.a())) == both, "QPs of the counter: {}",
            statistic_of(sides.a, one.a()).dump());
    one.send(3);
    two.send(4);
    require(counted(sides.a, two.a()).at("tx_packets") == 7, "counts {}",
            to_text(counted(sides.a, two.a())));
    one.pair.a.qp.reset();
    two.send(1);
    require(counted(sides.a, two.a()).at("tx_packets") == 8, "counts {}",
            to_text(counted(sides.a, two.a())));
}

// Every reason that a QP has for a retry, a NAK or a drop is in its own counter.
void reasons(const Sides &sides, Link link)
{
    link.rnr_retry = 1;
    link.min_rnr_timer = 1;
    const auto expect_error = [&](Traffic &traffic, ibv_wc_opcode opcode, ibv_wc_status status,
                                  uint32_t rkey) {
        std::array sges{sge_of(traffic.memory_a.span(0, 64), traffic.mr_a.get())};
        ibv_send_wr wr{};
        wr.wr_id = 5;
        wr.sg_list = sges.data();
        wr.num_sge = 1;
        wr.opcode = opcode == IBV_WC_SEND ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = reinterpret_cast<uintptr_t>(traffic.memory_b.data());
        wr.wr.rdma.rkey = rkey;
        post_send(traffic.a(), wr);
        check_wc(must_poll(traffic.pair.a.send_cq.get(), "error"), status, 5, traffic.a(),
                 "error");
    };
    const auto has = [](const Counters &counters, const char *name, uint64_t value) {
        const auto at = counters.find(name);
        require((at == counters.end() ? 0 : at->second) == value, "{} should be {}: {}", name, value,
                to_text(counters));
    };
    {
        note("receiver not ready");
        Traffic traffic(sides, link);
        bind(sides.a, traffic.a());
        bind(sides.b, traffic.b());
        expect_error(traffic, IBV_WC_SEND, IBV_WC_RNR_RETRY_EXC_ERR, 0);
        // asked, and once more
        const Counters a = counted(sides.a, traffic.a());
        has(a, "req_rnr_nak", 2);
        has(a, "rnr_nak_retry_err", 1);
        has(a, "tx_packets", 2);
        has(counted(sides.b, traffic.b()), "resp_rnr_nak", 2);
    }
    {
        note("remote access error");
        Traffic traffic(sides, link);
        bind(sides.a, traffic.a());
        bind(sides.b, traffic.b());
        expect_error(traffic, IBV_WC_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, traffic.mr_b->rkey ^ 0x5a);
        has(counted(sides.a, traffic.a()), "req_remote_access_errors", 1);
        has(counted(sides.b, traffic.b()), "resp_remote_access_errors", 1);
    }
    {
        note("no answer");
        link.retry_cnt = 2;
        link.timeout = 14;
        Traffic traffic(sides, link);
        bind(sides.a, traffic.a());
        bind(sides.b, traffic.b());
        must_modify(traffic.b(), state_step(IBV_QPS_ERR), "ERR");
        expect_error(traffic, IBV_WC_RDMA_WRITE, IBV_WC_RETRY_EXC_ERR, traffic.mr_b->rkey);
        const Counters a = counted(sides.a, traffic.a());
        // the last time-out ends it
        has(a, "local_ack_timeout_err", 3);
        has(a, "req_retries_exceeded", 1);
        has(a, "tx_packets", 3);
        const Counters b = counted(sides.b, traffic.b());
        has(b, "rx_packets", 3);
        has(b, "rx_drop_state", 3);
        has(b, "tx_packets", 0);
    }
    drain_events(sides.a.context.get());
    drain_events(sides.b.context.get());
}

void automatic(const Sides &sides, const Link &link)
{
    struct Off {
        const Side &side;
        ~Off() { set_auto(side, {"off"}); }
    };
    {
        const Off off{sides.a};
        set_auto(sides.a, {"type", "on"});
        Traffic one(sides, link);
        Traffic two(sides, link);
        const Side &side = sides.a;
        const Cq cq = make_cq(side, 16);
        ibv_qp_init_attr init{};
        init.send_cq = cq.get();
        init.recv_cq = cq.get();
        init.qp_type = IBV_QPT_UC;
        init.cap.max_send_wr = 4;
        init.cap.max_recv_wr = 4;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        const Qp uc(ibv_create_qp(side.pd.get(), &init));
        require(static_cast<bool>(uc), "no UC QP: {}", std::strerror(errno));
        Modify step = init_step(side, link);
        step.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        must_modify(uc.get(), step, "INIT");

        const Json rc = statistic_of(side, one.a());
        std::vector<uint32_t> both{one.a()->qp_num, two.a()->qp_num};
        std::sort(both.begin(), both.end());
        require(qps_of(rc) == both, "QPs of the counter: {}", rc.dump());
        same(rc, "qp-type", "RC");
        same(statistic_of(side, uc.get()), "qp-type", "UC");
        require(qps_of(statistic_of(side, uc.get())) == std::vector{uc->qp_num}, "{}",
                statistic_of(side, uc.get()).dump());
        one.send(2);
        two.send(3);
        require(counted(side, one.a()).at("tx_packets") == 5, "counts {}",
                to_text(counted(side, one.a())));
        require(counted(side, uc.get()).empty(), "counts {}", to_text(counted(side, uc.get())));
        // only one way at a time
        refused({"statistic", "qp", "unbind", "link", port_name(side), "cntn",
                 std::to_string(rc.at("cntn").get<int>()), "lqpn", std::to_string(one.a()->qp_num)});
    }
    require(qp_statistics(sides.a).empty(), "counters outlive their QPs");
    {
        const Off off{sides.a};
        set_auto(sides.a, {"pid", "on"});
        Traffic traffic(sides, link);
        same(statistic_of(sides.a, traffic.a()), "pid", getpid());
    }
    Traffic traffic(sides, link);
    require(qp_statistics(sides.a).empty(), "bound though it is off");
}

void refusals(const Sides &sides, const Link &link)
{
    Traffic traffic(sides, link);
    const std::string port = port_name(sides.a);
    const std::string qpn = std::to_string(traffic.a()->qp_num);
    const auto says = [](const std::string &text, const char *error) {
        require(text.find(error) != std::string::npos, "expected \"{}\": {}", error, text);
    };
    says(refused({"statistic", "qp", "bind", "link", port, "lqpn", "16777214"}),
         std::strerror(ENOENT));
    says(refused({"statistic", "qp", "bind", "link", port, "lqpn", qpn, "cntn", "60000"}),
         std::strerror(ENOENT));
    bind(sides.a, traffic.a());
    refused({"statistic", "qp", "bind", "link", port, "lqpn", qpn});
    require(qp_statistics(sides.a).size() == 1, "a refused binding left a counter: {}",
            Json(qp_statistics(sides.a)).dump());
    // automatic mode would take QPs away from the counters
    refused({"statistic", "qp", "set", "link", port, "auto", "type", "on"});
    unbind(sides.a, traffic.a());
    // no counter costs enough to be switched off
    refused({"statistic", "set", "link", port, "optional-counters", "rx_packets"});
}

// Packets that were sent by A have come to B, however often counters came and went meanwhile.
void under_traffic(const Sides &sides, const Link &link)
{
    const Counters start_a = port_counters(sides.a);
    const Counters start_b = port_counters(sides.b);
    {
        Traffic traffic(sides, link);
        std::atomic<bool> stop{false};
        std::exception_ptr thrown;
        int rounds = 0;
        std::thread binder([&] {
            try {
                for (; !stop; rounds++) {
                    bind(sides.a, traffic.a());
                    bind(sides.b, traffic.b());
                    qp_statistics(sides.a);
                    unbind(sides.a, traffic.a());
                    unbind(sides.b, traffic.b());
                }
            } catch (...) {
                thrown = std::current_exception();
            }
        });
        try {
            const auto end = Clock::now() + milliseconds(3000);
            while (Clock::now() < end)
                traffic.send(50);
        } catch (...) {
            stop = true;
            binder.join();
            throw;
        }
        stop = true;
        binder.join();
        if (thrown)
            std::rethrow_exception(thrown);
        diag(fmt::format("{} rounds of binding", rounds));
        require(rounds > 2, "only {} rounds", rounds);
    }
    const Counters a = since(port_counters(sides.a), start_a);
    const Counters b = since(port_counters(sides.b), start_b);
    require(a.at("tx_packets") == b.at("rx_packets") && a.at("tx_bytes") == b.at("rx_bytes") &&
                a.at("rx_packets") == b.at("tx_packets") && a.at("rx_bytes") == b.at("tx_bytes"),
            "a: {}, b: {}", to_text(a), to_text(b));
}

void add_cases(Ktap &ktap, Sides &sides, const Options &options)
{
    select_default_gids(sides, options);
    Link connection = link_from(options);
    // a busy machine may answer late; packets that are sent again would count
    connection.timeout = 20;
    ktap.add("dev", [&] { device(sides.a); });
    ktap.add("link", [&] { link(sides.a); });
    ktap.add("resource.summary", [&] { summary(sides.a); });
    ktap.add("resource.qp", [&, connection] { queue_pairs(sides, connection); });
    ktap.add("resource.services", [&, connection] { services(sides.a, connection); });
    ktap.add("resource.ctx_pd_cq_mr_srq", [&] { protection_domains(sides.a); });
    ktap.add("resource.cq", [&, connection] { completion_queues(sides, connection); });
    ktap.add("statistic.bound", [&, connection] { bound(sides, connection); });
    ktap.add("statistic.shared", [&, connection] { shared_counter(sides, connection); });
    ktap.add("statistic.reasons", [&, connection] { reasons(sides, connection); });
    ktap.add("statistic.auto", [&, connection] { automatic(sides, connection); });
    ktap.add("statistic.refusals", [&, connection] { refusals(sides, connection); });
    ktap.add("statistic.under_traffic", [&, connection] { under_traffic(sides, connection); });
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Compares what `rdma` shows with what verbs made and did.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("rdma_tool", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) { add_cases(ktap, sides, options); });
}
