// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* vhost-user messages, and the PCI operations that come through the rings. */
#include "virtio_pcidev.hpp"

#include <linux/virtio_config.h>
#include <linux/virtio_pcidev.h>
#include <nlohmann/json.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace cx {
namespace {

/* The protocol's own numbers and layouts, in the CPU's byte order. */
enum Request : std::uint32_t {
    kGetFeatures = 1,
    kSetFeatures = 2,
    kSetOwner = 3,
    kResetOwner = 4,
    kSetMemTable = 5,
    kSetVringNum = 8,
    kSetVringAddr = 9,
    kSetVringBase = 10,
    kGetVringBase = 11,
    kSetVringKick = 12,
    kSetVringCall = 13,
    kSetVringErr = 14,
    kGetProtocolFeatures = 15,
    kSetProtocolFeatures = 16,
    kGetQueueNum = 17,
    kSetVringEnable = 18,
    kSetBackendRequests = 21,
};

struct Header {
    std::uint32_t request;
    std::uint32_t flags;
    std::uint32_t size; /* of the body */
};
static_assert(sizeof(Header) == 12);

constexpr std::uint32_t kFlagsVersion = 1; /* bits 0 and 1 */
constexpr std::uint32_t kVersionMask = 3;
constexpr std::uint32_t kFlagsReply = 1U << 2;
constexpr std::uint32_t kFlagsNeedReply = 1U << 3;

constexpr std::uint64_t kProtocolFeatures = 1ULL << 30; /* VHOST_USER_F_PROTOCOL_FEATURES, a feature bit */
constexpr std::uint64_t kReplyAck = 1ULL << 3;          /* VHOST_USER_PROTOCOL_F_REPLY_ACK, a protocol feature bit */
constexpr std::uint64_t kBackendRequests = 1ULL << 5;   /* VHOST_USER_PROTOCOL_F_BACKEND_REQ */
constexpr std::uint64_t kProtocol = kReplyAck | kBackendRequests;
constexpr std::uint64_t kFeatures = 1ULL << VIRTIO_F_VERSION_1 | kProtocolFeatures;

struct RingState {
    std::uint32_t index, value;
};
struct RingAddress {
    std::uint32_t index, flags;
    std::uint64_t descriptors, used, available, log; /* user addresses */
};
struct MemoryTable {
    std::uint32_t count, padding;
};
struct MemoryRegion {
    std::uint64_t guest, size, user, offset;
};
constexpr std::size_t kMaxRegions = 8;      /* of the protocol, without "configure memory slots" */
constexpr std::size_t kMaxBody = 4096;      /* more than the longest message that this device knows */
constexpr std::uint64_t kNoDescriptor = 1U << 8; /* of SET_VRING_KICK and _CALL; low byte: the ring */

constexpr std::size_t kMaxAccess = 64 << 10; /* bytes of one MMIO access */
constexpr int kCommandsATurn = 256;          /* then timers and other descriptors get theirs */

/* struct virtio_pcidev_msg without its array, with which it cannot be a member of anything. */
struct Operation {
    std::uint8_t op;
    std::uint8_t bar;
    std::uint16_t reserved;
    std::uint32_t size;
    std::uint64_t address;
};
static_assert(sizeof(Operation) == sizeof(virtio_pcidev_msg));

template <typename T> std::vector<std::byte> Bytes(const T &value)
{
    const auto bytes = std::as_bytes(std::span(&value, 1));

    return {bytes.begin(), bytes.end()};
}

std::optional<std::size_t> BodySize(std::span<const std::byte> bytes)
{
    const auto header = Take<Header>(bytes);

    if (!header || header->size > kMaxBody)
        return std::nullopt;
    return header->size;
}

} // namespace

VirtioPcidev::VirtioPcidev(EventLoop &loop, Trace &trace, std::string path, bool once,
                           Clock::duration removal_time)
    : loop_(loop), trace_(trace), path_(std::move(path)), once_(once), removal_time_(removal_time),
      pci_([this](unsigned vector, std::uint64_t address, std::uint32_t data) {
          waiting_.set(vector);
          messages_[vector] = {address, data};
          SendInterrupts();
      })
{
}

VirtioPcidev::~VirtioPcidev()
{
    StopQueues();
}

void VirtioPcidev::Start(Function &function)
{
    function_ = &function;
    pci_.Attach(function);
    if (!path_.empty())
        listener_.emplace(loop_, path_, SOCK_STREAM, [this](FileDescriptor socket) { Adopt(std::move(socket)); });
}

void VirtioPcidev::Adopt(FileDescriptor socket)
{
    trace_.Note("virtio-pcidev: a guest has connected");
    ++guests_;
    guest_ = std::make_unique<MessageSocket>(
        loop_, std::move(socket),
        MessageSocket::Protocol{
            .header_size = sizeof(Header),
            .body_size = BodySize,
            .receive = [this](std::span<const std::byte> message,
                              Descriptors descriptors) { Receive(message, std::move(descriptors)); },
            .closed = [this](std::string_view reason) { Closed(reason); },
        });
}

bool VirtioPcidev::Disconnect()
{
    if (!guest_ || removed_)
        return false;
    trace_.Note("removed, as asked for");
    if (!requests_) {
        guest_->Close("");
        return true;
    }
    removed_ = true;
    pci_.Reset();
    waiting_.reset();
    hang_up_ = loop_.After(removal_time_, [this] {
        hang_up_ = 0;
        requests_.Reset();
    });
    return true;
}

void VirtioPcidev::Closed(std::string_view reason)
{
    if (reason.empty())
        trace_.Note("virtio-pcidev: the guest has gone");
    else
        trace_.Complain("virtio-pcidev: connection closed: {}", reason);
    pci_.Reset();
    StopQueues();
    memory_.UnmapAll();
    regions_.clear();
    features_ = protocol_features_ = 0;
    loop_.Cancel(std::exchange(hang_up_, 0));
    requests_.Reset();
    removed_ = false;
    guest_.reset();
    if (once_)
        loop_.Stop();
    else if (listener_)
        listener_->Resume();
}

void VirtioPcidev::Receive(std::span<const std::byte> message, Descriptors descriptors)
{
    const Header header = Take<Header>(message).value_or(Header{});

    if ((header.flags & kVersionMask) != kFlagsVersion || (header.flags & kFlagsReply) != 0) {
        guest_->Close("a message of another version, or a reply where only requests are expected");
        return;
    }
    const Result result = Execute(header.request, message.subspan(sizeof(Header)), std::move(descriptors));
    /* UML asks for it from the request on that sets the feature */
    const bool acknowledge = (header.flags & kFlagsNeedReply) != 0 && (protocol_features_ & kReplyAck) != 0;
    if (!result.done) {
        ++refused_;
        trace_.Complain("virtio-pcidev: request {} with {} bytes refused", header.request, header.size);
        /* the guest waits for an answer of one kind or another, or would go on as if the request had been granted */
        if (!acknowledge) {
            guest_->Close(fmt::format("request {} cannot be answered", header.request));
            return;
        }
    }
    if (!result.reply.empty())
        Reply(header.request, result.reply);
    else if (acknowledge)
        Reply(header.request, Bytes(std::uint64_t{result.done ? 0U : 1U}));
}

void VirtioPcidev::Reply(std::uint32_t request, std::span<const std::byte> body)
{
    std::vector<std::byte> message = Bytes(Header{
        .request = request, .flags = kFlagsVersion | kFlagsReply, .size = static_cast<std::uint32_t>(body.size())});

    message.insert(message.end(), body.begin(), body.end());
    guest_->Send(message);
}

VirtioPcidev::Result VirtioPcidev::Execute(std::uint32_t request, Body body, Descriptors descriptors)
{
    const auto value = Take<std::uint64_t>(body);

    switch (request) {
    case kGetFeatures:
        return {.done = true, .reply = Bytes(kFeatures)};
    case kSetFeatures:
        if (!value || (*value & ~kFeatures) != 0)
            return {};
        features_ = *value;
        return {.done = true, .reply = {}};
    case kGetProtocolFeatures:
        return {.done = true, .reply = Bytes(kProtocol)};
    case kSetProtocolFeatures:
        if (!value || (*value & ~kProtocol) != 0)
            return {};
        protocol_features_ = *value;
        return {.done = true, .reply = {}};
    case kGetQueueNum:
        return {.done = true, .reply = Bytes(std::uint64_t{kQueues})};
    case kSetOwner:
        return {.done = true, .reply = {}};
    case kResetOwner:
        StopQueues();
        return {.done = true, .reply = {}};
    case kSetBackendRequests:
        if ((protocol_features_ & kBackendRequests) == 0 || descriptors.size() != 1)
            return {};
        requests_ = std::move(descriptors.front());
        return {.done = true, .reply = {}};
    case kSetMemTable:
        return SetMemoryTable(body, descriptors);
    case kSetVringNum:
    case kSetVringBase:
    case kGetVringBase:
    case kSetVringEnable:
        return SetRing(request, body);
    case kSetVringAddr:
        return SetRingAddress(body);
    case kSetVringKick:
    case kSetVringCall:
    case kSetVringErr:
        return SetRingDescriptor(request, body, std::move(descriptors));
    default:
        return {};
    }
}

VirtioPcidev::Result VirtioPcidev::SetMemoryTable(Body body, const Descriptors &descriptors)
{
    const auto table = Take<MemoryTable>(body);

    if (!table || table->count == 0 || table->count > kMaxRegions || descriptors.size() != table->count ||
        body.size() < sizeof(*table) + table->count * sizeof(MemoryRegion))
        return {};
    memory_.UnmapAll();
    regions_.clear();
    for (std::size_t i = 0; i < table->count; ++i) {
        const auto region = Take<MemoryRegion>(body.subspan(sizeof(*table) + i * sizeof(MemoryRegion)));

        if (!region || !memory_.Map(region->guest, region->size, descriptors[i].Get(), region->offset, true)) {
            memory_.UnmapAll();
            regions_.clear();
            return {};
        }
        regions_.push_back({.guest = region->guest, .size = region->size, .user = region->user});
    }
    return {.done = true, .reply = {}};
}

VirtioPcidev::Result VirtioPcidev::SetRing(std::uint32_t request, Body body)
{
    const auto state = Take<RingState>(body);

    if (!state || state->index >= kQueues)
        return {};
    Queue &queue = queues_[state->index];
    switch (request) {
    case kSetVringNum:
        return {.done = !queue.started && queue.ring.SetSize(state->value), .reply = {}};
    case kSetVringBase:
        if (queue.started || state->value > UINT16_MAX)
            return {};
        queue.ring.SetBase(static_cast<std::uint16_t>(state->value));
        return {.done = true, .reply = {}};
    case kGetVringBase: {
        const RingState base = {.index = state->index, .value = queue.ring.Base()};

        const bool enabled = queue.enabled;
        StopQueue(queue);
        queue.enabled = enabled;
        return {.done = true, .reply = Bytes(base)};
    }
    default: /* kSetVringEnable */
        if (state->value > 1)
            return {};
        queue.enabled = state->value == 1;
        Kicked(state->index); /* a kick may have come before */
        return {.done = true, .reply = {}};
    }
}

std::optional<std::uint64_t> VirtioPcidev::GuestAddress(std::uint64_t user) const
{
    for (const Region &region : regions_) {
        if (user >= region.user && user - region.user < region.size)
            return region.guest + (user - region.user);
    }
    return std::nullopt;
}

VirtioPcidev::Result VirtioPcidev::SetRingAddress(Body body)
{
    const auto address = Take<RingAddress>(body);

    if (!address || address->index >= kQueues || queues_[address->index].started)
        return {};
    const auto descriptors = GuestAddress(address->descriptors);
    const auto available = GuestAddress(address->available);
    const auto used = GuestAddress(address->used);
    if (!descriptors || !available || !used)
        return {};
    return {.done = queues_[address->index].ring.SetAddresses(*descriptors, *available, *used), .reply = {}};
}

VirtioPcidev::Result VirtioPcidev::SetRingDescriptor(std::uint32_t request, Body body, Descriptors descriptors)
{
    const auto value = Take<std::uint64_t>(body);

    if (!value || (*value & ~(kNoDescriptor | 0xff)) != 0 || (*value & 0xff) >= kQueues ||
        descriptors.size() != ((*value & kNoDescriptor) != 0 ? 0U : 1U))
        return {};
    const auto index = static_cast<unsigned>(*value & 0xff);
    Queue &queue = queues_[index];
    FileDescriptor descriptor = descriptors.empty() ? FileDescriptor() : std::move(descriptors.front());
    if (descriptor && !SetNonBlocking(descriptor.Get()))
        return {};
    if (request == kSetVringCall) {
        queue.call = std::move(descriptor);
    } else if (request == kSetVringKick) {
        /* without a descriptor the ring would have to be polled */
        if (!descriptor)
            return {};
        loop_.Unwatch(queue.kick.Get());
        queue.kick = std::move(descriptor);
        if (!loop_.Watch(queue.kick.Get(), EPOLLIN, [this, index](std::uint32_t) { Kicked(index); })) {
            queue.kick.Reset();
            return {};
        }
        queue.started = true;
        /* "if VHOST_USER_F_PROTOCOL_FEATURES has not been negotiated, the ring starts directly in the enabled state" */
        if ((features_ & kProtocolFeatures) == 0)
            queue.enabled = true;
    }
    return {.done = true, .reply = {}};
}

void VirtioPcidev::StopQueue(Queue &queue)
{
    loop_.Unwatch(queue.kick.Get());
    queue = Queue();
}

void VirtioPcidev::StopQueues()
{
    for (Queue &queue : queues_)
        StopQueue(queue);
    loop_.Cancel(std::exchange(more_, 0));
    waiting_.reset();
}

bool VirtioPcidev::Running(const Queue &queue) const
{
    return queue.started && queue.enabled && queue.ring.Ready();
}

void VirtioPcidev::Kicked(unsigned index)
{
    Queue &queue = queues_[index];
    std::uint64_t count = 0;

    if (queue.kick) {
        const ssize_t size = read(queue.kick.Get(), &count, sizeof(count));

        /* a pipe whose other end is gone, or no descriptor to read from: it would be ready for ever */
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
            loop_.Unwatch(queue.kick.Get());
            trace_.Complain("virtio-pcidev: ring {} cannot be kicked any more", index);
        }
    }
    if (index == kCommandQueue)
        RunCommands();
    else
        SendInterrupts();
}

void VirtioPcidev::RunCommands()
{
    Queue &queue = queues_[kCommandQueue];
    bool any = false;

    loop_.Cancel(std::exchange(more_, 0)); /* a kick may come first */
    for (int i = 0; Running(queue); ++i) {
        if (i == kCommandsATurn) {
            more_ = loop_.After(Clock::duration::zero(), [this] { RunCommands(); });
            break;
        }
        const auto chain = queue.ring.Pop(memory_);

        if (!chain)
            break;
        queue.ring.Push(memory_, *chain, RunCommand(*chain));
        any = true;
    }
    if (any && queue.ring.CallWanted(memory_))
        Call(queue);
    if (!queue.ring.Error().empty() && guest_)
        guest_->Close(fmt::format("command ring: {}", queue.ring.Error()));
}

/* Bytes written into the chain. */
std::uint32_t VirtioPcidev::RunCommand(const Vring::Chain &chain)
{
    const auto input = Gather(memory_, chain, sizeof(Operation) + kMaxAccess);
    const auto message = input ? Take<Operation>(*input) : std::nullopt;

    ++accesses_;
    if (!message || message->size > kMaxAccess) {
        trace_.Complain("virtio-pcidev: an access without its header, or of more than {} bytes", kMaxAccess);
        return 0;
    }
    const auto data = std::span(*input).subspan(sizeof(Operation));
    const bool has_bar = message->bar == 0;
    std::vector<std::byte> answer(message->size, std::byte{0xff});

    if (removed_) {
        const bool reads = message->op == VIRTIO_PCIDEV_OP_CFG_READ || message->op == VIRTIO_PCIDEV_OP_MMIO_READ;

        return reads ? Scatter(memory_, chain, answer) : 0;
    }
    switch (message->op) {
    case VIRTIO_PCIDEV_OP_CFG_READ:
        pci_.ReadConfig(message->address, answer);
        return Scatter(memory_, chain, answer);
    case VIRTIO_PCIDEV_OP_MMIO_READ:
        if (has_bar && pci_.config().MemoryEnabled())
            pci_.ReadBar(message->address, answer);
        return Scatter(memory_, chain, answer);
    case VIRTIO_PCIDEV_OP_CFG_WRITE:
    case VIRTIO_PCIDEV_OP_MMIO_WRITE:
        if (data.size() < message->size) {
            trace_.Complain("virtio-pcidev: a write of {} bytes carries {}", message->size, data.size());
            return 0;
        }
        if (message->op == VIRTIO_PCIDEV_OP_CFG_WRITE)
            pci_.WriteConfig(message->address, data.first(message->size));
        else if (has_bar && pci_.config().MemoryEnabled())
            pci_.WriteBar(message->address, data.first(message->size));
        return 0;
    case VIRTIO_PCIDEV_OP_MMIO_MEMSET:
        if (data.empty()) {
            trace_.Complain("virtio-pcidev: a memset without its byte");
            return 0;
        }
        std::ranges::fill(answer, data.front());
        if (has_bar && pci_.config().MemoryEnabled())
            pci_.WriteBar(message->address, answer);
        return 0;
    default:
        trace_.Complain("virtio-pcidev: operation {} is not known", message->op);
        return 0;
    }
}

void VirtioPcidev::Interrupt(unsigned vector)
{
    pci_.Interrupt(vector);
}

void VirtioPcidev::SendInterrupts()
{
    struct MsiWrite {
        Operation operation;
        std::uint32_t data;
        std::uint32_t padding; /* not sent */
    };
    constexpr std::size_t kSize = offsetof(MsiWrite, padding);
    Queue &queue = queues_[kInterruptQueue];
    bool any = false;

    for (unsigned vector = 0; vector < kVectors && waiting_.any() && Running(queue); ++vector) {
        if (!waiting_.test(vector))
            continue;
        const auto chain = queue.ring.Pop(memory_);

        if (!chain) {
            ++queued_interrupts_;
            break;
        }
        const MsiWrite write = {
            .operation = {.op = VIRTIO_PCIDEV_OP_MSI,
                          .bar = 0,
                          .reserved = 0,
                          .size = sizeof(write.data),
                          .address = messages_[vector].address},
            .data = messages_[vector].data,
            .padding = 0,
        };

        queue.ring.Push(memory_, *chain, Scatter(memory_, *chain, std::as_bytes(std::span(&write, 1)).first(kSize)));
        waiting_.reset(vector);
        ++interrupts_;
        any = true;
    }
    if (any && queue.ring.CallWanted(memory_))
        Call(queue);
    if (!queue.ring.Error().empty() && guest_)
        guest_->Close(fmt::format("interrupt ring: {}", queue.ring.Error()));
}

void VirtioPcidev::Call(const Queue &queue)
{
    constexpr std::uint64_t kOne = 1;

    /* what is full has been signalled already */
    if (queue.call)
        [[maybe_unused]] const ssize_t written = write(queue.call.Get(), &kOne, sizeof(kOne));
}

std::string VirtioPcidev::Status() const
{
    return nlohmann::json{
        {"transport", "virtio-pcidev"}, {"connected", guest_ != nullptr},
        {"guests", guests_},            {"refused", refused_},
        {"accesses", accesses_},        {"interrupts", interrupts_},
        {"interrupts_queued", queued_interrupts_}, {"memory_ranges", memory_.Ranges()},
        {"bad_accesses", pci_.bad_accesses()},
    }
        .dump();
}

} // namespace cx
