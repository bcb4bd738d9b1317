// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "bench/statistics.hpp"

#include <gtest/gtest.h>

#include <numeric>

using rocev2::test::quantile;

namespace {

TEST(Quantile, OfNothingIsNothing)
{
    EXPECT_EQ(quantile(std::vector<int>{}, 500), 0);
}

TEST(Quantile, OfOneIsThatOne)
{
    for (const unsigned permille : {0u, 500u, 999u, 1000u})
        EXPECT_EQ(quantile(std::vector<double>{7.5}, permille), 7.5);
}

TEST(Quantile, IsOneOfTheValues)
{
    const std::vector<int> values{40, 10, 30, 20};

    EXPECT_EQ(quantile(values, 0), 10);
    EXPECT_EQ(quantile(values, 250), 10);
    EXPECT_EQ(quantile(values, 251), 20);
    EXPECT_EQ(quantile(values, 500), 20);
    EXPECT_EQ(quantile(values, 501), 30);
    EXPECT_EQ(quantile(values, 1000), 40);
}

TEST(Quantile, MedianOfAnOddNumberIsTheMiddle)
{
    EXPECT_EQ(quantile(std::vector<int>{9, 1, 5}, 500), 5);
    EXPECT_EQ(quantile(std::vector<int>{5, 5, 1, 9, 9}, 500), 5);
}

TEST(Quantile, PercentileLeavesItsShareAbove)
{
    std::vector<unsigned> values(2000);

    std::iota(values.rbegin(), values.rend(), 1u);
    EXPECT_EQ(quantile(values, 999), 1998u);
    EXPECT_EQ(quantile(values, 1), 2u);
    // of fewer than a thousand it is the greatest
    values.resize(999);
    EXPECT_EQ(quantile(values, 999), 2000u);
}

TEST(Quantile, MoreThanAllIsTheGreatest)
{
    EXPECT_EQ(quantile(std::vector<int>{1, 2, 3}, 5000), 3);
}

} // namespace
