// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the backends share among themselves. */
#pragma once

#include "backend.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cx {

nlohmann::json CountersJson(std::string_view kind, const WireCounters &counters);

/** "KEY=VALUE,KEY=VALUE" of a backend's text. All throw BackendError, with the key in it. */
class BackendOptions {
public:
    explicit BackendOptions(std::string_view text);

    /** The value of `key`, nothing if it was not given. */
    std::optional<std::string> Text(const std::string &key);
    /** A decimal number in [low, high]; `absent` if it was not given. */
    std::uint64_t Number(const std::string &key, std::uint64_t absent, std::uint64_t low, std::uint64_t high);
    /** "yes" or "no". */
    bool Flag(const std::string &key, bool absent);
    /** After the last: a key that nobody asked for is an error. */
    void Finish() const;

private:
    std::map<std::string, std::string> values_;
};

/**
 * When frames of a steady rate are due, `burst` at a time: the time between bursts is kept on average, whatever the
 * event loop's delays; what is more than kMaxLate behind is given up.
 */
class Pace {
public:
    static constexpr auto kMaxLate = std::chrono::milliseconds(100);

    Pace(std::uint64_t frames_per_second, std::uint64_t burst) : rate_(frames_per_second), burst_(burst)
    {
    }

    void Start(Clock::time_point now)
    {
        due_ = now;
    }
    /** Whether a burst is due; the next is due one interval later. */
    bool Take(Clock::time_point now);
    Clock::duration Wait(Clock::time_point now) const
    {
        return due_ > now ? due_ - now : Clock::duration::zero();
    }
    std::uint64_t given_up() const
    {
        return given_up_;
    }

private:
    std::uint64_t rate_, burst_;
    Clock::time_point due_;
    std::uint64_t given_up_ = 0; /* bursts */
};

constexpr std::uint64_t kMaxRate = 10000000; /* frames a second that a backend can be asked for */

} // namespace cx
