// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Time as the card knows it: the event loop's, or a test's own. */
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

namespace cx {

using Clock = std::chrono::steady_clock;

class Timers {
public:
    using Id = std::uint64_t; /* never 0, never used twice */

    virtual ~Timers() = default;
    virtual Clock::time_point Now() const = 0;
    /** Call `action` once, no sooner than `delay` from now, from the event loop. */
    virtual Id After(Clock::duration delay, std::function<void()> action) = 0;
    /** Of one that has run or was cancelled: nothing happens. */
    virtual void Cancel(Id id) = 0;
};

} // namespace cx
