// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* `make bench-moderation`. */
#include "moderation.h"

#include "host.h"
#include "log.h"
#include "moderation_report.h"

#include <fmt/chrono.h>

#include <cstdio>
#include <ctime>

namespace rig {

namespace {

using Json = nlohmann::ordered_json;

constexpr auto kBootTime = std::chrono::seconds(120);
/* Of each measurement: connecting, setting the mode, waiting for counters. */
constexpr double kOverhead = 1;
/* Between these lines of moderation.md everything is ours. */
constexpr std::string_view kBegin = "<!-- begin: made by make bench-moderation -->\n";
constexpr std::string_view kEnd = "<!-- end -->\n";
constexpr std::string_view kPlotLink = "![what each mode costs and gives under each load](moderation.svg)\n";

std::string CpuModel()
{
    for (const std::string &line : SplitLines(ReadFile("/proc/cpuinfo")))
        if (line.starts_with("model name"))
            return Trim(line.substr(line.find(':') + 1));
    return "unknown";
}

/* Results one a line: what has changed can be seen. */
std::string Lines(const Json &measured)
{
    std::string text;

    for (const auto &[key, value] : measured.items()) {
        std::string shown = value.dump();

        if (key == "results") {
            shown.clear();
            for (const Json &result : value)
                shown += fmt::format("{}\n  {}", shown.empty() ? "" : ",", result.dump());
            shown = fmt::format("[{}\n ]", shown);
        }
        text += fmt::format("{}\n {}: {}", text.empty() ? "" : ",", Json(key).dump(), shown);
    }
    return fmt::format("{{{}\n}}\n", text);
}

void ReplaceTables(const fs::path &file, const std::string &tables)
{
    std::string text = ReadFile(file);
    const std::size_t begin = text.find(kBegin);
    const std::size_t end = begin == std::string::npos ? begin : text.find(kEnd, begin);

    if (end == std::string::npos)
        Fail("{} has no lines {}... {}for the tables", file.string(), kBegin, kEnd);
    text.replace(begin + kBegin.size(), end - begin - kBegin.size(), fmt::format("\n{}\n{}\n", kPlotLink, tables));
    WriteFile(file, text);
}

/* How many measurements there are in a round: loads, modes, and two ways to receive. */
constexpr double kMeasurements = 3 * 6 * 2;

} // namespace

int MeasureModeration(RunOptions options, const Kernel &kernel, const ModerationBench &bench)
{
    const fs::path document = bench.directory / "moderation.md";

    if (!fs::exists(document))
        Fail("there is no {} to put the tables in", document.string());
    options.cable_mbit = bench.mbit;
    const double seconds = bench.rounds * kMeasurements * (bench.seconds + bench.warm_up + kOverhead);
    const BenchResult result =
        RunBench(options, kernel,
                 {.program = "moderation_bench",
                  .command = fmt::format("./moderation_bench.sh --rounds {} --seconds {} --warm-up {} --seed {}",
                                         bench.rounds, bench.seconds, bench.warm_up, bench.seed),
                  .result = "moderation.json",
                  .cards = 2,
                  .timeout = kBootTime + std::chrono::seconds(static_cast<int>(seconds))});
    Json measured = Json::parse(result.text);
    const std::time_t now = std::time(nullptr);

    measured["mbit"] = bench.mbit;
    measured["machine"] = {{"date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(now))},
                           {"cpu", CpuModel()},
                           {"processors", Processors()},
                           {"load_before", result.load_before},
                           {"load_after", result.load_after}};
    const std::string tables = ModerationTables(measured);
    WriteFile(bench.directory / "moderation.json", Lines(measured));
    WriteFile(bench.directory / "moderation.svg", ModerationPlot(measured));
    ReplaceTables(document, tables);
    fmt::print("{}", tables);
    std::fflush(stdout);
    return 0;
}

} // namespace rig
