// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The loop over epoll; its timeout is the next timer's, to the nanosecond. */
#include "event_loop.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

namespace cx {
namespace {

constexpr auto kForever = std::chrono::hours(1); /* nothing is due: wake up and look again, it costs nothing */
/* A sleep may end so much late, more than moderation periods and frames last: the rest is waited for awake. */
constexpr auto kAwake = std::chrono::microseconds(60);

timespec ToTimespec(Clock::duration time)
{
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();

    return {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000};
}

} // namespace

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC))
{
    if (!epoll_)
        throw std::system_error(errno, std::generic_category(), "cannot make an epoll instance");
    /* the 50 us that a timeout may be late otherwise are more than a completion queue's moderation period */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

bool EventLoop::Watch(int fd, std::uint32_t events, Action action)
{
    const std::uint64_t number = next_watcher_++;
    epoll_event event = {};

    event.events = events;
    event.data.u64 = number;
    if (epoll_ctl(epoll_.Get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return false;
    watchers_[number] = std::make_shared<Watcher>(Watcher{fd, std::move(action)});
    watcher_of_[fd] = number;
    return true;
}

void EventLoop::SetEvents(int fd, std::uint32_t events)
{
    const auto watcher = watcher_of_.find(fd);
    epoll_event event = {};

    if (watcher == watcher_of_.end())
        return;
    event.events = events;
    event.data.u64 = watcher->second;
    epoll_ctl(epoll_.Get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::Unwatch(int fd)
{
    const auto watcher = watcher_of_.find(fd);

    if (watcher == watcher_of_.end())
        return;
    epoll_ctl(epoll_.Get(), EPOLL_CTL_DEL, fd, nullptr);
    watchers_.erase(watcher->second);
    watcher_of_.erase(watcher);
}

Clock::time_point EventLoop::Now() const
{
    return Clock::now();
}

Timers::Id EventLoop::After(Clock::duration delay, std::function<void()> action)
{
    const Id id = next_timer_++;
    const Clock::time_point now = Clock::now();
    const Clock::time_point due = delay > Clock::time_point::max() - now ? Clock::time_point::max() : now + delay;

    timers_.emplace(Due(due, id), std::move(action));
    due_[id] = due;
    return id;
}

void EventLoop::Cancel(Id id)
{
    const auto due = due_.find(id);

    if (due == due_.end())
        return;
    timers_.erase(Due(due->second, id));
    due_.erase(due);
}

/* Those that are due now. One that an action adds waits for the next turn: descriptors get theirs in between. */
void EventLoop::RunTimers()
{
    const Clock::time_point now = Clock::now();
    const Id end = next_timer_;

    for (auto first = timers_.begin(); first != timers_.end() && first->first.first <= now;) {
        if (first->first.second >= end) {
            ++first;
            continue;
        }
        const std::function<void()> action = std::move(first->second);

        due_.erase(first->first.second);
        timers_.erase(first);
        action();
        first = timers_.begin(); /* the action may have cancelled the next */
    }
}

void EventLoop::RunOnce(Clock::duration at_most)
{
    std::array<epoll_event, 64> events = {};
    Clock::duration wait = at_most;

    if (!timers_.empty())
        wait = std::min(wait, std::max<Clock::duration>(timers_.begin()->first.first - Clock::now() - kAwake,
                                                        Clock::duration::zero()));
    const timespec timeout = ToTimespec(wait);
    const int count = epoll_pwait2(epoll_.Get(), events.data(), static_cast<int>(events.size()), &timeout, nullptr);

    if (count < 0 && errno != EINTR)
        throw std::system_error(errno, std::generic_category(), "cannot wait for events");
    RunTimers();
    for (int i = 0; i < count; ++i) {
        const epoll_event event = events[static_cast<std::size_t>(i)];
        const std::uint64_t number = event.data.u64; /* a copy: the members of a packed structure have no alignment */
        const auto watcher = watchers_.find(number);

        if (watcher == watchers_.end())
            continue;
        const std::shared_ptr<Watcher> kept = watcher->second; /* the action may end its own watch */
        kept->action(event.events);
    }
}

void EventLoop::Run()
{
    stopped_ = false;
    while (!stopped_)
        RunOnce(kForever);
}

void EventLoop::Stop()
{
    stopped_ = true;
}

} // namespace cx
