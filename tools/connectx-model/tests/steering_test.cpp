// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Where a packet goes is seen by the out-of-buffer counter of the queue behind each TIR: none has a buffer. */
#include "frames.hpp"

namespace cx {
namespace {

constexpr std::uint32_t kDrop = 2, kForward = 4, kCount = 8;

/* Bytes of fte_match_set_lyr_2_4 */
constexpr std::size_t kSmac = 0, kEthertype = 6, kDmac = 8, kVlan = 14, kProtocol = 16, kDscp = 17, kFlags = 18,
                      kTcpSource = 20, kTcpDestination = 22, kTtl = 27, kUdpSource = 28, kUdpDestination = 30,
                      kSource = 32, kDestination = 48;

MatchBytes Match(std::size_t at, std::size_t size, std::uint64_t value, MatchBytes match = {})
{
    SetNumber(std::as_writable_bytes(std::span(match)), at, size, value);
    return match;
}

FlowDestination To(std::uint32_t tir)
{
    return {FlowDestination::Kind::kTir, tir};
}

FlowDestination ToTable(std::uint32_t table)
{
    return {FlowDestination::Kind::kTable, table};
}

class SteeringTest : public DataPathTest {
protected:
    SteeringTest()
    {
        AddTable(1);
        objects.root_tables[0] = 1;
        for (std::uint32_t number = 1; number <= 4; ++number) {
            AddRq(number, kCq, 0, 6);
            objects.tirs[number].rq = number;
        }
    }
    FlowTable &AddTable(std::uint32_t number)
    {
        objects.tables[number].number = number;
        return objects.tables[number];
    }
    void AddGroup(std::uint32_t table, std::uint32_t number, std::uint32_t start, std::uint32_t end,
                  const MatchBytes &mask, unsigned criteria = 1)
    {
        ++objects.steering_generation;
        objects.tables[table].groups[number] = {number, start, end, static_cast<std::uint8_t>(criteria), mask};
    }
    FlowEntry &AddEntry(std::uint32_t table, std::uint32_t group, std::uint32_t index, const MatchBytes &value,
                        std::vector<FlowDestination> to, std::uint32_t action = kForward)
    {
        FlowEntry entry;

        entry.index = index;
        entry.group = group;
        entry.value = value;
        entry.action = action;
        entry.destinations = std::move(to);
        ++objects.steering_generation;
        return objects.tables[table].entries[index] = entry;
    }
    /** How many copies each of the queues 1 to 4 got, as decimal digits. */
    unsigned Where(const Bytes &frame)
    {
        unsigned digits = 0;

        path.Receive(frame);
        for (std::uint32_t number = 1; number <= 4; ++number) {
            digits = digits * 10 + static_cast<unsigned>(objects.rqs[number].out_of_buffer);
            objects.rqs[number].out_of_buffer = 0;
        }
        return digits;
    }
    std::uint64_t Drops() const
    {
        return objects.port.rx_steering_drops;
    }

    const Bytes tcp = MakeFrame({}, Payload(20));
    const Bytes udp6 = MakeFrame({.ipv6 = true, .udp = true}, Payload(20));
};

TEST_F(SteeringTest, TheLowestIndexThatMatchesWins)
{
    const MatchBytes port = Match(kTcpDestination, 2, 0xffff), protocol = Match(kProtocol, 1, 0xff);

    AddGroup(1, 1, 10, 19, protocol); /* numbers do not follow indexes */
    AddGroup(1, 2, 0, 9, port);
    AddEntry(1, 1, 10, Match(kProtocol, 1, 6), {To(1)});
    AddEntry(1, 2, 5, Match(kTcpDestination, 2, 0x2222), {To(2)});
    EXPECT_EQ(Where(tcp), 100U);
    AddEntry(1, 2, 3, Match(kTcpDestination, 2, 0x2222), {To(3)});
    EXPECT_EQ(Where(tcp), 10U);
    EXPECT_EQ(Where(MakeFrame({.destination_port = 0x2223}, {})), 1000U);
    EXPECT_EQ(Where(udp6), 0U);
    EXPECT_EQ(Drops(), 1U);
}

TEST_F(SteeringTest, ChangesAreSeen)
{
    AddGroup(1, 1, 0, 9, Match(kProtocol, 1, 0xff));
    EXPECT_EQ(Where(tcp), 0U);
    AddEntry(1, 1, 1, Match(kProtocol, 1, 6), {To(1)});
    EXPECT_EQ(Where(tcp), 1000U);
    AddEntry(1, 1, 1, Match(kProtocol, 1, 6), {To(2)});
    EXPECT_EQ(Where(tcp), 100U);
    objects.tables[1].entries.erase(1);
    ++objects.steering_generation;
    EXPECT_EQ(Where(tcp), 0U);
    objects.tables.erase(1);
    ++objects.steering_generation;
    EXPECT_EQ(Where(tcp), 0U);
    EXPECT_EQ(Drops(), 3U);
}

TEST_F(SteeringTest, AnEntryErasedBehindTheIndexsBackIsNoDanger)
{
    AddGroup(1, 1, 0, 9, {});
    AddEntry(1, 1, 1, {}, {To(1)});
    EXPECT_EQ(Where(tcp), 1000U);
    objects.tables[1].entries.clear();
    EXPECT_EQ(Where(tcp), 0U);
}

TEST_F(SteeringTest, FieldsOfAPacket)
{
    const Bytes vlan = MakeFrame({.vlan = Hex("8100 6064")}, Payload(20));
    const Bytes service = MakeFrame({.vlan = Hex("88a8 6064 8100 0001")}, Payload(20));
    const Bytes udp = MakeFrame({.udp = true}, Payload(20));
    const Bytes tcp6 = MakeFrame({.ipv6 = true, .flags = 0x12}, Payload(20));
    Bytes fragment = udp;
    SetNumber(fragment, 20, 2, 0x0010);
    const auto matches = [&](const Bytes &frame, std::size_t at, std::size_t size, std::uint64_t mask,
                             std::uint64_t value) {
        AddGroup(1, 1, 0, 0, Match(at, size, mask));
        AddEntry(1, 1, 0, Match(at, size, value), {To(1)});
        const bool yes = Where(frame) == 1000;
        AddEntry(1, 1, 0, Match(at, size, value ^ (mask & (~mask + 1))), {To(1)}); /* its lowest bit is another */
        return yes && Where(frame) == 0;
    };

    EXPECT_TRUE(matches(tcp, kSmac, 6, 0xffffffffffff, 0x020000000001));
    EXPECT_TRUE(matches(tcp, kDmac, 6, 0xffffffffffff, 0x020000000002));
    EXPECT_TRUE(matches(tcp, kDmac, 1, 0x01, 0)) << "the multicast bit";
    EXPECT_TRUE(matches(tcp, kEthertype, 2, 0xffff, 0x0800));
    EXPECT_TRUE(matches(vlan, kEthertype, 2, 0xffff, 0x0800)) << "that after the tag";
    EXPECT_TRUE(matches(vlan, kFlags, 2, 0xc000, 0x8000));
    EXPECT_TRUE(matches(service, kFlags, 2, 0xc000, 0x4000));
    EXPECT_TRUE(matches(tcp, kFlags, 2, 0xc000, 0));
    EXPECT_TRUE(matches(vlan, kVlan, 2, 0x0fff, 0x064));
    EXPECT_TRUE(matches(service, kVlan, 2, 0xefff, 0x6064));
    EXPECT_TRUE(matches(tcp, kProtocol, 1, 0xff, 6));
    EXPECT_TRUE(matches(udp6, kProtocol, 1, 0xff, 17));
    EXPECT_TRUE(matches(tcp, kFlags, 2, 0x1e00, 4 << 9));
    EXPECT_TRUE(matches(tcp6, kFlags, 2, 0x1e00, 6 << 9));
    EXPECT_TRUE(matches(tcp6, kFlags, 2, 0x1ff, 0x12));
    EXPECT_TRUE(matches(udp, kFlags, 2, 0x1ff, 0));
    EXPECT_TRUE(matches(fragment, kFlags, 2, 0x2000, 0x2000));
    EXPECT_TRUE(matches(fragment, kUdpDestination, 2, 0xffff, 0)) << "a fragment has no ports";
    EXPECT_TRUE(matches(fragment, kProtocol, 1, 0xff, 17));
    EXPECT_TRUE(matches(udp, kFlags, 2, 0x2000, 0));
    EXPECT_TRUE(matches(tcp, kTcpSource, 2, 0xffff, 0x1111));
    EXPECT_TRUE(matches(tcp, kTcpDestination, 2, 0xffff, 0x2222));
    EXPECT_TRUE(matches(udp, kTcpDestination, 2, 0xffff, 0));
    EXPECT_TRUE(matches(udp, kUdpSource, 2, 0xffff, 0x1111));
    EXPECT_TRUE(matches(udp6, kUdpDestination, 2, 0xffff, 0x2222));
    EXPECT_TRUE(matches(tcp, kSource + 12, 4, 0xffffffff, 0xc0000201));
    EXPECT_TRUE(matches(tcp, kDestination + 12, 4, 0xffffffff, 0xc0000202));
    EXPECT_TRUE(matches(tcp, kDestination, 8, 0xffffffffffffffff, 0));
    EXPECT_TRUE(matches(udp6, kSource, 8, 0xffffffffffffffff, 0x20010db800000000));
    EXPECT_TRUE(matches(udp6, kDestination + 8, 8, 0xffffffffffffffff, 2));
    EXPECT_TRUE(matches(tcp, kTtl, 1, 0xff, 0x40));
    EXPECT_TRUE(matches(udp6, kTtl, 1, 0xff, 0x40));
    Bytes marked = udp6;
    SetNumber(marked, 14, 2, 0x6b80); /* traffic class b8 */
    EXPECT_TRUE(matches(marked, kDscp, 1, 0xff, 0xb8));
}

TEST_F(SteeringTest, OnlyWhatTheCriteriaNameCounts)
{
    AddGroup(1, 1, 0, 0, Match(kProtocol, 1, 0xff), 0);
    AddEntry(1, 1, 0, Match(kProtocol, 1, 99), {To(1)});
    EXPECT_EQ(Where(tcp), 1000U) << "no criteria: everything matches";
    AddGroup(1, 1, 0, 0, Match(kTtl, 1, 0xff));
    AddEntry(1, 1, 0, Match(kTtl, 1, 0x41), {To(1)});
    EXPECT_EQ(Where(tcp), 0U);
    FlowEntry &entry = AddEntry(1, 1, 0, Match(kTtl, 1, 0x40), {To(1)});
    entry.value[kProtocol] = 99;
    EXPECT_EQ(Where(tcp), 1000U) << "what the mask leaves out does not count";
}

TEST_F(SteeringTest, ThroughTablesWithTagsAndCounters)
{
    Cq &cq = AddCq(kCq, kEq, 2);
    const std::uint64_t buffer = Allocate(2048);

    AddTable(2);
    AddGroup(1, 1, 0, 0, {});
    AddGroup(2, 1, 0, 0, {});
    AddEntry(1, 1, 0, {}, {ToTable(2)}, kForward | kCount).counters = {5, 6};
    objects.tables[1].entries[0].flow_tag = 0x77;
    FlowEntry &second = AddEntry(2, 1, 0, {}, {To(1)}, kForward | kCount);
    second.counters = {6, 99};
    objects.flow_counters[5] = {};
    objects.flow_counters[6] = {};
    for (unsigned i = 1; i <= 2; ++i) {
        Bytes wqe(64);

        SetNumber(wqe, 0, 4, 2048);
        SetNumber(wqe, 4, 4, kPaKey);
        SetNumber(wqe, 8, 8, buffer);
        Write(objects.rqs[1].ring.Address(0), wqe);
        WriteNumber(objects.rqs[1].doorbell_record, 4, i);
        path.Receive(tcp);
        EXPECT_EQ(Number(Entry(cq.ring, i - 1), 57, 3), i == 1 ? 0x77U : 0x88U);
        second.flow_tag = 0x88; /* the later one counts */
    }
    EXPECT_EQ(objects.flow_counters[5].packets, 2U);
    EXPECT_EQ(objects.flow_counters[5].bytes, 2 * tcp.size());
    EXPECT_EQ(objects.flow_counters[6].packets, 4U);
}

TEST_F(SteeringTest, MissesGoToTheMissTableOrNowhere)
{
    AddTable(2);
    AddGroup(2, 1, 0, 0, {});
    AddEntry(2, 1, 0, {}, {To(2)});
    objects.tables[1].miss_table = 2; /* which counts only with the action */
    EXPECT_EQ(Where(tcp), 0U);
    EXPECT_EQ(Drops(), 1U);
    objects.tables[1].miss_action = 1;
    EXPECT_EQ(Where(tcp), 100U);
    objects.tables[1].miss_table = 3;
    EXPECT_EQ(Where(tcp), 0U) << "not there";
    objects.root_tables.clear();
    EXPECT_EQ(Where(tcp), 0U);
    EXPECT_EQ(Drops(), 3U);
}

TEST_F(SteeringTest, ARuleThatDropsIsNoMiss)
{
    AddGroup(1, 1, 0, 0, {});
    AddEntry(1, 1, 0, {}, {}, kDrop);
    EXPECT_EQ(Where(tcp), 0U);
    EXPECT_EQ(Drops(), 0U);
    AddEntry(1, 1, 0, {}, {}, kCount);
    EXPECT_EQ(Where(tcp), 0U);
    EXPECT_EQ(Drops(), 1U) << "counted, and wanted by nobody";
}

TEST_F(SteeringTest, SeveralDestinations)
{
    AddTable(2);
    AddGroup(1, 1, 0, 0, {});
    AddGroup(2, 1, 0, 0, {});
    AddEntry(2, 1, 0, {}, {To(3), To(4)});
    AddEntry(1, 1, 0, {}, {To(1), To(2), ToTable(2)});
    EXPECT_EQ(Where(tcp), 1111U);
    objects.tirs.erase(2);
    EXPECT_EQ(Where(tcp), 1011U);
}

TEST_F(SteeringTest, RoundAndRoundIsDropped)
{
    AddTable(2);
    AddGroup(1, 1, 0, 0, {});
    AddGroup(2, 1, 0, 0, {});
    AddEntry(1, 1, 0, {}, {ToTable(2), ToTable(2)});
    AddEntry(2, 1, 0, {}, {ToTable(1), ToTable(1)});
    EXPECT_EQ(Where(tcp), 0U);
    EXPECT_EQ(Drops(), 1U);
    EXPECT_GE(trace.complaints(), 1U);
    objects.tables[1].entries.clear();
    ++objects.steering_generation;
    objects.tables[1].miss_action = 1;
    objects.tables[1].miss_table = 1;
    EXPECT_EQ(Where(tcp), 0U);
    AddEntry(1, 1, 0, {}, {To(1), ToTable(1)});
    path.Receive(tcp);
    EXPECT_EQ(objects.rqs[1].out_of_buffer, 64U) << "so many copies and no more";
}

TEST_F(SteeringTest, AChainAsLongAsThereAreLevels)
{
    for (std::uint32_t number = 1; number <= 64; ++number) {
        AddTable(number);
        AddGroup(number, 1, 0, 0, {});
        AddEntry(number, 1, 0, {}, {number == 64 ? To(1) : ToTable(number + 1)});
    }
    EXPECT_EQ(Where(tcp), 1000U);
}

TEST_F(SteeringTest, FramesCutShortAnywhere)
{
    AddGroup(1, 1, 0, 0, {});
    AddEntry(1, 1, 0, {}, {To(1)});
    for (const Bytes &frame :
         {tcp, udp6, MakeFrame({.vlan = Hex("88a8 6064 8100 0001")}, Payload(20)),
          Hex("020000000002020000000001 86dd 6000000000082bff") + Bytes(32) + Hex("2cff000000000000"),
          Hex("020000000002020000000001 86dd 6000000000083300") + Bytes(32) + Hex("33ff000000000000")})
        for (std::size_t size = 14; size <= frame.size(); ++size)
            EXPECT_EQ(Where(Bytes(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size))), 1000U) << size;
}

} // namespace
} // namespace cx
