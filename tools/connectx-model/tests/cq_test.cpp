// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Completions come from NOPs of a send queue. */
#include "data_path_fixture.hpp"

namespace cx {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kCqErrors = 1 << 0x04;

class CqTest : public DataPathTest {
protected:
    /** What the completion EQ got since the last call. */
    std::size_t Events()
    {
        const std::size_t events = eq.producer - seen_;

        for (; seen_ != eq.producer; ++seen_) {
            const Bytes entry = Entry(eq.ring, seen_ % eq.ring.Entries());

            EXPECT_EQ(Number(entry, 1, 1), 0U);
            EXPECT_EQ(Number(entry, 56, 4), kCq);
        }
        path.EqDoorbell(kEq, eq.producer, true);
        return events;
    }
    void Consume(std::uint32_t consumer)
    {
        WriteNumber(cq.doorbell_record, 4, consumer);
    }

    Eq &eq = AddEq(kEq, 6, kCompletionVector, 0);
    Eq &async = AddEq(kAsyncEq, 4, kAsyncVector, kCqErrors);
    Cq &cq = AddCq(kCq, kEq, 2);
    Sq &sq = AddSq(kSq, kCq, 6);

private:
    std::uint32_t seen_ = 0;
};

TEST_F(CqTest, OwnerBitTurnsWithEveryWrap)
{
    for (unsigned i = 0; i < 12; ++i) {
        Complete(sq);
        const Bytes entry = Entry(cq.ring, i % 4);
        EXPECT_EQ(Number(entry, 63, 1), i / 4 % 2) << i;
        EXPECT_EQ(Number(entry, 60, 2), i);
        EXPECT_EQ(Number(entry, 56, 4), kSq);
        Consume(i + 1);
    }
}

TEST_F(CqTest, LongEntriesHaveItInTheirSecondHalf)
{
    Cq &wide = AddCq(0x12, kEq, 2, true);

    sq.cq = wide.number;
    Complete(sq, 2);
    EXPECT_EQ(Number(Entry(wide.ring, 1), 124, 2), 1U);
    EXPECT_EQ(Number(Entry(wide.ring, 1), 127, 1), 0U);
}

TEST_F(CqTest, OneEventForEachArming)
{
    Complete(sq);
    EXPECT_EQ(Events(), 0U) << "not armed";
    Arm(cq, 1, 0);
    EXPECT_EQ(Events(), 0U) << "the only completion has been seen";
    Complete(sq);
    EXPECT_EQ(Events(), 1U);
    Complete(sq);
    EXPECT_EQ(Events(), 0U) << "not armed again";
}

TEST_F(CqTest, RearmingANonEmptyRingFiresOnlyForWhatIsNew)
{
    Complete(sq, 2);
    Arm(cq, 1, 0);
    EXPECT_EQ(Events(), 1U) << "the second was not seen when the driver armed";
    Arm(cq, 2, 1); /* the doorbell record still says 0: all is in the ring, and known */
    EXPECT_EQ(Events(), 0U);
    Complete(sq);
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, AnArmingOlderThanTheLastEventIsIgnored)
{
    Arm(cq, 0, 2);
    Complete(sq);
    EXPECT_EQ(Events(), 1U);
    Arm(cq, 0, 2); /* written before the driver took the event */
    EXPECT_EQ(Events(), 0U);
    Arm(cq, 0, 3);
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, ArmingTwiceWithoutEventMovesTheIndex)
{
    Arm(cq, 0, 0);
    Arm(cq, 0, 0);
    Complete(sq);
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, SolicitedOnly)
{
    Arm(cq, 0, 0, true);
    Complete(sq);
    EXPECT_EQ(Events(), 0U);
    Complete(sq, 1, 2 << 2 | 1 << 1);
    EXPECT_EQ(Events(), 1U);
    Arm(cq, 2, 1, true);
    EXPECT_EQ(Events(), 0U);
    Arm(cq, 1, 1, true);
    EXPECT_EQ(Events(), 1U) << "the solicited one came after index 1";
}

TEST_F(CqTest, AnErrorCountsAsSolicited)
{
    Arm(cq, 0, 0, true);
    PostWqe(sq, Control(sq, 0x7f, 1, 0));
    RingDoorbell(sq);
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, OverrunIsAnErrorAndAnEvent)
{
    Complete(sq, 4);
    EXPECT_NE(cq.state, CqState::kError);
    Consume(1);
    Complete(sq);
    EXPECT_NE(cq.state, CqState::kError) << "the record made room";
    Complete(sq);
    EXPECT_EQ(cq.state, CqState::kError);
    ASSERT_EQ(async.producer, 1U);
    const Bytes entry = Entry(async.ring, 0);
    EXPECT_EQ(Number(entry, 1, 1), 0x04U);
    EXPECT_EQ(Number(entry, 32, 4), kCq);
    EXPECT_EQ(Number(entry, 43, 1), 1U) << "overrun";
    EXPECT_EQ(Number(Entry(cq.ring, 1), 60, 2), 1U) << "the unread one is left alone";
    EXPECT_EQ(sq.state, WqState::kError);
    Arm(cq, 0, 0);
    EXPECT_EQ(Events(), 0U);
}

TEST_F(CqTest, OverrunMayBeIgnored)
{
    cq.ignore_overrun = true;
    Complete(sq, 6);
    EXPECT_NE(cq.state, CqState::kError);
    EXPECT_EQ(Number(Entry(cq.ring, 1), 60, 2), 5U);
    Arm(cq, 0, 0);
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, IndexesWrapAt24Bits)
{
    cq.producer = cq.consumer = 0xfffffe;
    Consume(0xfffffe);
    Arm(cq, 0xfffffe, 0);
    Complete(sq, 3);
    EXPECT_EQ(Events(), 1U);
    Arm(cq, 1, 1);
    EXPECT_EQ(Events(), 0U);
    Complete(sq);
    EXPECT_EQ(Events(), 1U);
    Complete(sq);
    EXPECT_EQ(cq.state, CqState::kError) << "four of four are unread";
}

TEST_F(CqTest, ModerationByTime)
{
    cq.period_us = 50;
    Arm(cq, 0, 0);
    Complete(sq);
    timers.Advance(microseconds(30));
    Complete(sq);
    timers.Advance(microseconds(19));
    EXPECT_EQ(Events(), 0U);
    timers.Advance(microseconds(1));
    EXPECT_EQ(Events(), 1U) << "50 us from the first, whatever came later";
    EXPECT_EQ(timers.Pending(), 0U);
}

TEST_F(CqTest, ModerationFromTheLastCompletion)
{
    cq.period_us = 50;
    cq.period_from_cqe = true;
    Arm(cq, 0, 0);
    Complete(sq);
    timers.Advance(microseconds(30));
    Complete(sq);
    timers.Advance(microseconds(49));
    EXPECT_EQ(Events(), 0U);
    timers.Advance(microseconds(1));
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, ModerationByCount)
{
    cq.period_us = 50;
    cq.max_count = 3;
    Arm(cq, 0, 0);
    Complete(sq, 2);
    EXPECT_EQ(Events(), 0U);
    Complete(sq);
    EXPECT_EQ(Events(), 1U);
    EXPECT_EQ(timers.Pending(), 0U) << "the period's timer has nothing left to tell";
    Consume(3);
    Arm(cq, 3, 1);
    Complete(sq, 2);
    EXPECT_EQ(Events(), 0U) << "the count begins anew";
    timers.Advance(microseconds(50));
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, WhatWasConsumedBeforeArmingDoesNotCount)
{
    cq.period_us = 50;
    cq.max_count = 3;
    Complete(sq, 2);
    Consume(2);
    Arm(cq, 2, 0);
    timers.Advance(microseconds(1000));
    EXPECT_EQ(Events(), 0U);
    Complete(sq, 2);
    EXPECT_EQ(Events(), 0U) << "two of three, and the period begins with them";
    timers.Advance(microseconds(50));
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, NoPeriodIsNoModeration)
{
    cq.max_count = 3;
    Arm(cq, 0, 0);
    Complete(sq);
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, ChangedModerationCoversWhatIsPending)
{
    cq.period_us = 1000;
    Arm(cq, 0, 0);
    Complete(sq);
    cq.period_us = 100;
    path.CqModerationChanged(cq);
    timers.Advance(microseconds(99));
    EXPECT_EQ(Events(), 0U);
    timers.Advance(microseconds(1));
    EXPECT_EQ(Events(), 1U);

    cq.period_us = 1000;
    Arm(cq, 1, 1);
    Complete(sq);
    cq.period_us = 0;
    path.CqModerationChanged(cq);
    EXPECT_EQ(Events(), 1U) << "no moderation any more: at once";
    EXPECT_EQ(timers.Pending(), 0U);

    cq.period_us = 100;
    Arm(cq, 2, 2);
    Complete(sq);
    cq.period_us = 300;
    path.CqModerationChanged(cq);
    timers.Advance(microseconds(299));
    EXPECT_EQ(Events(), 0U);
    timers.Advance(microseconds(1));
    EXPECT_EQ(Events(), 1U);
}

TEST_F(CqTest, AForgottenCqHasNoTimer)
{
    cq.period_us = 50;
    Arm(cq, 0, 0);
    Complete(sq);
    EXPECT_EQ(timers.Pending(), 1U);
    path.ForgetCq(cq);
    EXPECT_EQ(timers.Pending(), 0U);
    objects.cqs.erase(kCq);
    timers.Advance(microseconds(100));
    EXPECT_EQ(Events(), 0U);
}

TEST_F(CqTest, UnmappedMemoryIsAnError)
{
    cq.ring.pages[0] = kUnmapped;
    Complete(sq);
    EXPECT_EQ(cq.state, CqState::kError);
    EXPECT_EQ(objects.port.dma_errors, 1U);
    ASSERT_EQ(async.producer, 1U);
    EXPECT_EQ(Number(Entry(async.ring, 0), 43, 1), 2U) << "access violation";
}

TEST_F(CqTest, AnUnmappedRecordIsAnErrorOnceTheRingIsFull)
{
    cq.doorbell_record = kUnmapped;
    Complete(sq, 4);
    EXPECT_NE(cq.state, CqState::kError);
    Complete(sq);
    EXPECT_EQ(cq.state, CqState::kError);
}

TEST_F(CqTest, NonsenseIsRefused)
{
    path.CqDoorbell(0, 0x99);
    EXPECT_EQ(trace.complaints(), 1U);
    Arm(cq, 3, 0);
    EXPECT_EQ(trace.complaints(), 2U) << "three consumed of none";
    EXPECT_EQ(cq.state, CqState::kFiring);
    cq.eq = 0x55;
    Arm(cq, 0, 0);
    Complete(sq);
    EXPECT_EQ(trace.complaints(), 3U) << "its EQ is gone";
}

} // namespace
} // namespace cx
