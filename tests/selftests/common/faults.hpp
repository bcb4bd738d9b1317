// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Allocations of the kernel that fail on demand (Documentation/fault-injection in the kernel's
// tree): the n-th one of this thread, or some of all.
#pragma once

#include "common/ktap.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <string>

namespace rocev2::test {

// True if this kernel can do it and debugfs is there.
bool faults_available();

// Slab and page allocations of any kind may fail, nothing is logged about it. Until the end.
void allow_faults();

// The n-th allocation of this thread from now on, in process context.
class FaultPoint {
public:
    FaultPoint();
    ~FaultPoint();
    FaultPoint(const FaultPoint &) = delete;
    FaultPoint &operator=(const FaultPoint &) = delete;

    void arm(unsigned nth);
    // No more; returns how many allocations were left: 0 if it was reached, and so failed.
    unsigned disarm();

private:
    void write(unsigned nth);

    int fd_ = -1;
};

// While it lives allocations fail at random.
class RandomFaults {
public:
    struct Odds {
        int slab = 0; // percent
        int page = 0;
        bool atomic_only = false; // in any context, but only those that cannot wait
        bool this_thread = false; // and only in process context
    };

    explicit RandomFaults(const Odds &odds);
    ~RandomFaults();
    RandomFaults(const RandomFaults &) = delete;
    RandomFaults &operator=(const RandomFaults &) = delete;

    void stop();

    // How many have failed, after stop().
    long slab_faults() const;
    long page_faults() const;

private:
    void fail_this_thread(bool on);

    int task_fd_ = -1; // opened beforehand: opening takes allocations
};

// Which allocation to fail after the nth: the next one, but of thousands (a link has a sysfs file
// for each GID) only the first, the last, and some between.
unsigned next_allocation(unsigned nth, unsigned total);

// Fails the first allocation of a verb, then the second, and so on until it ends before the one
// that would fail. `verb` returns an errno; `settle` brings back what was before, whatever the
// verb returned. A refusal must say ENOMEM, or one of `others`.
template <typename Verb, typename Settle>
void fail_each_allocation(const std::string &what, Verb verb, Settle settle,
                          std::initializer_list<int> others = {})
{
    constexpr unsigned most = 1000000;
    FaultPoint point;
    unsigned total = 0;
    unsigned refused = 0;
    unsigned endured = 0;

    // Without a fault: once for what the library and the kernel make lazily, once to count.
    for (int i = 0; i < 2; i++) {
        point.arm(most);
        const int error = verb();
        total = most - point.disarm();
        require(!error, "{} without a fault: {}", what, std::strerror(error));
        settle();
    }
    for (unsigned nth = 1;; nth = next_allocation(nth, total)) {
        note(fmt::format("{}, allocation {} of {}", what, nth, total));
        point.arm(nth);
        const int error = verb();
        const bool failed = point.disarm() == 0;
        require(!error || failed, "{} failed by itself: {}", what, std::strerror(error));
        require(!error || error == ENOMEM ||
                    std::find(others.begin(), others.end(), error) != others.end(),
                "{} without its allocation {} of {}: {}", what, nth, total, std::strerror(error));
        refused += error != 0;
        endured += failed && !error;
        settle();
        if (!failed)
            break;
    }
    diag(fmt::format("{}: {} allocations, {} faults: {} refused with an error, {} endured", what,
                     total, refused + endured, refused, endured));
    require(refused + endured > 0, "{}: no allocation failed, so nothing was tested", what);
}

} // namespace rocev2::test
