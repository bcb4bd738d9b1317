// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What many measurements of one thing come to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace rocev2::test {

// The value that `permille` thousandths of all do not exceed, by nearest rank: one of the values, never
// something in between. 500 is the median, 999 the 99.9th percentile, 0 the least, 1000 the greatest. 0 of none.
template <typename T>
T quantile(std::vector<T> values, unsigned permille)
{
    if (values.empty())
        return {};
    const size_t rank = (values.size() * std::min(permille, 1000u) + 999) / 1000;
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

} // namespace rocev2::test
