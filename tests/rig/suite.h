// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The selftests as the rig runs them: which there are, in which guest, with which result. */
#pragma once

#include "kernels.h"

#include <chrono>
#include <string>
#include <vector>

namespace rig {

struct Test {
    std::string name;
    std::chrono::seconds timeout{0};	/* under UML */
    unsigned memory_mib = 0;	/* of the guest; 0: what guests have */
    unsigned cards = 0;		/* modelled ones, of each guest */
    unsigned guests = 1;	/* that run it together */
    bool numa = false;		/* as Boot::numa */
    bool alone = false;		/* it measures: no other guest beside it */
    bool short_cut = false;	/* one of the few that make check runs on a sanitizer kernel */
    std::vector<std::string> kernels;	/* prefixes of Kernel::name */

    bool RunsOn(const Kernel &kernel) const;
};

/* tests/selftests/tests.list */
std::vector<Test> AllTests(const fs::path &checkout);

struct Totals {
    int passed = 0;
    int failed = 0;
    std::vector<std::string> failures;	/* what to look for above, a line each */

    Totals &operator+=(const Totals &other);
};

struct RunOptions {
    fs::path checkout;
    fs::path guest_init;
    unsigned jobs = 1;
    bool allow_skip = false;
    bool strict_build = false;		/* with sparse and W=1 */
    std::string link_type = "rocev2";	/* others: to try a test on a peer */
    bool host_root = false;		/* the host's root and QEMU instead of the cached ones */
    int stretch = 1;			/* of all time-outs */
    bool trace_cards = false;		/* what is done to the modelled cards goes to their logs */
    std::string wire = "none";		/* of a card without a partner, as the model's --backend */
    unsigned cable_mbit = 0;		/* rate of the cables between cards; 0: none is kept */
    bool icount = false;			/* guests on QEMU count instructions: Boot::icount */
};

/* Run these in guests with that kernel, print one KTAP document. */
Totals RunTests(const RunOptions &options, const Kernel &kernel, const std::vector<Test> &tests);

/* What to run by hand: a shell command, in guests with that many cards. */
struct HandRun {
    std::string command;
    std::chrono::seconds timeout{0};
    unsigned cards = 0;
    unsigned guests = 1;
};

/* Run it, its output on stdout; its exit status. */
int RunCommand(const RunOptions &options, const Kernel &kernel, const HandRun &run);

/* What measures: a command for one guest that writes a file into the exchange directory of its cards. */
struct Bench {
    std::string program;	/* of the selftests: what the command starts */
    std::string command;
    std::string result;		/* the name of that file */
    unsigned cards = 0;		/* built without sanitizers */
    std::chrono::seconds timeout{0};
};

struct BenchResult {
    std::string text;		/* of the file */
    double load_before = 0;	/* of the host, over a minute */
    double load_after = 0;
};

/* Run it, its output on stderr. */
BenchResult RunBench(const RunOptions &options, const Kernel &kernel, const Bench &bench);

/* The demonstration: two linked devices, ib_write_bw between two namespaces. */
int RunDemo(const RunOptions &options, const Kernel &kernel);

/* A test shown to a person: what its guests say in comments, and what fails; 0 if all of it worked. */
int RunTestAsDemo(const RunOptions &options, const Kernel &kernel, const Test &test);

} // namespace rig
