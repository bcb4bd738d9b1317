// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The guest's memory: files that its monitor shares, mapped into this process. */
#include "memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>

namespace cx {
namespace {

struct Mapping {
    void *start = nullptr;
    std::size_t size = 0;
    std::byte *bytes = nullptr; /* of the offset asked for, which need not be at a page's start */
};

/* Nothing is mapped past the file's end: touching that is SIGBUS, and the sender of the descriptor chose both. */
bool MapFile(int fd, std::uint64_t offset, std::uint64_t size, bool writable, Mapping &result)
{
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::uint64_t lead = offset % page;
    struct stat file = {};

    if (fstat(fd, &file) != 0 || file.st_size < 0)
        return false;
    const auto length = static_cast<std::uint64_t>(file.st_size);
    if (offset > length || size > length - offset || size > std::numeric_limits<std::size_t>::max() - lead)
        return false;
    void *start = mmap(nullptr, static_cast<std::size_t>(size + lead), writable ? PROT_READ | PROT_WRITE : PROT_READ,
                       MAP_SHARED, fd, static_cast<off_t>(offset - lead));
    if (start == MAP_FAILED)
        return false;
    result = {start, static_cast<std::size_t>(size + lead), static_cast<std::byte *>(start) + lead};
    return true;
}

} // namespace

GuestMemory::~GuestMemory()
{
    UnmapAll();
}

bool GuestMemory::Map(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset, bool writable)
{
    if (size == 0 || size - 1 > std::numeric_limits<std::uint64_t>::max() - address)
        return false;
    const std::uint64_t last = address + (size - 1);
    const auto next = ranges_.upper_bound(address);
    if (next != ranges_.end() && next->first <= last)
        return false;
    if (next != ranges_.begin()) {
        const auto &[start, range] = *std::prev(next);

        if (address - start < range.size)
            return false;
    }

    Mapping mapping;
    if (fd >= 0 && !MapFile(fd, offset, size, writable, mapping))
        return false;
    ranges_[address] = {size, mapping.bytes, mapping.start, mapping.size, writable};
    return true;
}

bool GuestMemory::Unmap(std::uint64_t address, std::uint64_t size)
{
    if (size == 0 || size - 1 > std::numeric_limits<std::uint64_t>::max() - address)
        return false;
    const std::uint64_t last = address + (size - 1);
    const auto first = ranges_.lower_bound(address);
    const auto end = ranges_.upper_bound(last);

    if (first != ranges_.begin()) { /* one that begins before the range must end before it too */
        const auto &[start, range] = *std::prev(first);

        if (address - start < range.size)
            return false;
    }
    if (first != end) {
        const auto &[start, range] = *std::prev(end);

        if (range.size - 1 > last - start)
            return false;
    }
    for (auto at = first; at != end; ++at) {
        if (at->second.mapping != nullptr)
            munmap(at->second.mapping, at->second.mapping_size);
    }
    ranges_.erase(first, end);
    return true;
}
void GuestMemory::UnmapAll()
{
    for (const auto &[start, range] : ranges_) {
        if (range.mapping != nullptr)
            munmap(range.mapping, range.mapping_size);
    }
    ranges_.clear();
}

const GuestMemory::Range *GuestMemory::Find(std::uint64_t address, std::uint64_t &offset) const
{
    const auto next = ranges_.upper_bound(address);

    if (next == ranges_.begin())
        return nullptr;
    const auto &[start, range] = *std::prev(next);
    offset = address - start;
    return offset < range.size && range.host != nullptr ? &range : nullptr;
}

std::byte *GuestMemory::At(std::uint64_t address, std::uint64_t size) const
{
    std::uint64_t offset = 0;
    const Range *range = Find(address, offset);

    if (range == nullptr || !range->writable || size > range->size - offset)
        return nullptr;
    return range->host + offset;
}

bool GuestMemory::Read(std::uint64_t address, std::span<std::byte> into) const
{
    while (!into.empty()) {
        std::uint64_t offset = 0;
        const Range *range = Find(address, offset);

        if (range == nullptr)
            return false;
        const std::size_t part = std::min<std::uint64_t>(into.size(), range->size - offset);
        std::memcpy(into.data(), range->host + offset, part);
        into = into.subspan(part);
        address += part;
        if (address == 0 && !into.empty()) /* past the last address there is */
            return false;
    }
    return true;
}

bool GuestMemory::Write(std::uint64_t address, std::span<const std::byte> from) const
{
    while (!from.empty()) {
        std::uint64_t offset = 0;
        const Range *range = Find(address, offset);

        if (range == nullptr || !range->writable)
            return false;
        const std::size_t part = std::min<std::uint64_t>(from.size(), range->size - offset);
        std::memcpy(range->host + offset, from.data(), part);
        from = from.subspan(part);
        address += part;
        if (address == 0 && !from.empty())
            return false;
    }
    return true;
}

} // namespace cx
