// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// RoCE v2 packets made and taken apart by hand, from the specification and in its own code: a
// second opinion on what the module sends and takes, so nothing here comes from the module.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rocev2::wire {

using Bytes = std::vector<std::uint8_t>;
using Mac = std::array<std::uint8_t, 6>;
using Address = std::array<std::uint8_t, 16>; // IPv4 mapped into IPv6, as in a GID

enum Opcode : std::uint8_t {
    send_first = 0x00,
    send_middle = 0x01,
    send_last = 0x02,
    send_last_imm = 0x03,
    send_only = 0x04,
    send_only_imm = 0x05,
    write_first = 0x06,
    write_middle = 0x07,
    write_last = 0x08,
    write_last_imm = 0x09,
    write_only = 0x0a,
    write_only_imm = 0x0b,
    read_request = 0x0c,
    read_response_first = 0x0d,
    read_response_middle = 0x0e,
    read_response_last = 0x0f,
    read_response_only = 0x10,
    acknowledge = 0x11,
    atomic_acknowledge = 0x12,
    compare_swap = 0x13,
    fetch_add = 0x14,
    send_last_invalidate = 0x16,
    send_only_invalidate = 0x17,
};

std::uint32_t crc32(std::span<const std::uint8_t> bytes);

// The ICRC (as it lies on the wire) of a packet from its IP header to its last pad byte.
Bytes icrc_of(std::span<const std::uint8_t> ip_packet);

// RETH, AtomicETH, AETH and the others as bytes.
Bytes reth(std::uint64_t va, std::uint32_t rkey, std::uint32_t length);
Bytes atomic_eth(std::uint64_t va, std::uint32_t rkey, std::uint64_t swap_add,
                 std::uint64_t compare);
Bytes aeth(std::uint8_t syndrome, std::uint32_t msn);
Bytes atomic_ack_eth(std::uint64_t original);
Bytes word(std::uint32_t value);
Bytes operator+(Bytes a, const Bytes &b);

enum class UdpChecksum { none, right, wrong };

// Every field of a packet; what is not set has the one right value.
struct Packet {
    Mac dmac{}, smac{};
    std::optional<std::uint16_t> vlan; // the TCI of an 802.1Q tag
    Address source{}, destination{};
    bool ipv6 = false;

    std::uint8_t ip_version = 0; // 0: the one of the addresses
    std::uint8_t ihl = 5;        // above 5: no-operation options
    std::uint8_t tos = 0;
    std::uint8_t ttl = 64;
    std::uint8_t protocol = 17;
    std::uint16_t id = 0x1234;
    std::uint16_t fragment = 0x4000; // flags and offset: DF
    bool ipv6_fragment_header = false;
    int ip_length_off = 0; // added to the right value
    std::uint16_t ip_checksum_flip = 0;

    std::uint16_t sport = 0xc0de;
    std::uint16_t dport = 4791;
    int udp_length_off = 0;
    UdpChecksum udp_checksum = UdpChecksum::none;

    std::uint8_t opcode = write_only;
    bool solicited = false;
    bool migreq = true;
    std::optional<std::uint8_t> pad; // default: what fills the payload up to words
    std::uint8_t tver = 0;
    std::uint16_t pkey = 0xffff;
    std::uint8_t fecn_becn_reserved = 0;
    std::uint32_t qpn = 0;
    bool ackreq = true;
    std::uint32_t psn = 0;

    Bytes extended; // headers between BTH and payload
    Bytes payload;
    bool fill_pad = true; // append the pad bytes the pad count promises
    std::uint32_t icrc_flip = 0;
    Bytes trailer; // behind the IP packet

    Bytes frame() const;
};

// A frame taken apart. `flaws` names everything that no sender of RoCE v2 may do.
struct Decoded {
    Mac dmac{}, smac{};
    bool ipv6 = false;
    Address source{}, destination{};
    std::optional<std::uint16_t> vlan; // TCI; where the socket took the tag off, Peer fills it in
    std::uint8_t tos = 0;              // IPv6: traffic class
    std::uint8_t ttl = 0;              // IPv6: hop limit
    std::uint32_t flow_label = 0;      // IPv6
    std::uint16_t sport = 0;
    std::uint8_t opcode = 0;
    bool solicited = false, migreq = false, ackreq = false;
    std::uint8_t pad = 0, tver = 0;
    std::uint16_t pkey = 0;
    std::uint32_t qpn = 0, psn = 0;
    Bytes extended;
    Bytes payload;
    std::vector<std::string> flaws;

    std::uint8_t syndrome() const { return extended.at(0); }
    std::uint32_t msn() const;
    std::uint64_t reth_va() const;
    std::uint32_t reth_rkey() const;
    std::uint32_t reth_length() const;
    std::uint64_t atomic_original() const;
    std::string text() const;
};

// None if the frame is no UDP to port 4791.
std::optional<Decoded> decode(std::span<const std::uint8_t> frame);

// Bytes of extended headers behind the BTH for this RC opcode; none if it is not one.
std::optional<std::size_t> extended_length(std::uint8_t opcode);

} // namespace rocev2::wire
