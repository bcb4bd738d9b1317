// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* virtio-pcidev as User Mode Linux drives it: vhost-user messages, rings, accesses and interrupts. */
#include "virtio_pcidev.hpp"

#include "host_fixture.hpp"

#include <gtest/gtest.h>
#include <linux/pci_regs.h>
#include <sys/eventfd.h>

#include <atomic>

namespace cx::test {
namespace {

enum : std::uint32_t {
    kGetFeatures = 1,
    kSetFeatures,
    kSetOwner,
    kSetMemTable = 5,
    kSetVringNum = 8,
    kSetVringAddr,
    kSetVringBase,
    kGetVringBase,
    kSetVringKick,
    kSetVringCall,
    kGetProtocolFeatures = 15,
    kSetProtocolFeatures,
    kSetVringEnable = 18,
    kSetBackendRequests = 21,
};

constexpr std::uint64_t kReplyAck = 1U << 3, kBackendRequests = 1U << 5;
constexpr std::uint64_t kMemory = 1 << 20;
constexpr std::uint64_t kGuest = 0x10000000;  /* of the memory: guest address, and the guest process' own */
constexpr std::uint64_t kUser = 0x7f0000000000;
constexpr std::uint16_t kEntries = 16;
constexpr std::uint64_t kRingSpace = 0x10000; /* of each ring: descriptors, available, used, then buffers */
constexpr std::uint64_t kAvailable = 0x1000, kUsed = 0x2000, kBuffers = 0x3000, kBufferSize = 0x200;

enum : std::uint8_t { kConfigRead = 1, kConfigWrite, kMmioRead, kMmioWrite, kMmioMemset, kInterrupt, kMsi };

struct Operation {
    std::uint8_t op, bar;
    std::uint16_t reserved;
    std::uint32_t size;
    std::uint64_t address;
};

struct Descriptor {
    std::uint64_t address;
    std::uint32_t size;
    std::uint16_t flags, next;
};
constexpr std::uint16_t kNext = 1, kWrite = 2, kIndirect = 4;

template <typename... Values> std::vector<std::byte> Body(const Values &...values)
{
    std::vector<std::byte> body;

    (Append(body, values), ...);
    return body;
}

class VirtioPcidevTest : public testing::Test {
protected:
    VirtioPcidevTest() : file_(MakeMemory(kMemory))
    {
        memory_ = static_cast<std::byte *>(mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, file_.Get(), 0));
        device_.Start(function_);
        Connect();
    }
    ~VirtioPcidevTest() override
    {
        munmap(memory_, kMemory);
    }

    void Connect()
    {
        auto [guest, device] = MakePair(SOCK_STREAM);

        guest_ = std::move(guest);
        device_.Adopt(std::move(device));
    }
    void Post(std::uint32_t request, std::span<const std::byte> body, const std::vector<int> &descriptors = {},
              std::uint32_t flags = 1)
    {
        auto message = Body(request, flags, static_cast<std::uint32_t>(body.size()));

        message.insert(message.end(), body.begin(), body.end());
        EXPECT_TRUE(SendWith(guest_.Get(), message, descriptors));
        RunAll(loop_);
    }
    /* The reply's body; empty if none came. */
    std::vector<std::byte> Ask(std::uint32_t request, std::span<const std::byte> body,
                               const std::vector<int> &descriptors = {}, std::uint32_t flags = 1)
    {
        Post(request, body, descriptors, flags);
        std::vector<std::byte> bytes(4096);
        const ssize_t size = recv(guest_.Get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (size < 12)
            return {};
        EXPECT_EQ(At<std::uint32_t>(bytes, 0), request);
        EXPECT_EQ(At<std::uint32_t>(bytes, 4), 5U);
        EXPECT_EQ(At<std::uint32_t>(bytes, 8), size - 12);
        return {bytes.begin() + 12, bytes.begin() + size};
    }
    /* With acknowledgement: whether the request was granted. */
    bool Granted(std::uint32_t request, std::span<const std::byte> body, const std::vector<int> &descriptors = {})
    {
        const auto reply = Ask(request, body, descriptors, 9);

        EXPECT_EQ(reply.size(), 8U);
        return At<std::uint64_t>(reply, 0) == 0;
    }
    bool Closed()
    {
        std::array<char, 4096> bytes = {};

        RunAll(loop_);
        return recv(guest_.Get(), bytes.data(), bytes.size(), MSG_DONTWAIT) == 0;
    }

    void Negotiate(std::uint64_t protocol = kReplyAck)
    {
        EXPECT_EQ(At<std::uint64_t>(Ask(kGetFeatures, {}), 0), 1ULL << 32 | 1ULL << 30);
        EXPECT_EQ(At<std::uint64_t>(Ask(kGetProtocolFeatures, {}), 0), kReplyAck | kBackendRequests);
        Post(kSetProtocolFeatures, Body(protocol));
        EXPECT_TRUE(Granted(kSetOwner, {}));
        EXPECT_TRUE(Granted(kSetFeatures, Body(std::uint64_t{1ULL << 32 | 1ULL << 30})));
    }
    static std::vector<std::byte> MemoryTable(std::uint64_t size = kMemory)
    {
        return Body(std::uint32_t{1}, std::uint32_t{0}, kGuest, size, kUser, std::uint64_t{0});
    }
    static std::vector<std::byte> RingAddress(std::uint32_t ring, std::uint64_t start)
    {
        return Body(ring, std::uint32_t{0}, start, start + kUsed, start + kAvailable, std::uint64_t{0});
    }
    static std::uint64_t Ring(std::uint32_t ring)
    {
        return ring * kRingSpace;
    }
    void SetUpRing(std::uint32_t ring, bool enable = true, std::uint32_t base = 0)
    {
        EXPECT_TRUE(Granted(kSetVringNum, Body(ring, std::uint32_t{kEntries})));
        EXPECT_TRUE(Granted(kSetVringBase, Body(ring, base)));
        EXPECT_TRUE(Granted(kSetVringAddr, RingAddress(ring, kUser + Ring(ring))));
        EXPECT_TRUE(Granted(kSetVringCall, Body(std::uint64_t{ring}), {call_[ring].Get()}));
        EXPECT_TRUE(Granted(kSetVringKick, Body(std::uint64_t{ring}), {kick_[ring].Get()}));
        if (enable) {
            EXPECT_TRUE(Granted(kSetVringEnable, Body(ring, std::uint32_t{1})));
        }
    }
    void SetUp(bool enable, std::uint64_t protocol = kReplyAck)
    {
        Negotiate(protocol);
        EXPECT_TRUE(Granted(kSetMemTable, MemoryTable(), {file_.Get()}));
        SetUpRing(0, enable);
        SetUpRing(1, enable);
    }

    template <typename T> void Put(std::uint64_t at, const T &value)
    {
        std::memcpy(memory_ + at, &value, sizeof(value));
    }
    template <typename T> T Get(std::uint64_t at) const
    {
        return At<T>(std::span(memory_, kMemory), at);
    }
    void SetDescriptor(std::uint32_t ring, unsigned index, const Descriptor &descriptor)
    {
        Put(Ring(ring) + index * sizeof(Descriptor), descriptor);
    }
    void Offer(std::uint32_t ring, std::uint16_t head)
    {
        auto *index = reinterpret_cast<std::uint16_t *>(memory_ + Ring(ring) + kAvailable + 2);

        Put<std::uint16_t>(Ring(ring) + kAvailable + 4 + 2 * (*index % kEntries), head);
        std::atomic_ref(*index).fetch_add(1);
    }
    void Kick(std::uint32_t ring)
    {
        const std::uint64_t one = 1;

        EXPECT_EQ(write(kick_[ring].Get(), &one, 8), 8);
        RunAll(loop_);
    }
    std::uint64_t Calls(std::uint32_t ring) const
    {
        std::uint64_t count = 0;

        return read(call_[ring].Get(), &count, 8) == 8 ? count : 0;
    }
    std::uint16_t UsedIndex(std::uint32_t ring) const
    {
        return Get<std::uint16_t>(Ring(ring) + kUsed + 2);
    }
    std::uint32_t UsedSize(std::uint32_t ring, unsigned entry) const
    {
        return Get<std::uint32_t>(Ring(ring) + kUsed + 4 + 8 * (entry % kEntries) + 4);
    }

    /* One access, descriptors 0 and 1 of ring 0: what the device wrote back. */
    std::vector<std::byte> Access(const Operation &operation, std::span<const std::byte> data = {},
                                  std::uint32_t answer = 0)
    {
        const std::uint64_t buffer = Ring(0) + kBuffers;
        const std::uint16_t before = UsedIndex(0);
        auto bytes = Body(operation);

        bytes.insert(bytes.end(), data.begin(), data.end());
        std::memcpy(memory_ + buffer, bytes.data(), bytes.size());
        SetDescriptor(
            0, 0,
            {kGuest + buffer, static_cast<std::uint32_t>(bytes.size()), answer != 0 ? kNext : std::uint16_t{0}, 1});
        SetDescriptor(0, 1, {kGuest + buffer + 0x8000, answer, kWrite, 0});
        Offer(0, 0);
        Kick(0);
        EXPECT_EQ(UsedIndex(0), static_cast<std::uint16_t>(before + 1));
        const std::byte *start = memory_ + buffer + 0x8000;
        return {start, start + UsedSize(0, before)};
    }
    template <typename T> T Read(std::uint8_t op, std::uint64_t address)
    {
        const auto bytes = Access({op, 0, 0, sizeof(T), address}, {}, sizeof(T));

        EXPECT_EQ(bytes.size(), sizeof(T));
        return At<T>(bytes, 0);
    }
    template <typename T> void Write(std::uint8_t op, std::uint64_t address, T value)
    {
        Access({op, 0, 0, sizeof(T), address}, std::as_bytes(std::span(&value, 1)));
    }
    void EnableMemory()
    {
        Write<std::uint16_t>(kConfigWrite, PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    }
    void EnableInterrupt(unsigned vector)
    {
        EnableMemory();
        Write<std::uint16_t>(kConfigWrite, 0x9c + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE);
        Write<std::uint64_t>(kMmioWrite, kMsixTableOffset + vector * 16, 0xa0000);
        Write<std::uint64_t>(kMmioWrite, kMsixTableOffset + vector * 16 + 8, 40 + vector);
    }
    void OfferInterruptBuffer(unsigned index)
    {
        SetDescriptor(1, index, {kGuest + Ring(1) + kBuffers + index * kBufferSize, kBufferSize, kWrite, 0});
        Offer(1, static_cast<std::uint16_t>(index));
    }

    FileDescriptor file_;
    std::byte *memory_;
    std::array<FileDescriptor, 2> kick_ = {FileDescriptor(eventfd(0, EFD_NONBLOCK)),
                                           FileDescriptor(eventfd(0, EFD_NONBLOCK))};
    std::array<FileDescriptor, 2> call_ = {FileDescriptor(eventfd(0, EFD_NONBLOCK)),
                                           FileDescriptor(eventfd(0, EFD_NONBLOCK))};
    EventLoop loop_;
    Trace trace_{false};
    RecordingFunction function_;
    VirtioPcidev device_{loop_, trace_, "", false, std::chrono::milliseconds(50)};
    FileDescriptor guest_;
};

TEST_F(VirtioPcidevTest, ConfigurationIsReadAndWritten)
{
    SetUp(true);
    EXPECT_EQ(Read<std::uint32_t>(kConfigRead, 0), 0x101715b3U);
    EXPECT_EQ(Read<std::uint8_t>(kConfigRead, PCI_CAPABILITY_LIST), 0x60);
    EXPECT_EQ(Calls(0), 2U);
    Write<std::uint16_t>(kConfigWrite, PCI_COMMAND, PCI_COMMAND_MASTER);
    EXPECT_TRUE(function_.bus_master);
    EXPECT_EQ(Read<std::uint16_t>(kConfigRead, PCI_COMMAND), PCI_COMMAND_MASTER);
}

TEST_F(VirtioPcidevTest, RegistersOnlyWithMemoryEnabled)
{
    SetUp(true);
    EXPECT_EQ(Read<std::uint32_t>(kMmioRead, 0x18), UINT32_MAX);
    Write<std::uint32_t>(kMmioWrite, 0x18, 1);
    EXPECT_TRUE(function_.reads.empty());
    EXPECT_TRUE(function_.writes.empty());
    EnableMemory();
    Write<std::uint64_t>(kMmioWrite, 0x18, 0x123456789a);
    EXPECT_EQ(Read<std::uint64_t>(kMmioRead, 0x18), 0x123456789aU);
    EXPECT_EQ(At<std::uint32_t>(Access({kMmioRead, 1, 0, 4, 0x18}, {}, 4), 0), UINT32_MAX); /* there is no BAR 1 */
}

TEST_F(VirtioPcidevTest, LongAccessesAreCut)
{
    const std::vector<std::byte> wqe(64, std::byte{7});

    SetUp(true);
    EnableMemory();
    Access({kMmioWrite, 0, 0, 64, 0x800}, wqe);
    EXPECT_EQ(function_.writes.size(), 8U);
    EXPECT_EQ(Access({kMmioRead, 0, 0, 64, 0x800}, {}, 64), wqe);
    Access({kMmioMemset, 0, 0, 32, 0x900}, std::span(wqe).first(1));
    EXPECT_EQ(function_.writes.size(), 12U);
    EXPECT_EQ(function_.writes.back(), (RecordingFunction::Access{0x918, 8, 0x0707070707070707}));
}

TEST_F(VirtioPcidevTest, MalformedAccessesAreReturnedEmpty)
{
    SetUp(true);
    EnableMemory();
    const std::uint64_t before = trace_.complaints();
    EXPECT_TRUE(Access({0, 0, 0, 4, 0}, {}, 4).empty());
    EXPECT_TRUE(Access({99, 0, 0, 4, 0}, {}, 4).empty());
    EXPECT_TRUE(Access({kMmioWrite, 0, 0, 4, 0}, Body(std::uint16_t{1})).empty()); /* less data than said */
    EXPECT_TRUE(Access({kMmioMemset, 0, 0, 4, 0}).empty());
    EXPECT_TRUE(Access({kMmioRead, 0, 0, UINT32_MAX, 0}, {}, 4).empty());
    EXPECT_EQ(Access({kMmioRead, 0, 0, 8, 0x18}, {}, 4).size(), 4U); /* room for half of it */
    /* a header that is not whole, and one that is not in memory */
    SetDescriptor(0, 2, {kGuest, 8, 0, 0});
    Offer(0, 2);
    SetDescriptor(0, 3, {kGuest + kMemory, 16, 0, 0});
    Offer(0, 3);
    Kick(0);
    EXPECT_EQ(trace_.complaints(), before + 7);
    EXPECT_TRUE(function_.writes.empty());
}

TEST_F(VirtioPcidevTest, KickBeforeEnableIsNotLost)
{
    SetUp(false);
    const auto request = Body(Operation{kConfigRead, 0, 0, 4, 0});
    std::memcpy(memory_ + kBuffers, request.data(), request.size());
    SetDescriptor(0, 0, {kGuest + kBuffers, 16, kNext, 1});
    SetDescriptor(0, 1, {kGuest + kBuffers + 16, 4, kWrite, 0});
    Offer(0, 0);
    Kick(0);
    EXPECT_EQ(UsedIndex(0), 0);
    EXPECT_TRUE(Granted(kSetVringEnable, Body(std::uint32_t{0}, std::uint32_t{1})));
    EXPECT_EQ(UsedIndex(0), 1);
}

TEST_F(VirtioPcidevTest, NoCallIfTheDriverWantsNone)
{
    SetUp(true);
    Put<std::uint16_t>(Ring(0) + kAvailable, 1);
    Read<std::uint32_t>(kConfigRead, 0);
    EXPECT_EQ(Calls(0), 0U);
}

TEST_F(VirtioPcidevTest, InterruptsWaitForBuffers)
{
    SetUp(true);
    EnableInterrupt(3);
    EnableInterrupt(7);
    OfferInterruptBuffer(0);
    Kick(1);
    device_.Interrupt(3);
    ASSERT_EQ(UsedIndex(1), 1);
    EXPECT_EQ(UsedSize(1, 0), 20U);
    const auto message = Get<Operation>(Ring(1) + kBuffers);
    EXPECT_EQ(message.op, kMsi);
    EXPECT_EQ(message.size, 4U);
    EXPECT_EQ(message.address, 0xa0000U);
    EXPECT_EQ(Get<std::uint32_t>(Ring(1) + kBuffers + 16), 43U);
    EXPECT_EQ(Calls(1), 1U);

    device_.Interrupt(7);
    device_.Interrupt(3);
    device_.Interrupt(7);
    EXPECT_EQ(UsedIndex(1), 1);
    OfferInterruptBuffer(1);
    OfferInterruptBuffer(2);
    OfferInterruptBuffer(3);
    Kick(1);
    EXPECT_EQ(UsedIndex(1), 3); /* each once */
    EXPECT_EQ(Get<std::uint32_t>(Ring(1) + kBuffers + kBufferSize + 16), 43U);
    EXPECT_EQ(Get<std::uint32_t>(Ring(1) + kBuffers + 2 * kBufferSize + 16), 47U);
}

/* The ring goes round, and its 16-bit indexes do. */
TEST_F(VirtioPcidevTest, RingsGoRound)
{
    constexpr std::uint16_t kBase = 65520;

    Negotiate();
    EXPECT_TRUE(Granted(kSetMemTable, MemoryTable(), {file_.Get()}));
    Put(Ring(0) + kAvailable + 2, kBase);
    Put(Ring(0) + kUsed + 2, kBase);
    SetUpRing(0, true, kBase);
    EnableMemory();
    for (std::uint32_t i = 0; i < 100; ++i) {
        Write<std::uint32_t>(kMmioWrite, 0x40, i);
        EXPECT_EQ(function_.registers[0x40], i);
    }
}

TEST_F(VirtioPcidevTest, ManyCommandsAtOnce)
{
    SetUp(true);
    EnableMemory();
    const std::uint16_t before = UsedIndex(0);
    for (std::uint16_t i = 0; i < kEntries; ++i) {
        const auto request = Body(Operation{kMmioWrite, 0, 0, 4, 0x100 + 4ULL * i}, std::uint32_t{i});

        std::memcpy(memory_ + kBuffers + i * kBufferSize, request.data(), request.size());
        SetDescriptor(0, i, {kGuest + kBuffers + i * kBufferSize, static_cast<std::uint32_t>(request.size()), 0, 0});
        Offer(0, i);
    }
    Kick(0);
    EXPECT_EQ(UsedIndex(0), before + kEntries);
    ASSERT_EQ(function_.writes.size(), kEntries);
    for (std::uint32_t i = 0; i < kEntries; ++i)
        EXPECT_EQ(function_.writes[i].value, i);
}

class BrokenRingTest : public VirtioPcidevTest, public testing::WithParamInterface<int> {};

TEST_P(BrokenRingTest, EndsTheConnection)
{
    SetUp(true);
    switch (GetParam()) {
    case 0: /* a circle */
        SetDescriptor(0, 0, {kGuest, 16, kNext, 1});
        SetDescriptor(0, 1, {kGuest, 16, kNext, 0});
        Offer(0, 0);
        break;
    case 1: /* the head is past the table */
        Offer(0, kEntries);
        break;
    case 2: /* the next is */
        SetDescriptor(0, 0, {kGuest, 16, kNext, 0xffff});
        Offer(0, 0);
        break;
    case 3: /* more than there can be */
        Put<std::uint16_t>(Ring(0) + kAvailable + 2, kEntries + 1);
        break;
    case 4: /* readable after writable */
        SetDescriptor(0, 0, {kGuest, 16, kWrite | kNext, 1});
        SetDescriptor(0, 1, {kGuest, 16, 0, 0});
        Offer(0, 0);
        break;
    default:
        SetDescriptor(0, 0, {kGuest, 16, kIndirect, 0});
        Offer(0, 0);
        break;
    }
    Kick(0);
    EXPECT_TRUE(Closed());
    EXPECT_EQ(function_.resets, 1);
    EXPECT_EQ(trace_.complaints(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BrokenRingTest, testing::Range(0, 6));

TEST_F(VirtioPcidevTest, BadRequestsAreRefused)
{
    Negotiate();
    EXPECT_FALSE(Granted(kSetFeatures, Body(std::uint64_t{1})));
    EXPECT_FALSE(Granted(kSetFeatures, Body(std::uint32_t{0})));
    EXPECT_FALSE(Granted(kSetMemTable, MemoryTable(kMemory + 4096), {file_.Get()})); /* more than the file has */
    EXPECT_FALSE(Granted(kSetMemTable, MemoryTable()));                              /* no descriptor */
    EXPECT_FALSE(Granted(kSetMemTable, Body(std::uint32_t{0}, std::uint32_t{0})));
    EXPECT_FALSE(Granted(kSetMemTable, Body(std::uint32_t{9}, std::uint32_t{0}), std::vector<int>(9, file_.Get())));
    EXPECT_FALSE(Granted(kSetVringAddr, RingAddress(0, kUser))); /* no memory yet */
    EXPECT_TRUE(Granted(kSetMemTable, MemoryTable(), {file_.Get()}));
    EXPECT_FALSE(Granted(kSetVringAddr, RingAddress(0, kUser + 1))); /* badly aligned */
    EXPECT_FALSE(Granted(kSetVringAddr, RingAddress(0, kUser + kMemory)));
    EXPECT_FALSE(Granted(kSetVringAddr, RingAddress(2, kUser)));
    EXPECT_FALSE(Granted(kSetVringNum, Body(std::uint32_t{0}, std::uint32_t{3})));
    EXPECT_FALSE(Granted(kSetVringNum, Body(std::uint32_t{0}, std::uint32_t{65536})));
    EXPECT_FALSE(Granted(kSetVringNum, Body(std::uint32_t{2}, std::uint32_t{4})));
    EXPECT_FALSE(Granted(kSetVringBase, Body(std::uint32_t{0}, std::uint32_t{65536})));
    EXPECT_FALSE(Granted(kSetVringEnable, Body(std::uint32_t{0}, std::uint32_t{2})));
    EXPECT_FALSE(Granted(kSetVringKick, Body(std::uint64_t{2}), {kick_[0].Get()}));
    EXPECT_FALSE(Granted(kSetVringKick, Body(std::uint64_t{0}), {file_.Get()})); /* cannot be polled */
    EXPECT_FALSE(Granted(kSetVringKick, Body(std::uint64_t{0x100})));            /* polling is not done */
    EXPECT_FALSE(Granted(kSetVringCall, Body(std::uint64_t{0})));                /* without the descriptor */
    EXPECT_FALSE(Granted(kSetBackendRequests, {}, {file_.Get()}));               /* not agreed on */
    EXPECT_FALSE(Granted(200, {}));
    SetUpRing(0);
    EXPECT_FALSE(Granted(kSetVringNum, Body(std::uint32_t{0}, std::uint32_t{4}))); /* it runs */
    const auto base = Ask(kGetVringBase, Body(std::uint32_t{0}, std::uint32_t{0}));
    EXPECT_EQ(At<std::uint32_t>(base, 4), 0U);
    EXPECT_TRUE(Granted(kSetVringNum, Body(std::uint32_t{0}, std::uint32_t{4})));
}

TEST_F(VirtioPcidevTest, WhatCannotBeAnsweredEndsTheConnection)
{
    Post(200, {}); /* no acknowledgement was agreed on */
    EXPECT_TRUE(Closed());
    Connect();
    Post(kGetFeatures, {}, {}, 0); /* no version */
    EXPECT_TRUE(Closed());
    Connect();
    Post(kGetFeatures, {}, {}, 5); /* a reply */
    EXPECT_TRUE(Closed());
    Connect();
    EXPECT_TRUE(SendWith(guest_.Get(), Body(std::uint32_t{1}, std::uint32_t{1}, UINT32_MAX), {}));
    EXPECT_TRUE(Closed());
    Connect();
    Negotiate();
}

TEST_F(VirtioPcidevTest, NothingStaysOfAGuest)
{
    const std::size_t before = OpenDescriptors();

    SetUp(true);
    EnableInterrupt(0);
    EXPECT_EQ(OpenDescriptors(), before + 4); /* kick and call of both rings */
    guest_.Reset();
    RunAll(loop_);
    EXPECT_EQ(OpenDescriptors(), before - 2);
    EXPECT_EQ(function_.resets, 1);
    EXPECT_FALSE(function_.bus_master);
    EXPECT_EQ(device_.Memory().Ranges(), 0U);
    device_.Interrupt(0);
    const std::uint64_t one = 1;
    EXPECT_EQ(write(kick_[0].Get(), &one, 8), 8);
    RunAll(loop_);

    /* the next guest starts afresh */
    std::memset(memory_, 0, kMemory);
    Connect();
    SetUp(true);
    EXPECT_EQ(Read<std::uint32_t>(kConfigRead, 0), 0x101715b3U);
}

TEST_F(VirtioPcidevTest, SurpriseRemoval)
{
    SetUp(true);
    EXPECT_TRUE(device_.Disconnect());
    EXPECT_TRUE(Closed());
    EXPECT_FALSE(device_.Disconnect());
    EXPECT_EQ(trace_.complaints(), 0U);
    EXPECT_EQ(function_.resets, 1);
}

TEST_F(VirtioPcidevTest, RemovalLeavesAnEmptySlot)
{
    auto [told, end] = MakePair(SOCK_STREAM);
    char byte = 0;

    SetUp(true, kReplyAck | kBackendRequests);
    EXPECT_FALSE(Granted(kSetBackendRequests, {})) << "without the descriptor";
    EXPECT_TRUE(Granted(kSetBackendRequests, {}, {end.Get()}));
    end.Reset();
    EnableInterrupt(0);
    OfferInterruptBuffer(0);
    EXPECT_TRUE(device_.Disconnect());
    EXPECT_FALSE(device_.Disconnect()) << "once is enough";
    EXPECT_EQ(recv(told.Get(), &byte, 1, MSG_DONTWAIT), -1) << "the guest is to find out by itself";

    EnableMemory();
    EXPECT_EQ(Read<std::uint32_t>(kConfigRead, 0), UINT32_MAX);
    EXPECT_EQ(Read<std::uint64_t>(kMmioRead, 0x18), UINT64_MAX);
    Write<std::uint32_t>(kMmioWrite, 0x18, 1);
    device_.Interrupt(0);
    EXPECT_TRUE(function_.reads.empty() && function_.writes.empty());
    EXPECT_FALSE(function_.bus_master);
    EXPECT_EQ(function_.resets, 1);
    EXPECT_EQ(UsedIndex(1), 0) << "no interrupt";

    EXPECT_TRUE(RunUntil(loop_, [&] { return recv(told.Get(), &byte, 1, MSG_DONTWAIT) == 0; }));
    EXPECT_EQ(Read<std::uint32_t>(kConfigRead, 0), UINT32_MAX) << "as long as the guest likes";
    guest_.Reset();
    RunAll(loop_);

    /* the next guest finds a card */
    std::memset(memory_, 0, kMemory);
    Connect();
    SetUp(true);
    EXPECT_EQ(Read<std::uint32_t>(kConfigRead, 0), 0x101715b3U);
    EXPECT_EQ(trace_.complaints(), 1U) << "of the request without its descriptor";
}

} // namespace
} // namespace cx::test
