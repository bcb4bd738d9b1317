// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Nothing may leak: the kernel's counts of `rdma resource show` of both devices, before
// and after.
#pragma once

#include "common/options.hpp"

#include <chrono>
#include <map>
#include <string>

namespace rocev2::test {

class Balance {
public:
    explicit Balance(const Options &options);

    // Fails the case unless the counts are what they were, or become so in time: a killed
    // process is cleaned up behind its back.
    void must_hold(std::chrono::milliseconds limit = std::chrono::milliseconds(3000)) const;

private:
    const Options &options_;
    std::map<std::string, long> a_;
    std::map<std::string, long> b_;
};

} // namespace rocev2::test
