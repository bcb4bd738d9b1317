// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * micro [--benchmark_...]: times each operation.
 * valgrind --tool=callgrind --combine-dumps=yes micro --count: a dump for each, which instructions.cpp reads.
 */
#include "count.hpp"
#include "operations.hpp"

#include <fmt/format.h>
#include <libdeflate.h>
#include <valgrind/callgrind.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

namespace {

using micro::Operation;
using micro::Operations;

/* What gives a wrong answer is some other operation than its name says. */
bool AllRight(const Operations &operations)
{
    bool all = true;

    for (const Operation &operation : operations.list()) {
        if (operation.right())
            continue;
        fmt::print(stderr, "micro: {}: wrong answer\n", operation.name);
        all = false;
    }
    return all;
}

bool Count(const Operations &operations)
{
    if (RUNNING_ON_VALGRIND == 0) {
        fmt::print(stderr, "micro: --count works under valgrind --tool=callgrind\n");
        return false;
    }
    for (const Operation &operation : operations.list()) {
        /* the first time the linker resolves what is called, and caches fill */
        operation.repeat(micro::kCounted);
        CALLGRIND_ZERO_STATS;
        operation.repeat(micro::kCounted);
        CALLGRIND_DUMP_STATS_AT(operation.name.c_str());
    }
    return true;
}

bool Time(const Operations &operations, int argc, char **argv)
{
    for (const Operation &operation : operations.list())
        benchmark::RegisterBenchmark(operation.name.c_str(), operation.time);
    benchmark::AddCustomContext("crc32", "libdeflate " LIBDEFLATE_VERSION_STRING);
    benchmark::AddCustomContext("compiler", __VERSION__);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return false;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        Operations operations;

        micro::AddProtocol(operations);
        micro::AddKeys(operations);
        micro::AddStages(operations);
        if (!AllRight(operations))
            return EXIT_FAILURE;
        const bool count = argc == 2 && std::string_view(argv[1]) == "--count";
        if (!(count ? Count(operations) : Time(operations, argc, argv)))
            return EXIT_FAILURE;
        /* still, after so many */
        return AllRight(operations) ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const std::exception &error) {
        fmt::print(stderr, "micro: {}\n", error.what());
        return EXIT_FAILURE;
    }
}
