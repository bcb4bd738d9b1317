// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "frames.hpp"

namespace cx {
namespace {

constexpr std::uint64_t kWqEvents = 1 << 0x05;
constexpr std::uint32_t kTir = 0x66, kTable = 3, kCounterSet = 2, kFlowTag = 0xabcdef;
constexpr std::size_t kBuffer = 2048;

class RqTest : public DataPathTest {
protected:
    RqTest()
    {
        FlowTable table;
        table.number = kTable;
        table.groups[1] = FlowGroup{};
        FlowEntry all;
        all.group = 1;
        all.action = 4;
        all.flow_tag = kFlowTag;
        all.destinations.push_back({FlowDestination::Kind::kTir, kTir});
        table.groups[1].number = 1;
        table.groups[1].end = 3;
        table.entries[0] = all;
        objects.tables[kTable] = table;
        objects.root_tables[0] = kTable;
        objects.tirs[kTir].rq = kRq;
        rq.counter_set = kCounterSet;
        rq.user_index = 0x4321;
        objects.q_counters[kCounterSet] = {};
    }

    static Bytes MakeSegment(std::uint64_t address, std::size_t size, std::uint32_t key = kPaKey)
    {
        Bytes segment(16);

        SetNumber(segment, 0, 4, size);
        SetNumber(segment, 4, 4, key);
        SetNumber(segment, 8, 8, address);
        return segment;
    }
    void PostWqe(Rq &to, const Bytes &segments)
    {
        Bytes wqe = segments;

        wqe.resize(std::size_t{1} << to.ring.log_stride);
        Write(to.ring.Address(std::uint64_t{posted} << to.ring.log_stride), wqe);
        WriteNumber(to.doorbell_record, 4, ++posted);
    }
    /** A receive of one buffer; its address. */
    std::uint64_t PostBuffer(std::size_t size = kBuffer)
    {
        const std::uint64_t at = Allocate(size);

        PostWqe(rq, MakeSegment(at, size));
        return at;
    }
    Bytes Completion(std::uint32_t index)
    {
        EXPECT_GT(cq.producer, index);
        return Entry(cq.ring, index % cq.ring.Entries());
    }
    void ExpectError(std::uint32_t index, unsigned syndrome, unsigned wqe)
    {
        const Bytes cqe = Completion(index);

        EXPECT_EQ(Number(cqe, 63, 1) >> 4, 14U);
        EXPECT_EQ(Number(cqe, 55, 1), syndrome);
        EXPECT_EQ(Number(cqe, 60, 2), wqe);
        EXPECT_EQ(rq.state, WqState::kError);
    }

    Eq &eq = AddEq(kEq, 4, kCompletionVector, 0);
    Eq &async = AddEq(kAsyncEq, 4, kAsyncVector, kWqEvents);
    Cq &cq = AddCq(kCq, kEq, 6);
    Rq &rq = AddRq(kRq, kCq, 2, 6);
    std::uint16_t posted = 0;
    const Bytes tcp = MakeFrame({}, Payload(100));
};

TEST_F(RqTest, AnErrorIsToldOnce)
{
    PostBuffer();
    cq.state = CqState::kError;
    path.RqError(rq);
    EXPECT_EQ(rq.state, WqState::kError);
    EXPECT_EQ(async.producer, 1U) << "no completion can tell of it";
    EXPECT_EQ(trace.complaints(), 0U) << "nobody is to blame";
}

TEST_F(RqTest, AFrameArrives)
{
    const std::uint64_t at = PostBuffer();

    path.Receive(tcp);
    EXPECT_EQ(Read(at, tcp.size()), tcp);
    ASSERT_EQ(cq.producer, 1U);
    const Bytes cqe = Completion(0);
    EXPECT_EQ(Number(cqe, 63, 1), 2U << 4);
    EXPECT_EQ(Number(cqe, 44, 4), tcp.size());
    EXPECT_EQ(Number(cqe, 60, 2), 0U);
    EXPECT_EQ(Number(cqe, 56, 4), kFlowTag);
    EXPECT_EQ(Number(cqe, 32, 4), 0x4321U);
    EXPECT_EQ(Number(cqe, 28, 1), 7U) << "L2, L3, L4 are right";
    EXPECT_EQ(Number(cqe, 29, 1), 4U << 4 | 2U << 2) << "TCP with ACK and data, IPv4";
    EXPECT_EQ(Number(cqe, 48, 8), 1000000000000U);
    EXPECT_EQ(Number(cqe, 16, 1), 0U) << "not hashed";
    EXPECT_EQ(objects.port.rx_packets, 1U);
    EXPECT_EQ(objects.port.rx_bytes, tcp.size());
}

TEST_F(RqTest, CheckSumIsThatOfL3AndUp)
{
    std::uint32_t index = 0;

    for (const bool ipv6 : {false, true})
        for (const bool udp : {false, true})
            for (const std::size_t size : {1, 64, 333}) {
                const Bytes frame = MakeFrame({.ipv6 = ipv6, .udp = udp}, Payload(size));

                PostBuffer();
                path.Receive(frame);
                EXPECT_EQ(Number(Completion(index), 20, 2), PlainSum(std::span(frame).subspan(14))) << size;
                EXPECT_EQ(Number(Completion(index), 28, 1), 7U);
                ++index;
            }
    /* neither tags nor padding */
    Bytes odd = MakeFrame({.vlan = Hex("8100 0007")}, Payload(7));
    const unsigned sum = PlainSum(std::span(odd).subspan(18));
    odd = odd + Hex("11 22 33");
    PostBuffer();
    path.Receive(odd);
    EXPECT_EQ(Number(Completion(index), 20, 2), sum);
    EXPECT_EQ(Number(Completion(index), 28, 1), 7U);
    const Bytes arp = Hex("ffffffffffff 020000000001 0806 0001 0800 0604 0001");
    PostBuffer();
    path.Receive(arp);
    EXPECT_EQ(Number(Completion(index + 1), 20, 2), PlainSum(std::span(arp).subspan(14)));
    EXPECT_EQ(Number(Completion(index + 1), 28, 2), 1U << 8) << "no L3, no L4";
}

TEST_F(RqTest, WrongChecksumsAreSeen)
{
    const auto ok = [&](const Bytes &frame) {
        PostBuffer();
        path.Receive(frame);
        return Number(Completion(cq.producer - 1), 28, 1);
    };

    for (const bool ipv6 : {false, true})
        for (const bool udp : {false, true}) {
            Bytes frame = MakeFrame({.ipv6 = ipv6, .udp = udp}, Payload(30));

            frame.back() ^= std::byte{1};
            EXPECT_EQ(ok(frame), 3U) << ipv6 << udp;
        }
    Bytes l3 = tcp;
    l3[22] ^= std::byte{1}; /* TTL: not in the pseudo header */
    EXPECT_EQ(ok(l3), 5U);
    EXPECT_EQ(ok(MakeFrame({.ipv6 = false, .udp = true, .checksums = false}, Payload(30))) & 4, 4U)
        << "UDP over IPv4 may have none";
    EXPECT_EQ(ok(MakeFrame({.ipv6 = true, .udp = true, .checksums = false}, Payload(30))) & 4, 0U)
        << "UDP over IPv6 may not";
    Bytes fragment = tcp;
    SetNumber(fragment, 20, 2, 0x2000);
    EXPECT_EQ(ok(fragment) & 4, 0U);
    Bytes longer = tcp;
    SetNumber(longer, 16, 2, 1000);
    EXPECT_EQ(ok(longer), 1U) << "IP's length is more than there is";
}

TEST_F(RqTest, KindsOfL4)
{
    const auto kind = [&](const Bytes &frame) {
        PostBuffer();
        path.Receive(frame);
        return Number(Completion(cq.producer - 1), 29, 1);
    };

    EXPECT_EQ(kind(MakeFrame({.flags = 0x02}, {})), 1U << 4 | 2U << 2);
    EXPECT_EQ(kind(MakeFrame({.flags = 0x10}, {})), 3U << 4 | 2U << 2);
    EXPECT_EQ(kind(MakeFrame({.ipv6 = true, .flags = 0x10}, Payload(1))), 4U << 4 | 1U << 2);
    EXPECT_EQ(kind(MakeFrame({.ipv6 = true, .udp = true}, Payload(1))), 2U << 4 | 1U << 2);
}

TEST_F(RqTest, TagsAreTakenOutIfAskedFor)
{
    const Bytes tagged = MakeFrame({.vlan = Hex("8100 a123")}, Payload(100));
    std::uint64_t at = PostBuffer();

    path.Receive(tagged);
    EXPECT_EQ(Read(at, tagged.size()), tagged);
    EXPECT_EQ(Number(Completion(0), 29, 1) & 1, 0U);
    rq.vlan_strip = true;
    at = PostBuffer();
    path.Receive(tagged);
    EXPECT_EQ(Read(at, tcp.size()), tcp);
    EXPECT_EQ(Number(Completion(1), 29, 1) & 1, 1U);
    EXPECT_EQ(Number(Completion(1), 30, 2), 0xa123U);
    EXPECT_EQ(Number(Completion(1), 44, 4), tcp.size());
    EXPECT_EQ(Number(Completion(1), 20, 2), PlainSum(std::span(tcp).subspan(14)));
    PostBuffer();
    path.Receive(tcp);
    EXPECT_EQ(Number(Completion(2), 29, 1) & 1, 0U) << "there was none";
}

TEST_F(RqTest, ScatteredOverSegments)
{
    const std::uint64_t a = Allocate(64), b = Allocate(4096), c = Allocate(4096);

    rq = AddRq(0x99, kCq, 2, 7);
    rq.number = kRq;
    AddKey(0x9000fff, 0x1001, {b, c}); /* one byte in its first page */
    PostWqe(rq, MakeSegment(a, 50) + MakeSegment(0x9000fff, 2000, kKey) + MakeSegment(0, 0, 0x100));
    path.Receive(tcp);
    EXPECT_EQ(Read(a, 50) + Read(b + 0xfff, 1) + Read(c, tcp.size() - 51), tcp);
    EXPECT_EQ(cq.producer, 1U);
    EXPECT_EQ(rq.state, WqState::kReady);
}

TEST_F(RqTest, OutOfBufferIsCountedAndTheQueueGoesOn)
{
    path.Receive(tcp);
    PostBuffer();
    path.Receive(tcp);
    path.Receive(tcp);
    EXPECT_EQ(cq.producer, 1U);
    EXPECT_EQ(rq.out_of_buffer, 2U);
    EXPECT_EQ(objects.q_counters[kCounterSet].out_of_buffer, 2U);
    PostBuffer();
    path.Receive(tcp);
    EXPECT_EQ(cq.producer, 2U);
    EXPECT_EQ(rq.state, WqState::kReady);
}

TEST_F(RqTest, CountersWrapAt16Bits)
{
    rq.consumed = posted = 0xfffe;
    for (unsigned i = 0; i < 4; ++i) {
        const std::uint64_t at = PostBuffer();
        const Bytes frame = MakeFrame({}, Payload(80, i));

        path.Receive(frame);
        EXPECT_EQ(Read(at, frame.size()), frame);
        EXPECT_EQ(Number(Completion(i), 60, 2), (0xfffe + i) & 0xffff);
    }
    EXPECT_EQ(rq.out_of_buffer, 0U);
}

TEST_F(RqTest, EndPaddingFillsTheCacheLineWithinTheBuffer)
{
    const std::uint64_t at = Allocate(4096);

    rq.end_padding = true;
    Write(at, Bytes(512, std::byte{0xee}));
    PostWqe(rq, MakeSegment(at, 512));
    path.Receive(tcp); /* 154 bytes: up to 192 */
    EXPECT_EQ(Read(at + tcp.size(), 38), Bytes(38));
    EXPECT_EQ(Number(Read(at + 192, 1), 0, 1), 0xeeU);
    Write(at, Bytes(512, std::byte{0xee}));
    PostWqe(rq, MakeSegment(at, 160));
    path.Receive(tcp);
    EXPECT_EQ(Read(at + tcp.size(), 6), Bytes(6));
    EXPECT_EQ(Number(Read(at + 160, 1), 0, 1), 0xeeU) << "past the buffer";
}

TEST_F(RqTest, BadBuffersAreErrors)
{
    const std::uint64_t page = Allocate(4096);
    Mkey &key = AddKey(0x9000000, 100, {page});
    const auto fails = [&](const Bytes &segment, unsigned syndrome) {
        const std::uint32_t index = cq.producer;
        const std::uint16_t wqe = posted;

        rq.state = WqState::kReady;
        PostWqe(rq, segment);
        path.Receive(tcp);
        EXPECT_EQ(cq.producer, index + 1);
        ExpectError(index, syndrome, wqe);
    };

    fails(MakeSegment(page, tcp.size() - 1), 1);
    fails(MakeSegment(0, 0, 0x100), 1);
    fails(MakeSegment(page, 2000, 0x777700), 4);
    fails(MakeSegment(kUnmapped, 2000), 4);
    fails(MakeSegment(0x9000000, 2000, kKey), 4);
    fails(MakeSegment(0xffffffffffffff80, 2000), 4);
    key.length = 4096;
    key.local_write = false;
    fails(MakeSegment(0x9000000, 2000, kKey), 4);
    key.local_write = true;
    key.pd = kPd + 1;
    fails(MakeSegment(0x9000000, 2000, kKey), 4);
    EXPECT_EQ(objects.port.dma_errors, 6U);
    key.pd = kPd;
    rq.state = WqState::kReady;
    PostWqe(rq, MakeSegment(0x9000000, 2000, kKey));
    path.Receive(tcp);
    EXPECT_EQ(Read(page, tcp.size()), tcp);
}

TEST_F(RqTest, AQueueInErrorFlushesIfAskedTo)
{
    PostWqe(rq, MakeSegment(kUnmapped, 2000));
    PostBuffer();
    PostBuffer();
    path.Receive(tcp);
    EXPECT_EQ(cq.producer, 1U) << "flush_in_error is off";
    path.Receive(tcp);
    EXPECT_EQ(cq.producer, 1U) << "nothing is received in error";
    rq.flush_in_error = true;
    path.RqStateChanged(rq);
    ASSERT_EQ(cq.producer, 3U);
    ExpectError(1, 5, 1);
    ExpectError(2, 5, 2);

    rq.state = WqState::kReset;
    path.RqStateChanged(rq);
    rq.state = WqState::kReady;
    path.RqStateChanged(rq);
    posted = 0;
    PostBuffer();
    path.Receive(tcp);
    EXPECT_EQ(Number(Completion(3), 60, 2), 0U) << "it begins anew";
    EXPECT_EQ(Number(Completion(3), 63, 1) >> 4, 2U);
}

TEST_F(RqTest, AnErrorThatIsAskedFor)
{
    rq.flush_in_error = true;
    PostBuffer();
    PostBuffer();
    path.RqError(rq);
    ASSERT_EQ(cq.producer, 2U);
    ExpectError(0, 2, 0);
    ExpectError(1, 5, 1);
    ASSERT_EQ(async.producer, 1U);
    EXPECT_EQ(Number(Entry(async.ring, 0), 56, 4), kRq);
    path.RqError(rq);
    EXPECT_EQ(async.producer, 1U) << "once";
}

TEST_F(RqTest, AFullCqStopsTheQueue)
{
    Cq &small = AddCq(0x12, kEq, 0);

    rq.cq = small.number;
    PostBuffer();
    PostBuffer();
    path.Receive(tcp);
    EXPECT_EQ(rq.state, WqState::kReady);
    path.Receive(tcp);
    EXPECT_EQ(small.state, CqState::kError);
    EXPECT_EQ(rq.state, WqState::kError);
    EXPECT_EQ(async.producer, 1U);
}

TEST_F(RqTest, WhatThePortDoesNotTake)
{
    PostBuffer();
    objects.link_up = false;
    path.Receive(tcp);
    EXPECT_EQ(objects.port.rx_link_down, 1U);
    objects.link_up = true;
    objects.admin_up = false;
    path.Receive(tcp);
    EXPECT_EQ(objects.port.rx_link_down, 2U);
    objects.admin_up = true;
    path.Receive(Bytes(13));
    path.Receive({});
    EXPECT_EQ(objects.port.rx_packets, 0U);
    objects.port_mtu = 1522;
    path.Receive(MakeFrame({}, Payload(1465)));
    EXPECT_EQ(objects.port.rx_oversize, 1U) << "1519 bytes and FCS";
    path.Receive(MakeFrame({}, Payload(1464)));
    EXPECT_EQ(cq.producer, 1U);
    path.Receive(Hex("ffffffffffff 020000000001 0806"));
    path.Receive(Hex("010000000000 020000000001 0806"));
    EXPECT_EQ(objects.port.rx_broadcast, 1U);
    EXPECT_EQ(objects.port.rx_multicast, 1U);
}

TEST_F(RqTest, NonsenseInTheRecord)
{
    WriteNumber(rq.doorbell_record, 4, 5);
    path.Receive(tcp);
    EXPECT_EQ(rq.out_of_buffer, 1U) << "five in a ring of four";
    EXPECT_EQ(trace.complaints(), 1U);
    rq.doorbell_record = kUnmapped;
    path.Receive(tcp);
    EXPECT_EQ(objects.port.dma_errors, 1U);
    EXPECT_EQ(cq.producer, 0U);
}

TEST_F(RqTest, SpreadByRss)
{
    Tir &tir = objects.tirs[kTir];
    Rq &second = AddRq(0x34, kCq, 2, 6);

    tir.indirect = true;
    tir.rqt = 9;
    tir.function = RssFunction::kXor8;
    tir.fields = 8;
    objects.rqts[9].rqs = {kRq, second.number};
    path.Receive(MakeFrame({.destination_port = 0x0080}, {})); /* inverted: 01 */
    path.Receive(MakeFrame({.destination_port = 0x0040}, {})); /* 02 */
    path.Receive(MakeFrame({.destination_port = 0x0180}, {})); /* 81 */
    EXPECT_EQ(second.out_of_buffer, 2U);
    EXPECT_EQ(rq.out_of_buffer, 1U);
    PostBuffer();
    path.Receive(MakeFrame({.destination_port = 0x0040}, {}));
    EXPECT_EQ(Number(Completion(0), 12, 4), 2U);
    EXPECT_EQ(Number(Completion(0), 16, 1), 0x40U);
    objects.rqts[9].rqs = {0x1234};
    path.Receive(tcp);
    objects.rqts[9].rqs.clear();
    path.Receive(tcp);
    objects.rqts.clear();
    path.Receive(tcp);
    EXPECT_EQ(trace.complaints(), 3U);
}

class StridingTest : public RqTest {
protected:
    StridingTest()
    {
        rq = AddRq(0x99, kCq, 2, 6);
        rq.number = kRq;
        rq.striding = true;
        rq.log_wqe_strides = 3;
        rq.log_wqe_stride_size = 8; /* 8 strides of 256 bytes */
    }
    void ExpectPlace(std::uint32_t index, unsigned wqe, unsigned stride, unsigned strides, std::size_t size)
    {
        const Bytes cqe = Completion(index);

        EXPECT_EQ(Number(cqe, 2, 2), wqe) << index;
        EXPECT_EQ(Number(cqe, 60, 2), stride) << index;
        EXPECT_EQ(Number(cqe, 44, 2), strides) << index;
        EXPECT_EQ(Number(cqe, 46, 2), size) << index;
        EXPECT_EQ(Number(cqe, 63, 1) >> 4, 2U) << index;
    }
};

TEST_F(StridingTest, FramesShareAWqe)
{
    const std::uint64_t at = PostBuffer();
    const Bytes small = MakeFrame({}, Payload(202)), large = MakeFrame({}, Payload(1000)); /* 256, 1054 */

    path.Receive(small);
    path.Receive(large);
    path.Receive(tcp);
    path.Receive(tcp);
    ExpectPlace(0, 0, 0, 1, 256);
    ExpectPlace(1, 0, 1, 5, 1054);
    ExpectPlace(2, 0, 6, 1, 154);
    ExpectPlace(3, 0, 7, 1, 154);
    EXPECT_EQ(Read(at, 256), small);
    EXPECT_EQ(Read(at + 256, 1054), large);
    EXPECT_EQ(Read(at + 7 * 256, 154), tcp);
    EXPECT_EQ(rq.consumed, 1U);
    path.Receive(tcp);
    EXPECT_EQ(rq.out_of_buffer, 1U);
}

TEST_F(StridingTest, WhatDoesNotFitGoesIntoTheNext)
{
    const Bytes large = MakeFrame({}, Payload(1300));

    PostBuffer();
    const std::uint64_t second = PostBuffer();
    path.Receive(large);
    path.Receive(large);
    ExpectPlace(0, 0, 0, 6, 1354);
    ExpectPlace(1, 0, 6, 0x8002, 0); /* the filler */
    ExpectPlace(2, 1, 0, 6, 1354);
    EXPECT_EQ(Read(second, large.size()), large);
    path.Receive(large);
    ExpectPlace(3, 1, 6, 0x8002, 0);
    EXPECT_EQ(rq.out_of_buffer, 1U);
    EXPECT_EQ(rq.consumed, 2U);
    EXPECT_EQ(cq.producer, 4U);
}

TEST_F(StridingTest, TwoByteShift)
{
    const std::uint64_t at = PostBuffer();

    rq.two_byte_shift = true;
    const Bytes frame = MakeFrame({}, Payload(201)); /* 255: one too many for one stride */
    path.Receive(frame);
    ExpectPlace(0, 0, 0, 2, 255);
    EXPECT_EQ(Read(at + 2, 255), frame);
}

TEST_F(StridingTest, WhatNoWqeCanHold)
{
    PostBuffer();
    rq.log_wqe_strides = 1;
    path.Receive(MakeFrame({}, Payload(500)));
    ExpectError(0, 1, 0);
}

} // namespace
} // namespace cx
