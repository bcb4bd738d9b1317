// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Superpackets, UDP GSO, that hang together and that do not. The device hands them whole to the
// QP of their first packet, so nothing in them but that one's headers has been looked at by then.
#include "wire/bench.hpp"

#include "common/random.hpp"

#include <numeric>

namespace rocev2::wire {

namespace {

constexpr std::size_t size_of_write = 12 + 16 + 64 + 4; // BTH, RETH, payload, ICRC

std::size_t headers_of(GidKind kind)
{
    return 14 + (kind == GidKind::ipv4 ? 20u : 40u) + 8;
}

struct Superpacket {
    Bytes frame;
    Offload how;
};

// The headers of the first packet with the length of all, then of each what is behind its UDP header.
Superpacket together(GidKind kind, std::vector<Packet> packets, const Bytes &behind = {})
{
    const auto headers = static_cast<std::ptrdiff_t>(headers_of(kind));
    Superpacket super;
    Bytes bodies;
    for (std::size_t i = 0; i < packets.size(); i++) {
        // as whoever cuts it would number them: the ICRC covers that
        packets[i].id = static_cast<std::uint16_t>(packets[0].id + i);
        const Bytes frame = packets[i].frame();
        bodies.insert(bodies.end(), frame.begin() + headers, frame.end());
        if (!i)
            super.how.gso_size = static_cast<std::uint16_t>(bodies.size());
    }
    bodies = bodies + behind;
    Packet first = packets[0];
    const int more = static_cast<int>(bodies.size()) - super.how.gso_size;
    first.ip_length_off += more;
    first.udp_length_off += more;
    super.frame = first.frame();
    super.frame.resize(static_cast<std::size_t>(headers));
    super.frame = super.frame + bodies;
    super.how.headers_length = static_cast<std::uint16_t>(headers);
    super.how.checksum_start = static_cast<std::uint16_t>(headers - 8);
    return super;
}

void must_send(const Bench &b, const Superpacket &super)
{
    require(b.bed().peer->send_superpacket(super.frame, super.how),
            "the stack refuses a superpacket with a gso_size of {}", super.how.gso_size);
}

// WRITEs of 64 bytes one behind the other; only the last one asks for an acknowledgment.
std::vector<Packet> writes(const Bench &b, std::size_t count, std::size_t last_size = 64)
{
    std::vector<Packet> out;
    for (std::size_t i = 0; i < count; i++) {
        out.push_back(b.write(i + 1 < count ? 64 : last_size, i * 64));
        out.back().psn = psn_add(b.expected, static_cast<std::uint32_t>(i));
        out.back().ackreq = i + 1 == count;
    }
    return out;
}

void must_hold(const Bench &b, std::span<const Packet> packets)
{
    for (std::size_t i = 0; i < packets.size(); i++)
        require(b.memory.holds(i * 64, packets[i].payload), "packet {} was acknowledged but not placed", i);
}

void expect_taken(Bench &b, std::span<const Packet> packets)
{
    b.expected = psn_add(b.expected, static_cast<std::uint32_t>(packets.size()));
    b.expect_ack(psn_add(b.expected, 0xffffff));
    must_hold(b, packets);
}

void run_whole(Bed &bed, GidKind kind, std::size_t count, std::size_t last_size)
{
    Bench b(bed, kind, {});
    const auto packets = writes(b, count, last_size);
    must_send(b, together(kind, packets));
    expect_taken(b, packets);
    b.expect_counters({{"rx_superpackets", 1}});
}

// GRO looks at ports alone, and QPs may share theirs.
void run_two_qps(Bed &bed, GidKind kind)
{
    Bench one(bed, kind, {}), two(bed, kind, {});
    const auto first = writes(one, 3), second = writes(two, 3);
    std::vector<Packet> mixed;
    for (std::size_t i = 0; i < first.size(); i++)
        mixed.insert(mixed.end(), {first[i], second[i]});
    must_send(one, together(kind, mixed));
    expect_taken(one, first);
    expect_taken(two, second);
    two.expect_counters({{"rx_superpackets", 1}, {"rx_copied", 3}});
}

// One packet of three is nobody's, or damaged: the others are taken, as far as their order allows.
struct Spoilt {
    const char *name;
    const char *counter;
    std::size_t which;
    std::size_t taken;
    std::function<void(Packet &)> change;
};

const Spoilt spoilt[] = {
    {"unknown_qpn_last", "rx_drop_qpn", 2, 2, [](Packet &p) { p.qpn ^= 0x800000; }},
    {"unknown_qpn_first", "rx_drop_qpn", 0, 0, [](Packet &p) { p.qpn ^= 0x800000; }},
    {"icrc_last", "rx_icrc_encapsulated", 2, 2, [](Packet &p) { p.icrc_flip = 1; }},
    {"pkey_last", "rx_drop_pkey", 2, 2, [](Packet &p) { p.pkey = 0; }},
    {"tver_last", "rx_drop_header", 2, 2, [](Packet &p) { p.tver = 1; }},
    {"opcode_last", "rx_drop_header", 2, 2, [](Packet &p) { p.opcode = 0xff; }},
    {"service_last", "rx_drop_service", 2, 2, [](Packet &p) { p.opcode = 0x2a; }},
    {"payload_on_read_request_last", "rx_drop_length", 2, 2, [](Packet &p) { p.opcode = read_request; }},
};

void run_spoilt(Bed &bed, GidKind kind, const Spoilt &row)
{
    Bench b(bed, kind, {});
    auto packets = writes(b, 3);
    for (auto &p : packets)
        p.ackreq = false;
    if (row.taken)
        packets[row.taken - 1].ackreq = true;
    row.change(packets[row.which]);
    must_send(b, together(kind, packets));
    if (row.taken) {
        expect_taken(b, std::span(packets).first(row.taken));
        b.expect_silence(row.name);
        b.expect_counters({{"rx_superpackets", 1}, {row.counter, 1}});
    } else {
        // with the first one goes all that is with it
        b.expect_silence(row.name);
        b.expect_counters({{row.counter, packets.size()}});
    }
    b.expect_alive();
}

void run_end_too_short(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (std::size_t size = 1; size < 16; size++) {
        const auto packets = writes(b, 2);
        must_send(b, together(kind, packets, pattern(size)));
        expect_taken(b, packets);
        b.expect_counters({{"rx_superpackets", 1}, {"rx_drop_length", 1}});
    }
}

std::uint64_t drops(const Bench &b)
{
    const auto counted = b.bed().counters->read();
    return std::accumulate(counted.begin(), counted.end(), std::uint64_t{0}, [](std::uint64_t sum, const auto &c) {
        return sum + (c.first.starts_with("rx_drop_") || c.first == "rx_icrc_encapsulated" ? c.second : 0);
    });
}

// Cut anywhere but where its packets end: none is one, and each piece is counted. The stack takes 128 of them.
void run_cut_elsewhere(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const auto packets = writes(b, 4);
    Superpacket super = together(kind, packets);
    const std::size_t body = super.frame.size() - headers_of(kind);
    for (const std::size_t size : {std::size_t{3}, std::size_t{4}, std::size_t{11}, std::size_t{12},
                                   std::size_t{15}, std::size_t{16}, std::size_t{27}, std::size_t{28},
                                   size_of_write - 4, size_of_write - 1, size_of_write + 1, size_of_write + 4,
                                   2 * size_of_write, body - 1, body, body + 1}) {
        // what has no room for a BTH and an ICRC is dropped as a whole
        const std::uint64_t before = drops(b), pieces = size < 16 ? 1 : (body + size - 1) / size;
        super.how.gso_size = static_cast<std::uint16_t>(size);
        must_send(b, super);
        b.expect_silence("a superpacket cut elsewhere");
        require(wait_until(milliseconds(500), [&] { return drops(b) == before + pieces; }),
                "with a gso_size of {} {} packets were counted as dropped, not {}", size, drops(b) - before, pieces);
    }
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

// The lengths in its headers are those of the whole.
void run_lengths(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const auto with = [&](int ip, int udp) {
        auto packets = writes(b, 3);
        packets[0].ip_length_off = ip;
        packets[0].udp_length_off = udp;
        Superpacket super = together(kind, packets);
        // what the first packet alone says is not sent, but its ICRC is of that
        const Bytes right = writes(b, 1)[0].frame();
        const auto headers = static_cast<std::ptrdiff_t>(headers_of(kind));
        std::copy(right.begin() + headers, right.end(), super.frame.begin() + headers);
        must_send(b, super);
    };
    for (const auto &[ip, udp] : {std::pair{4, 4}, {4, 0}, {0, 4}, {0, -4}, {-4, 0}, {96, 96}}) {
        with(ip, udp);
        b.expect_silence("a superpacket with wrong lengths");
        b.expect_counters({{"rx_drop_length", 3}});
    }
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

// What UDP GSO could not have made: dropped as one, or refused before it gets to us.
struct Untrue {
    const char *name;
    std::function<void(Superpacket &)> change;
};

const Untrue untrue[] = {
    {"of_60000_packets",
     [](Superpacket &s) {
         s.frame.resize(60000);
         s.how.gso_size = 1;
         s.how.checksum_start = 59900;
     }},
    {"checksum_elsewhere", [](Superpacket &s) { s.how.checksum_start = static_cast<std::uint16_t>(s.how.checksum_start + 4); }},
    {"nothing_behind_its_headers", [](Superpacket &s) { s.frame.resize(s.how.headers_length), s.how.gso_size = 16; }},
    {"ufo", [](Superpacket &s) { s.how.gso_type = 3; }},
    {"tcp_ipv4", [](Superpacket &s) { s.how.gso_type = 1, s.how.checksum_offset = 16; }},
    {"tcp_ipv6", [](Superpacket &s) { s.how.gso_type = 4, s.how.checksum_offset = 16; }},
};

void run_untrue(Bed &bed, GidKind kind, const Untrue &row)
{
    Bench b(bed, kind, {});
    Superpacket super = together(kind, writes(b, 3));
    row.change(super);
    const std::uint64_t before = drops(b);
    const bool sent = b.bed().peer->send_superpacket(super.frame, super.how);
    diag(fmt::format("{}: {}", row.name, sent ? "taken by the stack" : "refused by the stack"));
    b.expect_silence(row.name);
    const std::uint64_t dropped = drops(b) - before;
    require(dropped == (sent ? 1u : 0u), "{} packets were counted as dropped", dropped);
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

// Anything: whatever becomes of it, nothing is written outside the region, and the device lives.
void run_random(Bed &bed, GidKind kind, std::uint64_t seed)
{
    Rng random(hash_name(seed, to_string(kind)));
    for (int round = 0; round < 20; round++) {
        Bench b(bed, kind, {});
        for (int i = 0; i < 20; i++) {
            Superpacket super = together(kind, writes(b, random.between<std::size_t>(1, 12)));
            const std::size_t headers = headers_of(kind), size = super.frame.size();
            for (auto flips = random.between(0, 6); flips > 0; flips--)
                super.frame[random.between(headers, size - 1)] ^= static_cast<std::uint8_t>(1u << random.between(0, 7));
            if (random.one_in(3))
                super.frame.resize(random.between(headers, size));
            if (random.one_in(2))
                super.how.gso_size = random.between<std::uint16_t>(1, 300);
            b.bed().peer->send_superpacket(super.frame, super.how);
        }
        Region &region = b.memory;
        std::memset(region.bytes(), poison, window_size);
        // the last of them may be under way still
        Bench(bed, kind, {}).expect_alive();
        std::memset(region.bytes(), poison, window_size);
        require(region.untouched(), "memory outside the region was written");
    }
}

} // namespace

void add_superpacket_cases(Ktap &ktap, Bed &bed, GidKind kind, std::uint64_t seed)
{
    const auto add = [&](const std::string &name, auto run) {
        add_case(ktap, bed, kind, "superpacket:" + name, run);
    };
    add("whole", [](Bed &b, GidKind k) { run_whole(b, k, 8, 64); });
    add("last_shorter", [](Bed &b, GidKind k) { run_whole(b, k, 3, 17); });
    add("of_64", [](Bed &b, GidKind k) { run_whole(b, k, 64, 64); });
    add("of_two_qps", run_two_qps);
    for (const Spoilt &row : spoilt)
        add(row.name, [&row](Bed &b, GidKind k) { run_spoilt(b, k, row); });
    add("end_too_short", run_end_too_short);
    add("cut_elsewhere", run_cut_elsewhere);
    add("lengths", run_lengths);
    add("random", [seed](Bed &b, GidKind k) { run_random(b, k, seed); });
}

void add_untrue_superpacket_cases(Ktap &ktap, Bed &bed, GidKind kind)
{
    for (const Untrue &row : untrue)
        add_case(ktap, bed, kind, fmt::format("superpacket:{}", row.name), [&row](Bed &b, GidKind k) { run_untrue(b, k, row); });
}

} // namespace rocev2::wire
