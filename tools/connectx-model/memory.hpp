// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The guest's memory as the card sees it by DMA. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

namespace cx {

/**
 * Ranges of DMA addresses and where they lie in this process. The transport maps and unmaps; the card
 * only reads and writes. Ranges do not overlap. Not thread-safe: the model has one thread.
 */
class GuestMemory {
public:
    GuestMemory() = default;
    ~GuestMemory();
    GuestMemory(const GuestMemory &) = delete;
    GuestMemory &operator=(const GuestMemory &) = delete;

    /**
     * Make [address, address + size) visible. Maps `fd` from `offset` (the descriptor stays the caller's); fd < 0: a
     * range that exists and cannot be accessed (ROM). False: empty, wraps, overlaps a mapped range, or mmap refuses;
     * nothing has changed.
     */
    bool Map(std::uint64_t address, std::uint64_t size, int fd, std::uint64_t offset, bool writable);

    /**
     * Drop every range that lies wholly in [address, address + size); false if one lies there in part, then none is
     * dropped.
     */
    bool Unmap(std::uint64_t address, std::uint64_t size);

    void UnmapAll();

    std::size_t Ranges() const
    {
        return ranges_.size();
    }

    /** Of bytes that lie in one writable mapping; nullptr otherwise. Valid until the next Unmap(). */
    std::byte *At(std::uint64_t address, std::uint64_t size) const;

    /**
     * Copy, across adjacent mappings too. False: not all of it is mapped, or writable (a DMA error of the card); what
     * lies before the gap may have been copied.
     */
    bool Read(std::uint64_t address, std::span<std::byte> into) const;
    bool Write(std::uint64_t address, std::span<const std::byte> from) const;

private:
    struct Range {
        std::uint64_t size;
        std::byte *host; /* nullptr: not accessible */
        void *mapping;
        std::size_t mapping_size;
        bool writable;
    };
    const Range *Find(std::uint64_t address, std::uint64_t &offset) const; /* nullptr: none that can be accessed */

    std::map<std::uint64_t, Range> ranges_;
};

} // namespace cx
