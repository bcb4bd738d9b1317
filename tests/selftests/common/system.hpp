// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What the tests need from the rest of the system: run a command, count the
// kernel's RDMA objects, wait for a condition.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace rocev2::test {

using Clock = std::chrono::steady_clock;

// Runs a command without a shell and returns what it printed; a failure of
// the command fails the case.
std::string run_command(const std::vector<std::string> &argv);

// `ip` in a network namespace (the current one if the name is empty).
std::string run_ip(const std::string &netns, std::vector<std::string> arguments);

// The object counts of `rdma resource show` for one device: qp, cq, mr, pd ...
std::map<std::string, long> resource_counts(const std::string &device);

// log2 of the bytes that one entry of the page table of a registered region covers, as
// `rdma resource show mr` tells it.
int registered_block_shift(const std::string &device, uint32_t lkey);

// Polls until the condition holds; false if it does not in time.
template <std::invocable Condition>
bool wait_until(std::chrono::milliseconds limit, Condition condition)
{
    const auto end = Clock::now() + limit;
    while (!condition()) {
        if (Clock::now() > end)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

} // namespace rocev2::test
