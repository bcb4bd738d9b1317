// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the card did, for people: complaints always, everything with --trace. */
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

namespace cx {

class Trace {
public:
    explicit Trace(bool all) : all_(all)
    {
    }

    /** A command or doorbell; only with --trace. */
    template <typename... Args> void Note(fmt::format_string<Args...> format, Args &&...args)
    {
        if (all_)
            Write(fmt::format(format, std::forward<Args>(args)...));
    }

    /** The driver did what the interface does not allow. The first kComplaints are shown, all are counted. */
    template <typename... Args> void Complain(fmt::format_string<Args...> format, Args &&...args)
    {
        constexpr std::uint64_t kComplaints = 1000;

        if (complaints_++ < kComplaints)
            Write(fmt::format("complaint: {}", fmt::format(format, std::forward<Args>(args)...)));
    }

    std::uint64_t complaints() const
    {
        return complaints_;
    }

private:
    static void Write(std::string_view line); /* trace.cpp */
    bool all_;
    std::uint64_t complaints_ = 0;
};

} // namespace cx
