// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Progress lines of the rig. */
#include "log.h"

#include <chrono>
#include <cstdio>
#include <mutex>

namespace rig {
namespace {

const auto kStart = std::chrono::steady_clock::now();
std::mutex output_lock;

} // namespace

double SecondsSinceStart()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - kStart).count();
}

void Say(std::string_view line)
{
    const std::scoped_lock guard(output_lock);
    const std::string text = fmt::format("[{:6.1f}s] {}\n", SecondsSinceStart(), line);

    std::fwrite(text.data(), 1, text.size(), stderr);
    std::fflush(stderr);
}

} // namespace rig
