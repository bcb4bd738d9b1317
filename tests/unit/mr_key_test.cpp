// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// mr_key.h: which bind, fast registration and invalidation is allowed.
#include <cstdint>
#include <gtest/gtest.h>

#include "kernel.hpp"

namespace {

constexpr std::uint32_t kOld = 0x00123401, kNew = 0x00123402, kForeign = 0x00123501;
constexpr std::uint32_t kRemote = ROCEV2_ACCESS_REMOTE;
constexpr std::uint32_t kMrAccess = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_MW_BIND;

TEST(Key, IndexIsTheUpper24Bits)
{
    EXPECT_TRUE(rocev2_key_same_index(kOld, kNew));
    EXPECT_FALSE(rocev2_key_same_index(kOld, kForeign));
    EXPECT_FALSE(rocev2_key_same_index(0x80000000, 0));
}

TEST(BindWindow, OnlyWindows)
{
    for (const auto kind : {ROCEV2_KEY_MR, ROCEV2_KEY_FAST})
        EXPECT_EQ(rocev2_bind_window_check(kind, kOld, 0, kNew, 8, kRemote), ROCEV2_KEY_BAD_KEY);
    for (const auto kind : {ROCEV2_KEY_MW1, ROCEV2_KEY_MW2})
        EXPECT_EQ(rocev2_bind_window_check(kind, kOld, 0, kNew, 8, kRemote), ROCEV2_KEY_OK);
}

TEST(BindWindow, TheIndexCannotBeChosen)
{
    for (const auto kind : {ROCEV2_KEY_MW1, ROCEV2_KEY_MW2})
        EXPECT_EQ(rocev2_bind_window_check(kind, kOld, 0, kForeign, 8, kRemote), ROCEV2_KEY_BAD_KEY);
}

TEST(BindWindow, TypeOneMayBeBoundAnewWithAnotherKey)
{
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW1, kOld, kOld, kNew, 8, kRemote), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW1, kOld, kOld, kOld, 8, kRemote),
              ROCEV2_KEY_BAD_KEY);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW1, kOld, kOld, kOld, 0, 0), ROCEV2_KEY_BAD_KEY);
    // not bound: it may keep the key that it had
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW1, kOld, 0, kOld, 8, kRemote), ROCEV2_KEY_OK);
}

TEST(BindWindow, TypeTwoMustBeInvalidatedBefore)
{
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW2, kOld, kOld, kNew, 8, kRemote),
              ROCEV2_KEY_BAD_STATE);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW2, kOld, 0, kOld, 8, kRemote), ROCEV2_KEY_OK);
}

TEST(BindWindow, LengthZeroUnbindsTypeOneOnly)
{
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW1, kOld, kOld, kNew, 0, 0), ROCEV2_KEY_UNBIND);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW1, kOld, 0, kNew, 0, 0), ROCEV2_KEY_UNBIND);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW2, kOld, 0, kNew, 0, 0), ROCEV2_KEY_BAD_RANGE);
}

TEST(BindWindow, AccessFlags)
{
    // no window grants more than remote rights, but asking for local write does no harm
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW2, kOld, 0, kNew, 8,
                                       kRemote | IB_ACCESS_LOCAL_WRITE), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW2, kOld, 0, kNew, 8, 0), ROCEV2_KEY_OK);
    for (const std::uint32_t bad : {+IB_ACCESS_MW_BIND, +IB_ACCESS_ON_DEMAND, +IB_ACCESS_HUGETLB,
                                    1 << 30})
        EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW2, kOld, 0, kNew, 8, bad),
                  ROCEV2_KEY_BAD_ACCESS);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW2, kOld, 0, kNew, 8, IB_ZERO_BASED),
              ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_bind_window_check(ROCEV2_KEY_MW1, kOld, 0, kNew, 8, IB_ZERO_BASED),
              ROCEV2_KEY_BAD_ACCESS);
}

TEST(BindRegion, NeedsTheRightToBind)
{
    EXPECT_EQ(rocev2_bind_region_check(kMrAccess, 0x1000, 64, kRemote, 0x1000, 64), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_bind_region_check(IB_ACCESS_LOCAL_WRITE | kRemote, 0x1000, 64, kRemote, 0x1000, 64),
              ROCEV2_KEY_BAD_ACCESS);
}

TEST(BindRegion, RemoteWritesNeedLocalWrite)
{
    const std::uint32_t read_only = IB_ACCESS_MW_BIND;
    EXPECT_EQ(rocev2_bind_region_check(read_only, 0, 64, IB_ACCESS_REMOTE_READ, 0, 64), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_bind_region_check(read_only, 0, 64, IB_ACCESS_REMOTE_WRITE, 0, 64),
              ROCEV2_KEY_BAD_ACCESS);
    EXPECT_EQ(rocev2_bind_region_check(read_only, 0, 64, IB_ACCESS_REMOTE_ATOMIC, 0, 64),
              ROCEV2_KEY_BAD_ACCESS);
    // local write in the request is not the region's
    EXPECT_EQ(rocev2_bind_region_check(read_only, 0, 64,
                                       IB_ACCESS_REMOTE_WRITE | IB_ACCESS_LOCAL_WRITE, 0, 64),
              ROCEV2_KEY_BAD_ACCESS);
}

TEST(BindRegion, LiesWithin)
{
    const auto check = [](std::uint64_t addr, std::uint64_t length) {
        return rocev2_bind_region_check(kMrAccess, 0x1000, 0x100, kRemote, addr, length);
    };
    EXPECT_EQ(check(0x1000, 0x100), ROCEV2_KEY_OK);
    EXPECT_EQ(check(0x10ff, 1), ROCEV2_KEY_OK);
    EXPECT_EQ(check(0x10ff, 2), ROCEV2_KEY_BAD_RANGE);
    EXPECT_EQ(check(0x0fff, 1), ROCEV2_KEY_BAD_RANGE);
    EXPECT_EQ(check(0x1080, UINT64_MAX), ROCEV2_KEY_BAD_RANGE);
}

TEST(FastReg, OnlyRegionsForItAndOnlyInvalidOnes)
{
    const std::uint32_t access = IB_ACCESS_LOCAL_WRITE | kRemote;
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, access, 0, 64), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, kOld, access, 0, 64), ROCEV2_KEY_BAD_STATE);
    for (const auto kind : {ROCEV2_KEY_MR, ROCEV2_KEY_MW1, ROCEV2_KEY_MW2})
        EXPECT_EQ(rocev2_fast_reg_check(kind, 0, access, 0, 64), ROCEV2_KEY_BAD_KEY);
}

TEST(FastReg, AccessAndRange)
{
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, 0, 0, 64), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, IB_ACCESS_REMOTE_READ, 0, 64), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, IB_ACCESS_REMOTE_WRITE, 0, 64),
              ROCEV2_KEY_BAD_ACCESS);
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, IB_ACCESS_MW_BIND, 0, 64),
              ROCEV2_KEY_BAD_ACCESS);
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, 0, UINT64_MAX - 63, 64), ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, 0, UINT64_MAX - 62, 64), ROCEV2_KEY_BAD_RANGE);
    EXPECT_EQ(rocev2_fast_reg_check(ROCEV2_KEY_FAST, 0, 0, UINT64_MAX, 0), ROCEV2_KEY_OK);
}

TEST(Invalidate, KindsAndStates)
{
    for (const bool remote : {false, true}) {
        for (const auto kind : {ROCEV2_KEY_FAST, ROCEV2_KEY_MW2}) {
            EXPECT_EQ(rocev2_invalidate_check(kind, kOld, kOld, kRemote, remote), ROCEV2_KEY_OK);
            EXPECT_EQ(rocev2_invalidate_check(kind, kNew, kOld, kRemote, remote), ROCEV2_KEY_BAD_KEY);
            EXPECT_EQ(rocev2_invalidate_check(kind, 0, kOld, kRemote, remote), ROCEV2_KEY_BAD_STATE);
        }
        for (const auto kind : {ROCEV2_KEY_MR, ROCEV2_KEY_MW1})
            EXPECT_EQ(rocev2_invalidate_check(kind, kOld, kOld, kRemote, remote), ROCEV2_KEY_BAD_KEY);
    }
}

TEST(Invalidate, APeerTakesBackOnlyWhatItWasGiven)
{
    EXPECT_EQ(rocev2_invalidate_check(ROCEV2_KEY_FAST, kOld, kOld, IB_ACCESS_LOCAL_WRITE, true),
              ROCEV2_KEY_BAD_ACCESS);
    EXPECT_EQ(rocev2_invalidate_check(ROCEV2_KEY_FAST, kOld, kOld, IB_ACCESS_LOCAL_WRITE, false),
              ROCEV2_KEY_OK);
    EXPECT_EQ(rocev2_invalidate_check(ROCEV2_KEY_FAST, kOld, kOld, IB_ACCESS_REMOTE_READ, true),
              ROCEV2_KEY_OK);
}

}  // namespace
