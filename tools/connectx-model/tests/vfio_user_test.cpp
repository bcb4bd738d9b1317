// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* vfio-user: each command as QEMU sends it, each kind of malformed message, and what a client's end leaves. */
#include "vfio_user.hpp"

#include "host_fixture.hpp"

#include <gtest/gtest.h>
#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#include <cerrno>

namespace cx::test {
namespace {

constexpr std::size_t kHeader = 16;
constexpr std::uint32_t kNoReply = 0x10;
constexpr std::uint64_t kPage = 4096;

enum : std::uint16_t {
    kVersion = 1,
    kDmaMap,
    kDmaUnmap,
    kGetInfo,
    kGetRegionInfo,
    kGetIrqInfo = 7,
    kSetIrqs,
    kRegionRead,
    kRegionWrite,
    kReset = 13,
};

struct Reply {
    bool came = false;
    std::uint16_t id = 0, command = 0;
    std::uint32_t flags = 0, error = 0;
    std::vector<std::byte> body;
};

template <typename... Values> std::vector<std::byte> Body(const Values &...values)
{
    std::vector<std::byte> body;

    (Append(body, values), ...);
    return body;
}

class VfioUserTest : public testing::Test {
protected:
    VfioUserTest()
    {
        server_.Start(function_);
        Connect();
    }

    void Connect()
    {
        auto [client, server] = MakePair(SOCK_STREAM);

        client_ = std::move(client);
        server_.Adopt(std::move(server));
    }
    static std::vector<std::byte> Message(std::uint16_t command, std::span<const std::byte> body,
                                          std::uint32_t flags = 0)
    {
        std::vector<std::byte> message = Body(
            std::uint16_t{0x77}, command, static_cast<std::uint32_t>(kHeader + body.size()), flags, std::uint32_t{0});

        message.insert(message.end(), body.begin(), body.end());
        return message;
    }
    void Post(std::uint16_t command, std::span<const std::byte> body, std::uint32_t flags = 0,
              const std::vector<int> &descriptors = {})
    {
        EXPECT_TRUE(SendWith(client_.Get(), Message(command, body, flags), descriptors));
        RunAll(loop_);
    }
    Reply Receive()
    {
        std::vector<std::byte> bytes(2 << 20);
        Reply reply;
        const ssize_t size = recv(client_.Get(), bytes.data(), bytes.size(), MSG_DONTWAIT);

        if (size < static_cast<ssize_t>(kHeader))
            return reply;
        bytes.resize(static_cast<std::size_t>(size));
        reply = {.came = true,
                 .id = At<std::uint16_t>(bytes, 0),
                 .command = At<std::uint16_t>(bytes, 2),
                 .flags = At<std::uint32_t>(bytes, 8),
                 .error = At<std::uint32_t>(bytes, 12),
                 .body = {bytes.begin() + kHeader, bytes.end()}};
        EXPECT_EQ(At<std::uint32_t>(bytes, 4), bytes.size());
        return reply;
    }
    Reply Ask(std::uint16_t command, std::span<const std::byte> body, const std::vector<int> &descriptors = {})
    {
        Post(command, body, 0, descriptors);
        const Reply reply = Receive();

        EXPECT_TRUE(reply.came);
        EXPECT_EQ(reply.id, 0x77);
        EXPECT_EQ(reply.command, command);
        EXPECT_EQ(reply.flags, reply.error == 0 ? 0x1U : 0x21U);
        return reply;
    }
    std::uint32_t Error(std::uint16_t command, std::span<const std::byte> body,
                        const std::vector<int> &descriptors = {})
    {
        const Reply reply = Ask(command, body, descriptors);

        EXPECT_TRUE(reply.error == 0 || reply.body.empty());
        return reply.error;
    }
    void Negotiate()
    {
        EXPECT_EQ(Error(kVersion, Body(std::uint16_t{0}, std::uint16_t{0}, '{', '}', '\0')), 0U);
    }
    std::vector<std::byte> Map(std::uint64_t address, std::uint64_t size, std::uint32_t flags = 3,
                               std::uint64_t offset = 0)
    {
        return Body(std::uint32_t{32}, flags, offset, address, size);
    }
    static std::vector<std::byte> Unmap(std::uint64_t address, std::uint64_t size, std::uint32_t flags = 0)
    {
        return Body(std::uint32_t{24}, flags, address, size);
    }
    static std::vector<std::byte> Irqs(std::uint32_t flags, std::uint32_t index, std::uint32_t start,
                                       std::uint32_t count)
    {
        return Body(std::uint32_t{20}, flags, index, start, count);
    }
    static std::vector<std::byte> Region(std::uint64_t offset, std::uint32_t region, std::uint32_t count)
    {
        return Body(offset, region, count);
    }
    bool Closed()
    {
        RunAll(loop_);
        std::array<char, 4096> bytes = {};
        ssize_t size = 0;

        while ((size = recv(client_.Get(), bytes.data(), bytes.size(), MSG_DONTWAIT)) > 0)
            ;
        return size == 0;
    }

    static constexpr std::uint32_t kTrigger = VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD;
    EventLoop loop_;
    Trace trace_{false};
    RecordingFunction function_;
    VfioUser server_{loop_, trace_, "", false};
    FileDescriptor client_;
};

TEST_F(VfioUserTest, VersionTellsWhatTheServerCan)
{
    const Reply reply = Ask(kVersion, Body(std::uint16_t{0}, std::uint16_t{1}));

    EXPECT_EQ(reply.error, 0U);
    EXPECT_EQ(At<std::uint32_t>(reply.body, 0), 0U);
    const std::string text(reinterpret_cast<const char *>(reply.body.data()) + 4, reply.body.size() - 4);
    EXPECT_NE(text.find("\"max_msg_fds\":16"), std::string::npos);
    EXPECT_EQ(text.back(), '\0');
    EXPECT_EQ(Error(kVersion, Body(std::uint16_t{0}, std::uint16_t{0})), EINVAL); /* once only */
}

TEST_F(VfioUserTest, VersionRefused)
{
    EXPECT_EQ(Error(kVersion, Body(std::uint16_t{1}, std::uint16_t{0})), EINVAL);
    EXPECT_EQ(Error(kVersion, Body(std::uint16_t{0})), EINVAL);
    EXPECT_EQ(Error(kVersion, Body(std::uint16_t{0}, std::uint16_t{0}, '{', '}')), EINVAL); /* no zero at the end */
    EXPECT_EQ(Error(kVersion, Body(std::uint16_t{0}, std::uint16_t{0}, '{', '\0')), EINVAL);
    Negotiate();
}

TEST_F(VfioUserTest, NothingBeforeTheVersion)
{
    Post(kGetInfo, Body(std::uint32_t{16}, 0, 0, 0));
    EXPECT_TRUE(Closed());
}

TEST_F(VfioUserTest, Info)
{
    Negotiate();
    const Reply info = Ask(kGetInfo, Body(std::uint32_t{16}, 0, 0, 0));
    EXPECT_EQ(At<std::uint32_t>(info.body, 4), VFIO_DEVICE_FLAGS_RESET | VFIO_DEVICE_FLAGS_PCI);
    EXPECT_EQ(At<std::uint32_t>(info.body, 8), 9U);
    EXPECT_EQ(At<std::uint32_t>(info.body, 12), 5U);
    EXPECT_EQ(Error(kGetInfo, Body(std::uint32_t{15}, 0, 0, 0)), EINVAL);
    EXPECT_EQ(Error(kGetInfo, Body(std::uint32_t{16})), EINVAL);
}

TEST_F(VfioUserTest, RegionInfo)
{
    const auto ask = [](std::uint32_t index) {
        return Body(std::uint32_t{32}, 0, index, 0, std::uint64_t{0}, std::uint64_t{0});
    };

    Negotiate();
    for (std::uint32_t index = 0; index < 9; ++index) {
        const Reply info = Ask(kGetRegionInfo, ask(index));
        const std::uint64_t size = index == 0 ? kBarSize : index == 7 ? kConfigSize : 0;

        EXPECT_EQ(At<std::uint32_t>(info.body, 8), index);
        EXPECT_EQ(At<std::uint64_t>(info.body, 16), size);
        EXPECT_EQ(At<std::uint32_t>(info.body, 4), size == 0 ? 0U : 3U);
    }
    EXPECT_EQ(Error(kGetRegionInfo, ask(9)), EINVAL);
    EXPECT_EQ(Error(kGetRegionInfo, Body(std::uint32_t{32}, 0, 0)), EINVAL);
}

TEST_F(VfioUserTest, IrqInfo)
{
    Negotiate();
    for (std::uint32_t index = 0; index < 5; ++index) {
        const Reply info = Ask(kGetIrqInfo, Body(std::uint32_t{16}, 0, index, 0));

        EXPECT_EQ(At<std::uint32_t>(info.body, 12), index == 2 ? kVectors : index == 3 ? 1U : 0U);
    }
    EXPECT_EQ(Error(kGetIrqInfo, Body(std::uint32_t{16}, 0, 5, 0)), EINVAL);
    EXPECT_EQ(Error(kGetIrqInfo, Body(std::uint32_t{8}, 0, 0, 0)), EINVAL);
}

TEST_F(VfioUserTest, MemoryIsMappedAndUnmapped)
{
    const FileDescriptor file = MakeMemory(4 * kPage);

    Negotiate();
    EXPECT_EQ(Error(kDmaMap, Map(0, 2 * kPage), {file.Get()}), 0U);
    EXPECT_EQ(Error(kDmaMap, Map(2 * kPage, kPage, 1)), 0U); /* ROM: no descriptor */
    EXPECT_EQ(Error(kDmaMap, Map(3 * kPage, kPage, 3, kPage), {file.Get()}), 0U);
    ASSERT_EQ(pwrite(file.Get(), "hello", 5, kPage), 5);
    std::array<char, 5> text = {};
    EXPECT_TRUE(server_.Memory().Read(3 * kPage, std::as_writable_bytes(std::span(text))));
    EXPECT_EQ(std::string(text.data(), 5), "hello");

    const Reply reply = Ask(kDmaUnmap, Unmap(0, 3 * kPage)); /* two ranges at once */
    EXPECT_EQ(reply.body, Unmap(0, 3 * kPage));
    EXPECT_EQ(server_.Memory().Ranges(), 1U);
    EXPECT_EQ(Error(kDmaUnmap, Unmap(3 * kPage, 1)), EINVAL);
    EXPECT_EQ(Error(kDmaUnmap, Unmap(0, 0, 2)), 0U); /* everything */
    EXPECT_EQ(server_.Memory().Ranges(), 0U);
}

TEST_F(VfioUserTest, BadMappingsAreRefused)
{
    const FileDescriptor file = MakeMemory(kPage);
    auto [pipe, other] = MakePair(SOCK_STREAM);

    Negotiate();
    EXPECT_EQ(Error(kDmaMap, Map(0, 2 * kPage), {file.Get()}), EINVAL);             /* more than the file has */
    EXPECT_EQ(Error(kDmaMap, Map(0, kPage), {pipe.Get()}), EINVAL);                 /* no file */
    EXPECT_EQ(Error(kDmaMap, Map(0, kPage), {file.Get(), file.Get()}), EINVAL);     /* two of them */
    EXPECT_EQ(Error(kDmaMap, Map(0, kPage, 4), {file.Get()}), EINVAL);              /* unknown flag */
    EXPECT_EQ(Error(kDmaMap, Map(UINT64_MAX - 10, kPage), {file.Get()}), EINVAL);   /* wraps */
    EXPECT_EQ(Error(kDmaMap, Body(std::uint32_t{32}), {file.Get()}), EINVAL);       /* short */
    auto small = Map(0, kPage);
    small[0] = std::byte{31};
    EXPECT_EQ(Error(kDmaMap, small, {file.Get()}), EINVAL);
    EXPECT_EQ(Error(kDmaMap, Map(0, kPage), {file.Get()}), 0U);
    EXPECT_EQ(Error(kDmaMap, Map(0, kPage), {file.Get()}), EINVAL); /* there already */
    EXPECT_EQ(Error(kDmaUnmap, Unmap(0, kPage, 1)), ENOTSUP);       /* dirty pages are not tracked */
    EXPECT_EQ(Error(kDmaUnmap, Body(std::uint32_t{24})), EINVAL);
    EXPECT_EQ(server_.Memory().Ranges(), 1U);
}

TEST_F(VfioUserTest, RegionsAreReadAndWritten)
{
    Negotiate();
    const Reply id = Ask(kRegionRead, Region(0, 7, 4));
    ASSERT_EQ(id.body.size(), 20U);
    EXPECT_EQ(At<std::uint32_t>(id.body, 16), 0x101715b3U);
    const Reply all = Ask(kRegionRead, Region(0, 7, kConfigSize));
    EXPECT_EQ(all.body.size(), 16 + kConfigSize);

    auto write = Region(0x18, 0, 4);
    Append(write, std::uint32_t{0x12345678});
    const Reply written = Ask(kRegionWrite, write);
    EXPECT_EQ(written.body, Region(0x18, 0, 4));
    ASSERT_EQ(function_.writes.size(), 1U);
    EXPECT_EQ(function_.writes[0], (RecordingFunction::Access{0x18, 4, 0x12345678}));
    EXPECT_EQ(At<std::uint32_t>(Ask(kRegionRead, Region(0x18, 0, 4)).body, 16), 0x12345678U);

    auto command = Region(PCI_COMMAND, 7, 2);
    Append(command, std::uint16_t{PCI_COMMAND_MASTER});
    EXPECT_EQ(Error(kRegionWrite, command), 0U);
    EXPECT_TRUE(function_.bus_master);
}

TEST_F(VfioUserTest, PostedWritesKeepTheirOrderAndHaveNoReply)
{
    std::vector<std::byte> burst;

    Negotiate();
    for (std::uint32_t i = 0; i < 100; ++i) {
        auto body = Region(0x800, 0, 4);

        Append(body, i);
        const auto message = Message(kRegionWrite, body, kNoReply);
        burst.insert(burst.end(), message.begin(), message.end());
    }
    ASSERT_TRUE(SendWith(client_.Get(), burst, {}));
    ASSERT_TRUE(RunUntil(loop_, [&] { return function_.writes.size() >= 100; }));
    for (std::uint32_t i = 0; i < 100; ++i)
        EXPECT_EQ(function_.writes[i].value, i);
    EXPECT_FALSE(Receive().came);
    Post(kRegionWrite, Region(0, 0, 4), kNoReply); /* malformed, and still no reply */
    EXPECT_FALSE(Receive().came);
    EXPECT_EQ(trace_.complaints(), 1U);
}

TEST_F(VfioUserTest, AccessesOutsideARegionAreRefused)
{
    Negotiate();
    EXPECT_EQ(Error(kRegionRead, Region(kBarSize - 2, 0, 4)), EINVAL);
    EXPECT_EQ(Error(kRegionRead, Region(UINT64_MAX, 0, 4)), EINVAL);
    EXPECT_EQ(Error(kRegionRead, Region(kConfigSize - 2, 7, 4)), EINVAL);
    EXPECT_EQ(Error(kRegionRead, Region(0, 1, 4)), EINVAL);
    EXPECT_EQ(Error(kRegionRead, Region(0, 100, 4)), EINVAL);
    EXPECT_EQ(Error(kRegionRead, Region(0, 0, (1 << 20) + 1)), EINVAL);
    EXPECT_EQ(Error(kRegionRead, Body(std::uint64_t{0})), EINVAL);
    EXPECT_EQ(Error(kRegionWrite, Body(std::uint64_t{0})), EINVAL);
    auto more = Region(0, 0, 4);
    Append(more, std::uint64_t{0});
    EXPECT_EQ(Error(kRegionWrite, more), EINVAL); /* more data than said */
    EXPECT_EQ(Error(kRegionWrite, Region(0, 0, 4)), EINVAL);
    EXPECT_TRUE(function_.writes.empty());
}

TEST_F(VfioUserTest, InterruptsGoToTheirEventfds)
{
    const FileDescriptor first(eventfd(0, EFD_NONBLOCK));
    const FileDescriptor second(eventfd(0, EFD_NONBLOCK));
    std::uint64_t count = 0;

    Negotiate();
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 4, 2), {first.Get(), second.Get()}), 0U);
    server_.Interrupt(4);
    server_.Interrupt(4);
    server_.Interrupt(kVectors);
    EXPECT_EQ(read(first.Get(), &count, 8), 8);
    EXPECT_EQ(count, 2U);
    EXPECT_EQ(read(second.Get(), &count, 8), -1);

    /* taken away, an interrupt waits for the next one given */
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 5, 1)), 0U);
    server_.Interrupt(5);
    EXPECT_EQ(read(second.Get(), &count, 8), -1);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 5, 1), {second.Get()}), 0U);
    EXPECT_EQ(read(second.Get(), &count, 8), 8);
    EXPECT_EQ(count, 1U);

    /* no data and a count fires, no data and no count disables */
    EXPECT_EQ(Error(kSetIrqs, Irqs(VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_NONE, 2, 4, 1)), 0U);
    EXPECT_EQ(read(first.Get(), &count, 8), 8);
    auto flagged = Irqs(VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_BOOL, 2, 4, 2);
    flagged.push_back(std::byte{0});
    flagged.push_back(std::byte{1});
    EXPECT_EQ(Error(kSetIrqs, flagged), 0U);
    EXPECT_EQ(read(first.Get(), &count, 8), -1);
    EXPECT_EQ(read(second.Get(), &count, 8), 8);
    EXPECT_EQ(Error(kSetIrqs, Irqs(VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_NONE, 2, 0, 0)), 0U);
    server_.Interrupt(4);
    EXPECT_EQ(read(first.Get(), &count, 8), -1);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 3, 0, 1), {first.Get()}), 0U); /* errors of the device */
}

TEST_F(VfioUserTest, BadInterruptSettingsAreRefused)
{
    const FileDescriptor event(eventfd(0, EFD_NONBLOCK));
    const int fd = event.Get();

    Negotiate();
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, kVectors, 1), {fd}), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 1, UINT32_MAX), {fd}), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 5, 0, 1), {fd}), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 0, 0, 1), {fd}), EINVAL); /* no INTx */
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 0, 2), {fd}), EINVAL); /* fewer descriptors than vectors */
    EXPECT_EQ(Error(kSetIrqs, Irqs(VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_NONE, 2, 0, 1), {fd}), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Irqs(VFIO_IRQ_SET_ACTION_MASK | VFIO_IRQ_SET_DATA_NONE, 2, 0, 1)), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Irqs(VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_BOOL, 2, 0, 1)), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Irqs(VFIO_IRQ_SET_ACTION_TRIGGER | 3, 2, 0, 1)), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Body(std::uint32_t{20}, kTrigger)), EINVAL);
    EXPECT_EQ(Error(kGetInfo, Body(std::uint32_t{16}, 0, 0, 0), {fd}), EINVAL); /* takes no descriptor */
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 0, 17), std::vector<int>(17, fd)), EINVAL); /* more than was agreed */
}

TEST_F(VfioUserTest, ResetAndUnknownCommands)
{
    Negotiate();
    EXPECT_EQ(Error(kReset, {}), 0U);
    EXPECT_EQ(function_.resets, 1);
    EXPECT_EQ(Error(kReset, Body(0)), EINVAL);
    EXPECT_EQ(Error(6, Body(std::uint32_t{16}, 0, 0, 0)), ENOTSUP);
    EXPECT_EQ(Error(15, {}), ENOTSUP);
    EXPECT_EQ(Error(0xffff, {}), ENOTSUP);
    Post(kReset, {}, 0x40); /* an unknown flag */
    EXPECT_EQ(Receive().error, static_cast<std::uint32_t>(EINVAL));
}

TEST_F(VfioUserTest, BadFramingEndsTheConnection)
{
    const auto header = [](std::uint32_t size, std::uint32_t flags) {
        return Body(std::uint16_t{1}, std::uint16_t{kVersion}, size, flags, std::uint32_t{0});
    };

    for (const auto &bytes : {header(15, 0), header(0, 0), header(UINT32_MAX, 0), header(16, 1), header(16, 2)}) {
        ASSERT_TRUE(SendWith(client_.Get(), bytes, {}));
        EXPECT_TRUE(Closed());
        Connect();
    }
    EXPECT_EQ(trace_.complaints(), 5U);
    Negotiate();
}

TEST_F(VfioUserTest, MessagesMayComeInPieces)
{
    const auto message = Message(kVersion, Body(std::uint16_t{0}, std::uint16_t{0}));

    for (const std::byte byte : message) {
        ASSERT_TRUE(SendWith(client_.Get(), std::span(&byte, 1), {}));
        RunAll(loop_);
    }
    EXPECT_TRUE(Receive().came);
}

/* What came before a message with descriptors is not to be taken for it, although the kernel glues both. */
TEST_F(VfioUserTest, DescriptorsStayWithTheirMessage)
{
    const FileDescriptor file = MakeMemory(kPage);
    auto write = Region(0x18, 0, 4);

    Negotiate();
    Append(write, std::uint32_t{1});
    ASSERT_TRUE(SendWith(client_.Get(), Message(kRegionWrite, write, kNoReply), {}));
    ASSERT_TRUE(SendWith(client_.Get(), Message(kDmaMap, Map(0, kPage), kNoReply), {file.Get()}));
    ASSERT_TRUE(SendWith(client_.Get(), Message(kDmaMap, Map(kPage, kPage), kNoReply), {file.Get()}));
    RunAll(loop_);
    EXPECT_EQ(trace_.complaints(), 0U);
    EXPECT_NE(server_.Memory().At(0, kPage), nullptr);
    EXPECT_NE(server_.Memory().At(kPage, kPage), nullptr);
}

TEST_F(VfioUserTest, ClientThatDoesNotReadStopsNobodyElse)
{
    const std::uint32_t count = 1 << 20;
    int ticks = 0;

    Negotiate();
    for (int i = 0; i < 32; ++i)
        ASSERT_TRUE(SendWith(client_.Get(), Message(kRegionRead, Region(0, 0, count)), {}));
    for (; ticks < 20; ++ticks)
        loop_.RunOnce(std::chrono::milliseconds(1));
    EXPECT_LT(function_.reads.size(), 3 * count / 8); /* it is not read on before the answer has gone */
    client_.Reset();
    ASSERT_TRUE(RunUntil(loop_, [&] { return function_.resets == 1; }));
}

TEST_F(VfioUserTest, NothingStaysOfAClient)
{
    const FileDescriptor file = MakeMemory(kPage);
    const FileDescriptor event(eventfd(0, EFD_NONBLOCK));
    const std::size_t before = OpenDescriptors();
    std::uint64_t count = 0;

    Negotiate();
    EXPECT_EQ(Error(kDmaMap, Map(0, kPage), {file.Get()}), 0U);
    EXPECT_EQ(Error(kDmaMap, Map(0, kPage), {file.Get()}), EINVAL);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 0, 3), {event.Get(), event.Get(), event.Get()}), 0U);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 0, 1), {event.Get()}), 0U);
    EXPECT_EQ(Error(kSetIrqs, Irqs(kTrigger, 2, 0, 9), {event.Get()}), EINVAL);
    EXPECT_EQ(OpenDescriptors(), before + 3); /* one for each vector; memory needs none once it is mapped */
    /* half a message with a descriptor, and gone */
    const auto half = Message(kDmaMap, Map(kPage, kPage));
    ASSERT_TRUE(SendWith(client_.Get(), std::span(half).first(20), {file.Get()}));
    RunAll(loop_);
    client_.Reset();
    RunAll(loop_);
    EXPECT_EQ(OpenDescriptors(), before - 2); /* both ends of the connection */
    EXPECT_EQ(function_.resets, 1);
    EXPECT_EQ(server_.Memory().Ranges(), 0U);
    server_.Interrupt(0);
    EXPECT_EQ(read(event.Get(), &count, 8), -1);
    Connect();
    Negotiate();
}

TEST_F(VfioUserTest, SurpriseRemoval)
{
    Negotiate();
    EXPECT_TRUE(server_.Disconnect());
    EXPECT_TRUE(Closed());
    EXPECT_EQ(function_.resets, 1);
    EXPECT_FALSE(server_.Disconnect());
    EXPECT_EQ(trace_.complaints(), 0U);
}

class VfioUserSocketTest : public testing::Test {
protected:
    std::string path_ = testing::TempDir() + "vfio-user." + std::to_string(getpid());
    EventLoop loop_;
    Trace trace_{false};
    RecordingFunction function_;
};

TEST_F(VfioUserSocketTest, ServesOneAfterTheOther)
{
    VfioUser server(loop_, trace_, path_, false);

    server.Start(function_);
    FileDescriptor first = ConnectUnix(path_, SOCK_STREAM);
    ASSERT_TRUE(first);
    RunAll(loop_);
    const FileDescriptor second = ConnectUnix(path_, SOCK_STREAM);
    ASSERT_TRUE(second);
    RunAll(loop_);
    EXPECT_NE(server.Status().find("\"clients\":1"), std::string::npos);
    first.Reset();
    RunAll(loop_);
    EXPECT_NE(server.Status().find("\"clients\":2"), std::string::npos);
    EXPECT_EQ(function_.resets, 1);
}

TEST_F(VfioUserSocketTest, OnceEndsWithItsClient)
{
    VfioUser server(loop_, trace_, path_, true);

    server.Start(function_);
    FileDescriptor client = ConnectUnix(path_, SOCK_STREAM);
    ASSERT_TRUE(client);
    RunAll(loop_);
    client.Reset();
    loop_.Run();
    EXPECT_EQ(function_.resets, 1);
}

TEST_F(VfioUserSocketTest, ReplacesADeadSocketNotALivingOne)
{
    {
        VfioUser server(loop_, trace_, path_, false);
        VfioUser other(loop_, trace_, path_, false);

        server.Start(function_);
        EXPECT_THROW(other.Start(function_), std::system_error);
        EXPECT_TRUE(ConnectUnix(path_, SOCK_STREAM));
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
    {
        FileDescriptor dead(socket(AF_UNIX, SOCK_STREAM, 0));
        sockaddr_un address = {};

        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
        ASSERT_EQ(bind(dead.Get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)), 0);
    }
    VfioUser server(loop_, trace_, path_, false);
    server.Start(function_);
    EXPECT_TRUE(ConnectUnix(path_, SOCK_STREAM));
}

TEST_F(VfioUserSocketTest, ALivingOneDoesNotNoticeTheOther)
{
    VfioUser server(loop_, trace_, path_, true);
    VfioUser other(loop_, trace_, path_, false);

    server.Start(function_);
    EXPECT_THROW(other.Start(function_), std::system_error);
    RunAll(loop_);
    EXPECT_NE(server.Status().find("\"clients\":0"), std::string::npos);
    EXPECT_EQ(function_.resets, 0); /* by a client that came and went, which would end it */
    EXPECT_TRUE(ConnectUnix(path_, SOCK_STREAM));
}

TEST_F(VfioUserSocketTest, BadPathsAreErrors)
{
    VfioUser too_long(loop_, trace_, std::string(200, 'x'), false);
    VfioUser nowhere(loop_, trace_, "/nonexistent/socket", false);

    EXPECT_THROW(too_long.Start(function_), std::system_error);
    EXPECT_THROW(nowhere.Start(function_), std::system_error);
}

} // namespace
} // namespace cx::test
