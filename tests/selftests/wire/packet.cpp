// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See packet.hpp.
#include "wire/packet.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rocev2::wire {

namespace {

void put(Bytes &out, std::uint64_t value, int bytes)
{
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
        out.push_back(static_cast<std::uint8_t>(value >> shift));
}

std::uint64_t get(std::span<const std::uint8_t> bytes, std::size_t at, std::size_t count)
{
    std::uint64_t value = 0;
    for (const std::uint8_t b : bytes.subspan(at, count))
        value = value << 8 | b;
    return value;
}

// ones' complement sum, folded (RFC 1071)
std::uint16_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t sum = 0)
{
    for (std::size_t i = 0; i < bytes.size(); i++)
        sum += i % 2 ? bytes[i] : static_cast<std::uint32_t>(bytes[i]) << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

// over the pseudo header; `udp` begins with the UDP header
std::uint16_t udp_sum(bool ipv6, const Address &source, const Address &destination,
                      std::span<const std::uint8_t> udp)
{
    Bytes pseudo(source.begin() + (ipv6 ? 0 : 12), source.end());
    pseudo.insert(pseudo.end(), destination.begin() + (ipv6 ? 0 : 12), destination.end());
    put(pseudo, udp.size(), 4);
    put(pseudo, 17, 4);
    pseudo.insert(pseudo.end(), udp.begin(), udp.end());
    return checksum(pseudo);
}

} // namespace

std::uint32_t crc32(std::span<const std::uint8_t> bytes)
{
    // the polynomial of Ethernet, lowest bit first, four bits at a time
    static constexpr auto table = [] {
        std::array<std::uint32_t, 16> t{};
        for (std::uint32_t i = 0; i < t.size(); i++) {
            t[i] = i;
            for (int bit = 0; bit < 4; bit++)
                t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0xedb88320u : 0u);
        }
        return t;
    }();
    std::uint32_t crc = 0xffffffff;
    for (const std::uint8_t byte : bytes) {
        crc ^= byte;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

Bytes icrc_of(std::span<const std::uint8_t> ip_packet)
{
    // annex A17.3.3: eight bytes of ones for the LRH, then the packet with its variant fields as ones
    Bytes image(8, 0xff);
    image.insert(image.end(), ip_packet.begin(), ip_packet.end());
    const bool ipv6 = ip_packet[0] >> 4 == 6;
    const std::span<std::uint8_t> ip = std::span(image).subspan(8);
    if (ipv6) {
        ip[0] |= 0x0f;
        for (const std::size_t at : {1u, 2u, 3u, 7u})
            ip[at] = 0xff;
    } else {
        for (const std::size_t at : {1u, 8u, 10u, 11u})
            ip[at] = 0xff;
    }
    const std::size_t udp = ipv6 ? 40 : (ip_packet[0] & 15u) * 4u;
    for (const std::size_t at : {udp + 6, udp + 7, udp + 12})
        if (at < ip.size())
            ip[at] = 0xff;
    const std::uint32_t crc = crc32(image);
    return {static_cast<std::uint8_t>(crc), static_cast<std::uint8_t>(crc >> 8),
            static_cast<std::uint8_t>(crc >> 16), static_cast<std::uint8_t>(crc >> 24)};
}

Bytes reth(std::uint64_t va, std::uint32_t rkey, std::uint32_t length)
{
    Bytes out;
    put(out, va, 8);
    put(out, rkey, 4);
    put(out, length, 4);
    return out;
}

Bytes atomic_eth(std::uint64_t va, std::uint32_t rkey, std::uint64_t swap_add,
                 std::uint64_t compare)
{
    Bytes out;
    put(out, va, 8);
    put(out, rkey, 4);
    put(out, swap_add, 8);
    put(out, compare, 8);
    return out;
}

Bytes aeth(std::uint8_t syndrome, std::uint32_t msn)
{
    Bytes out;
    put(out, syndrome, 1);
    put(out, msn, 3);
    return out;
}

Bytes atomic_ack_eth(std::uint64_t original)
{
    Bytes out;
    put(out, original, 8);
    return out;
}

Bytes word(std::uint32_t value)
{
    Bytes out;
    put(out, value, 4);
    return out;
}

Bytes operator+(Bytes a, const Bytes &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

Bytes Packet::frame() const
{
    const std::uint8_t pad_count =
        pad.value_or(static_cast<std::uint8_t>((4 - payload.size() % 4) % 4));

    Bytes udp;
    put(udp, sport, 2);
    put(udp, dport, 2);
    put(udp, 0, 4); // length and checksum: below
    udp.push_back(opcode);
    udp.push_back(static_cast<std::uint8_t>((solicited ? 0x80 : 0) | (migreq ? 0x40 : 0) |
                                            (pad_count & 3) << 4 | (tver & 15)));
    put(udp, pkey, 2);
    put(udp, static_cast<std::uint64_t>(fecn_becn_reserved) << 24 | (qpn & 0xffffff), 4);
    put(udp, (ackreq ? 0x80000000u : 0u) | (psn & 0xffffff), 4);
    udp.insert(udp.end(), extended.begin(), extended.end());
    udp.insert(udp.end(), payload.begin(), payload.end());
    if (fill_pad)
        udp.insert(udp.end(), pad_count & 3u, 0);
    const auto udp_length =
        static_cast<std::uint16_t>(static_cast<int>(udp.size()) + 4 + udp_length_off);
    udp[4] = static_cast<std::uint8_t>(udp_length >> 8);
    udp[5] = static_cast<std::uint8_t>(udp_length);

    Bytes ip;
    const std::size_t l4 = udp.size() + 4 + (ipv6_fragment_header ? 8u : 0u);
    if (ipv6) {
        put(ip, static_cast<std::uint64_t>(ip_version ? ip_version : 6) << 28 |
                    static_cast<std::uint64_t>(tos) << 20 | 0xface,
            4);
        put(ip, static_cast<std::uint64_t>(static_cast<int>(l4) + ip_length_off), 2);
        ip.push_back(ipv6_fragment_header ? 44 : protocol);
        ip.push_back(ttl);
        ip.insert(ip.end(), source.begin(), source.end());
        ip.insert(ip.end(), destination.begin(), destination.end());
        if (ipv6_fragment_header) {
            put(ip, protocol, 1);
            put(ip, 0, 1);
            put(ip, fragment, 2); // offset << 3 | M
            put(ip, 0x01020304, 4);
        }
    } else {
        ip.push_back(static_cast<std::uint8_t>((ip_version ? ip_version : 4) << 4 | ihl));
        ip.push_back(tos);
        const int options = ihl > 5 ? (ihl - 5) * 4 : 0;
        put(ip, static_cast<std::uint64_t>(20 + options + static_cast<int>(l4) + ip_length_off), 2);
        put(ip, id, 2);
        put(ip, fragment, 2);
        ip.push_back(ttl);
        ip.push_back(protocol);
        put(ip, 0, 2);
        ip.insert(ip.end(), source.begin() + 12, source.end());
        ip.insert(ip.end(), destination.begin() + 12, destination.end());
        ip.insert(ip.end(), static_cast<std::size_t>(options), 1);
        const auto sum = static_cast<std::uint16_t>(checksum(ip) ^ ip_checksum_flip);
        ip[10] = static_cast<std::uint8_t>(sum >> 8);
        ip[11] = static_cast<std::uint8_t>(sum);
    }

    Bytes crc = icrc_of(ip + udp);
    for (std::size_t i = 0; i < 4; i++)
        crc[i] = static_cast<std::uint8_t>(crc[i] ^ icrc_flip >> (8 * i));
    udp = udp + crc;
    if (udp_checksum != UdpChecksum::none) {
        std::uint16_t sum = udp_sum(ipv6, source, destination, udp);
        if (!sum)
            sum = 0xffff;
        if (udp_checksum == UdpChecksum::wrong)
            sum = sum == 1 ? 2 : static_cast<std::uint16_t>(sum ^ 1);
        udp[6] = static_cast<std::uint8_t>(sum >> 8);
        udp[7] = static_cast<std::uint8_t>(sum);
    }

    Bytes out(dmac.begin(), dmac.end());
    out.insert(out.end(), smac.begin(), smac.end());
    if (vlan) {
        put(out, 0x8100, 2);
        put(out, *vlan, 2);
    }
    put(out, ipv6 ? 0x86dd : 0x0800, 2);
    return out + ip + udp + trailer;
}

std::optional<std::size_t> extended_length(std::uint8_t opcode)
{
    switch (opcode) {
    case send_first:
    case send_middle:
    case send_last:
    case send_only:
    case write_middle:
    case write_last:
    case read_response_middle:
        return 0;
    case send_last_imm:
    case send_only_imm:
    case write_last_imm:
    case send_last_invalidate:
    case send_only_invalidate:
    case read_response_first:
    case read_response_last:
    case read_response_only:
    case acknowledge:
        return 4;
    case write_first:
    case write_only:
    case read_request:
        return 16;
    case write_only_imm:
        return 20;
    case atomic_acknowledge:
        return 12;
    case compare_swap:
    case fetch_add:
        return 28;
    default:
        return {};
    }
}

std::optional<Decoded> decode(std::span<const std::uint8_t> frame)
{
    if (frame.size() < 14 + 20 + 8)
        return {};
    Decoded d;
    std::copy_n(frame.begin(), 6, d.dmac.begin());
    std::copy_n(frame.begin() + 6, 6, d.smac.begin());
    std::size_t l3 = 14;
    std::uint64_t type = get(frame, 12, 2);
    if (type == 0x8100 && frame.size() > 18) {
        d.vlan = static_cast<std::uint16_t>(get(frame, 14, 2));
        type = get(frame, 16, 2);
        l3 = 18;
    }
    const auto ip = frame.subspan(l3);
    std::size_t l4, end;
    if (type == 0x0800 && ip.size() >= 28 && ip[0] >> 4 == 4) {
        if (ip[9] != 17 || (get(ip, 6, 2) & 0x1fff))
            return {};
        l4 = (ip[0] & 15u) * 4u;
        end = get(ip, 2, 2);
        d.tos = ip[1];
        d.ttl = ip[8];
        d.source[10] = d.source[11] = d.destination[10] = d.destination[11] = 0xff;
        std::copy_n(ip.begin() + 12, 4, d.source.begin() + 12);
        std::copy_n(ip.begin() + 16, 4, d.destination.begin() + 12);
    } else if (type == 0x86dd && ip.size() >= 48 && ip[0] >> 4 == 6) {
        if (ip[6] != 17)
            return {};
        d.ipv6 = true;
        l4 = 40;
        end = 40 + get(ip, 4, 2);
        d.tos = static_cast<std::uint8_t>(get(ip, 0, 2) >> 4);
        d.flow_label = static_cast<std::uint32_t>(get(ip, 1, 3) & 0xfffff);
        d.ttl = ip[7];
        std::copy_n(ip.begin() + 8, 16, d.source.begin());
        std::copy_n(ip.begin() + 24, 16, d.destination.begin());
    } else {
        return {};
    }
    if (ip.size() < l4 + 8 || get(ip, l4 + 2, 2) != 4791)
        return {};

    const auto flaw = [&d](bool bad, std::string text) {
        if (bad)
            d.flaws.push_back(std::move(text));
        return bad;
    };
    if (!d.ipv6) {
        flaw((ip[0] & 15) != 5, "IHL is not 5");
        flaw(checksum(ip.first(l4)) != 0, "wrong IPv4 header checksum");
        flaw(get(ip, 6, 2) & 0x3fff, "an IP fragment");
    }
    if (flaw(end > ip.size(), "IP length beyond the frame") ||
        flaw(end < l4 + 8 + 12 + 4, "too short for BTH and ICRC"))
        return d;
    const auto udp = ip.subspan(l4, end - l4);
    flaw(get(udp, 4, 2) != udp.size(), "UDP length is not what IP says");
    flaw(get(udp, 6, 2) && udp_sum(d.ipv6, d.source, d.destination, udp) != 0,
         "wrong UDP checksum");

    d.sport = static_cast<std::uint16_t>(get(udp, 0, 2));
    d.opcode = udp[8];
    d.solicited = udp[9] & 0x80;
    d.migreq = udp[9] & 0x40;
    d.pad = udp[9] >> 4 & 3;
    d.tver = udp[9] & 15;
    d.pkey = static_cast<std::uint16_t>(get(udp, 10, 2));
    d.qpn = static_cast<std::uint32_t>(get(udp, 13, 3));
    d.ackreq = udp[16] & 0x80;
    d.psn = static_cast<std::uint32_t>(get(udp, 17, 3));
    flaw(!d.migreq, "MigReq is 0");
    flaw(d.tver != 0, "TVer is not 0");
    flaw(udp[12] & 0x3f, "reserved bits before the QPN are not 0");
    flaw(udp[16] & 0x7f, "reserved bits before the PSN are not 0");
    flaw(d.sport < 0xc000, "UDP source port below 0xc000");

    const auto covered = ip.first(end - 4);
    const Bytes crc = icrc_of(covered);
    flaw(!std::equal(crc.begin(), crc.end(), ip.begin() + static_cast<std::ptrdiff_t>(end) - 4),
         "wrong ICRC");

    const auto extended = extended_length(d.opcode);
    if (flaw(!extended, "not an RC opcode"))
        return d;
    const std::size_t body = udp.size() - 8 - 12 - 4;
    if (flaw(body < *extended + d.pad, "too short for its opcode and pad"))
        return d;
    const auto rest = udp.subspan(20, body);
    d.extended.assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(*extended));
    d.payload.assign(rest.begin() + static_cast<std::ptrdiff_t>(*extended), rest.end() - d.pad);
    flaw((d.payload.size() + d.pad) % 4 != 0, "payload and pad do not fill words");
    flaw(std::any_of(rest.end() - d.pad, rest.end(), [](std::uint8_t b) { return b != 0; }),
         "pad bytes are not 0");
    return d;
}

std::uint32_t Decoded::msn() const
{
    return static_cast<std::uint32_t>(get(extended, 1, 3));
}

std::uint64_t Decoded::reth_va() const
{
    return get(extended, 0, 8);
}

std::uint32_t Decoded::reth_rkey() const
{
    return static_cast<std::uint32_t>(get(extended, 8, 4));
}

std::uint32_t Decoded::reth_length() const
{
    return static_cast<std::uint32_t>(get(extended, 12, 4));
}

std::uint64_t Decoded::atomic_original() const
{
    return get(extended, 4, 8);
}

std::string Decoded::text() const
{
    std::string out = fmt::format("opcode {:#04x} qpn {:#x} psn {:#x}{} payload {}", opcode, qpn, psn,
                                  ackreq ? " ackreq" : "", payload.size());
    if (opcode == acknowledge && !extended.empty())
        out += fmt::format(" syndrome {:#04x} msn {}", syndrome(), msn());
    for (const std::string &f : flaws)
        out += "; " + f;
    return out;
}

} // namespace rocev2::wire
