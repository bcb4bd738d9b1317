// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "frames.hpp"
#include "rss.hpp"

#include <set>

namespace cx {
namespace {

constexpr std::uint32_t kAddresses = 3, kPorts = 12;

/* "Verifying the RSS Hash Calculation", Windows driver documentation: key, addresses, ports and hashes. */
constexpr std::array<std::uint8_t, 40> kPublishedKey = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
    0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
    0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
    0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

struct Vector {
    const char *source, *destination; /* hexadecimal */
    unsigned source_port, destination_port;
    std::uint32_t addresses, with_ports;
};

constexpr Vector kVectors[] = {
    {"420995bb", "a18e6450", 2794, 1766, 0x323e8fc2, 0x51ccc178},
    {"c75c6f02", "41458c53", 14230, 4739, 0xd718262a, 0xc626b0ea},
    {"1813c65f", "0c16cfb8", 12898, 38024, 0xd2d0a5de, 0x5c2b394a},
    {"261bcd1e", "d18ea306", 48228, 2217, 0x82989176, 0xafc7327f},
    {"9927a3bf", "cabc7f02", 44251, 1303, 0x5d1809c5, 0x10e828a2},
    {"3ffe250102001fff0000000000000007", "3ffe2501020000030000000000000001", 2794, 1766, 0x2cc18cd5, 0x40207d3d},
    {"3ffe050100080000026097fffe40efab", "ff020000000000000000000000000001", 14230, 4739, 0x0f0c461c, 0xdde51bbf},
    {"3ffe1900454500030200f8fffe2167cf", "fe800000000000000200f8fffe2167cf", 44251, 38024, 0x4b61e985, 0x02d1feef},
};

Bytes FrameOf(const Vector &vector, bool udp, bool swapped = false)
{
    const Bytes source = Hex(swapped ? vector.destination : vector.source);
    const Bytes destination = Hex(swapped ? vector.source : vector.destination);
    const bool ipv6 = source.size() == 16;
    FrameSpec spec{.ipv6 = ipv6, .udp = udp};

    spec.source_port = swapped ? vector.destination_port : vector.source_port;
    spec.destination_port = swapped ? vector.source_port : vector.destination_port;
    Bytes frame = MakeFrame(spec, Payload(10));
    const Bytes addresses = source + destination;
    std::copy(addresses.begin(), addresses.end(), frame.begin() + (ipv6 ? 22 : 26));
    return frame;
}

Tir MakeTir(bool ipv6, bool udp, std::uint32_t fields, bool symmetric = false)
{
    Tir tir;

    tir.indirect = true;
    tir.function = RssFunction::kToeplitz;
    tir.toeplitz_key = kPublishedKey;
    tir.ipv6 = ipv6;
    tir.udp = udp;
    tir.fields = fields;
    tir.symmetric = symmetric;
    return tir;
}

RssResult HashOf(const Tir &tir, const Bytes &frame)
{
    return RssHash(tir, Parse(frame));
}

TEST(RssTest, PublishedVectors)
{
    for (const Vector &vector : kVectors)
        for (const bool udp : {false, true}) {
            const Bytes frame = FrameOf(vector, udp);
            const bool ipv6 = Hex(vector.source).size() == 16;

            EXPECT_EQ(HashOf(MakeTir(ipv6, udp, kAddresses), frame).hash, vector.addresses) << vector.source;
            EXPECT_EQ(HashOf(MakeTir(ipv6, udp, kAddresses | kPorts), frame).hash, vector.with_ports) << vector.source;
        }
}

TEST(RssTest, TypeSaysWhatWasHashed)
{
    const Bytes tcp4 = FrameOf(kVectors[0], false), udp6 = FrameOf(kVectors[5], true);

    EXPECT_EQ(HashOf(MakeTir(false, false, kAddresses | kPorts), tcp4).type, 0x55);
    EXPECT_EQ(HashOf(MakeTir(false, false, kAddresses), tcp4).type, 0x05);
    EXPECT_EQ(HashOf(MakeTir(true, true, kAddresses | kPorts), udp6).type, 0xaa);
    EXPECT_EQ(HashOf(MakeTir(true, true, 2 | 8), udp6).type, 0x88) << "destinations alone";
}

TEST(RssTest, FieldsThatAPacketHasNotAreLeftOut)
{
    const Bytes tcp4 = FrameOf(kVectors[0], false);

    EXPECT_EQ(HashOf(MakeTir(false, true, kAddresses | kPorts), tcp4).hash, kVectors[0].addresses) << "UDP's ports";
    EXPECT_EQ(HashOf(MakeTir(true, false, kAddresses | kPorts), tcp4).hash, 0U) << "IPv6's addresses";
    EXPECT_EQ(HashOf(MakeTir(true, false, kAddresses | kPorts), tcp4).type, 0U);
    Tir none = MakeTir(false, false, kAddresses);
    none.function = RssFunction::kNone;
    EXPECT_EQ(HashOf(none, tcp4).hash, 0U);
    Bytes fragment = tcp4;
    SetNumber(fragment, 20, 2, 0x2000);
    EXPECT_EQ(HashOf(MakeTir(false, false, kAddresses | kPorts), fragment).hash, kVectors[0].addresses);
}

TEST(RssTest, SymmetricIsTheSameBothWays)
{
    for (const Vector &vector : kVectors) {
        const bool ipv6 = Hex(vector.source).size() == 16;
        const Bytes there = FrameOf(vector, false), back = FrameOf(vector, false, true);
        const Tir symmetric = MakeTir(ipv6, false, kAddresses | kPorts, true);
        const Tir plain = MakeTir(ipv6, false, kAddresses | kPorts);

        EXPECT_EQ(HashOf(symmetric, there).hash, HashOf(symmetric, back).hash);
        EXPECT_NE(HashOf(symmetric, there).hash, 0U);
        EXPECT_NE(HashOf(plain, there).hash, HashOf(plain, back).hash);
    }
    std::set<std::uint32_t> different;
    for (const Vector &vector : kVectors)
        different.insert(
            HashOf(MakeTir(Hex(vector.source).size() == 16, false, kAddresses | kPorts, true), FrameOf(vector, false))
                .hash);
    EXPECT_EQ(different.size(), std::size(kVectors));
}

TEST(RssTest, Xor8)
{
    Tir tir = MakeTir(false, false, kAddresses | kPorts);

    tir.function = RssFunction::kXor8;
    /* 42^09^95^bb ^ a1^8e^64^50 ^ 0a^ea ^ 06^e6 = 7e; inverted it is the same */
    EXPECT_EQ(HashOf(tir, FrameOf(kVectors[0], false)).hash, 0x7eU);
    tir.fields = 1;
    /* 42^09^95^bb = 65 */
    EXPECT_EQ(HashOf(tir, FrameOf(kVectors[0], false)).hash, 0xa6U);
}

} // namespace
} // namespace cx
