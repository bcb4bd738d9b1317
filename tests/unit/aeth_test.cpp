// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// aeth.h against the specification's tables, typed in here row by row.
#include <array>
#include <cstdint>
#include <gtest/gtest.h>

#include "kernel.hpp"

namespace {

// IBA table 45, in hundredths of a millisecond
constexpr std::array<std::uint64_t, 32> kRnrTimer{
    65536, 1,   2,   3,   4,   6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

// IBA table 46; code 31 has no count
constexpr std::array<std::uint32_t, 31> kCredits{
    0,   1,   2,   3,    4,    6,    8,    12,   16,   24,   32,    48,    64,    96,   128, 192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

TEST(Aeth, RnrTimer)
{
    for (std::uint8_t code = 0; code < 32; code++)
        EXPECT_EQ(rocev2_rnr_timer_ns(code), kRnrTimer[code] * 10000) << int{code};
    EXPECT_EQ(rocev2_rnr_timer_ns(12), 640000u) << "0.64 ms, the usual min_rnr_timer";
    EXPECT_EQ(rocev2_rnr_timer_ns(0x2c), rocev2_rnr_timer_ns(12)) << "only five bits count";
}

TEST(Aeth, CreditEncodeNeverPromisesMore)
{
    for (std::uint32_t n = 0; n < 70000; n++) {
        std::uint8_t want = 0;
        for (std::uint8_t code = 0; code < 31; code++)
            if (kCredits[code] <= n)
                want = code;
        ASSERT_EQ(rocev2_credit_encode(n), want) << n;
    }
    EXPECT_EQ(rocev2_credit_encode(UINT32_MAX), ROCEV2_CREDIT_CODE_MAX);
    EXPECT_EQ(ROCEV2_CREDIT_CODE_UNLIMITED, ROCEV2_AETH_ACK_UNLIMITED);
}

TEST(Aeth, AckTimeout)
{
    EXPECT_EQ(rocev2_ack_timeout_ns(0), 0u) << "off";
    EXPECT_EQ(rocev2_ack_timeout_ns(1), 8192u);
    EXPECT_EQ(rocev2_ack_timeout_ns(14), 67108864u) << "67.1 ms";
    EXPECT_EQ(rocev2_ack_timeout_ns(31), 8796093022208u) << "8796 s";
    for (std::uint8_t n = 2; n < 32; n++)
        EXPECT_EQ(rocev2_ack_timeout_ns(n), 2 * rocev2_ack_timeout_ns(static_cast<std::uint8_t>(n - 1)));
}

}  // namespace
