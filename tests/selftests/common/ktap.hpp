// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The list of cases of one selftest program, run in order and reported as
// KTAP.  A case fails by throwing Failure (see require()) and is left out by
// throwing Skip.  Every case runs under a watchdog: a hang is a failure with
// the last note() in its message, never a stuck program.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace rocev2::test {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Skip : std::runtime_error {
    using std::runtime_error::runtime_error;
};

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args &&...args)
{
    throw Failure(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
[[noreturn]] void skip(fmt::format_string<Args...> format, Args &&...args)
{
    throw Skip(fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void require(bool condition, fmt::format_string<Args...> format, Args &&...args)
{
    if (!condition)
        fail(format, std::forward<Args>(args)...);
}

// Says what the running case is doing; shown if the watchdog ends it.
void note(std::string text);

// A failure seen where throwing is not possible (destructors, other
// threads).  It fails the case that is running.
void report_failure(std::string text);

// True once the running case has been failed by report_failure().
bool failure_reported();

// Prints a KTAP diagnostic line.
void diag(std::string_view text);

class Ktap {
public:
    void add(std::string name, std::function<void()> body, int limit_s = 0);

    // Runs the cases whose name contains one of the filters (all if none).
    // Returns the exit code of the program.
    int run(const std::vector<std::string> &filters, bool list_only, int default_limit_s);

private:
    struct Case {
        std::string name;
        std::function<void()> body;
        int limit_s;
    };
    std::vector<Case> cases_;
};

} // namespace rocev2::test
