// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See balance.hpp.
#include "common/balance.hpp"

#include "common/ktap.hpp"
#include "common/system.hpp"

#include <utility>

namespace rocev2::test {

Balance::Balance(const Options &options)
    : options_(options), a_(resource_counts(options.dev_a)), b_(resource_counts(options.dev_b))
{
}

void Balance::must_hold(std::chrono::milliseconds limit) const
{
    const bool same = wait_until(limit, [&] {
        return resource_counts(options_.dev_a) == a_ && resource_counts(options_.dev_b) == b_;
    });
    if (same)
        return;
    std::string text;
    for (const auto &[device, before] : {std::pair{&options_.dev_a, &a_}, {&options_.dev_b, &b_}})
        for (const auto &[what, count] : resource_counts(*device)) {
            const auto at = before->find(what);
            if (at == before->end() || at->second != count)
                text += fmt::format(" {}: {} {} instead of {};", *device, count, what,
                                    at == before->end() ? 0 : at->second);
        }
    fail("objects leaked:{}", text);
}

} // namespace rocev2::test
