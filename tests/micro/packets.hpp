// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Packets to measure with, by the builder of the wire selftests: a second opinion on each answer. */
#pragma once

#include "wire/packet.hpp"

#include <cstddef>
#include <cstdint>

namespace micro {

constexpr std::uint32_t kQpn = 0x123456;
constexpr std::uint32_t kPsn = 0xabcdef;

/* of the frame, to which the IP header is */
constexpr std::size_t kEthernetLength = 14;
constexpr std::size_t kTagLength = 4;

/* RC WRITE Only of so many bytes to `address` by `key`, with all checksums but UDP's, which is 0. */
rocev2::wire::Packet WritePacket(bool ipv6, std::size_t payload, std::uint64_t address, std::uint32_t key);

/* The bytes from the IP header to the ICRC. */
rocev2::wire::Bytes IpPacket(const rocev2::wire::Packet &packet);

} // namespace micro
