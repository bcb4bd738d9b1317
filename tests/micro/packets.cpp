// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "packets.hpp"

namespace micro {

using rocev2::wire::Address;
using rocev2::wire::Bytes;
using rocev2::wire::Packet;

Packet WritePacket(bool ipv6, std::size_t payload, std::uint64_t address, std::uint32_t key)
{
    Packet packet;

    packet.ipv6 = ipv6;
    if (ipv6) {
        packet.source = Address{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
        packet.destination = Address{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    } else {
        packet.source = Address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
        packet.destination = Address{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
    }
    packet.opcode = rocev2::wire::write_only;
    packet.qpn = kQpn;
    packet.psn = kPsn;
    packet.extended = rocev2::wire::reth(address, key, static_cast<std::uint32_t>(payload));
    for (std::size_t i = 0; i < payload; i++)
        packet.payload.push_back(static_cast<std::uint8_t>(i * 7 + i / 256));
    return packet;
}

Bytes IpPacket(const Packet &packet)
{
    const Bytes frame = packet.frame();
    const auto begin = frame.begin() + static_cast<std::ptrdiff_t>(kEthernetLength + (packet.vlan ? kTagLength : 0));

    return {begin, frame.end()};
}

} // namespace micro
