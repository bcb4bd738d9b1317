// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Instructions of each operation, out of callgrind's dumps, beside those that were recorded.
 */
#include "count.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <libdeflate.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

/* What differs by less is not told: a share, and of small ones not a whole instruction. */
constexpr double kTolerance = 0.01;
constexpr double kLeast = 1;

constexpr std::string_view kMadeBy = "# made by: ";

struct Counted {
    std::string name;
    double instructions = 0;
};

struct Table {
    std::string made_by;
    std::vector<Counted> rows;

    [[nodiscard]] const Counted *Find(std::string_view name) const
    {
        const auto row = std::ranges::find(rows, name, &Counted::name);

        return row == rows.end() ? nullptr : &*row;
    }
};

#ifdef __clang__
constexpr std::string_view kCompiler = __VERSION__;
#else
constexpr std::string_view kCompiler = "gcc " __VERSION__;
#endif

/* All that decides how many they are, but for our code and the CPU. */
std::string Toolchain()
{
    return fmt::format("{}, glibc {}, libdeflate {}", kCompiler, gnu_get_libc_version(),
                       LIBDEFLATE_VERSION_STRING);
}

std::ifstream Open(const std::string &path)
{
    std::ifstream file(path);

    if (!file)
        throw std::runtime_error(fmt::format("cannot read {}", path));
    return file;
}

double Number(std::string_view text)
{
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);

    if (error != std::errc() || end != text.data() + text.size())
        throw std::runtime_error(fmt::format("\"{}\" is not a number", text));
    return value;
}

/* One part a dump, with why it was made before its sum (valgrind manual, callgrind format). */
Table ReadDumps(const std::string &path)
{
    constexpr std::string_view kTrigger = "desc: Trigger: ", kRequest = "Client Request: ", kTotals = "totals: ";
    std::ifstream file = Open(path);
    Table table{Toolchain(), {}};
    std::string name;

    for (std::string text; std::getline(file, text);) {
        std::string_view line = text;

        if (line.starts_with(kTrigger)) {
            line.remove_prefix(kTrigger.size());
            /* the last one is of the program's end */
            name = line.starts_with(kRequest) ? line.substr(kRequest.size()) : "";
        } else if (line.starts_with(kTotals) && !name.empty()) {
            line.remove_prefix(kTotals.size());
            table.rows.push_back({name, Number(line) / static_cast<double>(micro::kCounted)});
        }
    }
    if (table.rows.empty())
        throw std::runtime_error(fmt::format("{} has no dumps of callgrind", path));
    return table;
}

Table ReadRecord(const std::string &path)
{
    std::ifstream file = Open(path);
    Table table;

    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(kMadeBy))
            table.made_by = line.substr(kMadeBy.size());
        if (line.empty() || line.front() == '#')
            continue;
        const std::size_t gap = line.find(' '), number = line.find_first_not_of(' ', gap);
        if (gap == std::string::npos || number == std::string::npos)
            throw std::runtime_error(fmt::format("{}: \"{}\" is not a name and a number", path, line));
        table.rows.push_back({line.substr(0, gap), Number(std::string_view(line).substr(number))});
    }
    return table;
}

void WriteRecord(const std::string &path, const Table &table)
{
    std::ofstream file(path);

    file << "# Instructions of each operation, the loop around it (\"nothing\") included. Written by\n"
            "# cmake --build build/micro --target record\n";
    file << kMadeBy << table.made_by << '\n';
    for (const Counted &row : table.rows)
        file << fmt::format("{:<24} {:>12.4f}\n", row.name, row.instructions);
    file.close();
    if (!file)
        throw std::runtime_error(fmt::format("cannot write {}", path));
}

/* How many differ. */
int Compare(const Table &now, const Table &recorded, bool exact)
{
    int different = 0;

    fmt::print("{:<24} {:>12} {:>10} {:>9}\n", "operation", "instructions", "recorded", "change");
    for (const Counted &row : now.rows) {
        const Counted *before = recorded.Find(row.name);

        if (!before) {
            fmt::print("{:<24} {:>12.1f} {:>10} {:>9}\n", row.name, row.instructions, "-", "new");
            different++;
            continue;
        }
        const double change = row.instructions - before->instructions;
        /* the record has four decimals, fewer than one of so many operations makes */
        const double bearable = exact ? 0.0001 : std::max(kLeast, kTolerance * before->instructions);
        fmt::print("{:<24} {:>12.1f} {:>10.1f}", row.name, row.instructions, before->instructions);
        if (std::abs(change) > bearable) {
            fmt::print(" {:>+8.1f}%", change / before->instructions * 100);
            different++;
        }
        fmt::print("\n");
    }
    for (const Counted &row : recorded.rows)
        if (!now.Find(row.name)) {
            fmt::print("{:<24} {:>12} {:>10.1f} {:>9}\n", row.name, "-", row.instructions, "gone");
            different++;
        }
    if (now.made_by != recorded.made_by)
        fmt::print("recorded with {}\nthis is       {}\nso what has changed need not be the source\n", recorded.made_by,
                   now.made_by);
    fmt::print("{} of {} operations differ from the record{}\n", different, now.rows.size(),
               exact ? "" : " by more than 1 % and 1 instruction");
    return different;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        CLI::App app("instructions of each operation, beside those recorded", "instructions");
        std::string dumps, record;
        bool write = false, exact = false;

        app.add_option("DUMPS", dumps, "callgrind's file")->required();
        app.add_option("RECORD", record, "the table of another time")->required();
        app.add_flag("--record", write, "write the table instead of comparing");
        app.add_flag("--exact", exact, "fail unless all are the same");
        CLI11_PARSE(app, argc, argv);
        const Table now = ReadDumps(dumps);

        if (write) {
            WriteRecord(record, now);
            return 0;
        }
        const int different = Compare(now, ReadRecord(record), exact);
        return exact && different > 0 ? 1 : 0;
    } catch (const std::exception &error) {
        fmt::print(stderr, "instructions: {}\n", error.what());
        return 1;
    }
}
