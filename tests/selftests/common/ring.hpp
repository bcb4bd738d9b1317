// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Space for messages in one registered buffer, given out and taken back in
// order.  A chunk is scattered into segments with poisoned guard bytes around
// each, placed over page and huge-page borders, so a byte too many or in the
// wrong place is seen.
#pragma once

#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/verbs.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rocev2::test {

struct Segment {
    size_t offset; // in the ring's buffer
    uint32_t length;
};

struct Chunk {
    uint64_t end = 0; // for Ring::release()
    size_t offset = 0;
    size_t size = 0;
    std::byte poison{};
    std::vector<Segment> segments; // in message order
};

class Ring {
public:
    Ring(const Side &side, size_t size, int access, Paging paging, Rng &rng);

    // A chunk with the given segment lengths (in message order), poisoned all
    // over; none if the ring is too full now.
    std::optional<Chunk> take(std::span<const uint32_t> lengths, size_t alignment, Rng &rng);
    // Everything up to and including the chunk with this end is free again.
    void release(uint64_t end) { tail_ = end; }
    void release_all() { head_ = tail_ = 0; }

    // The chunk's segments as SGEs, each by a random one of the ring's keys.
    std::vector<ibv_sge> sges(const Chunk &chunk, Rng &rng) const;
    struct Remote {
        uint64_t address;
        uint32_t rkey;
    };
    Remote remote(const Segment &segment, Rng &rng) const;

    std::span<std::byte> at(const Segment &segment) const
    {
        return buffer_.span(segment.offset, segment.length);
    }
    // Segments given out so far that cross a border between two huge pages.
    uint64_t huge_crossings() const { return huge_crossings_; }
    // The smallest log2 of a table entry's bytes over all keys.
    int block_shift(const Side &side) const;

    void store(const Chunk &chunk, std::span<const std::byte> message) const;

    // Empty if the first bytes of the segments hold the message and every
    // other byte of the chunk is still poison; else what is wrong.
    std::string verify(const Chunk &chunk, std::span<const std::byte> message) const;

private:
    struct Key {
        Mr mr;
        uint64_t base; // the address of the buffer's first byte by this key
    };

    Buffer buffer_;
    std::vector<Key> keys_;
    uint64_t head_ = 0; // bytes given out and taken back since the start
    uint64_t tail_ = 0;
    uint64_t huge_crossings_ = 0;
    // one in so many chunks that are moved over a border is moved over one of huge pages
    uint32_t huge_border_odds_;
};

// Cuts a length into @pieces random parts, some of them empty.
std::vector<uint32_t> random_split(uint32_t length, uint32_t pieces, Rng &rng);

} // namespace rocev2::test
