// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See options.hpp.
#include "common/options.hpp"

#include "common/ktap.hpp"

#include <random>

namespace rocev2::test {

void add_common_options(CLI::App &app, Options &o)
{
    app.add_option("--dev-a", o.dev_a, "RDMA device of side A")->envname("ROCEV2_DEV_A");
    app.add_option("--dev-b", o.dev_b, "RDMA device of side B (default: the one of side A)")
        ->envname("ROCEV2_DEV_B");
    app.add_option("--netns-a", o.netns_a, "network namespace of side A's netdev")
        ->envname("ROCEV2_NETNS_A");
    app.add_option("--netns-b", o.netns_b, "network namespace of side B's netdev")
        ->envname("ROCEV2_NETNS_B");
    app.add_option("--port", o.port, "port number")->check(CLI::Range(1, 255));
    app.add_option("--gid-a", o.gid_a, "GID index of side A (default: by kind)")
        ->envname("ROCEV2_GID_A");
    app.add_option("--gid-b", o.gid_b, "GID index of side B (default: by kind)")
        ->envname("ROCEV2_GID_B");
    app.add_option("--gid-kind", o.gid_kinds, "kinds of GID to use (default: all both sides have)")
        ->delimiter(',')
        ->check(CLI::IsMember({"ipv4", "ipv6", "ll"}));
    app.add_option("--seed", o.seed, "seed of every random choice (default: a new one)")
        ->envname("ROCEV2_SEED");
    app.add_option("--retry-cnt", o.retry_cnt, "retry_cnt of the QPs")->check(CLI::Range(0, 7));
    app.add_option("--rnr-retry", o.rnr_retry, "rnr_retry of the QPs")->check(CLI::Range(0, 7));
    app.add_option("--timeout", o.timeout, "local ACK timeout of the QPs, 4.096 us * 2^N")
        ->check(CLI::Range(0, 31));
    app.add_option("--case-limit", o.case_limit_s, "seconds until a case counts as hung");
    app.add_option("--filter", o.filters, "run only cases whose name contains this text")
        ->delimiter(',');
    app.add_flag("--list", o.list, "print the names of the cases and stop");
}

void settle_options(const std::string &program, Options &o)
{
    if (o.dev_b.empty())
        o.dev_b = o.dev_a;
    if (!o.seed)
        o.seed = std::random_device{}();
    if (!o.list)
        diag(fmt::format("{}: devices {} and {}, --seed {}", program, o.dev_a, o.dev_b, o.seed));
}

} // namespace rocev2::test
