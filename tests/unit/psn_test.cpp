// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// psn.h: 24-bit sequence arithmetic, around the wrap and at half the space.
#include <array>
#include <cstdint>
#include <gtest/gtest.h>

#include "kernel.hpp"

namespace {

constexpr std::int64_t kSpace = 1 << 24;
constexpr std::int64_t kHalf = 1 << 23;

/* the definition, in plain integers: the representative of a - b in [-2^23, 2^23) */
constexpr std::int64_t reference_diff(std::int64_t a, std::int64_t b)
{
    std::int64_t d = (a - b) % kSpace;
    if (d < 0)
        d += kSpace;
    return d >= kHalf ? d - kSpace : d;
}

constexpr std::array<std::uint32_t, 9> kBases{0,        1,        2,        0x7ffffe, 0x7fffff,
                                              0x800000, 0x800001, 0xfffffe, 0xffffff};

TEST(Psn, DiffOverTheWholeSpaceFromEachBase)
{
    for (const auto base : kBases) {
        for (std::uint32_t psn = 0; psn < kSpace; psn += 1) {
            const auto want = reference_diff(psn, base);
            if (rocev2_psn_diff(psn, base) != want)
                FAIL() << std::hex << psn << " - " << base << " gave "
                       << rocev2_psn_diff(psn, base) << ", not " << want;
        }
    }
}

TEST(Psn, AddWrapsAndInvertsDiff)
{
    EXPECT_EQ(rocev2_psn_add(0xffffff, 1), 0u);
    EXPECT_EQ(rocev2_psn_add(0xfffffe, 3), 1u);
    EXPECT_EQ(rocev2_psn_add(0, 0xffffffff), 0xffffffu) << "minus one";
    for (const auto base : kBases)
        for (std::uint32_t n = 0; n < kHalf; n += 997)
            ASSERT_EQ(rocev2_psn_diff(rocev2_psn_add(base, n), base),
                      static_cast<std::int32_t>(n));
}

TEST(Psn, OrderAcrossTheWrap)
{
    EXPECT_TRUE(rocev2_psn_before(0xffffff, 0));
    EXPECT_TRUE(rocev2_psn_after(0, 0xffffff));
    EXPECT_FALSE(rocev2_psn_before(5, 5));
    EXPECT_FALSE(rocev2_psn_after(5, 5));
    // the furthest that still counts as ahead, and the first that counts as behind
    EXPECT_TRUE(rocev2_psn_after(0x7fffff, 0));
    EXPECT_TRUE(rocev2_psn_before(0x800000, 0));
    for (const auto base : kBases) {
        EXPECT_TRUE(rocev2_psn_after(rocev2_psn_add(base, kHalf - 1), base));
        EXPECT_TRUE(rocev2_psn_before(rocev2_psn_add(base, kHalf), base));
    }
}

TEST(Psn, BitsAbove24DoNotMatter)
{
    EXPECT_EQ(rocev2_psn_diff(0xab000005, 0x12000003), 2);
    EXPECT_EQ(rocev2_psn_add(0xff000001, 1), 2u);
}

TEST(Psn, BetweenIsClosedAndWraps)
{
    for (const std::uint32_t psn : {0xfffffeu, 0xffffffu, 0u, 1u})
        EXPECT_TRUE(rocev2_psn_between(psn, 0xfffffe, 1)) << psn;
    EXPECT_FALSE(rocev2_psn_between(0xfffffd, 0xfffffe, 1));
    EXPECT_FALSE(rocev2_psn_between(2, 0xfffffe, 1));
    EXPECT_TRUE(rocev2_psn_between(7, 7, 7));
    EXPECT_FALSE(rocev2_psn_between(8, 7, 7));
    EXPECT_FALSE(rocev2_psn_between(5, 6, 4)) << "an empty interval holds nothing";
}

}  // namespace
