// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Split virtqueues. */
#include "vring.hpp"

#define VIRTIO_RING_NO_LEGACY /* its inline functions are no C++ */
#include <linux/virtio_ring.h>

#include <algorithm>
#include <atomic>
#include <bit>

namespace cx {
namespace {

constexpr std::uint32_t kMaxEntries = 32768;
/* Offsets in the available and used rings: flags, index, then the entries. */
constexpr std::uint64_t kIndex = 2;
constexpr std::uint64_t kEntries = 4;

/* Indexes are what the other side of the ring reads or writes at the same time. */
std::optional<std::uint16_t> LoadIndex(const GuestMemory &memory, std::uint64_t address)
{
    auto *at = reinterpret_cast<std::uint16_t *>(memory.At(address, sizeof(std::uint16_t)));

    if (at == nullptr || reinterpret_cast<std::uintptr_t>(at) % alignof(std::uint16_t) != 0)
        return std::nullopt;
    return std::atomic_ref(*at).load(std::memory_order_acquire);
}

void StoreIndex(const GuestMemory &memory, std::uint64_t address, std::uint16_t value)
{
    auto *at = reinterpret_cast<std::uint16_t *>(memory.At(address, sizeof(std::uint16_t)));

    if (at != nullptr && reinterpret_cast<std::uintptr_t>(at) % alignof(std::uint16_t) == 0)
        std::atomic_ref(*at).store(value, std::memory_order_release);
}

template <typename T> bool ReadOne(const GuestMemory &memory, std::uint64_t address, T &value)
{
    return memory.Read(address, std::as_writable_bytes(std::span(&value, 1)));
}

} // namespace

bool Vring::SetSize(std::uint32_t num)
{
    if (!std::has_single_bit(num) || num > kMaxEntries)
        return false;
    num_ = num;
    return true;
}

bool Vring::SetAddresses(std::uint64_t descriptors, std::uint64_t available, std::uint64_t used)
{
    if (descriptors % VRING_DESC_ALIGN_SIZE != 0 || available % VRING_AVAIL_ALIGN_SIZE != 0 ||
        used % VRING_USED_ALIGN_SIZE != 0)
        return false;
    descriptors_ = descriptors;
    available_ = available;
    used_ = used;
    placed_ = true;
    return true;
}

void Vring::SetBase(std::uint16_t index)
{
    next_available_ = index;
    next_used_ = index;
}

std::optional<Vring::Chain> Vring::Fail(std::string_view error)
{
    error_ = error;
    return std::nullopt;
}

std::optional<Vring::Chain> Vring::Pop(const GuestMemory &memory)
{
    Chain chain;
    std::uint16_t at = 0;

    if (!Ready() || !error_.empty())
        return std::nullopt;
    const auto index = LoadIndex(memory, available_ + kIndex);
    if (!index)
        return Fail("the available ring is not in memory");
    const auto waiting = static_cast<std::uint16_t>(*index - next_available_);
    if (waiting == 0)
        return std::nullopt;
    if (waiting > num_)
        return Fail("more buffers are available than the ring has entries");
    if (!ReadOne(memory, available_ + kEntries + std::uint64_t{2} * (next_available_ % num_), at))
        return Fail("the available ring is not in memory");

    chain.head = at;
    for (std::uint32_t count = 0;; ++count) {
        vring_desc descriptor = {};

        if (at >= num_)
            return Fail("a descriptor's number is past the table's end");
        if (count == num_)
            return Fail("descriptors are chained in a circle");
        if (!ReadOne(memory, descriptors_ + sizeof(descriptor) * at, descriptor))
            return Fail("the descriptor table is not in memory");
        if ((descriptor.flags & VRING_DESC_F_INDIRECT) != 0)
            return Fail("an indirect descriptor, which was not negotiated");
        if ((descriptor.flags & VRING_DESC_F_WRITE) != 0)
            chain.writable.push_back({descriptor.addr, descriptor.len});
        else if (chain.writable.empty())
            chain.readable.push_back({descriptor.addr, descriptor.len});
        else
            return Fail("a readable descriptor after a writable one");
        if ((descriptor.flags & VRING_DESC_F_NEXT) == 0)
            break;
        at = descriptor.next;
    }
    ++next_available_;
    return chain;
}

void Vring::Push(const GuestMemory &memory, const Chain &chain, std::uint32_t written)
{
    const vring_used_elem element = {.id = chain.head, .len = written};

    memory.Write(used_ + kEntries + sizeof(element) * (next_used_ % num_), std::as_bytes(std::span(&element, 1)));
    ++next_used_;
    StoreIndex(memory, used_ + kIndex, next_used_);
}

bool Vring::CallWanted(const GuestMemory &memory) const
{
    /* the used index must be seen before the driver's flags are read, or its going to sleep is missed */
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const auto flags = LoadIndex(memory, available_);

    return flags && (*flags & VRING_AVAIL_F_NO_INTERRUPT) == 0;
}

std::optional<std::vector<std::byte>> Gather(const GuestMemory &memory, const Vring::Chain &chain, std::size_t limit)
{
    std::vector<std::byte> bytes;

    for (const auto &part : chain.readable) {
        const std::size_t start = bytes.size();

        if (part.size > limit - start)
            return std::nullopt;
        bytes.resize(start + part.size);
        if (!memory.Read(part.address, std::span(bytes).subspan(start)))
            return std::nullopt;
    }
    return bytes;
}

std::uint32_t Scatter(const GuestMemory &memory, const Vring::Chain &chain, std::span<const std::byte> from)
{
    std::uint32_t written = 0;

    for (const auto &part : chain.writable) {
        const auto now = from.first(std::min<std::size_t>(part.size, from.size()));

        if (!memory.Write(part.address, now))
            break;
        written += static_cast<std::uint32_t>(now.size());
        from = from.subspan(now.size());
    }
    return written;
}

} // namespace cx
