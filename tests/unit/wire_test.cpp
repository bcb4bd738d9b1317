// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// wire.h: accessors and fillers against bytes laid out by hand from IBA chapter 9.
#include <array>
#include <cstring>
#include <gtest/gtest.h>

#include "kernel.hpp"

namespace {

template <typename Header, std::size_t N>
Header parse(const std::array<std::uint8_t, N>& bytes)
{
    static_assert(sizeof(Header) == N);
    Header h;
    std::memcpy(&h, bytes.data(), N);
    return h;
}

template <std::size_t N, typename Header>
std::array<std::uint8_t, N> bytes_of(const Header& h)
{
    static_assert(sizeof(Header) == N);
    std::array<std::uint8_t, N> out;
    std::memcpy(out.data(), &h, N);
    return out;
}

TEST(Wire, BthReadsEveryField)
{
    // RC RDMA WRITE Only, SE, MigReq, pad 3, P_Key ffff, QP 0x123456, AckReq, PSN 0xabcdef
    const auto bth = parse<rocev2_bth>(std::array<std::uint8_t, 12>{
        0x0a, 0xf0, 0xff, 0xff, 0x00, 0x12, 0x34, 0x56, 0x80, 0xab, 0xcd, 0xef});
    EXPECT_EQ(bth.opcode, 0x0a);
    EXPECT_TRUE(rocev2_bth_solicited(&bth));
    EXPECT_EQ(rocev2_bth_pad(&bth), 3);
    EXPECT_EQ(rocev2_bth_tver(&bth), 0);
    EXPECT_EQ(rocev2_bth_qpn(&bth), 0x123456u);
    EXPECT_TRUE(rocev2_bth_ackreq(&bth));
    EXPECT_EQ(rocev2_bth_psn(&bth), 0xabcdefu);
}

TEST(Wire, BthFieldsDoNotLeakIntoEachOther)
{
    // all that surrounds QPN and PSN set: FECN, BECN, reserved bits; pad 0, TVer 15
    const auto noisy = parse<rocev2_bth>(std::array<std::uint8_t, 12>{
        0xff, 0x4f, 0x7f, 0xff, 0xff, 0x00, 0x00, 0x00, 0x7f, 0x00, 0x00, 0x00});
    EXPECT_FALSE(rocev2_bth_solicited(&noisy));
    EXPECT_EQ(rocev2_bth_pad(&noisy), 0);
    EXPECT_EQ(rocev2_bth_tver(&noisy), 15);
    EXPECT_EQ(rocev2_bth_qpn(&noisy), 0u);
    EXPECT_FALSE(rocev2_bth_ackreq(&noisy));
    EXPECT_EQ(rocev2_bth_psn(&noisy), 0u);

    for (unsigned pad = 0; pad < 4; pad++) {
        const auto h = parse<rocev2_bth>(std::array<std::uint8_t, 12>{
            0, static_cast<std::uint8_t>(pad << 4), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
        EXPECT_EQ(rocev2_bth_pad(&h), pad);
    }
}

TEST(Wire, BthFillWritesTheBytes)
{
    rocev2_bth bth;
    std::memset(&bth, 0xee, sizeof(bth));
    rocev2_bth_fill(&bth, 0x04, 2, true, true, 0x00d3, 0xcf16d0);
    EXPECT_EQ(bytes_of<12>(bth), (std::array<std::uint8_t, 12>{0x04, 0xe0, 0xff, 0xff, 0x00, 0x00,
                                                               0x00, 0xd3, 0x80, 0xcf, 0x16,
                                                               0xd0}));

    std::memset(&bth, 0xee, sizeof(bth));
    rocev2_bth_fill(&bth, 0x11, 0, false, false, 0xffffff, 0);
    EXPECT_EQ(bytes_of<12>(bth), (std::array<std::uint8_t, 12>{0x11, 0x40, 0xff, 0xff, 0x00, 0xff,
                                                               0xff, 0xff, 0x00, 0x00, 0x00,
                                                               0x00}));
}

TEST(Wire, BthFillClampsQpnAndPsnTo24Bits)
{
    rocev2_bth bth;
    rocev2_bth_fill(&bth, 0, 0, false, false, 0xff000001, 0xff000002);
    EXPECT_EQ(rocev2_bth_qpn(&bth), 1u);
    EXPECT_EQ(rocev2_bth_psn(&bth), 2u);
    EXPECT_FALSE(rocev2_bth_ackreq(&bth));
    EXPECT_EQ(bytes_of<12>(bth)[4], 0) << "FECN, BECN and reserved bits must be zero";
}

TEST(Wire, BthFillTakesAnUnalignedPlace)
{
    // an IPv4 header after an Ethernet header leaves the BTH on any 2-byte border
    std::array<std::uint8_t, 15> room{};
    auto* bth = reinterpret_cast<rocev2_bth*>(room.data() + 3);
    rocev2_bth_fill(bth, 0x0a, 0, false, true, 0x010203, 0x040506);
    EXPECT_EQ(room, (std::array<std::uint8_t, 15>{0, 0, 0, 0x0a, 0x40, 0xff, 0xff, 0, 1, 2, 3,
                                                  0x80, 4, 5, 6}));
}

TEST(Wire, AethSyndromeAndMsn)
{
    const auto nak = parse<rocev2_aeth>(std::array<std::uint8_t, 4>{0x62, 0xff, 0xff, 0xfe});
    EXPECT_EQ(rocev2_aeth_syndrome(&nak), ROCEV2_AETH_NAK_REM_ACC);
    EXPECT_EQ(rocev2_aeth_msn(&nak), 0xfffffeu);

    rocev2_aeth aeth;
    rocev2_aeth_fill(&aeth, 0x2c, 0xab123456);
    EXPECT_EQ(bytes_of<4>(aeth), (std::array<std::uint8_t, 4>{0x2c, 0x12, 0x34, 0x56}));
}

TEST(Wire, AethKinds)
{
    EXPECT_EQ(ROCEV2_AETH_ACK_UNLIMITED & ROCEV2_AETH_KIND_MASK, ROCEV2_AETH_ACK);
    EXPECT_EQ(0x3f & ROCEV2_AETH_KIND_MASK, ROCEV2_AETH_RNR_NAK);
    for (const int nak : {0x60, 0x61, 0x62, 0x63, 0x64})
        EXPECT_EQ(nak & ROCEV2_AETH_KIND_MASK, ROCEV2_AETH_NAK);
}

TEST(Wire, ExtendedHeadersLieWhereTheSpecificationPutsThem)
{
    const auto reth = parse<rocev2_reth>(std::array<std::uint8_t, 16>{
        1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x80, 0, 0, 1});
    EXPECT_EQ(be64_to_cpu(reth.va), 0x0102030405060708u);
    EXPECT_EQ(be32_to_cpu(reth.rkey), 0x11121314u);
    EXPECT_EQ(be32_to_cpu(reth.len), 0x80000001u);

    const auto atomic = parse<rocev2_atomiceth>(std::array<std::uint8_t, 28>{
        1, 2,  3,  4,  5,  6,  7,  8,  0x11, 0x12, 0x13, 0x14, 21, 22,
        23, 24, 25, 26, 27, 28, 31, 32, 33,   34,   35,   36,   37, 38});
    EXPECT_EQ(be64_to_cpu(atomic.va), 0x0102030405060708u);
    EXPECT_EQ(be32_to_cpu(atomic.rkey), 0x11121314u);
    EXPECT_EQ(be64_to_cpu(atomic.swap_add), 0x15161718191a1b1cu);
    EXPECT_EQ(be64_to_cpu(atomic.compare), 0x1f20212223242526u);

    const auto deth =
        parse<rocev2_deth>(std::array<std::uint8_t, 8>{0x80, 0, 0, 1, 0xff, 0x01, 0x02, 0x03});
    EXPECT_EQ(be32_to_cpu(deth.qkey), 0x80000001u);
    EXPECT_EQ(be32_to_cpu(deth.sqpn) & ROCEV2_QPN_MASK, 0x010203u);
}

}  // namespace
