// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "data_path_fixture.hpp"

namespace cx {
namespace {

constexpr std::uint64_t kCommandEvents = 1 << 0x0a, kPortEvents = 1 << 0x09, kWqEvents = 1 << 0x05;

class EqTest : public DataPathTest {
protected:
    Eq &eq = AddEq(kAsyncEq, 2, kAsyncVector, kCommandEvents | kPortEvents);
};

TEST_F(EqTest, OwnerBitTurnsWithEveryWrap)
{
    for (unsigned i = 0; i < 12; ++i) {
        EXPECT_TRUE(path.PostCommandEvent(100 + i));
        const Bytes entry = Entry(eq.ring, i % 4);
        EXPECT_EQ(Number(entry, 63, 1), i / 4 % 2) << i;
        EXPECT_EQ(Number(entry, 1, 1), 0x0aU);
        EXPECT_EQ(Number(entry, 32, 4), 100 + i);
        path.EqDoorbell(eq.number, i + 1, false);
    }
}

TEST_F(EqTest, OneInterruptForEachArming)
{
    path.PostCommandEvent(1);
    EXPECT_TRUE(bus.interrupts.empty()) << "not armed yet";
    path.EqDoorbell(eq.number, 1, true);
    EXPECT_TRUE(bus.interrupts.empty()) << "nothing new";
    path.PostCommandEvent(2);
    path.PostCommandEvent(3);
    EXPECT_EQ(bus.interrupts, std::vector<unsigned>{kAsyncVector});
    path.EqDoorbell(eq.number, 3, false);
    path.PostCommandEvent(4);
    EXPECT_EQ(bus.interrupts.size(), 1U) << "moved on without arming";
}

TEST_F(EqTest, ArmingLooksAgain)
{
    path.PostCommandEvent(1);
    path.PostCommandEvent(2);
    path.EqDoorbell(eq.number, 1, true);
    EXPECT_EQ(bus.interrupts.size(), 1U) << "the second came before the arming";
    path.PostCommandEvent(4);
    EXPECT_EQ(bus.interrupts.size(), 1U) << "that used the arming up";
}

TEST_F(EqTest, OverrunLosesTheNewOnes)
{
    for (unsigned i = 0; i < 4; ++i)
        EXPECT_TRUE(path.PostCommandEvent(i));
    EXPECT_FALSE(path.PostCommandEvent(99));
    EXPECT_TRUE(eq.overrun);
    EXPECT_EQ(Number(Entry(eq.ring, 0), 32, 4), 0U);
    path.EqDoorbell(eq.number, 1, false);
    EXPECT_TRUE(path.PostCommandEvent(4));
    EXPECT_EQ(Number(Entry(eq.ring, 0), 32, 4), 4U);
}

TEST_F(EqTest, IndexesWrapAt24Bits)
{
    eq.producer = 0xfffffe;
    eq.consumer = 0xfffffe;
    for (unsigned i = 0; i < 4; ++i)
        EXPECT_TRUE(path.PostCommandEvent(i));
    EXPECT_FALSE(path.PostCommandEvent(4));
    path.EqDoorbell(eq.number, 2, true);
    EXPECT_TRUE(bus.interrupts.empty());
    EXPECT_TRUE(path.PostCommandEvent(5));
    EXPECT_EQ(bus.interrupts.size(), 1U);
    EXPECT_EQ(Number(Entry(eq.ring, 2), 63, 1), 0U) << "2^24 turns of the owner bit are even";
}

TEST_F(EqTest, PortEvents)
{
    path.PostPortEvent(false);
    path.PostPortEvent(true);
    for (unsigned i = 0; i < 2; ++i) {
        const Bytes entry = Entry(eq.ring, i);

        EXPECT_EQ(Number(entry, 1, 1), 0x09U);
        EXPECT_EQ(Number(entry, 3, 1), i == 0 ? 1U : 4U);
        EXPECT_EQ(Number(entry, 40, 1) >> 4, 1U) << "port 1";
    }
}

TEST_F(EqTest, GoesWhereItIsSubscribed)
{
    Eq &other = AddEq(9, 2, 2, kWqEvents);
    Rq &rq = AddRq(kRq, kCq, 2, 6);

    eq.events[0] = kPortEvents;
    EXPECT_FALSE(path.PostCommandEvent(1)) << "nobody asked for it";
    path.RqError(rq);
    EXPECT_EQ(eq.producer, 0U);
    ASSERT_EQ(other.producer, 1U);
    const Bytes entry = Entry(other.ring, 0);
    EXPECT_EQ(Number(entry, 1, 1), 0x05U);
    EXPECT_EQ(Number(entry, 52, 1), 1U) << "a receive queue";
    EXPECT_EQ(Number(entry, 56, 4), kRq);
}

TEST_F(EqTest, OnlyACompletionInterruptIsLost)
{
    AddEq(kEq, 4, kCompletionVector, 0);
    Cq &cq = AddCq(kCq, kEq, 4);
    Sq &sq = AddSq(kSq, kCq, 4);

    path.LoseInterrupt();
    path.EqDoorbell(eq.number, 0, true);
    path.EqDoorbell(kEq, 0, true);
    path.PostCommandEvent(1);
    EXPECT_EQ(bus.interrupts, std::vector<unsigned>{kAsyncVector});
    Arm(cq, 0, 0);
    Complete(sq);
    EXPECT_EQ(bus.interrupts.size(), 1U);
    EXPECT_EQ(objects.eqs[kEq].producer, 1U) << "the event itself is there";
    path.EqDoorbell(kEq, 1, true);
    Arm(cq, 1, 1);
    Complete(sq);
    EXPECT_EQ(bus.interrupts, (std::vector<unsigned>{kAsyncVector, kCompletionVector}));
}

TEST_F(EqTest, NonsenseIsRefused)
{
    path.EqDoorbell(77, 0, true);
    EXPECT_EQ(trace.complaints(), 1U);
    path.PostCommandEvent(1);
    path.EqDoorbell(eq.number, 2, true);
    EXPECT_EQ(trace.complaints(), 2U);
    EXPECT_EQ(eq.consumer, 0U);
    EXPECT_FALSE(eq.armed);
    eq.ring.pages[0] = kUnmapped;
    EXPECT_FALSE(path.PostCommandEvent(2));
    EXPECT_EQ(objects.port.dma_errors, 1U);
}

} // namespace
} // namespace cx
