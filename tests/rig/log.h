// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the rig tells the person in front of it: steps with elapsed time on
 * stderr (stdout belongs to KTAP), and errors that end the program.
 */
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace rig {

/* An error whose text alone tells the user what to do; main() prints it and exits 2. */
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

template <typename... Args> [[noreturn]] void Fail(fmt::format_string<Args...> format, Args &&...args)
{
    throw Error(fmt::format(format, std::forward<Args>(args)...));
}

/* Print one line, stamped with the seconds since the program started. Thread safe. */
void Say(std::string_view line);

template <typename... Args> void Note(fmt::format_string<Args...> format, Args &&...args)
{
    Say(fmt::format(format, std::forward<Args>(args)...));
}

double SecondsSinceStart();

} // namespace rig
