// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* vfio-user messages and their answers. */
#include "vfio_user.hpp"

#include <linux/vfio.h>
#include <nlohmann/json.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace cx {
namespace {

/* The protocol's own numbers and layouts; all are little-endian, as this machine is (pci.cpp). */
enum Command : std::uint16_t {
    kVersion = 1,
    kDmaMap = 2,
    kDmaUnmap = 3,
    kGetInfo = 4,
    kGetRegionInfo = 5,
    kGetIrqInfo = 7,
    kSetIrqs = 8,
    kRegionRead = 9,
    kRegionWrite = 10,
    kReset = 13,
};

struct Header {
    std::uint16_t id;
    std::uint16_t command;
    std::uint32_t size; /* with the header */
    std::uint32_t flags;
    std::uint32_t error;
};
static_assert(sizeof(Header) == 16);

constexpr std::uint32_t kTypeMask = 0xf; /* of Header::flags: 0 command, 1 reply */
constexpr std::uint32_t kTypeReply = 1;
constexpr std::uint32_t kNoReply = 1U << 4;
constexpr std::uint32_t kError = 1U << 5;

struct VersionMessage {
    std::uint16_t major;
    std::uint16_t minor;
};

struct DmaMapMessage {
    std::uint32_t argsz;
    std::uint32_t flags; /* 1: the device may read, 2: it may write */
    std::uint64_t offset;
    std::uint64_t address;
    std::uint64_t size;
};
constexpr std::uint32_t kDmaRead = 1;
constexpr std::uint32_t kDmaWrite = 2;

struct DmaUnmapMessage {
    std::uint32_t argsz;
    std::uint32_t flags; /* 1: with a bitmap of dirty pages, 2: everything */
    std::uint64_t address;
    std::uint64_t size;
};
constexpr std::uint32_t kUnmapAll = 2;

struct RegionAccess {
    std::uint64_t offset;
    std::uint32_t region;
    std::uint32_t count;
};

constexpr std::size_t kMaxData = 1 << 20; /* of one region access; told to the client */
constexpr std::size_t kMaxMessage = sizeof(Header) + sizeof(RegionAccess) + kMaxData;
constexpr std::size_t kMaxDescriptors = 16; /* of one message; told to the client */
constexpr std::size_t kMaxRanges = 8192;    /* of guest memory; a process may have some 65000 mappings */

template <typename T> void Put(std::vector<std::byte> &into, const T &value)
{
    const auto bytes = std::as_bytes(std::span(&value, 1));

    into.insert(into.end(), bytes.begin(), bytes.end());
}

/* The size of what follows, told by a header. */
std::optional<std::size_t> BodySize(std::span<const std::byte> bytes)
{
    const auto header = Take<Header>(bytes);

    if (!header || header->size < sizeof(Header) || header->size > kMaxMessage)
        return std::nullopt;
    return header->size - sizeof(Header);
}

std::uint64_t RegionSize(std::uint32_t region)
{
    return region == VFIO_PCI_BAR0_REGION_INDEX ? kBarSize : region == VFIO_PCI_CONFIG_REGION_INDEX ? kConfigSize : 0;
}

std::uint32_t IrqCount(std::uint32_t index)
{
    return index == VFIO_PCI_MSIX_IRQ_INDEX ? kVectors : index == VFIO_PCI_ERR_IRQ_INDEX ? 1 : 0;
}

bool InRegion(const RegionAccess &access)
{
    const std::uint64_t size = RegionSize(access.region);

    return access.offset <= size && access.count <= size - access.offset && access.count <= kMaxData;
}

} // namespace

VfioUser::VfioUser(EventLoop &loop, Trace &trace, std::string path, bool once)
    : loop_(loop), trace_(trace), path_(std::move(path)), once_(once),
      pci_([](unsigned, std::uint64_t, std::uint32_t) {})
{
}

void VfioUser::Start(Function &function)
{
    function_ = &function;
    pci_.Attach(function);
    if (!path_.empty())
        listener_.emplace(loop_, path_, SOCK_STREAM, [this](FileDescriptor socket) { Adopt(std::move(socket)); });
}

void VfioUser::Adopt(FileDescriptor socket)
{
    trace_.Note("vfio-user: a client has connected");
    ++clients_;
    negotiated_ = false;
    client_ = std::make_unique<MessageSocket>(
        loop_, std::move(socket),
        MessageSocket::Protocol{
            .header_size = sizeof(Header),
            .body_size = BodySize,
            .receive = [this](std::span<const std::byte> message,
                              Descriptors descriptors) { Receive(message, std::move(descriptors)); },
            .closed = [this](std::string_view reason) { Closed(reason); },
        });
}

bool VfioUser::Disconnect()
{
    if (!client_)
        return false;
    trace_.Note("removed, as asked for");
    client_->Close("");
    return true;
}

/* The guest is gone: nothing of it stays, least of all its memory. */
void VfioUser::Closed(std::string_view reason)
{
    if (reason.empty())
        trace_.Note("vfio-user: the client has gone");
    else
        trace_.Complain("vfio-user: connection closed: {}", reason);
    pci_.Reset();
    memory_.UnmapAll();
    for (FileDescriptor &event : events_)
        event.Reset();
    error_event_.Reset();
    pending_.reset();
    client_.reset();
    if (once_)
        loop_.Stop();
    else if (listener_)
        listener_->Resume();
}

void VfioUser::Receive(std::span<const std::byte> message, Descriptors descriptors)
{
    const Header header = Take<Header>(message).value_or(Header{});

    if ((header.flags & kTypeMask) != 0) {
        client_->Close("a reply, or a type unknown, where only commands are expected");
        return;
    }
    if (!negotiated_ && header.command != kVersion) {
        client_->Close("a command before the version was negotiated");
        return;
    }
    Result result;
    if ((header.flags & ~(kTypeMask | kNoReply)) != 0 || descriptors.size() > kMaxDescriptors)
        result.error = EINVAL;
    else
        result = Execute(header.command, message.subspan(sizeof(Header)), std::move(descriptors));
    if (result.error != 0) {
        ++refused_;
        trace_.Complain("vfio-user: command {} of {} bytes refused: {}", header.command, message.size(),
                        std::strerror(result.error));
    }
    if ((header.flags & kNoReply) == 0)
        Reply(header.id, header.command, result);
}

void VfioUser::Reply(std::uint16_t id, std::uint16_t command, const Result &result)
{
    const std::size_t body = result.error == 0 ? result.body.size() : 0;
    const Header header = {
        .id = id,
        .command = command,
        .size = static_cast<std::uint32_t>(sizeof(Header) + body),
        .flags = result.error == 0 ? kTypeReply : kTypeReply | kError,
        .error = static_cast<std::uint32_t>(result.error),
    };
    std::vector<std::byte> message;

    message.reserve(header.size);
    Put(message, header);
    if (body != 0)
        message.insert(message.end(), result.body.begin(), result.body.end());
    client_->Send(message);
}

VfioUser::Result VfioUser::Execute(std::uint16_t command, Body body, Descriptors descriptors)
{
    if (!descriptors.empty() && command != kDmaMap && command != kSetIrqs)
        return {.error = EINVAL, .body = {}};
    switch (command) {
    case kVersion:
        return Version(body);
    case kDmaMap:
        return DmaMap(body, descriptors);
    case kDmaUnmap:
        return DmaUnmap(body);
    case kGetInfo:
        return GetInfo(body);
    case kGetRegionInfo:
        return GetRegionInfo(body);
    case kGetIrqInfo:
        return GetIrqInfo(body);
    case kSetIrqs:
        return SetIrqs(body, std::move(descriptors));
    case kRegionRead:
        return RegionRead(body);
    case kRegionWrite:
        return RegionWrite(body);
    case kReset:
        return body.empty() ? Reset() : Result{.error = EINVAL, .body = {}};
    default:
        return {.error = ENOTSUP, .body = {}};
    }
}

/* Both numbers, then what either side can do, as JSON text that ends with a zero. */
VfioUser::Result VfioUser::Version(Body body)
{
    static const std::string capabilities =
        nlohmann::json{{"capabilities", {{"max_msg_fds", kMaxDescriptors}, {"max_data_xfer_size", kMaxData}}}}.dump();
    const auto version = Take<VersionMessage>(body);
    Result result;

    if (!version || version->major != 0 || negotiated_)
        return {.error = EINVAL, .body = {}};
    const auto text = body.subspan(sizeof(VersionMessage));
    if (!text.empty()) {
        const auto *first = reinterpret_cast<const char *>(text.data());

        if (text.back() != std::byte{0} || !nlohmann::json::accept(first, first + text.size() - 1))
            return {.error = EINVAL, .body = {}};
    }
    negotiated_ = true;
    Put(result.body, VersionMessage{.major = 0, .minor = 0});
    const auto bytes = std::as_bytes(std::span(capabilities.c_str(), capabilities.size() + 1));
    result.body.insert(result.body.end(), bytes.begin(), bytes.end());
    return result;
}

VfioUser::Result VfioUser::DmaMap(Body body, const Descriptors &descriptors)
{
    const auto map = Take<DmaMapMessage>(body);

    if (!map || body.size() != sizeof(*map) || map->argsz < sizeof(*map) || descriptors.size() > 1 ||
        (map->flags & ~(kDmaRead | kDmaWrite)) != 0 || memory_.Ranges() >= kMaxRanges)
        return {.error = EINVAL, .body = {}};
    const int fd = descriptors.empty() ? -1 : descriptors.front().Get();
    if (!memory_.Map(map->address, map->size, fd, map->offset, (map->flags & kDmaWrite) != 0))
        return {.error = EINVAL, .body = {}};
    return {};
}

VfioUser::Result VfioUser::DmaUnmap(Body body)
{
    const auto unmap = Take<DmaUnmapMessage>(body);
    Result result;

    if (!unmap || body.size() != sizeof(*unmap) || unmap->argsz < sizeof(*unmap))
        return {.error = EINVAL, .body = {}};
    if (unmap->flags == kUnmapAll && unmap->address == 0 && unmap->size == 0)
        memory_.UnmapAll();
    else if (unmap->flags != 0)
        return {.error = ENOTSUP, .body = {}};
    else if (!memory_.Unmap(unmap->address, unmap->size))
        return {.error = EINVAL, .body = {}};
    Put(result.body, *unmap);
    return result;
}

VfioUser::Result VfioUser::GetInfo(Body body)
{
    struct Info {
        std::uint32_t argsz, flags, regions, irqs;
    };
    const auto info = Take<Info>(body);
    Result result;

    if (!info || info->argsz < sizeof(*info))
        return {.error = EINVAL, .body = {}};
    Put(result.body, Info{.argsz = sizeof(Info),
                          .flags = VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET,
                          .regions = VFIO_PCI_NUM_REGIONS,
                          .irqs = VFIO_PCI_NUM_IRQS});
    return result;
}

VfioUser::Result VfioUser::GetRegionInfo(Body body)
{
    const auto info = Take<vfio_region_info>(body);
    Result result;

    if (!info || info->argsz < sizeof(*info) || info->index >= VFIO_PCI_NUM_REGIONS)
        return {.error = EINVAL, .body = {}};
    const std::uint64_t size = RegionSize(info->index);
    Put(result.body,
        vfio_region_info{.argsz = sizeof(*info),
                         .flags = size != 0 ? VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE : 0U,
                         .index = info->index,
                         .cap_offset = 0,
                         .size = size,
                         .offset = 0});
    return result;
}

VfioUser::Result VfioUser::GetIrqInfo(Body body)
{
    const auto info = Take<vfio_irq_info>(body);
    Result result;

    if (!info || info->argsz < sizeof(*info) || info->index >= VFIO_PCI_NUM_IRQS)
        return {.error = EINVAL, .body = {}};
    const std::uint32_t count = IrqCount(info->index);
    Put(result.body, vfio_irq_info{.argsz = sizeof(*info),
                                   .flags = count != 0 ? VFIO_IRQ_INFO_EVENTFD : 0U,
                                   .index = info->index,
                                   .count = count});
    return result;
}

/*
 * Descriptors for vectors, or none to take theirs away; no data and a count of 0 disables the whole index; no data or
 * flags with a count fires those vectors. Masking is for INTx alone, which this function has not.
 */
VfioUser::Result VfioUser::SetIrqs(Body body, Descriptors descriptors)
{
    constexpr std::size_t kFixed = 20; /* of vfio_irq_set, before its data */
    struct Set {
        std::uint32_t argsz, flags, index, start, count;
    };
    static_assert(sizeof(Set) == kFixed);
    const auto set = Take<Set>(body);

    if (!set || set->argsz < kFixed || set->index >= VFIO_PCI_NUM_IRQS ||
        (set->flags & VFIO_IRQ_SET_ACTION_TYPE_MASK) != VFIO_IRQ_SET_ACTION_TRIGGER)
        return {.error = EINVAL, .body = {}};
    const std::uint32_t limit = IrqCount(set->index);
    const std::uint32_t type = set->flags & VFIO_IRQ_SET_DATA_TYPE_MASK;
    if (set->start > limit || set->count > limit - set->start)
        return {.error = EINVAL, .body = {}};
    const std::span<FileDescriptor> all =
        set->index == VFIO_PCI_MSIX_IRQ_INDEX ? std::span(events_) : std::span(&error_event_, limit);
    const auto chosen = all.subspan(set->start, set->count);
    const auto flags = body.subspan(kFixed);

    if (type == VFIO_IRQ_SET_DATA_EVENTFD) {
        if (!descriptors.empty() && descriptors.size() != chosen.size())
            return {.error = EINVAL, .body = {}};
        for (std::size_t i = 0; i < chosen.size(); ++i) {
            if (!descriptors.empty() && !SetNonBlocking(descriptors[i].Get()))
                return {.error = EINVAL, .body = {}};
            chosen[i] = descriptors.empty() ? FileDescriptor() : std::move(descriptors[i]);
        }
        for (std::uint32_t i = 0; set->index == VFIO_PCI_MSIX_IRQ_INDEX && i < set->count; ++i) {
            if (pending_.test(set->start + i))
                Interrupt(set->start + i);
        }
        return {};
    }
    if (!descriptors.empty() || (type == VFIO_IRQ_SET_DATA_BOOL && flags.size() != set->count) ||
        (type != VFIO_IRQ_SET_DATA_BOOL && type != VFIO_IRQ_SET_DATA_NONE))
        return {.error = EINVAL, .body = {}};
    if (set->count == 0 && type == VFIO_IRQ_SET_DATA_NONE) {
        for (FileDescriptor &event : all)
            event.Reset();
    }
    for (std::uint32_t i = 0; set->index == VFIO_PCI_MSIX_IRQ_INDEX && i < set->count; ++i) {
        if (type == VFIO_IRQ_SET_DATA_NONE || flags[i] != std::byte{0})
            Interrupt(set->start + i);
    }
    return {};
}

VfioUser::Result VfioUser::RegionRead(Body body)
{
    const auto access = Take<RegionAccess>(body);
    Result result;

    if (!access || body.size() != sizeof(*access) || !InRegion(*access))
        return {.error = EINVAL, .body = {}};
    Put(result.body, *access);
    result.body.resize(sizeof(*access) + access->count);
    const auto data = std::span(result.body).subspan(sizeof(*access));
    if (access->region == VFIO_PCI_CONFIG_REGION_INDEX)
        pci_.ReadConfig(access->offset, data);
    else
        pci_.ReadBar(access->offset, data);
    return result;
}

VfioUser::Result VfioUser::RegionWrite(Body body)
{
    const auto access = Take<RegionAccess>(body);
    Result result;

    if (!access || !InRegion(*access) || body.size() - sizeof(*access) != access->count)
        return {.error = EINVAL, .body = {}};
    const auto data = body.subspan(sizeof(*access));
    if (access->region == VFIO_PCI_CONFIG_REGION_INDEX)
        pci_.WriteConfig(access->offset, data);
    else
        pci_.WriteBar(access->offset, data);
    Put(result.body, *access);
    return result;
}

VfioUser::Result VfioUser::Reset()
{
    pci_.Reset();
    pending_.reset();
    return {};
}

void VfioUser::Interrupt(unsigned vector)
{
    constexpr std::uint64_t kOne = 1;

    if (vector >= kVectors)
        return;
    pending_.set(vector, !events_[vector]);
    if (!events_[vector])
        return;
    ++interrupts_;
    /* an eventfd that is full has been signalled already */
    [[maybe_unused]] const ssize_t written = write(events_[vector].Get(), &kOne, sizeof(kOne));
}

std::string VfioUser::Status() const
{
    return nlohmann::json{
        {"transport", "vfio-user"},      {"connected", client_ != nullptr},
        {"clients", clients_},           {"refused", refused_},
        {"interrupts", interrupts_},     {"memory_ranges", memory_.Ranges()},
        {"bad_accesses", pci_.bad_accesses()},
    }
        .dump();
}

} // namespace cx
