// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Crafted packets at a live RC QP. The far end is this program: it speaks raw Ethernet, so it can
// say everything that a well-behaved sender cannot. Each case states the exact answer (silence, ACK,
// which NAK), what becomes of memory, completions and events, and which one counter moves by how
// much. Each packet that the device sends is checked against the specification on the way.
#include "common/memory.hpp"
#include "common/verbs.hpp"
#include "wire/peer.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

using namespace rocev2::test;
using namespace rocev2::wire;
using std::chrono::milliseconds;

namespace {

constexpr std::uint32_t peer_qpn = 0x654321;
constexpr std::uint32_t mtu = 1024;
constexpr std::uint8_t poison = 0xa5;
// both wrap within a case that moves a few packets
constexpr std::uint32_t request_psn = 0xfffffe;  // first the peer sends
constexpr std::uint32_t device_psn = 0xffffff;   // first the device sends
constexpr std::uint8_t min_rnr_timer = 12;

constexpr std::size_t buffer_size = 64 * 1024;
constexpr std::size_t window_at = 4096 + 64;
constexpr std::size_t window_size = 16 * 1024;

std::uint32_t psn_add(std::uint32_t psn, std::uint32_t n)
{
    return (psn + n) & 0xffffff;
}

Bytes pattern(std::size_t size, unsigned seed = 1)
{
    std::mt19937 random(seed);
    Bytes out(size);
    for (auto &b : out)
        b = static_cast<std::uint8_t>(random() | 1);
    return out;
}

using Moves = std::map<std::string, std::uint64_t>;

std::string text(const Moves &moves)
{
    std::string out;
    for (const auto &[name, by] : moves)
        out += fmt::format(" {}+{}", name, by);
    return out.empty() ? " none" : out;
}

// What all cases share: the device, the cable, and the addresses of a family.
struct Bed {
    Side side;
    std::unique_ptr<Peer> peer;
    std::unique_ptr<Counters> counters;
    Mac device_mac{};
    std::map<GidKind, Address> peer_address;
    std::map<GidKind, std::uint8_t> gid_index;
    std::map<GidKind, Address> device_address;
};

struct Region {
    Buffer buffer{buffer_size};
    Mr mr;

    explicit Region(const Side &side, int access)
    {
        std::memset(buffer.data(), poison, buffer_size);
        mr = make_mr(side, window(), access);
    }
    std::span<std::byte> window() const { return buffer.span(window_at, window_size); }
    std::uint8_t *bytes() const { return reinterpret_cast<std::uint8_t *>(window().data()); }
    std::uint64_t va() const { return reinterpret_cast<std::uint64_t>(window().data()); }

    bool untouched() const
    {
        const auto *all = reinterpret_cast<const std::uint8_t *>(buffer.data());
        return std::all_of(all, all + buffer_size, [](std::uint8_t b) { return b == poison; });
    }
    bool holds(std::size_t at, const Bytes &data) const
    {
        return std::equal(data.begin(), data.end(), bytes() + at);
    }
};

struct Setup {
    ibv_qp_state state = IBV_QPS_RTS;
    int qp_access = all_access;
    std::uint8_t max_dest_rd_atomic = 4;
    std::uint8_t max_rd_atomic = 4;
    std::uint8_t timeout = 0; // off: nothing comes back unasked
    std::uint8_t retry_cnt = 7;
    std::uint8_t rnr_retry = 7;
};

// A fresh QP, connected to the peer, and its memory.
class Bench {
public:
    Bench(Bed &bed, GidKind kind, const Setup &setup)
        : bed_(bed), kind_(kind), memory(bed.side, all_access), cq(make_cq(bed.side, 128)),
          recv_cq(make_cq(bed.side, 128)),
          qp(make_qp(bed.side, cq.get(), recv_cq.get(), {.send_wr = 32, .recv_wr = 32, .send_sge = 2,
                                                         .recv_sge = 2, .inline_data = 64}))
    {
        Link link;
        link.mtu = IBV_MTU_1024;
        link.qp_access = setup.qp_access;
        link.timeout = setup.timeout;
        link.retry_cnt = setup.retry_cnt;
        link.rnr_retry = setup.rnr_retry;
        link.min_rnr_timer = min_rnr_timer;
        link.max_dest_rd_atomic = setup.max_dest_rd_atomic;
        link.max_rd_atomic = setup.max_rd_atomic;
        bed_.side.gid_index = bed_.gid_index.at(kind);
        if (setup.state >= IBV_QPS_INIT)
            must_modify(qp.get(), init_step(bed_.side, link), "to INIT");
        if (setup.state >= IBV_QPS_RTR) {
            ibv_gid gid;
            std::memcpy(gid.raw, bed_.peer_address.at(kind).data(), 16);
            must_modify(qp.get(), rtr_step(bed_.side, link, peer_qpn, gid, request_psn), "to RTR");
        }
        if (setup.state >= IBV_QPS_RTS)
            must_modify(qp.get(), rts_step(link, device_psn), "to RTS");
        if (setup.state == IBV_QPS_ERR)
            must_modify(qp.get(), state_step(IBV_QPS_ERR), "to ERR");
        drain_events(bed_.side.context.get());
        bed_.peer->drain();
        before_ = bed_.counters->read();
    }

    // A packet to the QP with all that is right but opcode, headers and payload.
    Packet packet(std::uint8_t opcode, Bytes extended = {}, Bytes payload = {}) const
    {
        Packet p;
        p.dmac = bed_.device_mac;
        p.smac = bed_.peer->mac();
        p.ipv6 = kind_ != GidKind::ipv4;
        p.source = bed_.peer_address.at(kind_);
        p.destination = bed_.device_address.at(kind_);
        p.opcode = opcode;
        p.qpn = qp->qp_num;
        p.psn = expected;
        p.extended = std::move(extended);
        p.payload = std::move(payload);
        return p;
    }

    Packet write(std::size_t size = 64, std::size_t at = 0) const
    {
        return packet(write_only,
                      reth(memory.va() + at, memory.mr->rkey, static_cast<std::uint32_t>(size)),
                      pattern(size));
    }

    Packet ack(std::uint32_t psn, std::uint8_t syndrome = 0x1f, std::uint32_t msn = 1) const
    {
        Packet p = packet(acknowledge, aeth(syndrome, msn));
        p.psn = psn;
        p.ackreq = false;
        return p;
    }

    void send(const Packet &p) const { bed_.peer->send(p.frame()); }
    void send(const Bytes &frame) const { bed_.peer->send(frame); }

    std::optional<Decoded> maybe_receive(milliseconds limit = milliseconds(30)) const
    {
        auto got = bed_.peer->receive(bed_.device_mac, limit);
        if (got) {
            require(got->qpn == peer_qpn, "sent to the wrong QP: {}", got->text());
            require(got->pkey == 0xffff, "sent with the wrong P_Key: {}", got->text());
            require(got->source == bed_.device_address.at(kind_) &&
                        got->destination == bed_.peer_address.at(kind_) &&
                        got->dmac == bed_.peer->mac(),
                    "sent between the wrong addresses: {}", got->text());
        }
        return got;
    }

    Decoded receive(const char *what, milliseconds limit = milliseconds(2000)) const
    {
        auto got = maybe_receive(limit);
        require(got.has_value(), "no packet from the device, expected {}", what);
        return *got;
    }

    void expect_silence(const char *after, milliseconds limit = milliseconds(15)) const
    {
        const auto got = maybe_receive(limit);
        require(!got, "after {} the device sent {}", after, got ? got->text() : "");
    }

    // An acknowledge packet with this kind of syndrome; credits of an ACK are its own business.
    void expect_answer(std::uint8_t syndrome, std::uint32_t psn) const
    {
        const Decoded got = receive(fmt::format("syndrome {:#04x}", syndrome).c_str());
        require(got.opcode == acknowledge, "expected an acknowledge, not {}", got.text());
        const bool same = (syndrome & 0x60) ? got.syndrome() == syndrome : got.syndrome() < 0x20;
        require(same && got.psn == psn, "expected syndrome {:#04x} psn {:#x}, not {}", syndrome, psn,
                got.text());
    }
    void expect_ack(std::uint32_t psn) const { expect_answer(0, psn); }

    // A good WRITE must be taken: whatever came before left no trace.
    void expect_alive()
    {
        Packet p = write(64, 8192);
        send(p);
        expect_ack(expected);
        expected = psn_add(expected, 1);
        require(memory.holds(8192, p.payload), "a good WRITE was acknowledged but not placed");
        std::memset(memory.bytes() + 8192, poison, 64);
    }

    // Exactly these counters moved since the case began, or since the last call.
    void expect_counters(const Moves &wanted)
    {
        Moves got;
        std::map<std::string, std::uint64_t> now;
        // counted in the softirq of the frame; on another CPU that may take a moment
        wait_until(milliseconds(200), [&] {
            now = bed_.counters->read();
            got.clear();
            for (const auto &[name, value] : now)
                if (value != before_[name])
                    got[name] = value - before_[name];
            return got == wanted;
        });
        require(got == wanted, "counters:{}; expected:{}", text(got), text(wanted));
        before_ = now;
    }

    void expect_event(std::optional<ibv_event_type> type) const
    {
        const auto got = next_event(bed_.side.context.get(), milliseconds(type ? 1000 : 0));
        if (!type) {
            require(!got, "unexpected event \"{}\"", got ? ibv_event_type_str(got->type) : "");
            return;
        }
        require(got && got->type == *type, "event \"{}\", expected \"{}\"",
                got ? ibv_event_type_str(got->type) : "none", ibv_event_type_str(*type));
        require(got->element == qp.get(), "the event is for another object");
    }

    void expect_state(ibv_qp_state state) const
    {
        require(wait_until(milliseconds(500), [&] { return query_state(qp.get()) == state; }),
                "QP state is {}, expected {}", static_cast<int>(query_state(qp.get())),
                static_cast<int>(state));
    }

    void expect_wc(ibv_cq *from, ibv_wc_status status, std::uint64_t id) const
    {
        check_wc(must_poll(from, "completion", milliseconds(2000)), status, id, qp.get(),
                 "completion");
    }

    void post_receive(std::uint64_t id, std::size_t at, std::uint32_t size,
                      std::optional<std::uint32_t> lkey = {}) const
    {
        ibv_sge sge{memory.va() + at, size, lkey.value_or(memory.mr->lkey)};
        post_recv(qp.get(), id, {&sge, 1});
    }

    void post(std::uint64_t id, ibv_wr_opcode opcode, std::size_t at, std::uint32_t size,
              unsigned flags = IBV_SEND_SIGNALED) const
    {
        ibv_sge sge{memory.va() + at, size, memory.mr->lkey};
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = flags;
        wr.imm_data = htonl(0x01020304);
        if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
            wr.wr.atomic.remote_addr = 0x1000;
            wr.wr.atomic.rkey = 0x77;
            wr.wr.atomic.compare_add = 5;
            wr.wr.atomic.swap = 6;
        } else {
            wr.wr.rdma.remote_addr = 0x1000;
            wr.wr.rdma.rkey = 0x77;
        }
        post_send(qp.get(), wr);
    }

    Bed &bed() const { return bed_; }
    GidKind kind() const { return kind_; }

private:
    Bed &bed_;
    GidKind kind_;

public:
    Region memory;
    Cq cq;
    Cq recv_cq;
    Qp qp;
    std::uint32_t expected = request_psn; // next request PSN the device expects

private:
    std::map<std::string, std::uint64_t> before_;
};

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
// Requests that are refused: NAK, event, error state

constexpr std::uint8_t nak_sequence = 0x60;
constexpr std::uint8_t nak_invalid = 0x61;
constexpr std::uint8_t nak_access = 0x62;
constexpr std::uint8_t nak_operational = 0x63;

struct Refused {
    const char *name;
    std::uint8_t syndrome;
    const char *counter;
    // Sends the request; earlier packets of the message count up `expected`.
    std::function<void(Bench &)> act;
    Setup setup{};
};

const char *const access_errors = "resp_remote_access_errors";
const char *const invalid_requests = "resp_remote_invalid_request";

Region &other_region(Bench &b, int access)
{
    static std::vector<std::unique_ptr<Region>> keep;
    keep.clear();
    keep.push_back(std::make_unique<Region>(b.bed().side, access));
    return *keep.back();
}

void send_write_to(Bench &b, std::uint64_t va, std::uint32_t rkey, std::size_t size = 64)
{
    b.send(b.packet(write_only, reth(va, rkey, static_cast<std::uint32_t>(size)), pattern(size)));
}

// the first packets of a WRITE of `total` bytes
void write_head(Bench &b, std::uint32_t total, std::size_t first = mtu)
{
    Packet p = b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, total), pattern(first));
    p.ackreq = false;
    b.send(p);
    b.expected = psn_add(b.expected, 1);
}

void send_head(Bench &b)
{
    b.post_receive(1, 0, 8192);
    Packet p = b.packet(send_first, {}, pattern(mtu));
    p.ackreq = false;
    b.send(p);
    b.expected = psn_add(b.expected, 1);
}

const Refused refused[] = {
    {"rkey_unknown", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va(), b.memory.mr->rkey ^ 0x7fff0000); }},
    {"rkey_zero", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va(), 0); }},
    {"rkey_stale_variant", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va(), b.memory.mr->rkey ^ 1); }},
    {"rkey_deregistered", nak_access, access_errors,
     [](Bench &b) {
         // used once, so that it is in the QP's translation cache
         auto region = std::make_unique<Region>(b.bed().side, all_access);
         const std::uint64_t va = region->va();
         const std::uint32_t rkey = region->mr->rkey;
         send_write_to(b, va, rkey);
         b.expect_ack(b.expected);
         b.expected = psn_add(b.expected, 1);
         region->mr.reset();
         send_write_to(b, va, rkey);
     }},
    {"rkey_of_another_pd", nak_access, access_errors,
     [](Bench &b) {
         static Pd pd;
         static Mr mr;
         mr.reset();
         pd.reset();
         pd = Pd(ibv_alloc_pd(b.bed().side.context.get()));
         mr = Mr(ibv_reg_mr(pd.get(), b.memory.window().data(), window_size, all_access));
         require(static_cast<bool>(mr), "cannot register in a second PD");
         send_write_to(b, b.memory.va(), mr->rkey);
         // answered before the key may go
         std::this_thread::sleep_for(milliseconds(20));
         mr.reset();
         pd.reset();
     }},
    {"one_byte_beyond", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va() + window_size - 63, b.memory.mr->rkey); }},
    {"one_byte_before", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va() - 1, b.memory.mr->rkey); }},
    {"address_wraps", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, UINT64_MAX - 31, b.memory.mr->rkey); }},
    {"length_beyond_first_packet", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(write_first,
                         reth(b.memory.va(), b.memory.mr->rkey, static_cast<std::uint32_t>(window_size) + 1),
                         pattern(mtu)));
     }},
    {"length_2g_wraps_nothing", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 0x80000000), pattern(mtu)));
     }},
    {"length_above_2g", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 0x80000001), pattern(mtu)));
     }},
    {"write_to_read_only_region", nak_access, access_errors,
     [](Bench &b) {
         auto &r = other_region(b, IBV_ACCESS_REMOTE_READ);
         send_write_to(b, r.va(), r.mr->rkey);
     }},
    {"read_from_write_only_region", nak_access, access_errors,
     [](Bench &b) {
         auto &r = other_region(b, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
         b.send(b.packet(read_request, reth(r.va(), r.mr->rkey, 64)));
     }},
    {"atomic_on_region_without_right", nak_access, access_errors,
     [](Bench &b) {
         auto &r = other_region(b, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ);
         b.send(b.packet(fetch_add, atomic_eth(r.va(), r.mr->rkey, 1, 0)));
     }},
    {"read_one_byte_beyond", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(read_request, reth(b.memory.va() + 1, b.memory.mr->rkey, window_size)));
     }},
    {"read_wraps", nak_access, access_errors,
     [](Bench &b) { b.send(b.packet(read_request, reth(UINT64_MAX, b.memory.mr->rkey, 2))); }},
    {"atomic_beyond", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(compare_swap,
                         atomic_eth(b.memory.va() + window_size, b.memory.mr->rkey, 1, 0)));
     }},
    {"atomic_misaligned", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(fetch_add, atomic_eth(b.memory.va() + 4, b.memory.mr->rkey, 1, 0)));
     }},
    {"write_not_enabled_on_qp", nak_invalid, invalid_requests, [](Bench &b) { b.send(b.write()); },
     {.qp_access = IBV_ACCESS_REMOTE_READ}},
    {"read_not_enabled_on_qp", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 64))); },
     {.qp_access = IBV_ACCESS_REMOTE_WRITE}},
    {"atomic_not_enabled_on_qp", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(fetch_add, atomic_eth(b.memory.va(), b.memory.mr->rkey, 1, 0)));
     },
     {.qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE}},
    {"read_with_no_responder_resources", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 64))); },
     {.max_dest_rd_atomic = 0}},

    {"write_middle_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(write_middle, {}, pattern(mtu))); }},
    {"write_last_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(write_last, {}, pattern(64))); }},
    {"send_middle_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(send_middle, {}, pattern(mtu))); }},
    {"send_last_imm_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(send_last_imm, word(1), pattern(64))); }},
    {"first_in_message", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu)));
     }},
    {"only_in_message", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.write());
     }},
    {"read_in_message", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 64)));
     }},
    {"send_middle_in_write", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(send_middle, {}, pattern(mtu)));
     }},
    {"write_last_in_send", nak_invalid, invalid_requests,
     [](Bench &b) {
         send_head(b);
         b.send(b.packet(write_last, {}, pattern(64)));
     }},

    {"first_below_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu - 4)));
     }},
    {"first_above_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu + 4)));
     }},
    {"first_padded", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu - 1)));
     }},
    {"first_empty", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096))); }},
    {"middle_below_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(write_middle, {}, pattern(mtu - 4)));
     }},
    {"middle_above_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(write_middle, {}, pattern(mtu + 4)));
     }},
    {"last_above_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 2 * mtu + 4);
         b.send(b.packet(write_last, {}, pattern(mtu + 4)));
     }},
    {"last_empty", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, mtu);
         b.send(b.packet(write_last));
     }},
    {"only_above_mtu", nak_invalid, invalid_requests, [](Bench &b) { b.send(b.write(mtu + 4)); }},
    {"dma_length_above_payload", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_only, reth(b.memory.va(), b.memory.mr->rkey, 65), pattern(64)));
     }},
    {"dma_length_below_payload", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_only, reth(b.memory.va(), b.memory.mr->rkey, 63), pattern(64)));
     }},
    {"dma_length_zero_with_payload", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_only, reth(b.memory.va(), b.memory.mr->rkey, 0), pattern(4)));
     }},
    {"middle_beyond_dma_length", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, mtu + 4);
         b.send(b.packet(write_middle, {}, pattern(mtu)));
     }},
    {"last_short_of_dma_length", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 2 * mtu);
         b.send(b.packet(write_last, {}, pattern(mtu - 4)));
     }},
};

void run_refused(Bed &bed, GidKind kind, const Refused &row)
{
    Bench b(bed, kind, row.setup);
    row.act(b);
    b.expect_answer(row.syndrome, b.expected);
    b.expect_counters({{row.counter, 1}});
    b.expect_event(row.syndrome == nak_access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
    b.expect_event({});
    b.expect_state(IBV_QPS_ERR);
    if (b.expected == request_psn)
        require(b.memory.untouched(), "memory was written");
    // and from now on it is deaf
    b.send(b.write());
    b.expect_silence("a request to the QP in error");
    b.expect_counters({{"rx_drop_state", 1}});
}

// ---------------------------------------------------------------------------
// Receive requests

void run_rnr(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const Packet p = b.packet(send_only, {}, pattern(64));
    b.send(p);
    b.expect_answer(0x20 | min_rnr_timer, b.expected);
    b.expect_counters({{"resp_rnr_nak", 1}});
    b.post_receive(9, 0, 64);
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_SUCCESS, 9);
    require(b.memory.holds(0, p.payload), "the SEND was not placed");
    b.expected = psn_add(b.expected, 1);
    b.expect_counters({});
    // a WRITE needs a receive request only for its immediate data
    b.send(b.packet(write_only_imm, reth(b.memory.va(), b.memory.mr->rkey, 64) + word(7), pattern(64, 2)));
    b.expect_answer(0x20 | min_rnr_timer, b.expected);
    b.expect_counters({{"resp_rnr_nak", 1}});
    b.expect_event({});
    b.expect_alive();
}

void run_send_too_long(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(9, 0, 63);
    b.send(b.packet(send_only, {}, pattern(64)));
    b.expect_answer(nak_invalid, b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_LOC_LEN_ERR, 9);
    b.expect_counters({{"resp_local_length_error", 1}});
    b.expect_state(IBV_QPS_ERR);
    require(b.memory.untouched(), "memory was written");
}

void run_recv_bad_lkey(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(9, 0, 64, b.memory.mr->lkey ^ 1);
    b.send(b.packet(send_only, {}, pattern(64)));
    b.expect_answer(nak_operational, b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_LOC_PROT_ERR, 9);
    b.expect_counters({{"resp_remote_op_err", 1}});
    b.expect_state(IBV_QPS_ERR);
    require(b.memory.untouched(), "memory was written");
}

// SEND and immediate data over several packets, PSN wrap included
void run_send_multi(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(1, 0, 8192);
    const Bytes data = pattern(2 * mtu + 77);
    const auto part = [&](std::size_t from, std::size_t to) {
        return Bytes(data.begin() + static_cast<std::ptrdiff_t>(from),
                     data.begin() + static_cast<std::ptrdiff_t>(to));
    };
    Packet p = b.packet(send_first, {}, part(0, mtu));
    p.ackreq = false;
    b.send(p);
    p = b.packet(send_middle, {}, part(mtu, 2 * mtu));
    p.psn = psn_add(b.expected, 1);
    p.ackreq = false;
    b.send(p);
    p = b.packet(send_last_imm, word(0xfeedbeef), part(2 * mtu, data.size()));
    p.psn = psn_add(b.expected, 2);
    b.send(p);
    b.expect_ack(psn_add(b.expected, 2));
    const ibv_wc wc = must_poll(b.recv_cq.get(), "receive");
    require(wc.status == IBV_WC_SUCCESS && wc.byte_len == data.size() &&
                wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == htonl(0xfeedbeef),
            "completion: status {} bytes {} flags {:#x} imm {:#x}", static_cast<int>(wc.status),
            wc.byte_len, static_cast<unsigned>(wc.wc_flags), ntohl(wc.imm_data));
    require(b.memory.holds(0, data), "wrong data");
    b.expect_counters({});
}

// ---------------------------------------------------------------------------
// PSN order at the responder

void run_psn_ahead(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (const std::uint32_t ahead : {1u, 2u, 1000u, 1u << 22, (1u << 23) - 1}) {
        Packet p = b.write();
        p.psn = psn_add(b.expected, ahead);
        b.send(p);
        b.expect_answer(nak_sequence, b.expected);
        b.expect_counters({{"out_of_sequence", 1}});
        // one NAK a gap
        b.send(p);
        p.psn = psn_add(p.psn, 1);
        if (ahead < 1u << 22)
            b.send(p);
        b.expect_silence("more packets ahead");
        b.expect_counters({{"out_of_sequence", ahead < 1u << 22 ? 2u : 1u}});
        require(b.memory.untouched(), "memory was written");
        b.expect_alive();
        b.expect_counters({});
    }
    b.expect_event({});
}

void run_psn_half_space(Bed &bed, GidKind kind)
{
    // 2^23 ahead is 2^23 behind: a duplicate, acknowledged and not placed
    Bench b(bed, kind, {});
    Packet p = b.write();
    p.psn = psn_add(b.expected, 1u << 23);
    b.send(p);
    b.expect_ack(psn_add(b.expected, 0xffffff));
    b.expect_counters({{"duplicate_request", 1}});
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

void run_duplicate_send(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(1, 0, 64);
    b.post_receive(2, 128, 64);
    Packet p = b.packet(send_only, {}, pattern(64));
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_SUCCESS, 1);
    p.payload = pattern(64, 2);
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_counters({{"duplicate_request", 1}});
    must_be_empty(b.recv_cq.get(), "receive CQ");
    require(b.memory.holds(0, pattern(64)), "the duplicate was placed");
}

void run_duplicate_write(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    Packet p = b.write();
    b.send(p);
    b.expect_ack(b.expected);
    p.payload = pattern(64, 2);
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_counters({{"duplicate_request", 1}});
    require(b.memory.holds(0, pattern(64)), "the duplicate was placed");
    b.expected = psn_add(b.expected, 1);
    b.expect_alive();
}

// the responses to a READ of `size` bytes at window offset `at`, from PSN `psn` on
void expect_read_responses(Bench &b, std::uint32_t psn, std::size_t at, std::size_t size)
{
    const std::size_t packets = size ? (size + mtu - 1) / mtu : 1;
    for (std::size_t i = 0; i < packets; i++) {
        const Decoded got = b.receive("a READ response");
        const std::uint8_t want = packets == 1 ? read_response_only
            : i == 0                           ? read_response_first
            : i + 1 == packets                 ? read_response_last
                                               : read_response_middle;
        const std::size_t length = std::min<std::size_t>(mtu, size - i * mtu);
        require(got.opcode == want && got.psn == psn_add(psn, static_cast<std::uint32_t>(i)) &&
                    got.payload.size() == length,
                "READ response {} of {}: {}", i + 1, packets, got.text());
        require(std::equal(got.payload.begin(), got.payload.end(), b.memory.bytes() + at + i * mtu),
                "READ response {} carries the wrong bytes", i + 1);
        if (!got.extended.empty())
            require(got.syndrome() < 0x20, "READ response with syndrome {:#x}", got.syndrome());
    }
}

void run_read(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const Bytes data = pattern(window_size, 5);
    std::copy(data.begin(), data.end(), b.memory.bytes());
    for (const std::uint32_t size : {0u, 1u, 3u, mtu - 1, mtu, mtu + 1, 2 * mtu, 5 * mtu + 2}) {
        b.send(b.packet(read_request, reth(b.memory.va() + 3, b.memory.mr->rkey, size)));
        expect_read_responses(b, b.expected, 3, size);
        b.expected = psn_add(b.expected, size ? (size + mtu - 1) / mtu : 1);
    }
    b.expect_counters({});
    b.expect_silence("READ responses");
}

void run_duplicate_read(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    constexpr std::uint32_t size = 3 * mtu + 5;
    const auto request = [&](std::uint32_t skip) {
        Packet p = b.packet(read_request,
                            reth(b.memory.va() + skip * mtu, b.memory.mr->rkey, size - skip * mtu));
        p.psn = psn_add(request_psn, skip);
        return p;
    };
    b.send(request(0));
    expect_read_responses(b, request_psn, 0, size);
    // read again: what is there now, not what was there then
    const Bytes data = pattern(size, 6);
    std::copy(data.begin(), data.end(), b.memory.bytes());
    b.send(request(0));
    expect_read_responses(b, request_psn, 0, size);
    b.expect_counters({{"duplicate_request", 1}});
    // the rest of it
    b.send(request(2));
    expect_read_responses(b, psn_add(request_psn, 2), 2 * mtu, size - 2 * mtu);
    b.expect_counters({{"duplicate_request", 1}});
    // not what was asked for then: no answer
    Packet other = request(0);
    other.extended = reth(b.memory.va() + 8, b.memory.mr->rkey, size);
    b.send(other);
    b.expect_silence("a duplicate READ of something else");
    b.expect_counters({{"duplicate_request", 1}});
    b.expected = psn_add(request_psn, 4);
    std::memset(b.memory.bytes(), poison, size);
    b.expect_alive();
}

void run_duplicate_atomic(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    auto *target = reinterpret_cast<std::uint64_t *>(b.memory.bytes());
    *target = 40;
    const auto expect_original = [&](std::uint64_t want) {
        const Decoded got = b.receive("an atomic acknowledge");
        require(got.opcode == atomic_acknowledge && got.psn == request_psn &&
                    got.atomic_original() == want,
                "expected the original value {}, not {} in {}", want,
                got.opcode == atomic_acknowledge ? got.atomic_original() : 0, got.text());
    };
    const Packet p = b.packet(fetch_add, atomic_eth(b.memory.va(), b.memory.mr->rkey, 2, 0));
    b.send(p);
    expect_original(40);
    require(*target == 42, "the sum is {}", *target);
    for (int again = 0; again < 3; again++) {
        *target = 100;
        b.send(p);
        expect_original(40);
        require(*target == 100, "a duplicate atomic was executed");
    }
    b.expect_counters({{"duplicate_request", 3}});
    // the next one, a compare that fails, then one that holds
    b.expected = psn_add(request_psn, 1);
    for (const std::uint64_t compare : {99u, 100u}) {
        b.send(b.packet(compare_swap, atomic_eth(b.memory.va(), b.memory.mr->rkey, 7, compare)));
        const Decoded got = b.receive("an atomic acknowledge");
        require(got.atomic_original() == 100 && *target == (compare == 100 ? 7 : 100),
                "compare {}: original {}, now {}", compare, got.atomic_original(), *target);
        b.expected = psn_add(b.expected, 1);
    }
    b.expect_counters({});
}

// The message sequence number of the answers counts finished messages, and duplicates and NAKs do not.
void run_msn(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const auto expect_msn = [&](std::uint32_t msn) {
        const Decoded got = b.receive("an acknowledge");
        require(got.opcode == acknowledge && got.msn() == msn, "expected msn {}, not {}", msn,
                got.text());
    };
    for (std::uint32_t msn = 1; msn <= 3; msn++) {
        b.send(b.write());
        expect_msn(msn);
        b.expected = psn_add(b.expected, 1);
    }
    Packet p = b.write();
    p.psn = request_psn;
    b.send(p); // a duplicate
    expect_msn(3);
    p.psn = psn_add(b.expected, 5);
    b.send(p); // a gap
    expect_msn(3);
    p = b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, mtu + 4), pattern(mtu));
    b.send(p); // half a message
    expect_msn(3);
    b.expected = psn_add(b.expected, 1);
    b.send(b.packet(write_last, {}, pattern(4)));
    expect_msn(4);
}

// More READs than max_dest_rd_atomic grants, while the first still sends.
void run_too_many_reads(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.max_dest_rd_atomic = 1});
    constexpr std::uint32_t size = 8 << 20;
    Buffer big(size);
    const Mr mr = make_mr(bed.side, big.span(0, size), all_access);
    const Packet first = b.packet(
        read_request, reth(reinterpret_cast<std::uint64_t>(big.data()), mr->rkey, size));
    Packet second = b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 4));
    second.psn = psn_add(b.expected, size / mtu);
    b.send(first);
    b.send(second);
    // the NAK comes after the responses to the good READ, and is the end of the QP
    for (std::uint32_t i = 0; i < size / mtu; i++) {
        const Decoded got = b.receive("a READ response");
        require(got.opcode >= read_response_first && got.opcode <= read_response_last &&
                    got.psn == psn_add(b.expected, i),
                "READ response {}: {}", i + 1, got.text());
    }
    b.expect_answer(nak_invalid, second.psn);
    b.expect_counters({{"resp_remote_invalid_request", 1}});
    b.expect_event(IBV_EVENT_QP_REQ_ERR);
    b.expect_state(IBV_QPS_ERR);
}

// A region that goes away while a READ of it is being answered.
void run_read_of_dying_region(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    constexpr std::uint32_t size = 8 << 20;
    Buffer big(size);
    Mr mr = make_mr(bed.side, big.span(0, size), all_access);
    b.send(b.packet(read_request, reth(reinterpret_cast<std::uint64_t>(big.data()), mr->rkey, size)));
    b.receive("the first READ response");
    mr.reset();
    // either all of it was sent before, or a NAK says where it ended
    std::uint32_t psn = psn_add(b.expected, 1);
    for (;;) {
        const Decoded got = b.receive("a READ response or a NAK");
        require(got.psn == psn, "expected psn {:#x}, not {}", psn, got.text());
        if (got.opcode == acknowledge) {
            require(got.syndrome() == nak_access, "expected an access NAK, not {}", got.text());
            b.expect_counters({{access_errors, 1}});
            b.expect_event(IBV_EVENT_QP_ACCESS_ERR);
            b.expect_state(IBV_QPS_ERR);
            return;
        }
        if (got.opcode == read_response_last)
            return;
        psn = psn_add(psn, 1);
    }
}

// The duplicate of a request that was never legal is still only a duplicate.
void run_duplicate_of_nonsense(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.send(b.write());
    b.expect_ack(b.expected);
    Packet p = b.packet(write_only, reth(0, 0x12345678, 64), pattern(64, 3));
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_counters({{"duplicate_request", 1}});
    b.expect_event({});
    b.expected = psn_add(b.expected, 1);
    b.expect_alive();
}

// No acknowledgment is forced when none is asked for, and one ACK answers for all before it.
void run_unrequested_ack(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (int i = 0; i < 5; i++) {
        Packet p = b.write();
        p.ackreq = i == 4;
        b.send(p);
        b.expected = psn_add(b.expected, 1);
    }
    b.expect_ack(psn_add(b.expected, 0xffffff));
    b.expect_silence("one acknowledge");
    b.expect_counters({});
}

// SEND with invalidate of a key that cannot be invalidated remotely.
void run_send_invalidate(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(9, 0, 64);
    b.send(b.packet(send_only_invalidate, word(b.memory.mr->rkey), pattern(64)));
    b.expect_answer(nak_access, b.expected);
    b.expect_counters({{access_errors, 1}});
    b.expect_event(IBV_EVENT_QP_ACCESS_ERR);
    b.expect_wc(b.recv_cq.get(), IBV_WC_WR_FLUSH_ERR, 9);
    b.expect_state(IBV_QPS_ERR);
}

// ---------------------------------------------------------------------------
// The device as requester, and answers it must not believe

// takes the packets of one request and checks their order
std::vector<Decoded> expect_requests(Bench &b, std::uint32_t first_psn, std::size_t count)
{
    std::vector<Decoded> got;
    for (std::size_t i = 0; i < count; i++) {
        got.push_back(b.receive("a request"));
        require(got.back().psn == psn_add(first_psn, static_cast<std::uint32_t>(i)),
                "request {}: expected psn {:#x}, not {}", i + 1,
                psn_add(first_psn, static_cast<std::uint32_t>(i)), got.back().text());
    }
    return got;
}

struct Request {
    ibv_wr_opcode opcode;
    std::uint32_t size;
    std::vector<std::uint8_t> opcodes; // of its packets
};

void run_requests(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const Bytes data = pattern(window_size, 9);
    std::copy(data.begin(), data.end(), b.memory.bytes());
    const Request rows[] = {
        {IBV_WR_RDMA_WRITE, 0, {write_only}},
        {IBV_WR_RDMA_WRITE, 1, {write_only}},
        {IBV_WR_RDMA_WRITE, mtu, {write_only}},
        {IBV_WR_RDMA_WRITE, mtu + 1, {write_first, write_last}},
        {IBV_WR_RDMA_WRITE, 3 * mtu - 2, {write_first, write_middle, write_last}},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 3, {write_only_imm}},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 2 * mtu, {write_first, write_last_imm}},
        {IBV_WR_SEND, 0, {send_only}},
        {IBV_WR_SEND, 2 * mtu + 3, {send_first, send_middle, send_last}},
        {IBV_WR_SEND_WITH_IMM, 5, {send_only_imm}},
        {IBV_WR_SEND_WITH_IMM, mtu + 5, {send_first, send_last_imm}},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, 8, {fetch_add}},
        {IBV_WR_ATOMIC_CMP_AND_SWP, 8, {compare_swap}},
    };
    std::uint32_t psn = device_psn, msn = 0;
    for (const Request &row : rows) {
        note(fmt::format("opcode {} size {}", static_cast<int>(row.opcode), row.size));
        b.post(50 + msn, row.opcode, 8, row.size);
        const auto got = expect_requests(b, psn, row.opcodes.size());
        Bytes carried;
        for (std::size_t i = 0; i < got.size(); i++) {
            require(got[i].opcode == row.opcodes[i], "packet {}: expected opcode {:#x}, not {}", i + 1,
                    row.opcodes[i], got[i].text());
            carried = carried + got[i].payload;
        }
        require(got.back().ackreq, "the last packet of a request must ask for an acknowledgment");
        const bool atomic = row.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
            row.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        if (!atomic)
            require(carried.size() == row.size && b.memory.holds(8, carried), "wrong payload");
        if (got[0].opcode == write_first || got[0].opcode == write_only)
            require(got[0].reth_va() == 0x1000 && got[0].reth_rkey() == 0x77 &&
                        got[0].reth_length() == row.size,
                    "wrong RETH");
        psn = psn_add(psn, static_cast<std::uint32_t>(got.size()));
        msn++;
        if (atomic) {
            Packet p = b.packet(atomic_acknowledge, aeth(0x1f, msn) + atomic_ack_eth(0x1122334455667788));
            p.psn = psn_add(psn, 0xffffff);
            b.send(p);
            b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 50 + msn - 1);
            std::uint64_t value;
            std::memcpy(&value, b.memory.bytes() + 8, 8);
            require(value == 0x1122334455667788, "atomic result {:#x}", value);
        } else {
            b.send(b.ack(psn_add(psn, 0xffffff), 0x1f, msn));
            b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 50 + msn - 1);
        }
    }
    b.expect_counters({});
}

struct BadAck {
    const char *name;
    const char *counter;
    std::function<Packet(Bench &)> answer;
};

// answers to one outstanding WRITE that must be ignored: the right one still completes it
const BadAck ignored[] = {
    {"ack_never_sent", "rx_drop_response", [](Bench &b) { return b.ack(psn_add(device_psn, 1)); }},
    {"ack_far_ahead", "rx_drop_response", [](Bench &b) { return b.ack(psn_add(device_psn, 1u << 22)); }},
    {"ack_before", "rx_drop_response", [](Bench &b) { return b.ack(psn_add(device_psn, 0xffffff)); }},
    {"nak_never_sent", "rx_drop_response",
     [](Bench &b) { return b.ack(psn_add(device_psn, 1), nak_access); }},
    {"syndrome_reserved_kind", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x40); }},
    {"syndrome_bit_7", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x80); }},
    {"nak_code_4", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x64); }},
    {"nak_code_31", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x7f); }},
    {"read_response_to_write", "rx_drop_response",
     [](Bench &b) {
         Packet p = b.packet(read_response_only, aeth(0x1f, 1), pattern(64));
         p.psn = device_psn;
         return p;
     }},
    {"atomic_acknowledge_to_write", "rx_drop_response",
     [](Bench &b) {
         Packet p = b.packet(atomic_acknowledge, aeth(0x1f, 1) + atomic_ack_eth(1));
         p.psn = device_psn;
         return p;
     }},
    {"ack_from_elsewhere", "rx_drop_source",
     [](Bench &b) {
         Packet p = b.ack(device_psn);
         p.source[15] ^= 0x40;
         return p;
     }},
    {"ack_with_payload", "rx_drop_length",
     [](Bench &b) {
         Packet p = b.ack(device_psn);
         p.payload = pattern(4);
         return p;
     }},
    {"ack_bad_icrc", "rx_icrc_encapsulated",
     [](Bench &b) {
         Packet p = b.ack(device_psn);
         p.icrc_flip = 4;
         return p;
     }},
};

void run_ignored(Bed &bed, GidKind kind, const BadAck &row)
{
    Bench b(bed, kind, {});
    b.post(1, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 1);
    b.send(row.answer(b));
    b.expect_silence(row.name);
    b.expect_counters({{row.counter, 1}});
    must_be_empty(b.cq.get(), "send CQ");
    b.send(b.ack(device_psn));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
    b.expect_counters({});
    // the same once more is a ghost
    b.send(b.ack(device_psn));
    b.expect_counters({{"rx_drop_response", 1}});
    must_be_empty(b.cq.get(), "send CQ");
}

struct FatalNak {
    std::uint8_t syndrome;
    ibv_wc_status status;
    const char *counter;
};

void run_fatal_nak(Bed &bed, GidKind kind)
{
    const FatalNak rows[] = {
        {nak_invalid, IBV_WC_REM_INV_REQ_ERR, "req_remote_invalid_request"},
        {nak_access, IBV_WC_REM_ACCESS_ERR, "req_remote_access_errors"},
        {nak_operational, IBV_WC_REM_OP_ERR, "req_remote_op_err"},
    };
    for (const FatalNak &row : rows) {
        note(fmt::format("syndrome {:#x}", row.syndrome));
        Bench b(bed, kind, {});
        for (std::uint64_t id = 1; id <= 3; id++)
            b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
        expect_requests(b, device_psn, 3);
        // of the second: the first is acknowledged by it, the third flushed
        b.send(b.ack(psn_add(device_psn, 1), row.syndrome));
        b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
        b.expect_wc(b.cq.get(), row.status, 2);
        b.expect_wc(b.cq.get(), IBV_WC_WR_FLUSH_ERR, 3);
        b.expect_state(IBV_QPS_ERR);
        b.expect_counters({{row.counter, 1}});
        b.expect_silence("a fatal NAK");
    }
}

void run_sequence_nak(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (std::uint64_t id = 1; id <= 3; id++)
        b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 3);
    b.send(b.ack(psn_add(device_psn, 1), nak_sequence));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
    // Go-Back-N: from there on, in order
    expect_requests(b, psn_add(device_psn, 1), 2);
    b.expect_counters({{"packet_seq_err", 1}});
    b.send(b.ack(psn_add(device_psn, 2)));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 2);
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 3);
    b.expect_counters({});
}

// IBA table 45 in units of 10 us
constexpr std::array<std::uint32_t, 32> rnr_timer{
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

void run_rnr_timers(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post(1, IBV_WR_SEND, 0, 64);
    expect_requests(b, device_psn, 1);
    for (std::uint8_t code = 0; code < 32; code++) {
        note(fmt::format("RNR timer code {}", code));
        const auto start = Clock::now();
        b.send(b.ack(device_psn, static_cast<std::uint8_t>(0x20 | code)));
        expect_requests(b, device_psn, 1);
        const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
        require(waited.count() >= rnr_timer[code] * 10,
                "code {}: sent again after {} us, too early", code, waited.count());
        // a wrong row of the table would be a factor off; a loaded machine is late by a constant
        require(waited.count() <= rnr_timer[code] * 10 + 100'000,
                "code {}: sent again after {} us only", code, waited.count());
    }
    b.expect_counters({{"req_rnr_nak", 32}});
    b.send(b.ack(device_psn));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
}

void run_rnr_exceeded(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.rnr_retry = 2});
    b.post(1, IBV_WR_SEND, 0, 64);
    for (int i = 0; i < 3; i++) {
        expect_requests(b, device_psn, 1);
        b.send(b.ack(device_psn, 0x21));
    }
    b.expect_wc(b.cq.get(), IBV_WC_RNR_RETRY_EXC_ERR, 1);
    b.expect_state(IBV_QPS_ERR);
    b.expect_counters({{"req_rnr_nak", 3}, {"rnr_nak_retry_err", 1}});
}

void run_ack_timeout(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.timeout = 10, .retry_cnt = 2}); // 4.2 ms
    b.post(1, IBV_WR_RDMA_WRITE, 0, 64);
    for (int i = 0; i < 3; i++)
        expect_requests(b, device_psn, 1);
    b.expect_wc(b.cq.get(), IBV_WC_RETRY_EXC_ERR, 1);
    b.expect_state(IBV_QPS_ERR);
    b.expect_silence("the last retry", milliseconds(50));
    b.expect_counters({{"local_ack_timeout_err", 3}, {"req_retries_exceeded", 1}});
}

void run_coalesced_ack(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (std::uint64_t id = 1; id <= 8; id++)
        b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 8);
    b.send(b.ack(psn_add(device_psn, 5), 0x1f, 6));
    for (std::uint64_t id = 1; id <= 6; id++)
        b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, id);
    must_be_empty(b.cq.get(), "send CQ");
    b.send(b.ack(psn_add(device_psn, 7), 0x1f, 8));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 7);
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 8);
    b.expect_counters({});
}

// A READ of `packets` packets by the device; returns its request.
Decoded start_read(Bench &b, std::uint32_t size)
{
    b.post(1, IBV_WR_RDMA_READ, 0, size);
    const Decoded request = b.receive("a READ request");
    require(request.opcode == read_request && request.psn == device_psn &&
                request.reth_va() == 0x1000 && request.reth_length() == size,
            "expected a READ request, not {}", request.text());
    return request;
}

Packet read_response(Bench &b, std::uint8_t opcode, std::uint32_t nth, std::size_t size)
{
    Packet p = b.packet(opcode, opcode == read_response_middle ? Bytes{} : aeth(0x1f, 1),
                        pattern(size, 100 + nth));
    p.psn = psn_add(device_psn, nth);
    p.ackreq = false;
    return p;
}

void run_read_responses(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    constexpr std::uint32_t size = 2 * mtu + 7;
    start_read(b, size);
    b.send(read_response(b, read_response_first, 0, mtu));
    b.send(read_response(b, read_response_middle, 1, mtu));
    must_be_empty(b.cq.get(), "send CQ");
    b.send(read_response(b, read_response_last, 2, 7));
    const ibv_wc wc = must_poll(b.cq.get(), "READ");
    require(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == size,
            "completion: status {} bytes {}", static_cast<int>(wc.status), wc.byte_len);
    require(b.memory.holds(0, pattern(mtu, 100)) && b.memory.holds(mtu, pattern(mtu, 101)) &&
                b.memory.holds(2 * mtu, pattern(7, 102)) && b.memory.bytes()[size] == poison,
            "wrong data");
    b.expect_counters({});
    // the next request's PSN follows the last response's
    b.post(2, IBV_WR_RDMA_WRITE, 0, 4);
    expect_requests(b, psn_add(device_psn, 3), 1);
}

void run_read_gap(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    start_read(b, 3 * mtu);
    b.send(read_response(b, read_response_first, 0, mtu));
    b.send(read_response(b, read_response_last, 2, mtu));
    // the rest is asked for again
    const Decoded again = b.receive("a repeated READ request");
    require(again.opcode == read_request && again.psn == psn_add(device_psn, 1) &&
                again.reth_va() == 0x1000 + mtu && again.reth_length() == 2 * mtu,
            "expected a READ request for the rest, not {}", again.text());
    b.expect_counters({{"implied_nak_seq_err", 1}});
    must_be_empty(b.cq.get(), "send CQ");
    b.send(read_response(b, read_response_first, 1, mtu));
    b.send(read_response(b, read_response_last, 2, mtu));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
    require(b.memory.holds(0, pattern(mtu, 100)) && b.memory.holds(mtu, pattern(mtu, 101)) &&
                b.memory.holds(2 * mtu, pattern(mtu, 102)),
            "wrong data");
    b.expect_counters({});
}

void run_read_duplicate_response(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    start_read(b, 2 * mtu);
    b.send(read_response(b, read_response_first, 0, mtu));
    Packet ghost = read_response(b, read_response_first, 0, mtu);
    ghost.payload = pattern(mtu, 55);
    b.send(ghost);
    b.expect_silence("a repeated READ response");
    b.expect_counters({{"rx_drop_response", 1}});
    require(b.memory.holds(0, pattern(mtu, 100)), "the repeated response was placed");
    b.send(read_response(b, read_response_last, 1, mtu));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
}

void run_read_acknowledged(Bed &bed, GidKind kind)
{
    // an ACK is no answer to a READ: its response must have been lost
    Bench b(bed, kind, {});
    start_read(b, mtu);
    b.send(b.ack(device_psn));
    const Decoded again = b.receive("a repeated READ request");
    require(again.opcode == read_request && again.psn == device_psn, "not {}", again.text());
    b.expect_counters({{"implied_nak_seq_err", 1}});
    must_be_empty(b.cq.get(), "send CQ");
    b.send(read_response(b, read_response_only, 0, mtu));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
}

void run_read_bad_length(Bed &bed, GidKind kind)
{
    struct Row {
        const char *name;
        std::uint32_t size;
        std::uint8_t opcode;
        std::size_t length;
    };
    const Row rows[] = {
        {"short", 64, read_response_only, 60},       {"long", 64, read_response_only, 68},
        {"by one", 64, read_response_only, 63},      {"empty", 64, read_response_only, 0},
        {"short first", 2 * mtu, read_response_first, mtu - 4},
        {"long first", 2 * mtu, read_response_first, mtu + 4},
        {"payload for nothing", 0, read_response_only, 4},
    };
    for (const Row &row : rows) {
        note(row.name);
        Bench b(bed, kind, {});
        start_read(b, row.size);
        b.send(read_response(b, row.opcode, 0, row.length));
        b.expect_wc(b.cq.get(), IBV_WC_BAD_RESP_ERR, 1);
        b.expect_state(IBV_QPS_ERR);
        require(b.memory.untouched(), "{}: memory was written", row.name);
        b.expect_counters({{"rx_drop_response", 1}});
    }
}

// ---------------------------------------------------------------------------

void add_cases(Ktap &ktap, Bed &bed, GidKind kind)
{
    const std::string family = to_string(kind);
    const auto add = [&](const std::string &name, auto run) {
        ktap.add(family + ":" + name, [&bed, kind, run] { run(bed, kind); });
    };
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
    for (const Refused &row : refused)
        add(fmt::format("nak:{}", row.name), [&row](Bed &b, GidKind k) { run_refused(b, k, row); });
    add("recv:rnr", run_rnr);
    add("recv:send_too_long", run_send_too_long);
    add("recv:bad_lkey", run_recv_bad_lkey);
    add("recv:send_of_three_packets", run_send_multi);
    add("psn:ahead", run_psn_ahead);
    add("psn:half_the_space", run_psn_half_space);
    add("psn:duplicate_send", run_duplicate_send);
    add("psn:duplicate_write", run_duplicate_write);
    add("psn:read", run_read);
    add("psn:duplicate_read", run_duplicate_read);
    add("psn:duplicate_atomic", run_duplicate_atomic);
    add("psn:duplicate_of_nonsense", run_duplicate_of_nonsense);
    add("psn:message_sequence_number", run_msn);
    add("psn:acknowledge_unasked", run_unrequested_ack);
    add("nak:too_many_reads", run_too_many_reads);
    add("nak:read_of_dying_region", run_read_of_dying_region);
    add("nak:send_invalidate", run_send_invalidate);
    add("req:each_request", run_requests);
    for (const BadAck &row : ignored)
        add(fmt::format("req:{}", row.name), [&row](Bed &b, GidKind k) { run_ignored(b, k, row); });
    add("req:fatal_nak", run_fatal_nak);
    add("req:sequence_nak", run_sequence_nak);
    add("req:rnr_each_timer", run_rnr_timers);
    add("req:rnr_exceeded", run_rnr_exceeded);
    add("req:ack_timeout", run_ack_timeout);
    add("req:coalesced_ack", run_coalesced_ack);
    add("req:read_responses", run_read_responses);
    add("req:read_gap", run_read_gap);
    add("req:read_duplicate_response", run_read_duplicate_response);
    add("req:read_acknowledged", run_read_acknowledged);
    add("req:read_bad_length", run_read_bad_length);
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
    std::string peer_if, peer_netns, peer_ip4, peer_ip6, device_mac;
    CLI::App app("Sends crafted packets to a live QP and requires the exact answer.");
    add_common_options(app, options);
    app.add_option("--peer-if", peer_if, "interface cabled to the device's")->envname("ROCEV2_PEER_IF");
    app.add_option("--peer-netns", peer_netns, "its network namespace")->envname("ROCEV2_PEER_NETNS");
    app.add_option("--peer-ip4", peer_ip4, "its IPv4 address")->envname("ROCEV2_PEER_IP4");
    app.add_option("--peer-ip6", peer_ip6, "its IPv6 address")->envname("ROCEV2_PEER_IP6");
    app.add_option("--device-mac", device_mac, "MAC address of the device's interface")
        ->envname("ROCEV2_DEVICE_MAC");
    CLI11_PARSE(app, argc, argv);
    settle_options("wire_drops", options);

    Ktap ktap;
    Bed bed;
    try {
        if (!options.list) {
            bed.side = open_side("A", options.dev_a, options.netns_a, options.port);
            bed.peer = std::make_unique<Peer>(peer_netns, peer_if);
            bed.counters = std::make_unique<Counters>(options.dev_a);
            bed.device_mac = parse_mac(device_mac);
            bed.peer_address = {{GidKind::ipv4, parse_address(peer_ip4)},
                                {GidKind::ipv6, parse_address(peer_ip6)}};
            for (const ibv_gid_entry &entry : gid_table(bed.side.context.get(), options.port)) {
                const GidKind kind = kind_of(entry.gid);
                if (bed.gid_index.emplace(kind, static_cast<std::uint8_t>(entry.gid_index)).second)
                    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw),
                              bed.device_address[kind].begin());
            }
            for (const GidKind kind : {GidKind::ipv4, GidKind::ipv6})
                require(bed.gid_index.count(kind), "{} has no {} GID", options.dev_a, to_string(kind));
        }
    } catch (const std::exception &error) {
        fmt::print("Bail out! {}\n", error.what());
        return 1;
    }
    for (const GidKind kind : {GidKind::ipv4, GidKind::ipv6})
        add_cases(ktap, bed, kind);
    return ktap.run(options.filters, options.list, options.case_limit_s);
}
