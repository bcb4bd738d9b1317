// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "packet.hpp"

#include <algorithm>
#include <bit>

namespace cx {
namespace {

constexpr std::size_t kIpv4Header = 20, kIpv6Header = 40, kTcpHeader = 20, kUdpHeader = 8;
constexpr std::size_t kIpv4Checksum = 10, kTcpChecksum = 16, kUdpChecksum = 6;

/* Extension headers of IPv6: RFC 8200, and RFC 4302 for the one that counts its length differently. */
constexpr std::uint8_t kHopByHop = 0, kRouting = 43, kFragmentHeader = 44, kAuthentication = 51,
                       kDestinationOptions = 60;

void ParseL4(Packet &packet, std::size_t at)
{
    const std::size_t left = packet.end - at;

    if (packet.fragment)
        return;
    if (packet.protocol == kProtocolUdp && left >= kUdpHeader) {
        packet.l4 = at;
        packet.l4_header = kUdpHeader;
    } else if (packet.protocol == kProtocolTcp && left >= kTcpHeader) {
        const std::size_t header = std::size_t{4} * (Load8(packet.frame, at + 12) >> 4);

        if (header < kTcpHeader || header > left)
            return;
        packet.l4 = at;
        packet.l4_header = header;
    }
}

void ParseIpv4(Packet &packet, IpLength from)
{
    const auto ip = packet.frame.subspan(packet.l3);

    if (ip.size() < kIpv4Header || Load8(ip, 0) >> 4 != 4)
        return;
    packet.ip_version = 4;
    packet.protocol = Load8(ip, 9);
    packet.fragment = (Load16(ip, 6) & 0x3fff) != 0; /* more fragments, or an offset */
    const std::size_t header = std::size_t{4} * (Load8(ip, 0) & 0xf);
    const std::size_t length = from == IpLength::kFrame ? ip.size() : Load16(ip, 2);
    if (header < kIpv4Header || header > ip.size() || length < header || length > ip.size())
        return;
    packet.end = packet.l3 + length;
    packet.l3_valid = from == IpLength::kFrame || Sum(ip.first(header)) == 0xffff;
    ParseL4(packet, packet.l3 + header);
}

void ParseIpv6(Packet &packet, IpLength from)
{
    const auto ip = packet.frame.subspan(packet.l3);

    if (ip.size() < kIpv6Header || Load8(ip, 0) >> 4 != 6)
        return;
    packet.ip_version = 6;
    packet.protocol = Load8(ip, 6);
    const std::size_t length = from == IpLength::kFrame ? ip.size() : kIpv6Header + Load16(ip, 4);
    if (length > ip.size())
        return;
    packet.end = packet.l3 + length;
    packet.l3_valid = true;
    std::size_t at = kIpv6Header;
    while (packet.protocol == kHopByHop || packet.protocol == kRouting || packet.protocol == kFragmentHeader ||
           packet.protocol == kAuthentication || packet.protocol == kDestinationOptions) {
        if (length - at < 8)
            return;
        std::size_t header = 8;
        if (packet.protocol == kFragmentHeader)
            packet.fragment = packet.fragment || (Load16(ip, at + 2) & 0xfff9) != 0;
        else if (packet.protocol == kAuthentication)
            header = std::size_t{4} * (Load8(ip, at + 1) + 2U);
        else
            header = std::size_t{8} * (Load8(ip, at + 1) + 1U);
        if (header > length - at)
            return;
        packet.protocol = Load8(ip, at);
        at += header;
    }
    ParseL4(packet, packet.l3 + at);
}

} // namespace

Packet Parse(std::span<const std::byte> frame, IpLength length)
{
    Packet packet;
    std::size_t at = kEthernetHeader;

    packet.frame = frame;
    packet.end = frame.size();
    packet.ethertype = Load16(frame, at - 2);
    while (packet.tags < 2 && (packet.ethertype == kEthertypeVlan || packet.ethertype == kEthertypeServiceVlan) &&
           frame.size() - at >= kVlanTag) {
        if (packet.tags == 0) {
            packet.tpid = packet.ethertype;
            packet.tci = Load16(frame, at);
        }
        ++packet.tags;
        packet.ethertype = Load16(frame, at + 2);
        at += kVlanTag;
    }
    packet.l3 = at;
    if (packet.ethertype == kEthertypeIpv4)
        ParseIpv4(packet, length);
    else if (packet.ethertype == kEthertypeIpv6)
        ParseIpv6(packet, length);
    return packet;
}

std::uint16_t Sum(std::span<const std::byte> bytes, std::uint32_t start)
{
    std::uint64_t sum = 0; /* of words in memory's order: RFC 1071, section 2 (B), sums in either */
    std::size_t at = 0;

    for (; bytes.size() - at >= sizeof(std::uint32_t); at += sizeof(std::uint32_t)) {
        std::uint32_t word = 0;

        std::memcpy(&word, bytes.data() + at, sizeof(word));
        sum += word;
    }
    std::array<std::byte, sizeof(std::uint32_t)> tail = {};
    std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(), tail.begin());
    sum += std::bit_cast<std::uint32_t>(tail);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    if constexpr (std::endian::native == std::endian::little)
        sum = (sum >> 8 | sum << 8) & 0xffff;
    sum += start;
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

std::uint16_t PseudoHeaderSum(const Packet &packet, std::size_t length)
{
    const auto low = static_cast<std::uint32_t>(length & 0xffff), high = static_cast<std::uint32_t>(length >> 16);

    return Sum(packet.Addresses(), low + high + packet.protocol);
}

bool L4ChecksumValid(const Packet &packet)
{
    const auto l4 = packet.frame.subspan(packet.l4, packet.end - packet.l4);

    if (packet.Udp()) {
        const std::size_t length = Load16(l4, 4);

        if (Load16(l4, kUdpChecksum) == 0)
            return packet.ip_version == 4;
        if (length < kUdpHeader || length > l4.size())
            return false;
        return Sum(l4.first(length), PseudoHeaderSum(packet, length)) == 0xffff;
    }
    return Sum(l4, PseudoHeaderSum(packet, l4.size())) == 0xffff;
}

void FillL3Checksum(const Packet &packet, std::span<std::byte> frame)
{
    if (packet.ip_version != 4)
        return;
    const auto ip = frame.subspan(packet.l3);
    const std::size_t header = std::size_t{4} * (Load8(ip, 0) & 0xf);
    if (header < kIpv4Header || header > ip.size())
        return;
    Store16(ip, kIpv4Checksum, 0);
    Store16(ip, kIpv4Checksum, static_cast<std::uint16_t>(~Sum(ip.first(header))));
}

void FillL4Checksum(const Packet &packet, std::span<std::byte> frame)
{
    if (packet.l4 == 0)
        return;
    const auto l4 = frame.subspan(packet.l4, packet.end - packet.l4);
    const std::size_t at = packet.Udp() ? kUdpChecksum : kTcpChecksum;
    Store16(l4, at, 0);
    auto sum = static_cast<std::uint16_t>(~Sum(l4, PseudoHeaderSum(packet, l4.size())));
    if (sum == 0 && packet.Udp()) /* zero says that there is none */
        sum = 0xffff;
    Store16(l4, at, sum);
}

} // namespace cx
