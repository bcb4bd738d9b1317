// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the port can be plugged into. TAP needs a privilege, and is left to the guests' tests. */
#include "backend_common.hpp"

#include "host_fixture.hpp"
#include "mac_address.hpp"
#include "message_socket.hpp"

#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <array>
#include <fstream>
#include <set>

namespace cx::test {
namespace {

using Frames = std::vector<std::vector<std::byte>>;

class BackendTest : public testing::Test {
protected:
    std::unique_ptr<Backend> Make(const std::string &text)
    {
        return MakeBackend(loop_, trace_, text);
    }
    static Backend::Receiver Into(Frames &frames)
    {
        return [&frames](std::span<const std::byte> frame) { frames.emplace_back(frame.begin(), frame.end()); };
    }
    static nlohmann::json Status(const Backend &backend)
    {
        return nlohmann::json::parse(backend.Status());
    }
    static std::string Path(const std::string &name)
    {
        return testing::TempDir() + name + "." + std::to_string(getpid());
    }

    EventLoop loop_;
    Trace trace_{false};
};

TEST_F(BackendTest, BadTextIsAnError)
{
    for (const char *text :
         {"", "tap", "tap:", "none:1", "socket:", "socket:,mbit=1", "socket:x,mbit=0", "socket:x,gbit=1",
          "nonsense", "pcap:", "pcap:,", "pcap:/nonexistent,",
          "pcap:,/nonexistent/out", "pcap:,x,rate=0", "generator:rate", "generator:rate=0", "generator:rate=ten",
          "generator:rate=1,rate=2", "generator:colour=red", "generator:size=20", "generator:size=20000",
          "generator:dmac=1:2", "generator:dip=300.1.1.1", "generator:start=maybe", "generator:sport=65535,flows=2",
          "generator:=1", "tap:a-name-that-is-too-long"})
        EXPECT_THROW(Make(text), BackendError) << text;
}

TEST_F(BackendTest, MacAddresses)
{
    EXPECT_EQ(ParseMac("02:0a:FF:00:00:01"), (MacAddress{0x02, 0x0a, 0xff, 0, 0, 1}));
    for (const char *text : {"", "02:00:00:00:00", "02:00:00:00:00:0", "02:00:00:00:00:0g", "02-00-00-00-00-01",
                             "02:00:00:00:00:01:", "+2:00:00:00:00:01"})
        EXPECT_FALSE(ParseMac(text)) << text;
}

TEST_F(BackendTest, NoneDropsAndCounts)
{
    const auto none = Make("none");

    none->Start([](std::span<const std::byte>) {});
    none->Send(ToBytes("frame"));
    EXPECT_EQ(Status(*none)["send_dropped"], 1);
    EXPECT_FALSE(none->SetRate(1));
    EXPECT_FALSE(none->SetRunning(true));
}

TEST_F(BackendTest, SocketCarriesFramesBothWays)
{
    const std::string path = Path("wire");
    Frames at_a, at_b;
    auto b = Make("socket:" + path); /* first: it tries again until somebody listens */

    b->Start(Into(at_b));
    b->Send(ToBytes("too soon"));
    EXPECT_EQ(Status(*b)["send_dropped"], 1);
    RunAll(loop_);
    const auto a = Make("listen:" + path);
    a->Start(Into(at_a));
    const auto connected = [&] { return Status(*a)["connected"] == true && Status(*b)["connected"] == true; };
    ASSERT_TRUE(RunUntil(loop_, connected));
    a->Send(ToBytes("from a"));
    b->Send(ToBytes("from b"));
    a->Send(ToBytes("again"));
    ASSERT_TRUE(RunUntil(loop_, [&] { return at_a.size() == 1 && at_b.size() == 2; }));
    EXPECT_EQ(at_a[0], ToBytes("from b"));
    EXPECT_EQ(at_b[1], ToBytes("again"));

    /* one end goes and comes back */
    b.reset();
    ASSERT_TRUE(RunUntil(loop_, [&] { return Status(*a)["connected"] == false; }));
    a->Send(ToBytes("to nobody"));
    EXPECT_EQ(Status(*a)["send_dropped"], 1);
    b = Make("socket:" + path);
    b->Start(Into(at_b));
    ASSERT_TRUE(RunUntil(loop_, connected));
    a->Send(ToBytes("third"));
    EXPECT_TRUE(RunUntil(loop_, [&] { return at_b.size() == 3; }));
}

TEST_F(BackendTest, SocketQueueIsBounded)
{
    const std::string path = Path("queue");
    Frames frames;
    const auto a = Make("listen:" + path);
    const auto b = Make("socket:" + path);
    constexpr int kSent = 5000;

    a->Start([](std::span<const std::byte>) {});
    b->Start(Into(frames));
    ASSERT_TRUE(RunUntil(loop_, [&] { return Status(*a)["connected"] == true && Status(*b)["connected"] == true; }));
    for (int i = 0; i < kSent; ++i) /* nobody reads meanwhile */
        a->Send(std::vector<std::byte>(1500, static_cast<std::byte>(i)));
    EXPECT_LE(Status(*a)["queued"], 1024);
    const int dropped = Status(*a)["send_dropped"];
    EXPECT_GT(dropped, 0);
    ASSERT_TRUE(RunUntil(loop_, [&] { return frames.size() == static_cast<std::size_t>(kSent - dropped); }));
    for (std::size_t i = 0; i < frames.size(); ++i)
        ASSERT_EQ(frames[i][0], static_cast<std::byte>(i)); /* in order; what was dropped came last */
    EXPECT_EQ(Status(*a)["sent"], kSent - dropped);
}

TEST_F(BackendTest, SocketKeepsTheRateOfItsWire)
{
    const std::string path = Path("rate");
    auto a = Make("listen:" + path);
    const auto b = Make("socket:" + path + ",mbit=100");
    std::vector<Clock::time_point> times;
    constexpr std::size_t kSize = 1226; /* with what surrounds it on the wire, 100 us */

    a->Start([](std::span<const std::byte>) {});
    b->Start([&](std::span<const std::byte> frame) {
        EXPECT_EQ(frame[0], static_cast<std::byte>(times.size()));
        times.push_back(loop_.Now());
    });
    ASSERT_TRUE(RunUntil(loop_, [&] { return Status(*a)["connected"] == true && Status(*b)["connected"] == true; }));
    EXPECT_EQ(Status(*b)["mbit"], 100);
    EXPECT_FALSE(Status(*a).contains("mbit"));
    for (int i = 0; i < 100; ++i)
        a->Send(std::vector<std::byte>(kSize, static_cast<std::byte>(i)));
    ASSERT_TRUE(RunUntil(loop_, [&] { return times.size() == 100; }));
    for (std::size_t i = 1; i < times.size(); ++i)
        EXPECT_GE(times[i] - times[i - 1], std::chrono::microseconds(100));
    b->Send(ToBytes("the other way, at any rate"));
    EXPECT_TRUE(RunUntil(loop_, [&] { return Status(*a)["received"] == 1; }));
    EXPECT_EQ(Status(*b)["received"], 100);

    /* what is under way arrives, though its sender has gone */
    a->Send(std::vector<std::byte>(kMaxFrame, std::byte{100}));
    a->Send(std::vector<std::byte>(kMaxFrame, std::byte{101}));
    a.reset();
    EXPECT_TRUE(RunUntil(loop_, [&] { return Status(*b)["connected"] == false; }));
    EXPECT_EQ(times.size(), 102U);
}

TEST_F(BackendTest, SocketDropsWhatIsNoFrame)
{
    const std::string path = Path("oversize");
    Frames frames;
    const auto a = Make("listen:" + path);

    a->Start(Into(frames));
    const FileDescriptor peer = ConnectUnix(path, SOCK_SEQPACKET);
    ASSERT_TRUE(peer);
    ASSERT_TRUE(SendWith(peer.Get(), std::vector<std::byte>(kMaxFrame + 1), {}));
    ASSERT_TRUE(SendWith(peer.Get(), std::vector<std::byte>(kMaxFrame), {}));
    ASSERT_TRUE(RunUntil(loop_, [&] { return frames.size() == 1; }));
    EXPECT_EQ(frames[0].size(), kMaxFrame);
    EXPECT_EQ(Status(*a)["receive_dropped"], 1);
}

TEST_F(BackendTest, GeneratorMakesWhatItIsAskedFor)
{
    Frames frames;
    const auto generator =
        Make("generator:rate=100000,count=100,burst=10,flows=4,size=300,dmac=02:00:00:00:00:aa,sport=2000");
    std::set<unsigned> ports;

    generator->Start(Into(frames));
    ASSERT_TRUE(RunUntil(loop_, [&] { return Status(*generator)["running"] == false; }));
    ASSERT_EQ(frames.size(), 100U);
    for (std::size_t i = 0; i < frames.size(); ++i) {
        const auto &frame = frames[i];

        ASSERT_EQ(frame.size(), 300U);
        EXPECT_EQ(frame[5], std::byte{0xaa});
        ports.insert(std::to_integer<unsigned>(frame[34]) << 8 | std::to_integer<unsigned>(frame[35]));
        EXPECT_EQ(frame[36], std::byte{4791 >> 8});
        EXPECT_EQ(frame[37], std::byte{4791 & 0xff});
        EXPECT_EQ(frame[53], static_cast<std::byte>(i)); /* packet sequence number */
        EXPECT_EQ(frame[69], static_cast<std::byte>(i)); /* the frame's number */
        std::uint32_t sum = 0; /* of the IP header, with its checksum: all ones */
        for (std::size_t at = 14; at < 34; at += 2)
            sum += std::to_integer<std::uint32_t>(frame[at]) << 8 | std::to_integer<std::uint32_t>(frame[at + 1]);
        EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffU);
    }
    EXPECT_EQ(ports, (std::set<unsigned>{2000, 2001, 2002, 2003}));
}

TEST_F(BackendTest, GeneratorKeepsItsRateAndTakesOrders)
{
    std::uint64_t count = 0;
    const auto generator = Make("generator:rate=2000,start=no");
    const auto run = [&](std::chrono::milliseconds time) {
        const std::uint64_t before = count;

        for (const auto end = loop_.Now() + time; loop_.Now() < end;)
            loop_.RunOnce(std::chrono::milliseconds(1));
        return count - before;
    };

    generator->Start([&](std::span<const std::byte>) { ++count; });
    EXPECT_EQ(run(std::chrono::milliseconds(20)), 0U);
    const Clock::time_point start = loop_.Now(); /* no later than its own */
    EXPECT_TRUE(generator->SetRunning(true));
    EXPECT_GT(run(std::chrono::milliseconds(200)), 0U);
    const double seconds = std::chrono::duration<double>(loop_.Now() - start).count();
    EXPECT_LE(static_cast<double>(count), 2000 * seconds + 1); /* never faster; a busy machine may make it slower */
    EXPECT_TRUE(generator->SetRunning(false));
    EXPECT_EQ(run(std::chrono::milliseconds(20)), 0U);
    EXPECT_FALSE(generator->SetRate(0));
    EXPECT_TRUE(generator->SetRate(50000));
    EXPECT_EQ(Status(*generator)["rate"], 50000);
    EXPECT_EQ(run(std::chrono::milliseconds(20)), 0U); /* the rate alone starts nothing */
}

TEST_F(BackendTest, PaceGivesUpWhatIsTooLate)
{
    const Clock::time_point start = Clock::now();
    Pace pace(1000, 1);
    int taken = 0;

    pace.Start(start);
    EXPECT_TRUE(pace.Take(start));
    EXPECT_FALSE(pace.Take(start));
    EXPECT_EQ(pace.Wait(start), std::chrono::milliseconds(1));
    const Clock::time_point late = start + std::chrono::seconds(10);
    while (pace.Take(late) && taken < 1000)
        ++taken;
    EXPECT_LT(taken, 200);
    EXPECT_GT(pace.given_up(), 9000U);
}

/* The times of frames in a capture, whose headers have this computer's byte order: record headers begin at `at`. */
std::chrono::nanoseconds TimeOf(const std::string &path, std::streamoff at)
{
    std::array<std::uint32_t, 2> time = {};
    std::ifstream file(path, std::ios::binary);

    file.seekg(at);
    file.read(reinterpret_cast<char *>(time.data()), sizeof(time));
    return std::chrono::seconds(time[0]) + std::chrono::nanoseconds(time[1]);
}

void SetTime(const std::string &path, std::streamoff at, std::uint32_t seconds, std::uint32_t nanoseconds)
{
    const std::array<std::uint32_t, 2> time = {seconds, nanoseconds};
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);

    file.seekp(at);
    file.write(reinterpret_cast<const char *>(time.data()), sizeof(time));
}

TEST_F(BackendTest, CaptureIsWrittenAndReplayed)
{
    constexpr std::streamoff kFirst = 24, kSecond = kFirst + 16 + 60;
    const std::string path = Path("capture");
    Frames frames;
    Clock::time_point last;

    {
        const auto out = Make("pcap:," + path);

        out->Start([](std::span<const std::byte>) {});
        out->Send(std::vector<std::byte>(60, std::byte{1}));
        std::ifstream file(path, std::ios::ate | std::ios::binary);
        EXPECT_EQ(file.tellg(), 24 + 16 + 60); /* it is there at once */
        const Clock::time_point end = loop_.Now() + std::chrono::milliseconds(30);
        while (loop_.Now() < end)
            loop_.RunOnce(end - loop_.Now());
        out->Send(std::vector<std::byte>(90, std::byte{2}));
        EXPECT_FALSE(out->SetRunning(true));
        EXPECT_FALSE(out->SetRate(1));
    }
    EXPECT_GE(TimeOf(path, kSecond) - TimeOf(path, kFirst), std::chrono::milliseconds(25));
    SetTime(path, kFirst, 1000, 0);
    SetTime(path, kSecond, 1000, 30000000); /* however long this process has stood still meanwhile */
    const auto in = Make("pcap:" + path + ",");
    const Clock::time_point start = loop_.Now();
    in->Start([&](std::span<const std::byte> frame) {
        last = loop_.Now();
        frames.emplace_back(frame.begin(), frame.end());
    });
    ASSERT_TRUE(RunUntil(loop_, [&] { return Status(*in)["ended"] == true; }));
    EXPECT_EQ(frames, (Frames{std::vector<std::byte>(60, std::byte{1}), std::vector<std::byte>(90, std::byte{2})}));
    EXPECT_GE(last - start, std::chrono::milliseconds(30));
    in->Send(ToBytes("nowhere"));
    EXPECT_EQ(Status(*in)["send_dropped"], 1);
    std::filesystem::remove(path);
}

TEST_F(BackendTest, BrokenCaptureEndsQuietly)
{
    const std::string path = Path("broken");
    Frames frames;

    {
        const auto out = Make("pcap:," + path);

        out->Start([](std::span<const std::byte>) {});
        out->Send(std::vector<std::byte>(60, std::byte{1}));
        out->Send(std::vector<std::byte>(60, std::byte{2}));
    }
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
    const auto in = Make("pcap:" + path + ",,rate=1000");
    in->Start(Into(frames));
    ASSERT_TRUE(RunUntil(loop_, [&] { return Status(*in)["ended"] == true; }));
    EXPECT_EQ(frames.size(), 1U);
    {
        std::ofstream(path) << "no capture at all";
    }
    EXPECT_THROW(Make("pcap:" + path + ","), BackendError);
    std::filesystem::remove(path);
}

} // namespace
} // namespace cx::test
