// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What the QP's address says, on the wire: DSCP and ECN, flow label, hop limit, UDP source port and
// VLAN tag, of requests and of answers alike.
#include "wire/bench.hpp"

#include <set>

namespace rocev2::wire {

namespace {

// wire_drops.sh gives the namespace these; ib_core resolves hop limits from the route.
constexpr std::uint8_t ipv4_ttl = 77;
constexpr std::uint8_t ipv6_hop_limit = 78;

// The port's 14 low bits are the 20 bits of the flow label folded; without a label, those of the
// product of the QPNs folded (rdma_flow_label_to_udp_sport(), rdma_calc_flow_label()).
std::uint16_t source_port(std::uint32_t flow_label, std::uint32_t lqpn, std::uint32_t rqpn)
{
    if (!flow_label) {
        std::uint64_t product = std::uint64_t{lqpn} * rqpn;
        product ^= product >> 20;
        product ^= product >> 40;
        flow_label = static_cast<std::uint32_t>(product & 0xfffff);
    }
    return static_cast<std::uint16_t>(0xc000 | ((flow_label & 0x3fff) ^ (flow_label >> 14)));
}

class PathBench : public Bench {
public:
    PathBench(Bed &bed, GidKind kind, const Setup &setup)
        : Bench(bed, kind, setup), setup_(setup),
          port_(source_port(setup.flow_label, qp->qp_num, peer_qpn))
    {
    }

    // a packet with this opcode, all of whose lower headers are the QP's
    Decoded take(std::uint8_t opcode) const
    {
        const Decoded d = receive("a packet");
        require(d.opcode == opcode, "expected opcode {:#x}, not {}", opcode, d.text());
        require(d.tos == setup_.traffic_class, "traffic class {:#x}, expected {:#x}, of {}", d.tos,
                setup_.traffic_class, d.text());
        const auto ttl = d.ipv6 ? ipv6_hop_limit : ipv4_ttl;
        require(d.ttl == ttl, "hop limit {}, expected {}, of {}", d.ttl, ttl, d.text());
        if (d.ipv6)
            require(d.flow_label == setup_.flow_label, "flow label {:#x}, expected {:#x}, of {}",
                    d.flow_label, setup_.flow_label, d.text());
        require(d.sport == port_, "UDP source port {:#x}, expected {:#x}, of {}", d.sport, port_,
                d.text());
        require(d.vlan.value_or(0) == tci(), "VLAN tag {:#x}, expected {:#x}, of {}",
                d.vlan.value_or(0), tci(), d.text());
        return d;
    }

    void requests()
    {
        std::uint32_t psn = device_psn, msn = 0;
        const auto acknowledge_all = [&](std::size_t packets) {
            psn = psn_add(psn, static_cast<std::uint32_t>(packets));
            send(ack(psn_add(psn, 0xffffff), 0x1f, ++msn));
            expect_wc(cq.get(), IBV_WC_SUCCESS, msn);
        };
        post(1, IBV_WR_RDMA_WRITE, 0, 2 * mtu + 3);
        for (const std::uint8_t opcode : {write_first, write_middle, write_last})
            take(opcode);
        acknowledge_all(3);
        post(2, IBV_WR_SEND, 0, 5);
        take(send_only);
        acknowledge_all(1);
        post(3, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8);
        take(fetch_add);
        post(4, IBV_WR_RDMA_READ, 0, 64);
        take(read_request);
    }

    void answers()
    {
        send(write());
        take(acknowledge);
        expected = psn_add(expected, 1);
        send(packet(read_request, reth(memory.va(), memory.mr->rkey, 2 * mtu + 1)));
        for (const std::uint8_t opcode :
             {read_response_first, read_response_middle, read_response_last})
            take(opcode);
        expected = psn_add(expected, 3);
        send(packet(fetch_add, atomic_eth(memory.va(), memory.mr->rkey, 1, 0)));
        take(atomic_acknowledge);
        expected = psn_add(expected, 1);
        Packet ahead = write();
        ahead.psn = psn_add(expected, 2);
        send(ahead);
        require(take(acknowledge).syndrome() == nak_sequence, "expected a sequence NAK");
    }

    void query() const
    {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        require(!ibv_query_qp(qp.get(), &attr, IBV_QP_AV, &init), "ibv_query_qp failed");
        const auto &grh = attr.ah_attr.grh;
        require(grh.traffic_class == setup_.traffic_class && grh.flow_label == setup_.flow_label &&
                    attr.ah_attr.sl == setup_.sl &&
                    grh.hop_limit == (kind() == GidKind::ipv4 ? ipv4_ttl : ipv6_hop_limit),
                "ibv_query_qp: traffic class {:#x}, flow label {:#x}, SL {}, hop limit {}",
                grh.traffic_class, grh.flow_label, attr.ah_attr.sl, grh.hop_limit);
    }

private:
    std::uint16_t tci() const
    {
        return bed().vlan ? static_cast<std::uint16_t>(*bed().vlan | setup_.sl << 13) : std::uint16_t{0};
    }

    Setup setup_;
    std::uint16_t port_;
};

void run_path(Bed &bed, GidKind kind, const Setup &setup)
{
    PathBench b(bed, kind, setup);
    b.query();
    b.requests();
    b.answers();
}

struct Row {
    const char *name;
    std::uint8_t traffic_class;
    std::uint32_t flow_label;
};

const Row rows[] = {
    {"default", 0, 0},
    {"dscp_46_ect_0", 46 << 2 | 2, 0},
    {"ecn_ce", 3, 1},
    {"dscp_26_ect_1", 26 << 2 | 1, 0x12345},
    {"all_bits", 0xff, 0xfffff},
    {"flow_label_low_bits", 0, 0x3fff},
    {"flow_label_high_bits", 0, 0xfc000},
};

// Without a flow label the QPNs make the difference; a QP keeps its port.
void run_entropy(Bed &bed, GidKind kind)
{
    constexpr std::size_t count = 16;
    std::set<std::uint16_t> ports;
    for (std::size_t i = 0; i < count; i++) {
        PathBench b(bed, kind, {});
        std::set<std::uint16_t> mine;
        for (std::uint64_t id = 1; id <= 8; id++) {
            b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
            mine.insert(b.take(write_only).sport);
        }
        b.send(b.write());
        mine.insert(b.take(acknowledge).sport);
        require(mine.size() == 1, "a QP sent from {} ports", mine.size());
        ports.insert(*mine.begin());
    }
    // 16384 ports: more than one pair of 16 QPs on the same one would be no chance
    require(ports.size() >= count - 1, "{} QPs share {} ports", count, ports.size());
}

// The addresses of a bed exchanged for those of the VLAN while a case runs.
class OnVlan {
public:
    explicit OnVlan(Bed &bed) : bed_(bed) { exchange(); }
    ~OnVlan() { exchange(); }
    OnVlan(const OnVlan &) = delete;
    OnVlan &operator=(const OnVlan &) = delete;

private:
    void exchange()
    {
        Bed::Vlan &vlan = *bed_.other_vlan;
        std::swap(bed_.peer_address[GidKind::ipv4], vlan.peer_address);
        std::swap(bed_.device_address[GidKind::ipv4], vlan.device_address);
        std::swap(bed_.gid_index[GidKind::ipv4], vlan.gid_index);
        if (bed_.vlan)
            bed_.vlan.reset();
        else
            bed_.vlan = vlan.id;
    }

    Bed &bed_;
};

void run_vlan(Bed &bed, GidKind kind, std::uint8_t sl)
{
    require(bed.other_vlan.has_value(), "no VLAN: give --vlan, --vlan-peer-ip4, --vlan-device-ip4");
    const OnVlan on_vlan(bed);
    run_path(bed, kind, {.traffic_class = 0x6a, .sl = sl});
    Bench b(bed, kind, {});
    Packet p = b.write();
    p.vlan.reset();
    b.send(p);
    b.expect_silence("an untagged packet to a QP on a VLAN");
    b.expect_counters({{"rx_drop_source", 1}});
    b.expect_alive();
}

} // namespace

void add_path_cases(Ktap &ktap, Bed &bed, GidKind kind)
{
    for (const Row &row : rows)
        add_case(ktap, bed, kind, fmt::format("path:{}", row.name), [&row](Bed &b, GidKind k) {
            run_path(b, k, {.traffic_class = row.traffic_class, .flow_label = row.flow_label});
        });
    add_case(ktap, bed, kind, "path:source_ports", run_entropy);
    if (kind == GidKind::ipv4)
        for (const std::uint8_t sl : {std::uint8_t{0}, std::uint8_t{5}, std::uint8_t{7}})
            add_case(ktap, bed, kind, fmt::format("path:vlan_sl_{}", sl),
                     [sl](Bed &b, GidKind k) { run_vlan(b, k, sl); });
}

} // namespace rocev2::wire
