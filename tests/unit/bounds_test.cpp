// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// mr_bounds.h: off by one, wrap, rights, and the place in the block table.
#include <cstdint>
#include <gtest/gtest.h>
#include <random>

#include "kernel.hpp"

namespace {

constexpr std::uint64_t kTop = UINT64_MAX;

TEST(Bounds, OffByOneAtBothEnds)
{
    EXPECT_TRUE(rocev2_bounds_ok(0x1000, 0x100, 0x1000, 0x100));
    EXPECT_TRUE(rocev2_bounds_ok(0x1000, 0x100, 0x10ff, 1));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x10ff, 2));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x1000, 0x101));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x0fff, 1));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x0fff, 0x101));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x1100, 1));
}

TEST(Bounds, EmptyAccessAndEmptyRegion)
{
    EXPECT_TRUE(rocev2_bounds_ok(0x1000, 0x100, 0x1000, 0));
    EXPECT_TRUE(rocev2_bounds_ok(0x1000, 0x100, 0x1100, 0));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x1101, 0));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x0fff, 0));
    EXPECT_TRUE(rocev2_bounds_ok(0x1000, 0, 0x1000, 0));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0, 0x1000, 1));
}

TEST(Bounds, SumsThatWouldWrap)
{
    // addr + len wraps to a value inside, and to exactly the start
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x1080, kTop));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, 0x1080, kTop - 0x7f));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, kTop, 0x1002));
    EXPECT_FALSE(rocev2_bounds_ok(0x1000, 0x100, kTop - 0xfff, 0x2000));
    // a region that ends with the address space
    EXPECT_TRUE(rocev2_bounds_ok(kTop - 0xff, 0x100, kTop, 1));
    EXPECT_FALSE(rocev2_bounds_ok(kTop - 0xff, 0x100, kTop, 2));
    EXPECT_FALSE(rocev2_bounds_ok(kTop - 0xff, 0x100, 0, 1));
    // the DMA region: everything
    EXPECT_TRUE(rocev2_bounds_ok(0, kTop, 0, kTop));
    EXPECT_TRUE(rocev2_bounds_ok(0, kTop, kTop - 1, 1));
}

TEST(Bounds, AgreesWithWideArithmeticOnRandomInput)
{
    std::mt19937_64 random(20);
    const auto pick = [&] {
        // cluster at the borders, where the mistakes are
        const std::uint64_t near = random() % 64;
        switch (random() % 5) {
        case 0: return near;
        case 1: return kTop - near;
        case 2: return (std::uint64_t{1} << 63) + near;
        case 3: return std::uint64_t{0x1000} + near;
        default: return random();
        }
    };
    unsigned inside = 0;
    for (int i = 0; i < 2'000'000; i++) {
        const std::uint64_t start = pick(), length = pick(), addr = pick(), len = pick();
        const auto end = static_cast<unsigned __int128>(start) + length;
        if (end > (static_cast<unsigned __int128>(1) << 64))
            continue;  // no such region can be registered
        const bool want = addr >= start && static_cast<unsigned __int128>(addr) + len <= end;
        ASSERT_EQ(rocev2_bounds_ok(start, length, addr, len), want)
            << std::hex << start << ' ' << length << ' ' << addr << ' ' << len;
        inside += want;
    }
    EXPECT_GT(inside, 10000u) << "the random input must hit both answers";
}

TEST(Allows, EveryNeededRight)
{
    for (std::uint32_t granted = 0; granted < 16; granted++)
        for (std::uint32_t needed = 0; needed < 16; needed++)
            EXPECT_EQ(rocev2_mr_allows(granted, needed, 0x1000, 64, 0x1000, 64),
                      (granted | needed) == granted ? ROCEV2_MR_OK : ROCEV2_MR_BAD_ACCESS);
}

TEST(Allows, RightsThenBounds)
{
    EXPECT_EQ(rocev2_mr_allows(2, 2, 0x1000, 64, 0x103f, 1), ROCEV2_MR_OK);
    EXPECT_EQ(rocev2_mr_allows(2, 2, 0x1000, 64, 0x103f, 2), ROCEV2_MR_OUT_OF_BOUNDS);
    EXPECT_EQ(rocev2_mr_allows(2, 2, 0x1000, 64, 0x103f, UINT64_MAX), ROCEV2_MR_OUT_OF_BOUNDS);
    EXPECT_EQ(rocev2_mr_allows(1, 2, 0x1000, 64, 0x103f, 2), ROCEV2_MR_BAD_ACCESS);
}

TEST(Blocks, PositionFollowsTheFirstOffsetNotTheIova)
{
    // iova 0x7 maps to offset 0xf80 of the first page
    auto pos = rocev2_block_pos(0x7, 0xf80, 12, 0x7);
    EXPECT_EQ(pos.index, 0u);
    EXPECT_EQ(pos.offset, 0xf80u);
    EXPECT_EQ(rocev2_block_left(pos, 12), 0x80u);
    pos = rocev2_block_pos(0x7, 0xf80, 12, 0x7 + 0x7f);
    EXPECT_EQ(pos.index, 0u);
    EXPECT_EQ(rocev2_block_left(pos, 12), 1u);
    pos = rocev2_block_pos(0x7, 0xf80, 12, 0x7 + 0x80);
    EXPECT_EQ(pos.index, 1u);
    EXPECT_EQ(pos.offset, 0u);
    EXPECT_EQ(rocev2_block_left(pos, 12), 4096u);
}

TEST(Blocks, HugeRegionsAndHugePages)
{
    const std::uint64_t start = 0xffffff0000000000u;  // ends with the address space
    const std::uint64_t length = std::uint64_t{1} << 40;
    auto pos = rocev2_block_pos(start, 0, 12, kTop);
    EXPECT_EQ(pos.index, length / 4096 - 1);
    EXPECT_EQ(pos.offset, 4095u);
    pos = rocev2_block_pos(start, 0x1ff000, 21, start + 0x1000);
    EXPECT_EQ(pos.index, 1u);
    EXPECT_EQ(pos.offset, 0u);
    pos = rocev2_block_pos(start, 0, 30, start + (std::uint64_t{5} << 30) + 3);
    EXPECT_EQ(pos.index, 5u);
    EXPECT_EQ(pos.offset, 3u);
}

TEST(Blocks, Count)
{
    EXPECT_EQ(rocev2_block_count(0, 0, 12), 0u);
    EXPECT_EQ(rocev2_block_count(0, 1, 12), 1u);
    EXPECT_EQ(rocev2_block_count(0, 4096, 12), 1u);
    EXPECT_EQ(rocev2_block_count(0, 4097, 12), 2u);
    EXPECT_EQ(rocev2_block_count(4095, 1, 12), 1u);
    EXPECT_EQ(rocev2_block_count(4095, 2, 12), 2u);
    EXPECT_EQ(rocev2_block_count(0x1fffff, std::uint64_t{1} << 40, 21), (1u << 19) + 1);
}

TEST(Blocks, EveryAddressOfARegionLiesInItsTable)
{
    for (const std::uint64_t first : {0u, 1u, 2048u, 4095u})
        for (const std::uint64_t length : {1u, 4095u, 4096u, 4097u, 12288u}) {
            const std::uint64_t start = 0xdeadbee1;
            const auto blocks = rocev2_block_count(first, length, 12);
            std::uint64_t linear = first;
            for (std::uint64_t a = start; a < start + length; a++, linear++) {
                const auto pos = rocev2_block_pos(start, first, 12, a);
                ASSERT_LT(pos.index, blocks);
                ASSERT_EQ(pos.index * 4096 + pos.offset, linear);
            }
            ASSERT_EQ((linear - 1) / 4096, blocks - 1) << "and none of its blocks is unused";
        }
}

}  // namespace
