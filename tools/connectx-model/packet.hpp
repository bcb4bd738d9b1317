// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A frame's headers, found once, and the Internet checksum. */
#pragma once

#include "bytes.hpp"

namespace cx {

constexpr std::uint8_t kProtocolTcp = 6, kProtocolUdp = 17;
constexpr std::uint16_t kEthertypeIpv4 = 0x0800, kEthertypeIpv6 = 0x86dd;
constexpr std::uint16_t kEthertypeVlan = 0x8100, kEthertypeServiceVlan = 0x88a8;
constexpr std::size_t kEthernetHeader = 14, kVlanTag = 4;

/** Offsets are from the frame's start. */
struct Packet {
    std::span<const std::byte> frame;
    unsigned tags = 0;            /* VLAN tags, at most two */
    std::uint16_t tpid = 0;       /* of the outer one */
    std::uint16_t tci = 0;
    std::uint16_t ethertype = 0;  /* of what follows the tags */
    std::size_t l3 = 0;           /* where that is */
    unsigned ip_version = 0;      /* 0: no IP, or its header is cut short */
    /* lengths fit, and so does IPv4's checksum; of a packet to send, the header's length only */
    bool l3_valid = false;
    bool fragment = false;
    std::uint8_t protocol = 0;    /* after IPv6's extension headers */
    std::size_t l4 = 0;           /* of a whole TCP or UDP header that is not in a fragment; else 0 */
    std::size_t l4_header = 0;    /* its length */
    std::size_t end = 0;          /* of what IP says there is; padding may follow. Of others: the frame's */

    bool Tcp() const
    {
        return l4 != 0 && protocol == kProtocolTcp;
    }
    bool Udp() const
    {
        return l4 != 0 && protocol == kProtocolUdp;
    }
    /** Source and destination address; together 8 or 32 bytes. `ip_version` is not 0. */
    std::span<const std::byte> Addresses() const
    {
        return ip_version == 4 ? frame.subspan(l3 + 12, 8) : frame.subspan(l3 + 8, 32);
    }
};

enum class IpLength {
    kInHeader, /* as the IP header says */
    kFrame,    /* to the frame's end, whatever the header says: headers of a segmented send */
};

/** Of any frame of at least kEthernetHeader bytes. */
Packet Parse(std::span<const std::byte> frame, IpLength length = IpLength::kInHeader);

/** Ones' complement sum of big-endian 16-bit words (RFC 1071), the last odd byte as if a zero followed, folded. */
std::uint16_t Sum(std::span<const std::byte> bytes, std::uint32_t start = 0);

/** The pseudo header's sum for `length` bytes of L4 (RFC 768, RFC 9293, RFC 8200). */
std::uint16_t PseudoHeaderSum(const Packet &packet, std::size_t length);

/** The L4 checksum is right, or UDP over IPv4 has none. `l4` is not 0. */
bool L4ChecksumValid(const Packet &packet);

/** Fill in checksums of `frame`, whose headers `packet` found: IPv4's; TCP's or UDP's. Where there is none: nothing. */
void FillL3Checksum(const Packet &packet, std::span<std::byte> frame);
void FillL4Checksum(const Packet &packet, std::span<std::byte> frame);

} // namespace cx
