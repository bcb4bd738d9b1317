// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The event loop. */
#include "event_loop.hpp"

#include "host_fixture.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <array>

namespace cx::test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(EventLoopTest, TimersRunInOrderAndNotTooSoon)
{
    EventLoop loop;
    std::string order;
    const Clock::time_point start = loop.Now();
    Clock::time_point ran;

    loop.After(milliseconds(20), [&] {
        order += 'c';
        ran = loop.Now();
        loop.Stop();
    });
    loop.After(milliseconds(5), [&] { order += 'a'; });
    loop.After(milliseconds(10), [&] { order += 'b'; });
    loop.Run();
    EXPECT_EQ(order, "abc");
    EXPECT_GE(ran - start, milliseconds(20));
}

TEST(EventLoopTest, CancelledTimersDoNotRun)
{
    EventLoop loop;
    std::string order;
    const Timers::Id never = loop.After(milliseconds(1), [&] { order += 'x'; });
    Timers::Id second = 0;

    loop.Cancel(never);
    loop.Cancel(never);
    loop.Cancel(12345);
    loop.After(milliseconds(1), [&] {
        order += 'a';
        loop.Cancel(second); /* due at the same time */
    });
    second = loop.After(milliseconds(1), [&] { order += 'b'; });
    loop.After(milliseconds(5), [&] { loop.Stop(); });
    loop.Run();
    EXPECT_EQ(order, "a");
}

TEST(EventLoopTest, TimerOfNoDelayDoesNotStarveDescriptors)
{
    EventLoop loop;
    auto [a, b] = MakePair(SOCK_STREAM);
    int turns = 0;
    std::function<void()> again = [&] {
        ++turns;
        loop.After(Clock::duration::zero(), again);
    };

    ASSERT_TRUE(loop.Watch(a.Get(), EPOLLIN, [&](std::uint32_t) { loop.Stop(); }));
    again();
    ASSERT_EQ(write(b.Get(), "x", 1), 1);
    loop.Run();
    EXPECT_LT(turns, 10);
    loop.Unwatch(a.Get());
}

/*
 * Nothing rounds up to a clock of milliseconds, and nothing is late on purpose: the best of a hundred tells, on a busy
 * machine too.
 */
TEST(EventLoopTest, ShortTimersAreShort)
{
    EventLoop loop;
    Clock::duration best = milliseconds(100);

    for (int i = 0; i < 100; ++i) {
        const Clock::time_point start = loop.Now();
        bool ran = false;

        loop.After(microseconds(50), [&] { ran = true; });
        ASSERT_TRUE(RunUntil(loop, [&] { return ran; }));
        best = std::min(best, loop.Now() - start);
    }
    EXPECT_GE(best, microseconds(50));
    EXPECT_LT(best, milliseconds(1));
    EXPECT_LE(prctl(PR_GET_TIMERSLACK), 1);
}

TEST(EventLoopTest, AnActionMayEndItsOwnAndOthersWatches)
{
    EventLoop loop;
    auto [a, b] = MakePair(SOCK_STREAM);
    auto [c, d] = MakePair(SOCK_STREAM);
    int calls = 0;
    const auto end_both = [&, &first = a, &second = c](std::uint32_t) {
        ++calls;
        loop.Unwatch(first.Get());
        loop.Unwatch(second.Get());
    };

    ASSERT_TRUE(loop.Watch(a.Get(), EPOLLIN, end_both));
    ASSERT_TRUE(loop.Watch(c.Get(), EPOLLIN, end_both));
    ASSERT_EQ(write(b.Get(), "x", 1), 1);
    ASSERT_EQ(write(d.Get(), "x", 1), 1);
    RunAll(loop);
    EXPECT_EQ(calls, 1);
}

TEST(EventLoopTest, RefusesWhatCannotBePolled)
{
    EventLoop loop;
    const FileDescriptor file = MakeMemory(1);

    EXPECT_FALSE(loop.Watch(file.Get(), EPOLLIN, [](std::uint32_t) {}));
    EXPECT_FALSE(loop.Watch(-1, EPOLLIN, [](std::uint32_t) {}));
    loop.Unwatch(file.Get());
    loop.SetEvents(file.Get(), EPOLLOUT);
}

} // namespace
} // namespace cx::test
