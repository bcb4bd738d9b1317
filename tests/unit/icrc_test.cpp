// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// icrc.c against packets whose ICRC others computed or captured, and field by field: what a router
// may change must not matter, everything else must.
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "kernel.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes hex(const std::string& text)
{
    Bytes out;
    std::string digits;
    for (const char c : text)
        if (c != ' ')
            digits += c;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        out.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return out;
}

/* the ICRC of a whole IP packet that ends with one, as the bytes on the wire */
Bytes icrc(const Bytes& packet)
{
    // exact-size copy: the sanitizer sees any read beyond the headers
    const std::size_t headers = (packet[0] >> 4 == 4 ? 20u : 40u) + 8u + 12u;
    const Bytes head(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(headers));
    std::uint32_t crc = rocev2_icrc_headers(head.data());
    crc = rocev2_crc32(crc, packet.data() + headers, packet.size() - headers - ROCEV2_ICRC_LEN);
    const __le32 wire = rocev2_icrc_final(crc);
    Bytes out(4);
    std::memcpy(out.data(), &wire, 4);
    return out;
}

struct Vector {
    const char* origin;
    const char* packet;  // from the IP header on
    std::size_t headers;
};

const Vector kVectors[] = {
    {"scapy's RoCE tests: UC SEND Only, IPv4, ECN set, two pad bytes",
     "4501 0040 0478 4000 4011 b4d5 c0a8 0007 c0a8 0007"
     "c000 12b7 002c aca2"
     "2460 ffff 0000 00d3 00cf 1710"
     "4630818be28935d90e9a95505401be885e500000"
     "78f353f3",
     40},
    {"scapy's RoCE tests: CNP captured on a ConnectX-4 Lx, IPv4, BECN set, MigReq clear",
     "45c2 003c 718c 4000 4011 9161 0a00 1101 0a00 1201"
     "0000 12b7 0028 0000"
     "8100 ffff 4000 0118 0000 0000"
     "00000000000000000000000000000000"
     "82fd002a",
     40},
    {"scapy's RoCE tests: UC SEND Only, IPv6 with traffic class and flow label",
     "6e21 face 002c 11ff 2022 0000 0000 0000 0000 0000 0000 1023"
     "2023 0000 0000 0000 0000 0000 0000 1024"
     "c000 12b7 002c e7c5"
     "2460 ffff 0000 00d3 00cf 1710"
     "4630818be28935d90e9a95505401be885e500000"
     "3e5b743b",
     60},
};

TEST(Icrc, PublishedVectors)
{
    for (const auto& v : kVectors) {
        const Bytes packet = hex(v.packet);
        EXPECT_EQ(icrc(packet), Bytes(packet.end() - 4, packet.end())) << v.origin;
    }
}

TEST(Icrc, CrcEngineOfTheTestsIsCrc32)
{
    // the check value of CRC-32/ISO-HDLC
    EXPECT_EQ(~rocev2_crc32(~0u, "123456789", 9), 0xcbf43926u);
    EXPECT_EQ(rocev2_crc32(rocev2_crc32(~0u, "1234", 4), "56789", 5),
              rocev2_crc32(~0u, "123456789", 9))
        << "and continues from a state";
}

TEST(Icrc, StartsAfterEightBytesOfOnes)
{
    // masked by hand, CRC from scratch over the 8 bytes of the absent LRH and all the rest
    Bytes packet = hex(kVectors[0].packet);
    Bytes whole(8, 0xff);
    whole.insert(whole.end(), packet.begin(), packet.begin() + 40);
    for (const std::size_t masked : {1u, 8u, 10u, 11u, 26u, 27u, 32u})
        whole[8 + masked] = 0xff;
    EXPECT_EQ(rocev2_icrc_headers(packet.data()), rocev2_crc32(~0u, whole.data(), whole.size()));
}

/* bits of a header that a router may change: everything else is covered */
std::set<std::size_t> variant_bits(std::size_t headers)
{
    std::set<std::size_t> bits;
    const auto bytes = [&](std::size_t first, std::size_t last) {
        for (std::size_t b = first * 8; b < (last + 1) * 8; b++)
            bits.insert(b);
    };
    if (headers == 40) {
        bytes(1, 1);    // TOS
        bytes(8, 8);    // TTL
        bytes(10, 11);  // header checksum
    } else {
        for (std::size_t b = 4; b < 32; b++)
            bits.insert(b);  // traffic class, flow label
        bytes(7, 7);         // hop limit
    }
    const std::size_t udp = headers - 20;
    bytes(udp + 6, udp + 7);       // UDP checksum
    bytes(udp + 8 + 4, udp + 8 + 4);  // FECN, BECN, resv6
    return bits;
}

TEST(Icrc, EachBitIsEitherVariantOrCovered)
{
    for (const auto& v : kVectors) {
        const Bytes packet = hex(v.packet);
        const Bytes good = icrc(packet);
        const auto variant = variant_bits(v.headers);
        for (std::size_t bit = 0; bit < (packet.size() - 4) * 8; bit++) {
            // a flip there makes another IP version and another header length
            if (bit < 4)
                continue;
            Bytes changed = packet;
            changed[bit / 8] ^= static_cast<std::uint8_t>(0x80 >> (bit % 8));
            EXPECT_EQ(icrc(changed) == good, variant.contains(bit))
                << v.origin << ": byte " << bit / 8 << " bit " << bit % 8;
        }
    }
}

}  // namespace
