// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "frames.hpp"

namespace cx {
namespace {

constexpr unsigned kNop = 0x00, kSend = 0x0a, kLso = 0x0e;
constexpr unsigned kSignalled = 2 << 2;
constexpr unsigned kL3Checksum = 0x40, kL4Checksum = 0x80;
constexpr std::uint64_t kWqEvents = 1 << 0x05;

class SqTest : public DataPathTest {
protected:
    struct Request {
        unsigned opcode = kSend;
        unsigned checksums = 0;
        unsigned mss = 0;
        Bytes inline_header = {};
        unsigned insert = 0; /* the inline size's word, without an inline header */
        unsigned tci = 0;
        Bytes data_segments = {};
        unsigned flags = kSignalled;
    };

    static Bytes MakeSegment(std::uint64_t address, std::size_t size, std::uint32_t key = kPaKey)
    {
        Bytes segment(16);

        SetNumber(segment, 0, 4, size);
        SetNumber(segment, 4, 4, key);
        SetNumber(segment, 8, 8, address);
        return segment;
    }
    /** A segment for `data`, which is put into the guest's memory. */
    Bytes Placed(const Bytes &data)
    {
        const std::uint64_t at = Allocate(data.size());

        Write(at, data);
        return MakeSegment(at, data.size());
    }
    void Post(const Request &request)
    {
        Bytes ethernet(14);
        SetNumber(ethernet, 4, 1, request.checksums);
        SetNumber(ethernet, 6, 2, request.mss);
        if (request.inline_header.empty()) {
            ethernet = ethernet + Bytes(2);
            SetNumber(ethernet, 12, 2, request.insert);
            SetNumber(ethernet, 14, 2, request.tci);
        } else {
            SetNumber(ethernet, 12, 2, request.inline_header.size());
            ethernet = ethernet + request.inline_header;
            ethernet.resize((ethernet.size() + 15) / 16 * 16);
        }
        const Bytes rest = ethernet + request.data_segments;
        PostWqe(sq, Control(sq, request.opcode, static_cast<unsigned>(1 + rest.size() / 16), request.flags) + rest);
    }
    void Send(const Request &request)
    {
        Post(request);
        RingDoorbell(sq);
    }
    Bytes Completion(std::uint32_t index)
    {
        return Entry(cq.ring, index % cq.ring.Entries());
    }
    void ExpectError(std::uint32_t index, unsigned syndrome)
    {
        const Bytes cqe = Completion(index);

        ASSERT_GT(cq.producer, index);
        EXPECT_EQ(Number(cqe, 63, 1) >> 4, 13U);
        EXPECT_EQ(Number(cqe, 55, 1), syndrome);
        EXPECT_EQ(sq.state, WqState::kError);
    }

    Eq &eq = AddEq(kEq, 4, kCompletionVector, 0);
    Eq &async = AddEq(kAsyncEq, 4, kAsyncVector, kWqEvents);
    Cq &cq = AddCq(kCq, kEq, 9);
    Sq &sq = AddSq(kSq, kCq, 9);
    const Bytes tcp = MakeFrame({}, Payload(100));
};

TEST_F(SqTest, CompletesOnlyWhenAsked)
{
    PostNop(sq, 0);
    PostNop(sq, 0);
    PostNop(sq, 2 << 2);
    PostNop(sq, 3 << 2);
    RingDoorbell(sq);
    ASSERT_EQ(cq.producer, 2U);
    EXPECT_EQ(Number(Completion(0), 60, 2), 2U);
    EXPECT_EQ(Number(Completion(1), 60, 2), 3U);
    EXPECT_EQ(Number(Completion(0), 63, 1) >> 4, 0U);
    EXPECT_EQ(Number(Completion(0), 56, 4), std::uint64_t{kNop} << 24 | kSq);
    EXPECT_EQ(Number(Completion(0), 48, 8), 1000000000000U) << "the clock's nanoseconds";
    EXPECT_TRUE(wire.frames.empty());
}

TEST_F(SqTest, SendsSegmentsAfterEachOther)
{
    const Bytes a(tcp.begin(), tcp.begin() + 20), b(tcp.begin() + 20, tcp.begin() + 21), c(tcp.begin() + 21, tcp.end());

    Send({.data_segments = Placed(a) + Placed(b) + Placed(c)});
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], tcp);
    EXPECT_EQ(Number(Completion(0), 56, 4), std::uint64_t{kSend} << 24 | kSq);
    EXPECT_EQ(objects.port.tx_packets, 1U);
    EXPECT_EQ(objects.port.tx_bytes, tcp.size());
}

TEST_F(SqTest, InlineHeaderOfAnySize)
{
    for (const std::size_t size : {1, 2, 3, 14, 18, 19, 60}) {
        const Bytes head(tcp.begin(), tcp.begin() + static_cast<std::ptrdiff_t>(size));
        const Bytes tail(tcp.begin() + static_cast<std::ptrdiff_t>(size), tcp.end());

        Send({.inline_header = head, .data_segments = Placed(tail)});
        ASSERT_FALSE(wire.frames.empty()) << size;
        EXPECT_EQ(wire.frames.back(), tcp) << size;
    }
    Send({.inline_header = tcp});
    EXPECT_EQ(wire.frames.back(), tcp);
    EXPECT_EQ(wire.frames.size(), 8U);
}

TEST_F(SqTest, InlineDataSegment)
{
    Bytes segment(4);

    SetNumber(segment, 0, 4, 0x80000000U | tcp.size());
    segment = segment + tcp;
    segment.resize((segment.size() + 15) / 16 * 16);
    Send({.data_segments = segment});
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], tcp);
}

TEST_F(SqTest, Checksums)
{
    for (const bool ipv6 : {false, true})
        for (const bool udp : {false, true})
            for (const std::size_t size : {33, 100}) {
                FrameSpec spec{.ipv6 = ipv6, .udp = udp};
                const Bytes right = MakeFrame(spec, Payload(size));
                spec.checksums = false;
                const Bytes blank = MakeFrame(spec, Payload(size));

                Send({.checksums = kL3Checksum | kL4Checksum, .data_segments = Placed(blank)});
                EXPECT_EQ(wire.frames.back(), right) << ipv6 << udp << size;
                Send({.data_segments = Placed(blank)});
                EXPECT_EQ(wire.frames.back(), blank) << "not asked for";
            }
    FrameSpec spec{.checksums = false};
    Bytes l3_only = MakeFrame(spec, Payload(50));
    Send({.checksums = kL3Checksum, .data_segments = Placed(l3_only)});
    SetNumber(l3_only, 24, 2, ~PlainSum(std::span(l3_only).subspan(14, 20)) & 0xffff);
    EXPECT_EQ(wire.frames.back(), l3_only);
}

TEST_F(SqTest, AUdpChecksumOfZeroIsSentAsOnes)
{
    FrameSpec spec{.udp = true, .checksums = false};
    Bytes frame = MakeFrame(spec, Bytes(20));
    const Bytes l4(frame.begin() + 34, frame.end());
    const unsigned sum = PlainSum(l4, PlainSum(Hex("c0000201 c0000202"), 17 + 28));

    SetNumber(frame, 42, 2, ~sum & 0xffff); /* payload that makes the sum come out as ffff */
    Send({.checksums = kL4Checksum, .data_segments = Placed(frame)});
    SetNumber(frame, 40, 2, 0xffff);
    EXPECT_EQ(wire.frames.back(), frame);
}

TEST_F(SqTest, InsertsATag)
{
    Bytes tagged = MakeFrame({.vlan = Hex("81002064")}, Payload(100));

    Send({.insert = 0x8000, .tci = 0x2064, .data_segments = Placed(tcp)});
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], tagged);
    Send({.insert = 0x8001, .tci = 0x2064, .data_segments = Placed(tcp)});
    SetNumber(tagged, 12, 2, 0x88a8);
    EXPECT_EQ(wire.frames.back(), tagged);
}

TEST_F(SqTest, ShortFramesArePadded)
{
    const Bytes arp = Hex("ffffffffffff 020000000001 0806 0001 0800 0604 0001");

    Send({.data_segments = Placed(arp)});
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], arp + Bytes(60 - arp.size()));
    EXPECT_EQ(objects.port.tx_broadcast, 1U);
}

TEST_F(SqTest, ALinkThatIsDownSendsNothingButCompletes)
{
    objects.link_up = false;
    Send({.data_segments = Placed(tcp)});
    EXPECT_TRUE(wire.frames.empty());
    EXPECT_EQ(cq.producer, 1U);
    EXPECT_EQ(sq.state, WqState::kReady);
}

TEST_F(SqTest, LargeTcpSendsAreCut)
{
    for (const bool ipv6 : {false, true}) {
        const Bytes payload = Payload(2 * 1448 + 77, 9);
        /* CWR, PSH, FIN, ACK; the id and the sequence number wrap */
        FrameSpec spec{
            .ipv6 = ipv6, .id = 0xffff, .sequence = 0xfffffff0, .flags = 0x99, .options = "0101080a0102030405060708"};
        spec.checksums = false;
        const Bytes whole = MakeFrame(spec, payload);
        const std::size_t header = whole.size() - payload.size();
        const Bytes head(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(header));
        const Bytes part_a(payload.begin(), payload.begin() + 1000), part_b(payload.begin() + 1000, payload.end());

        wire.frames.clear();
        Send({.opcode = kLso, .checksums = kL3Checksum | kL4Checksum, .mss = 1448, .inline_header = head,
              .data_segments = Placed(part_a) + Placed(part_b)});
        ASSERT_EQ(wire.frames.size(), 3U);
        spec.checksums = true;
        const unsigned flags[] = {0x90, 0x10, 0x19};
        for (std::size_t i = 0; i < 3; ++i) {
            spec.id = (0xffff + static_cast<unsigned>(i)) & 0xffff;
            spec.sequence = static_cast<std::uint32_t>(0xfffffff0 + 1448 * i);
            spec.flags = flags[i];
            const auto first = payload.begin() + static_cast<std::ptrdiff_t>(1448 * i);
            EXPECT_EQ(wire.frames[i], MakeFrame(spec, Bytes(first, i == 2 ? payload.end() : first + 1448)))
                << ipv6 << i;
        }
    }
    EXPECT_EQ(cq.producer, 2U) << "one completion for each WQE";
}

TEST_F(SqTest, LargeUdpSendsAreCut)
{
    for (const bool ipv6 : {false, true}) {
        const Bytes payload = Payload(2500);
        FrameSpec spec{.ipv6 = ipv6, .udp = true, .id = 7};
        const Bytes whole = MakeFrame(spec, payload);
        const Bytes head(whole.begin(), whole.end() - 2500);

        wire.frames.clear();
        Send({.opcode = kLso, .mss = 1000, .inline_header = head, .data_segments = Placed(payload)});
        ASSERT_EQ(wire.frames.size(), 3U);
        for (std::size_t i = 0; i < 3; ++i) {
            spec.id = 7 + static_cast<unsigned>(i);
            const auto first = payload.begin() + static_cast<std::ptrdiff_t>(1000 * i);
            EXPECT_EQ(wire.frames[i], MakeFrame(spec, Bytes(first, i == 2 ? payload.end() : first + 1000)))
                << ipv6 << i;
        }
    }
}

TEST_F(SqTest, ALargeSendOfOneSegmentKeepsItsFlags)
{
    FrameSpec spec{.flags = 0x99};
    const Bytes whole = MakeFrame(spec, Payload(50));
    const Bytes head(whole.begin(), whole.end() - 50);

    Send({.opcode = kLso, .mss = 50, .inline_header = head, .data_segments = Placed(Payload(50))});
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], whole);
}

TEST_F(SqTest, LargeSendsWithTag)
{
    const Bytes whole = MakeFrame({}, Payload(40));
    const Bytes tagged = MakeFrame({.vlan = Hex("81000005")}, Payload(40));
    const Bytes head(tagged.begin(), tagged.end() - 40);

    Send({.opcode = kLso, .mss = 100, .inline_header = head, .data_segments = Placed(Payload(40))});
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], tagged);
}

TEST_F(SqTest, LargeSendsThatMakeNoSense)
{
    const Bytes head(tcp.begin(), tcp.end() - 100);
    const Request good{.opcode = kLso, .mss = 50, .inline_header = head, .data_segments = Placed(Payload(100))};
    const auto fails = [&](const Request &request, unsigned syndrome) {
        const std::uint32_t index = cq.producer;

        sq.state = WqState::kReady;
        Send(request);
        ExpectError(index, syndrome);
        EXPECT_EQ(wire.frames.size(), 0U);
    };
    Request bad = good;

    bad.mss = 0;
    fails(bad, 2);
    bad = good;
    bad.inline_header = {};
    fails(bad, 2);
    bad = good;
    bad.inline_header.pop_back(); /* its TCP header is cut short */
    fails(bad, 2);
    bad = good;
    bad.inline_header = head + Bytes(1);
    fails(bad, 2);
    bad = good;
    bad.mss = 0xffff;
    bad.data_segments = MakeSegment(kGuestStart, 40000);
    fails(bad, 1);
    bad = good;
    bad.data_segments = MakeSegment(kGuestStart, 300000);
    fails(bad, 1);
    sq.state = WqState::kReady;
    Send(good);
    EXPECT_EQ(wire.frames.size(), 2U);
}

TEST_F(SqTest, ReadsThroughPages)
{
    const std::uint64_t a = Allocate(4096), hole = Allocate(4096), b = Allocate(4096);

    ASSERT_NE(a + 4096, b) << hole;
    AddKey(0x7000ff0, 0x1010, {a, b}); /* begins 16 bytes before its second page */
    Write(a + 0xff0, Bytes(tcp.begin(), tcp.begin() + 16));
    Write(b, Bytes(tcp.begin() + 16, tcp.end()));
    Send({.data_segments = MakeSegment(0x7000ff0, tcp.size(), kKey)});
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], tcp);
}

TEST_F(SqTest, KeysAreChecked)
{
    const std::uint64_t page = Allocate(4096);
    Mkey &key = AddKey(0x7000000, 200, {page});
    const Bytes good = MakeSegment(0x7000000, 200, kKey);
    const auto fails = [&](const Bytes &segment) {
        const std::uint32_t index = cq.producer;
        const std::uint64_t errors = objects.port.dma_errors;

        sq.state = WqState::kReady;
        Send({.data_segments = segment});
        ExpectError(index, 4);
        EXPECT_EQ(objects.port.dma_errors, errors + 1);
    };

    Send({.data_segments = good});
    EXPECT_EQ(wire.frames.size(), 1U);
    fails(MakeSegment(0x7000000, 201, kKey));
    fails(MakeSegment(0x6ffffff, 20, kKey));
    fails(MakeSegment(0x7000001, 200, kKey));
    fails(MakeSegment(0xfffffffffffffff0, 0x20, kKey));
    fails(MakeSegment(0x7000000, 100, kKey + 1));      /* another variant of the index */
    fails(MakeSegment(0x7000000, 100, kKey + 0x100));  /* no such index */
    fails(MakeSegment(kUnmapped, 100, kPaKey));
    fails(MakeSegment(kGuestStart + kGuestSize - 50, 100, kPaKey));
    key.pd = kPd + 1;
    fails(good);
    key.pd = kPd;
    key.local_read = false;
    fails(good);
    key.local_read = true;
    key.free = true;
    fails(good);
    key.free = false;
    key.pages = {kUnmapped};
    fails(good);
    EXPECT_EQ(wire.frames.size(), 1U);
}

TEST_F(SqTest, AKeyWithTooFewPagesReachesNothing)
{
    AddKey(0x7000000, 0x2000, {Allocate(4096)});
    Send({.data_segments = MakeSegment(0x7000fc0, 100, kKey)});
    ExpectError(0, 4);
}

TEST_F(SqTest, BadWqesStopTheQueueAndTheRestIsFlushed)
{
    Post({.data_segments = Placed(tcp), .flags = 0});
    Post({.opcode = 0x29, .data_segments = Placed(tcp), .flags = 0});
    Post({.data_segments = Placed(tcp), .flags = 0});
    PostNop(sq, 0);
    RingDoorbell(sq);
    EXPECT_EQ(wire.frames.size(), 1U);
    ASSERT_EQ(cq.producer, 3U);
    ExpectError(0, 2);
    EXPECT_EQ(Number(Completion(0), 56, 4), std::uint64_t{0x29} << 24 | kSq);
    EXPECT_EQ(Number(Completion(0), 60, 2), 1U);
    ExpectError(1, 5);
    EXPECT_EQ(Number(Completion(1), 60, 2), 2U);
    ExpectError(2, 5);
    PostNop(sq, 0);
    RingDoorbell(sq);
    ExpectError(3, 5);
    EXPECT_EQ(async.producer, 0U) << "the completions tell";

    sq.state = WqState::kReset;
    path.SqStateChanged(sq);
    sq.state = WqState::kReady;
    path.SqStateChanged(sq);
    Posted(sq) = 0;
    Send({.data_segments = Placed(tcp)});
    EXPECT_EQ(wire.frames.size(), 2U);
    EXPECT_EQ(Number(Completion(4), 60, 2), 0U);
}

TEST_F(SqTest, ControlSegmentsMustFit)
{
    const auto fails = [&](const Bytes &wqe, unsigned syndrome) {
        const std::uint32_t index = cq.producer;

        sq.state = WqState::kReady;
        PostWqe(sq, wqe);
        RingDoorbell(sq);
        ExpectError(index, syndrome);
    };
    Bytes wrong_queue = Control(sq, kNop, 1, kSignalled);

    SetNumber(wrong_queue, 4, 4, (std::uint64_t{kSq} + 1) << 8 | 1);
    fails(wrong_queue, 2);
    Bytes wrong_index = Control(sq, kNop, 1, kSignalled);
    SetNumber(wrong_index, 0, 4, 0x7700);
    fails(wrong_index, 2);
    fails(Control(sq, kNop, 0, kSignalled), 2);
    fails(Control(sq, kNop, 63, kSignalled), 2); /* goes on past what is posted */
    fails(Control(sq, kSend, 1, kSignalled), 1); /* no Ethernet segment */
    Bytes long_inline = Control(sq, kSend, 2, kSignalled) + Bytes(16);
    SetNumber(long_inline, 16 + 12, 2, 0x7ff);
    fails(long_inline, 1);
    fails(Control(sq, kSend, 3, kSignalled) + Bytes(16) + MakeSegment(kGuestStart, 0), 1);
    fails(Control(sq, kSend, 3, kSignalled) + Bytes(16) + MakeSegment(kGuestStart, 13), 1);
    fails(Control(sq, kSend, 3, kSignalled) + Bytes(16) + MakeSegment(kGuestStart, 20000), 1);
    fails(Control(sq, kSend, 3, kSignalled) + Bytes(16) + MakeSegment(kGuestStart, 0x800003ff), 1);
    Bytes tunnel = Control(sq, kSend, 3, kSignalled) + Bytes(16) + MakeSegment(kGuestStart, 100);
    SetNumber(tunnel, 20, 1, 0x10);
    fails(tunnel, 2);
    EXPECT_TRUE(wire.frames.empty());
}

TEST_F(SqTest, InlineModeIsEnforced)
{
    sq.min_inline_mode = 1;
    Send({.inline_header = Bytes(tcp.begin(), tcp.begin() + 14),
          .data_segments = Placed(Bytes(tcp.begin() + 14, tcp.end()))});
    EXPECT_EQ(wire.frames.size(), 1U);
    Send({.data_segments = Placed(tcp)});
    ExpectError(1, 2);
}

TEST_F(SqTest, CountersWrapAt16Bits)
{
    sq.done = Posted(sq) = 0xfffd;
    for (unsigned i = 0; i < 3; ++i)
        Send({.data_segments =
                  Placed(Bytes(tcp.begin(), tcp.begin() + 60)) + Placed(Bytes(tcp.begin() + 60, tcp.end())),
              .flags = kSignalled});
    EXPECT_EQ(wire.frames.size(), 3U);
    EXPECT_EQ(Number(Completion(2), 60, 2), 0xffffU);
    Send({.inline_header = tcp});
    EXPECT_EQ(Number(Completion(3), 60, 2), 0U);
    EXPECT_EQ(sq.done, 3U) << "154 bytes and headers are three blocks";
    EXPECT_EQ(wire.frames.back(), tcp);
}

TEST_F(SqTest, AWqeMayGoRoundTheRingsEnd)
{
    Sq &small = AddSq(0x44, kCq, 2);

    for (unsigned i = 0; i < 3; ++i)
        PostNop(small, 0);
    RingDoorbell(small);
    Bytes ethernet(14);
    SetNumber(ethernet, 12, 2, tcp.size());
    Bytes rest = ethernet + tcp;
    rest.resize((rest.size() + 15) / 16 * 16);
    PostWqe(small, Control(small, kSend, static_cast<unsigned>(1 + rest.size() / 16), 0) + rest);
    RingDoorbell(small);
    ASSERT_EQ(wire.frames.size(), 1U);
    EXPECT_EQ(wire.frames[0], tcp);
}

TEST_F(SqTest, OneDoorbellDoesNotTakeTheLoopForItself)
{
    for (unsigned i = 0; i < 200; ++i)
        PostNop(sq);
    RingDoorbell(sq);
    EXPECT_EQ(cq.producer, 64U);
    RingDoorbell(sq);
    EXPECT_EQ(cq.producer, 64U) << "it has its turn coming";
    EXPECT_EQ(timers.Pending(), 1U);
    timers.Advance({});
    EXPECT_EQ(cq.producer, 200U);
    EXPECT_EQ(timers.Pending(), 0U);
    PostNop(sq);
    RingDoorbell(sq);
    EXPECT_EQ(cq.producer, 201U);
}

TEST_F(SqTest, StoppedInItsTurn)
{
    for (int i = 0; i < 100; i++)
        PostNop(sq);
    RingDoorbell(sq);
    EXPECT_EQ(cq.producer, 64U);
    path.StopSending();
    EXPECT_EQ(timers.Pending(), 0U);
    timers.Advance({});
    EXPECT_EQ(cq.producer, 64U);
}

TEST_F(SqTest, BytesCountToo)
{
    const Bytes head(tcp.begin(), tcp.end() - 100);

    for (unsigned i = 0; i < 10; ++i)
        Post({.opcode = kLso, .mss = 1400, .inline_header = head, .data_segments = MakeSegment(kGuestStart, 60000)});
    RingDoorbell(sq);
    EXPECT_EQ(cq.producer, 5U);
    timers.Advance({});
    EXPECT_EQ(cq.producer, 10U);
}

TEST_F(SqTest, WaitsForTheWire)
{
    wire.ready = false;
    for (int i = 0; i < 3; ++i)
        PostNop(sq);
    RingDoorbell(sq);
    timers.Advance(std::chrono::milliseconds(1));
    EXPECT_EQ(cq.producer, 0U);
    EXPECT_EQ(timers.Pending(), 1U) << "it asks again";
    wire.ready = true;
    timers.Advance(std::chrono::milliseconds(1));
    EXPECT_EQ(cq.producer, 3U);
    EXPECT_EQ(timers.Pending(), 0U);
}

TEST_F(SqTest, AQueueThatGoesAwayHasNoTurn)
{
    for (unsigned i = 0; i < 200; ++i)
        PostNop(sq);
    RingDoorbell(sq);
    objects.sqs.erase(kSq);
    timers.Advance({});
    EXPECT_EQ(cq.producer, 64U);
}

TEST_F(SqTest, NonsenseIsRefused)
{
    path.SqDoorbell(0, 0x777 << 8);
    EXPECT_EQ(trace.complaints(), 1U);
    sq.state = WqState::kReset;
    RingDoorbell(sq);
    EXPECT_EQ(trace.complaints(), 2U);
    sq.state = WqState::kReady;
    WriteNumber(sq.doorbell_record + 4, 4, 513);
    RingDoorbell(sq);
    EXPECT_EQ(sq.state, WqState::kError);
    EXPECT_EQ(cq.producer, 0U);
    ASSERT_EQ(async.producer, 1U);
    EXPECT_EQ(Number(Entry(async.ring, 0), 52, 1), 2U) << "a send queue";
    EXPECT_EQ(Number(Entry(async.ring, 0), 56, 4), kSq);
}

TEST_F(SqTest, UnmappedRingAndRecord)
{
    Sq &other = AddSq(0x44, kCq, 2);

    sq.ring.pages[0] = kUnmapped;
    WriteNumber(sq.doorbell_record + 4, 4, 1);
    RingDoorbell(sq);
    EXPECT_EQ(sq.state, WqState::kError);
    EXPECT_EQ(async.producer, 1U);
    other.doorbell_record = kUnmapped;
    RingDoorbell(other);
    EXPECT_EQ(other.state, WqState::kError);
    EXPECT_EQ(async.producer, 2U);
    EXPECT_EQ(objects.port.dma_errors, 2U);
}

} // namespace
} // namespace cx
