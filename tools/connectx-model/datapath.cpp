// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the queues share: memory, by address and by key. */
#include "datapath.hpp"

#include <algorithm>
#include <atomic>

namespace cx {

DataPath::DataPath(Objects &objects, Bus &bus, Timers &timers, Wire &wire, Trace &trace)
    : objects_(objects), bus_(bus), timers_(timers), wire_(wire), trace_(trace)
{
}

DataPath::~DataPath()
{
    StopSending();
    for (auto &[number, cq] : objects_.cqs)
        CancelTimer(cq);
}

bool DataPath::ReadMemory(std::uint64_t address, std::span<std::byte> into)
{
    if (bus_.Memory().Read(address, into))
        return true;
    ++objects_.port.dma_errors;
    trace_.Complain("DMA read of {} bytes at {:#x}: not mapped", into.size(), address);
    return false;
}

bool DataPath::WriteMemory(std::uint64_t address, std::span<const std::byte> from)
{
    if (bus_.Memory().Write(address, from))
        return true;
    ++objects_.port.dma_errors;
    trace_.Complain("DMA write of {} bytes at {:#x}: not mapped", from.size(), address);
    return false;
}

bool DataPath::WriteEntry(std::uint64_t address, std::span<const std::byte> entry)
{
    const std::size_t last = entry.size() - 1;

    /* The guest's processors run meanwhile: they may look at the last byte at any time. */
    if (!WriteMemory(address, entry.first(last)))
        return false;
    std::atomic_thread_fence(std::memory_order_release);
    return WriteMemory(address + last, entry.subspan(last));
}

bool DataPath::ReadRecord(std::uint64_t address, std::uint32_t &value)
{
    std::array<std::byte, sizeof(Be32)> bytes = {};

    if (!ReadMemory(address, bytes))
        return false;
    std::atomic_thread_fence(std::memory_order_acquire); /* what the record counts is read after it */
    value = Load32(bytes, 0);
    return true;
}

const Mkey *DataPath::FindKey(std::uint32_t pd, std::uint32_t key, std::uint64_t address, std::size_t size,
                              Access access)
{
    const char *problem = nullptr;
    const auto found = objects_.mkeys.find(key >> 8);

    if (found == objects_.mkeys.end() || found->second.key != key || found->second.free) {
        problem = "no such key";
    } else {
        const Mkey &mkey = found->second;

        if (mkey.pd != pd)
            problem = "another protection domain's key";
        else if (access == Access::kRead ? !mkey.local_read : !mkey.local_write)
            problem = "the key does not allow it";
        else if (size > std::numeric_limits<std::uint64_t>::max() - address ||
                 (!mkey.length64 && (address < mkey.start || address - mkey.start > mkey.length ||
                                     size > mkey.length - (address - mkey.start))))
            problem = "out of the key's bounds";
        else
            return &mkey;
    }
    ++objects_.port.dma_errors;
    trace_.Complain("key {:#x}, {} bytes at {:#x}: {}", key, size, address, problem);
    return nullptr;
}

namespace {

/*
 * `part` of each piece that lies in one page: its DMA address, and where in the range it begins and ends. The key's
 * pages begin with the one that its start address lies in. False as soon as `part` says so, or where a page is missing.
 */
template <typename PartOfRange>
bool ForEachPart(const Mkey &mkey, std::uint64_t address, std::size_t size, PartOfRange part)
{
    if (mkey.physical)
        return part(address, std::size_t{0}, size);
    if (mkey.log_page > 40) /* past any page there is; shifts stay defined */
        return false;
    const std::uint64_t page_size = std::uint64_t{1} << mkey.log_page;
    std::uint64_t at = address - (mkey.start & ~(page_size - 1));
    for (std::size_t done = 0; done < size;) {
        const std::uint64_t page = at >> mkey.log_page, offset = at & (page_size - 1);
        const auto take = static_cast<std::size_t>(std::min<std::uint64_t>(size - done, page_size - offset));

        if (page >= mkey.pages.size() || !part(mkey.pages[page] + offset, done, take))
            return false;
        done += take;
        at += take;
    }
    return true;
}

} // namespace

bool DataPath::ReadByKey(std::uint32_t pd, std::uint32_t key, std::uint64_t address, std::span<std::byte> into)
{
    const Mkey *mkey = FindKey(pd, key, address, into.size(), Access::kRead);

    return mkey != nullptr &&
           ForEachPart(*mkey, address, into.size(), [&](std::uint64_t dma, std::size_t from, std::size_t size) {
               return ReadMemory(dma, into.subspan(from, size));
           });
}

bool DataPath::WriteByKey(std::uint32_t pd, std::uint32_t key, std::uint64_t address, std::span<const std::byte> from)
{
    const Mkey *mkey = FindKey(pd, key, address, from.size(), Access::kWrite);

    return mkey != nullptr &&
           ForEachPart(*mkey, address, from.size(), [&](std::uint64_t dma, std::size_t at, std::size_t size) {
               return WriteMemory(dma, from.subspan(at, size));
           });
}

std::uint64_t DataPath::Timestamp() const
{
    const auto now = timers_.Now().time_since_epoch();

    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

void DataPath::LoseInterrupt()
{
    lose_interrupt_ = true;
}

} // namespace cx
