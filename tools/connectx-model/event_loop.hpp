// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The one thread's loop: descriptors and timers. */
#pragma once

#include "file_descriptor.hpp"
#include "timers.hpp"

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

namespace cx {

class EventLoop final : public Timers {
public:
    using Action = std::function<void(std::uint32_t events)>;

    /** Throws std::system_error when the kernel has no epoll instance to give. */
    EventLoop();

    /**
     * Call `action` while `fd` is ready for `events` (EPOLLIN, EPOLLOUT; EPOLLERR and EPOLLHUP always). One watch a
     * descriptor. The descriptor stays the caller's, who ends the watch before closing it.
     * False: the kernel cannot poll this descriptor.
     */
    bool Watch(int fd, std::uint32_t events, Action action);
    void SetEvents(int fd, std::uint32_t events);
    /** From within an action too. Of one that is not watched: nothing happens. */
    void Unwatch(int fd);

    Clock::time_point Now() const override;
    Id After(Clock::duration delay, std::function<void()> action) override;
    void Cancel(Id id) override;

    /** Until Stop(). */
    void Run();
    void Stop();
    /** What is ready now, or the first that becomes so within `at_most`. */
    void RunOnce(Clock::duration at_most);

private:
    struct Watcher {
        int fd;
        Action action;
    };
    using Due = std::pair<Clock::time_point, Id>;

    void RunTimers();

    FileDescriptor epoll_;
    /*
     * by a number that is never used twice: an event of a descriptor closed and opened anew since is not the new one's
     */
    std::unordered_map<std::uint64_t, std::shared_ptr<Watcher>> watchers_;
    std::unordered_map<int, std::uint64_t> watcher_of_;
    std::uint64_t next_watcher_ = 1;
    std::map<Due, std::function<void()>> timers_;
    std::unordered_map<Id, Clock::time_point> due_;
    Id next_timer_ = 1;
    bool stopped_ = false;
};

} // namespace cx
