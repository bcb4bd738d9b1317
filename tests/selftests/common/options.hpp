// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The options every selftest program has: which two devices, which GIDs,
// which seed, which cases.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace rocev2::test {

struct Options {
    std::string dev_a;
    std::string dev_b;
    std::string netns_a;
    std::string netns_b;
    int port = 1;
    int gid_a = -1;
    int gid_b = -1;
    std::vector<std::string> gid_kinds;
    uint64_t seed = 0;
    int retry_cnt = 7;
    int rnr_retry = 7;
    int timeout = 14;
    int case_limit_s = 60;
    std::vector<std::string> filters;
    bool list = false;
};

void add_common_options(CLI::App &app, Options &options);

// Chooses a seed if none was given and prints it with the devices; call
// after parsing.
void settle_options(const std::string &program, Options &options);

} // namespace rocev2::test
