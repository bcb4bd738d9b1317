// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The packet builder and decoder of the wire selftest against the published packets, byte for byte,
// and against the module's own ICRC.
#include <cstring>
#include <gtest/gtest.h>
#include <random>

#include "kernel.hpp"
#include "wire/packet.hpp"

namespace {

using namespace rocev2::wire;

Address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d)
{
    return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d};
}

const Bytes kPayload{0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e,
                     0x9a, 0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50};

/* scapy's RoCE tests: UC SEND Only over IPv4 with pad 2 */
Packet published()
{
    Packet p;
    p.source = p.destination = v4(192, 168, 0, 7);
    p.tos = 1;
    p.id = 1144;
    p.sport = 49152;
    p.udp_checksum = UdpChecksum::right;
    p.opcode = 0x24;
    p.qpn = 211;
    p.psn = 13571856;
    p.ackreq = false;
    p.payload = kPayload;
    return p;
}

TEST(WirePacket, BuildsThePublishedIpv4Packet)
{
    const Bytes frame = published().frame();
    ASSERT_EQ(frame.size(), 14u + 64u);
    EXPECT_EQ(Bytes(frame.begin() + 14 + 10, frame.begin() + 14 + 12), (Bytes{0xb4, 0xd5}))
        << "IPv4 header checksum";
    EXPECT_EQ(Bytes(frame.end() - 4, frame.end()), (Bytes{0x78, 0xf3, 0x53, 0xf3})) << "ICRC";
}

TEST(WirePacket, BuildsThePublishedIpv6Packet)
{
    Packet p = published();
    p.ipv6 = true;
    p.source = {0x20, 0x22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x23};
    p.destination = {0x20, 0x23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0x24};
    const Bytes frame = p.frame();
    EXPECT_EQ(Bytes(frame.end() - 4, frame.end()), (Bytes{0x3e, 0x5b, 0x74, 0x3b})) << "ICRC";
}

/* the UDP checksum that scapy gives covers an ICRC of zeros: check ours by its definition */
TEST(WirePacket, UdpChecksumSumsToZero)
{
    EXPECT_TRUE(decode(published().frame())->flaws == std::vector<std::string>{"not an RC opcode"});
    Packet wrong = published();
    wrong.udp_checksum = UdpChecksum::wrong;
    EXPECT_EQ(decode(wrong.frame())->flaws.front(), "wrong UDP checksum");
}

TEST(WirePacket, DecodesWhatItBuilds)
{
    std::mt19937 random(3);
    for (int i = 0; i < 2000; i++) {
        Packet p;
        p.ipv6 = random() % 2;
        p.source = p.ipv6 ? Address{0xfd, 1} : v4(10, 0, 0, 1);
        p.destination = p.ipv6 ? Address{0xfd, 2} : v4(10, 0, 0, 2);
        p.opcode = write_only;
        p.qpn = random() & 0xffffff;
        p.psn = random() & 0xffffff;
        p.solicited = random() % 2;
        p.ackreq = random() % 2;
        p.payload.resize(random() % 200);
        for (auto& b : p.payload)
            b = static_cast<std::uint8_t>(random());
        p.extended = reth(0x1122334455667788, 0x99aabbcc, 77);
        if (random() % 2)
            p.udp_checksum = UdpChecksum::right;
        if (random() % 2)
            p.vlan = 5;
        const auto d = decode(p.frame());
        ASSERT_TRUE(d);
        ASSERT_TRUE(d->flaws.empty()) << d->text();
        ASSERT_EQ(d->qpn, p.qpn);
        ASSERT_EQ(d->psn, p.psn);
        ASSERT_EQ(d->solicited, p.solicited);
        ASSERT_EQ(d->ackreq, p.ackreq);
        ASSERT_EQ(d->payload, p.payload);
        ASSERT_EQ(d->reth_va(), 0x1122334455667788u);
        ASSERT_EQ(d->reth_rkey(), 0x99aabbccu);
        ASSERT_EQ(d->reth_length(), 77u);

        // and the module's code finds the same ICRC
        const Bytes frame = p.frame();
        const std::size_t l3 = p.vlan ? 18 : 14;
        const std::size_t headers = (p.ipv6 ? 40u : 20u) + 20u;
        std::uint32_t crc = rocev2_icrc_headers(frame.data() + l3);
        crc = rocev2_crc32(crc, frame.data() + l3 + headers, frame.size() - l3 - headers - 4);
        const auto wire = rocev2_icrc_final(crc);
        ASSERT_EQ(std::memcmp(&wire, frame.data() + frame.size() - 4, 4), 0);
    }
}

TEST(WirePacket, SeesEachFlaw)
{
    Packet good;
    good.source = v4(10, 0, 0, 1);
    good.destination = v4(10, 0, 0, 2);
    good.extended = reth(0, 0, 3);
    good.payload = {1, 2, 3};
    ASSERT_TRUE(decode(good.frame())->flaws.empty());

    const auto flaws = [&](auto change) {
        Packet p = good;
        change(p);
        return decode(p.frame())->flaws;
    };
    using Flaws = std::vector<std::string>;
    EXPECT_EQ(flaws([](Packet& p) { p.migreq = false; }), Flaws{"MigReq is 0"});
    EXPECT_EQ(flaws([](Packet& p) { p.tver = 1; }), Flaws{"TVer is not 0"});
    EXPECT_EQ(flaws([](Packet& p) { p.icrc_flip = 1; }), Flaws{"wrong ICRC"});
    EXPECT_EQ(flaws([](Packet& p) { p.ip_checksum_flip = 1; }), Flaws{"wrong IPv4 header checksum"});
    EXPECT_EQ(flaws([](Packet& p) { p.udp_length_off = 4; }),
              Flaws{"UDP length is not what IP says"});
    EXPECT_EQ(flaws([](Packet& p) { p.sport = 99; }), Flaws{"UDP source port below 0xc000"});
    EXPECT_EQ(flaws([](Packet& p) {
                  p.payload.push_back(9);
                  p.pad = 1;
                  p.fill_pad = false;
              }),
              Flaws{"pad bytes are not 0"});
    EXPECT_EQ(flaws([](Packet& p) { p.ip_length_off = 4; }), Flaws{"IP length beyond the frame"});
}

}  // namespace
