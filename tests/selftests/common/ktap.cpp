// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// KTAP output and the watchdog thread; see ktap.hpp.
#include "common/ktap.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <utility>

namespace rocev2::test {
namespace {

std::mutex state_lock;
std::string last_note;
std::vector<std::string> reported;

std::string one_line(std::string text)
{
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::replace(text.begin(), text.end(), '#', '=');
    return text;
}

std::vector<std::string> take_reported()
{
    const std::lock_guard guard(state_lock);
    return std::exchange(reported, {});
}

class Watchdog {
public:
    Watchdog(size_t number, const std::string &name, int limit_s)
        : thread_([this, number, name, limit_s] {
              std::unique_lock guard(lock_);
              if (done_signal_.wait_for(guard, std::chrono::seconds(limit_s),
                                        [this] { return done_; }))
                  return;
              std::string note;
              {
                  const std::lock_guard state(state_lock);
                  note = last_note;
              }
              fmt::print("not ok {} {} # no end after {} s; last step: {}\n", number, name,
                         limit_s, note.empty() ? "(none noted)" : one_line(note));
              fmt::print("Bail out! {} hangs\n", name);
              std::fflush(stdout);
              // The main thread may sit in a system call that never returns.
              _exit(1);
          })
    {
    }

    ~Watchdog()
    {
        {
            const std::lock_guard guard(lock_);
            done_ = true;
        }
        done_signal_.notify_one();
        thread_.join();
    }

    Watchdog(const Watchdog &) = delete;
    Watchdog &operator=(const Watchdog &) = delete;

private:
    std::mutex lock_;
    std::condition_variable done_signal_;
    bool done_ = false;
    std::thread thread_;
};

} // namespace

void note(std::string text)
{
    const std::lock_guard guard(state_lock);
    last_note = std::move(text);
}

void report_failure(std::string text)
{
    const std::lock_guard guard(state_lock);
    reported.push_back(std::move(text));
}

bool failure_reported()
{
    const std::lock_guard guard(state_lock);
    return !reported.empty();
}

void diag(std::string_view text)
{
    fmt::print("# {}\n", text);
    std::fflush(stdout);
}

void Ktap::add(std::string name, std::function<void()> body, int limit_s)
{
    cases_.push_back({std::move(name), std::move(body), limit_s});
}

int Ktap::run(const std::vector<std::string> &filters, bool list_only, int default_limit_s)
{
    std::vector<const Case *> chosen;
    for (const Case &one : cases_) {
        const bool wanted = filters.empty() ||
            std::any_of(filters.begin(), filters.end(), [&](const std::string &filter) {
                                return one.name.find(filter) != std::string::npos;
                            });
        if (wanted)
            chosen.push_back(&one);
    }
    if (list_only) {
        for (const Case *one : chosen)
            fmt::print("{}\n", one->name);
        return 0;
    }

    fmt::print("KTAP version 1\n1..{}\n", chosen.size());
    std::fflush(stdout);
    size_t failed = 0;
    size_t skipped = 0;
    for (size_t i = 0; i < chosen.size(); i++) {
        const Case &one = *chosen[i];
        const auto start = std::chrono::steady_clock::now();
        std::string why_failed;
        std::string why_skipped;
        note({});
        take_reported();
        {
            const Watchdog watchdog(i + 1, one.name, one.limit_s ? one.limit_s : default_limit_s);
            try {
                one.body();
            } catch (const Skip &reason) {
                why_skipped = reason.what();
            } catch (const std::exception &reason) {
                why_failed = reason.what();
            }
        }
        for (const std::string &text : take_reported())
            why_failed += (why_failed.empty() ? "" : "; ") + text;

        const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
            std::chrono::steady_clock::now() - start);
        if (!why_failed.empty()) {
            failed++;
            fmt::print("not ok {} {} # {} ({} ms)\n", i + 1, one.name, one_line(why_failed),
                       took.count());
        } else if (!why_skipped.empty()) {
            skipped++;
            fmt::print("ok {} {} # SKIP {}\n", i + 1, one.name, one_line(why_skipped));
        } else {
            fmt::print("ok {} {} # {} ms\n", i + 1, one.name, took.count());
        }
        std::fflush(stdout);
    }
    fmt::print("# Totals: pass:{} fail:{} xfail:0 xpass:0 skip:{} error:0\n",
               chosen.size() - failed - skipped, failed, skipped);
    std::fflush(stdout);
    if (chosen.empty()) {
        fmt::print("# no case matches the filter; --list shows the names\n");
        return 1;
    }
    if (failed)
        return 1;
    return skipped == chosen.size() ? 4 : 0;
}

} // namespace rocev2::test
