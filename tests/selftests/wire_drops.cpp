// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Crafted packets at a live RC QP. The far end is this program: it speaks raw Ethernet, so it can
// say everything that a well-behaved sender cannot. Each case states the exact answer (silence, ACK,
// which NAK), what becomes of memory, completions and events, and which one counter moves by how
// much. Each packet that the device sends is checked against the specification on the way.
#include "wire/bench.hpp"

#include <cstdio>
#include <fstream>

using namespace rocev2::test;
using namespace rocev2::wire;

namespace {

// ---------------------------------------------------------------------------
// One packet, dropped in silence (or taken): the header fields one by one

struct Silent {
    const char *name;
    const char *counter; // nullptr: not ours, the network stack's
    std::function<void(Bench &, Packet &)> change;
};

const Silent silent[] = {
    {"udp_length_above_ip", "rx_drop_length", [](Bench &, Packet &p) { p.udp_length_off = 4; }},
    {"udp_length_below_ip", "rx_drop_length", [](Bench &, Packet &p) { p.udp_length_off = -4; }},
    {"udp_length_zero", "rx_drop_length",
     [](Bench &, Packet &p) { p.udp_length_off = -static_cast<int>(8 + 12 + 16 + 64 + 4); }},
    {"ip_length_beyond_frame", "rx_drop_length", [](Bench &, Packet &p) { p.ip_length_off = 4; }},
    {"ip_length_below_udp", "rx_drop_length", [](Bench &, Packet &p) { p.ip_length_off = -4; }},
    {"ip_length_without_udp", "rx_drop_length",
     [](Bench &, Packet &p) { p.ip_length_off = -static_cast<int>(8 + 12 + 16 + 64 + 4); }},
    {"no_room_for_reth", "rx_drop_length",
     [](Bench &, Packet &p) { p.extended.resize(12), p.payload.clear(); }},
    {"bth_only", "rx_drop_length", [](Bench &, Packet &p) { p.extended.clear(), p.payload.clear(); }},
    {"pad_beyond_payload", "rx_drop_length",
     [](Bench &, Packet &p) { p.payload.clear(), p.pad = 3, p.fill_pad = false; }},
    {"payload_not_in_words", "rx_drop_length", [](Bench &, Packet &p) { p.payload.resize(61), p.pad = 0; }},
    {"payload_on_read_request", "rx_drop_length", [](Bench &, Packet &p) { p.opcode = read_request; }},
    {"payload_on_atomic", "rx_drop_length", [](Bench &, Packet &p) { p.opcode = fetch_add; }},
    {"udp_checksum_wrong", "rx_drop_checksum",
     [](Bench &, Packet &p) { p.udp_checksum = UdpChecksum::wrong; }},
    {"dport", nullptr, [](Bench &, Packet &p) { p.dport = 4792; }},
    {"ip_protocol", nullptr, [](Bench &, Packet &p) { p.protocol = 6; }},
    {"ip_version", nullptr, [](Bench &, Packet &p) { p.ip_version = 5; }},
    {"destination_not_ours", nullptr, [](Bench &, Packet &p) { p.destination[15] = 0x77; }},
    {"destination_mac_not_ours", nullptr, [](Bench &, Packet &p) { p.dmac[5] ^= 1; }},
    {"tver_1", "rx_drop_header", [](Bench &, Packet &p) { p.tver = 1; }},
    {"tver_15", "rx_drop_header", [](Bench &, Packet &p) { p.tver = 15; }},
    {"opcode_0x15", "rx_drop_header", [](Bench &, Packet &p) { p.opcode = 0x15; }},
    {"opcode_0x1f", "rx_drop_header", [](Bench &, Packet &p) { p.opcode = 0x1f; }},
    {"opcode_rd", "rx_drop_header", [](Bench &, Packet &p) { p.opcode = 0x44; }},
    {"opcode_xrc", "rx_drop_header", [](Bench &, Packet &p) { p.opcode = 0xa4; }},
    {"opcode_0xff", "rx_drop_header", [](Bench &, Packet &p) { p.opcode = 0xff; }},
    {"service_uc", "rx_drop_service", [](Bench &, Packet &p) { p.opcode = 0x2a; }},
    {"service_ud", "rx_drop_service", [](Bench &, Packet &p) { p.opcode = 0x64; }},
    {"pkey", "rx_drop_pkey", [](Bench &, Packet &p) { p.pkey = 0x8001; }},
    {"pkey_zero", "rx_drop_pkey", [](Bench &, Packet &p) { p.pkey = 0; }},
    {"qpn_unknown", "rx_drop_qpn", [](Bench &, Packet &p) { p.qpn ^= 0x800000; }},
    {"qpn_0", "rx_drop_qpn", [](Bench &, Packet &p) { p.qpn = 0; }},
    {"qpn_multicast", "rx_drop_qpn", [](Bench &, Packet &p) { p.qpn = 0xffffff; }},
    {"icrc", "rx_icrc_encapsulated", [](Bench &, Packet &p) { p.icrc_flip = 0x00010000; }},
    {"icrc_zero_payload", "rx_icrc_encapsulated",
     [](Bench &b, Packet &p) {
         p.extended = reth(b.memory.va(), b.memory.mr->rkey, 0);
         p.payload.clear();
         p.icrc_flip = 0x80000000;
     }},
    {"source_not_the_peer", "rx_drop_source", [](Bench &, Packet &p) { p.source[15] ^= 0x40; }},
    {"addresses_of_another_gid", "rx_drop_source",
     [](Bench &b, Packet &p) {
         const GidKind other = p.ipv6 ? GidKind::ipv4 : GidKind::ipv6;
         p.ipv6 = !p.ipv6;
         p.source = b.bed().peer_address.at(other);
         p.destination = b.bed().device_address.at(other);
     }},
};

// as above, for fields that only IPv4 or IPv6 has
const Silent silent_ipv4[] = {
    {"ip_checksum", "rx_drop_checksum", [](Bench &, Packet &p) { p.ip_checksum_flip = 0x0100; }},
    {"ihl_with_options", "rx_drop_header", [](Bench &, Packet &p) { p.ihl = 6; }},
    {"ihl_4", nullptr, [](Bench &, Packet &p) { p.ihl = 4; }},
    {"fragment_first", "rx_drop_fragment", [](Bench &, Packet &p) { p.fragment = 0x2000; }},
    {"fragment_later", nullptr, [](Bench &, Packet &p) { p.fragment = 0x0010; }},
    {"fragment_middle", nullptr, [](Bench &, Packet &p) { p.fragment = 0x2010; }},
};

const Silent silent_ipv6[] = {
    {"fragment_first", "rx_drop_fragment",
     [](Bench &, Packet &p) { p.ipv6_fragment_header = true, p.fragment = 0x0001; }},
    {"fragment_later", nullptr,
     [](Bench &, Packet &p) { p.ipv6_fragment_header = true, p.fragment = 0x0010; }},
};

// fields that may differ: the packet is taken
struct Taken {
    const char *name;
    std::function<void(Packet &)> change;
};

const Taken taken[] = {
    {"as_it_should_be", [](Packet &) {}},
    {"udp_checksum_right", [](Packet &p) { p.udp_checksum = UdpChecksum::right; }},
    {"pkey_limited_member", [](Packet &p) { p.pkey = 0x7fff; }},
    {"tos_and_ttl", [](Packet &p) { p.tos = 0x6b, p.ttl = 1; }},
    {"fecn_becn_and_reserved", [](Packet &p) { p.fecn_becn_reserved = 0xff; }},
    {"no_df", [](Packet &p) { p.fragment = p.ipv6 ? p.fragment : std::uint16_t{0}; }},
    {"another_source_port", [](Packet &p) { p.sport = 1; }},
    {"ethernet_padding", [](Packet &p) { p.trailer = Bytes(18, 0x5a); }},
    {"priority_tag", [](Packet &p) { p.vlan = 0x6000; }},
};

void run_silent(Bed &bed, GidKind kind, const Silent &row)
{
    Bench b(bed, kind, {});
    Packet p = b.write();
    row.change(b, p);
    b.send(p);
    b.expect_silence(row.name);
    b.expect_counters(row.counter ? Moves{{row.counter, 1}} : Moves{});
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
    b.expect_counters({});
    b.expect_event({});
    must_be_empty(b.cq.get(), "send CQ");
    must_be_empty(b.recv_cq.get(), "receive CQ");
}

void run_taken(Bed &bed, GidKind kind, const Taken &row)
{
    Bench b(bed, kind, {});
    Packet p = b.write();
    row.change(p);
    b.send(p);
    b.expect_ack(b.expected);
    require(b.memory.holds(0, p.payload), "acknowledged but not placed");
    b.expect_counters({});
}

// The frame cut at every byte, its lengths as they were, then its lengths made to fit.
void run_truncated(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const Bytes whole = b.write().frame();
    const std::size_t headers = 14 + (kind == GidKind::ipv4 ? 20 : 40) + 8;
    std::uint64_t lengths = 0;
    for (std::size_t size = 14; size < whole.size(); size++) {
        b.send(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)));
        // without a whole UDP header nobody can tell that it is for us
        lengths += size >= headers;
    }
    b.expect_silence("frames cut short");
    b.expect_counters({{"rx_drop_length", lengths}});
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

void run_shortened(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    Moves moves;
    const Packet base = b.write();
    // what lies before the ICRC, with right lengths: RETH and payload cut at every byte
    const Bytes body = base.extended + base.payload;
    for (std::size_t size = 0; size < body.size(); size++) {
        Packet p = base;
        p.extended.assign(body.begin(), body.begin() + static_cast<std::ptrdiff_t>(size));
        p.payload.clear();
        p.pad = 0;
        p.icrc_flip = 1;
        b.send(p);
        const bool fits = size >= 16 && (size - 16) % 4 == 0;
        moves[fits ? "rx_icrc_encapsulated" : "rx_drop_length"]++;
    }
    b.expect_silence("shortened packets");
    b.expect_counters(moves);
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

// every bit of the ICRC, and a flipped bit in each byte it covers
void run_corrupted(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    std::uint64_t sent = 0;
    for (int bit = 0; bit < 32; bit++, sent++) {
        Packet p = b.write();
        p.icrc_flip = 1u << bit;
        b.send(p);
    }
    const Bytes good = b.write().frame();
    const std::size_t bth = 14 + (kind == GidKind::ipv4 ? 20 : 40) + 8;
    // PSN, RETH and payload: bytes that no earlier stage looks at
    for (std::size_t at = bth + 9; at < good.size() - 4; at++, sent++) {
        Bytes bad = good;
        bad[at] ^= 0x10;
        b.send(bad);
    }
    b.expect_silence("corrupted packets");
    b.expect_counters({{"rx_icrc_encapsulated", sent}});
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

void run_foreign_vlan(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    Packet p = b.write();
    p.vlan = 77; // the QP's GID is of no VLAN
    b.send(p);
    b.expect_silence("a packet of another VLAN");
    b.expect_counters({{"rx_drop_source", 1}});
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

void run_state(Bed &bed, GidKind kind, ibv_qp_state state, bool response)
{
    Bench b(bed, kind, {.state = state});
    b.send(response ? b.ack(device_psn) : b.write());
    b.expect_silence("a packet to a QP in the wrong state");
    b.expect_counters({{"rx_drop_state", 1}});
    require(b.memory.untouched(), "memory was written");
    b.expect_event({});
}

// ---------------------------------------------------------------------------

void add_header_cases(Ktap &ktap, Bed &bed, GidKind kind)
{
    const auto add = [&](const std::string &name, auto run) { add_case(ktap, bed, kind, name, run); };
    const auto add_silent = [&](std::span<const Silent> rows) {
        for (const Silent &row : rows)
            add(fmt::format("drop:{}", row.name),
                [&row](Bed &b, GidKind k) { run_silent(b, k, row); });
    };
    for (const Taken &row : taken)
        add(fmt::format("take:{}", row.name), [&row](Bed &b, GidKind k) { run_taken(b, k, row); });
    add_silent(silent);
    if (kind == GidKind::ipv4)
        add_silent(silent_ipv4);
    else
        add_silent(silent_ipv6);
    add("drop:truncated_at_each_byte", run_truncated);
    add("drop:shortened_by_each_byte", run_shortened);
    add("drop:corrupted_at_each_byte", run_corrupted);
    add("drop:foreign_vlan", run_foreign_vlan);
    const std::pair<const char *, ibv_qp_state> states[] = {
        {"reset", IBV_QPS_RESET}, {"init", IBV_QPS_INIT}, {"error", IBV_QPS_ERR}};
    for (const auto &[name, state] : states)
        add(fmt::format("drop:state_{}", name),
            [state = state](Bed &b, GidKind k) { run_state(b, k, state, false); });
    add("drop:response_in_rtr", [](Bed &b, GidKind k) { run_state(b, k, IBV_QPS_RTR, true); });
}

Address parse_address(const std::string &text)
{
    Address out{};
    if (inet_pton(AF_INET6, text.c_str(), out.data()) == 1)
        return out;
    out[10] = out[11] = 0xff;
    require(inet_pton(AF_INET, text.c_str(), out.data() + 12) == 1, "no IP address: \"{}\"", text);
    return out;
}

Mac parse_mac(const std::string &text)
{
    Mac mac{};
    unsigned v[6];
    require(std::sscanf(text.c_str(), "%x:%x:%x:%x:%x:%x", &v[0], &v[1], &v[2], &v[3], &v[4],
                        &v[5]) == 6,
            "no MAC address: \"{}\"", text);
    std::transform(std::begin(v), std::end(v), mac.begin(),
                   [](unsigned b) { return static_cast<std::uint8_t>(b); });
    return mac;
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    std::string peer_if, peer_netns, peer_ip4, peer_ip6, device_mac, peer_mac, go;
    CLI::App app("Sends crafted packets to a live QP and requires the exact answer.");
    add_common_options(app, options);
    app.add_option("--peer-if", peer_if, "interface cabled to the device's")->envname("ROCEV2_PEER_IF");
    app.add_option("--peer-mac", peer_mac,
                   "the interface is a tap device, and this the address of what is behind it; superpackets only")
        ->envname("ROCEV2_PEER_MAC");
    app.add_option("--go", go, "a FIFO: once the far end is there, wait until somebody writes to it");
    app.add_option("--peer-netns", peer_netns, "its network namespace")->envname("ROCEV2_PEER_NETNS");
    app.add_option("--peer-ip4", peer_ip4, "its IPv4 address")->envname("ROCEV2_PEER_IP4");
    app.add_option("--peer-ip6", peer_ip6, "its IPv6 address")->envname("ROCEV2_PEER_IP6");
    app.add_option("--device-mac", device_mac, "MAC address of the device's interface")
        ->envname("ROCEV2_DEVICE_MAC");
    std::string vlan_peer_ip4, vlan_device_ip4;
    std::uint16_t vlan = 0;
    app.add_option("--vlan", vlan, "id of a VLAN on the cable")->envname("ROCEV2_VLAN");
    app.add_option("--vlan-peer-ip4", vlan_peer_ip4, "IPv4 address of the far end on it")
        ->envname("ROCEV2_VLAN_PEER_IP4");
    app.add_option("--vlan-device-ip4", vlan_device_ip4, "IPv4 address of the device on it")
        ->envname("ROCEV2_VLAN_DEVICE_IP4");
    CLI11_PARSE(app, argc, argv);
    settle_options("wire_drops", options);

    Ktap ktap;
    Bed bed;
    try {
        if (!options.list) {
            if (peer_mac.empty())
                bed.peer = std::make_unique<Peer>(peer_netns, peer_if);
            else
                bed.peer = std::make_unique<Peer>(peer_netns, peer_if, parse_mac(peer_mac));
            if (!go.empty())
                std::ifstream(go).get();
            bed.side = open_side("A", options.dev_a, options.netns_a, options.port);
            bed.counters = std::make_unique<Counters>(options.dev_a);
            bed.device_mac = parse_mac(device_mac);
            bed.peer_address = {{GidKind::ipv4, parse_address(peer_ip4)},
                                {GidKind::ipv6, parse_address(peer_ip6)}};
            if (vlan)
                bed.other_vlan = Bed::Vlan{.id = vlan,
                                           .peer_address = parse_address(vlan_peer_ip4),
                                           .device_address = parse_address(vlan_device_ip4),
                                           .gid_index = 0};
            bool vlan_found = !vlan;
            for (const ibv_gid_entry &entry : gid_table(bed.side.context.get(), options.port)) {
                const GidKind kind = kind_of(entry.gid);
                if (vlan && std::equal(bed.other_vlan->device_address.begin(),
                                       bed.other_vlan->device_address.end(), entry.gid.raw)) {
                    bed.other_vlan->gid_index = static_cast<std::uint8_t>(entry.gid_index);
                    vlan_found = true;
                    continue;
                }
                if (bed.gid_index.emplace(kind, static_cast<std::uint8_t>(entry.gid_index)).second)
                    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw),
                              bed.device_address[kind].begin());
            }
            require(vlan_found, "{} has no GID for {}", options.dev_a, vlan_device_ip4);
            for (const GidKind kind : {GidKind::ipv4, GidKind::ipv6})
                require(bed.gid_index.count(kind), "{} has no {} GID", options.dev_a, to_string(kind));
        }
    } catch (const std::exception &error) {
        fmt::print("Bail out! {}\n", error.what());
        return 1;
    }
    for (const GidKind kind : {GidKind::ipv4, GidKind::ipv6}) {
        add_superpacket_cases(ktap, bed, kind, options.seed);
        if (!peer_mac.empty()) {
            add_untrue_superpacket_cases(ktap, bed, kind);
            continue;
        }
        add_header_cases(ktap, bed, kind);
        add_responder_cases(ktap, bed, kind);
        add_requester_cases(ktap, bed, kind);
        add_path_cases(ktap, bed, kind);
    }
    return ktap.run(options.filters, options.list, options.case_limit_s);
}
