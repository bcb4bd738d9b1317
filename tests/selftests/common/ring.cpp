// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See ring.hpp.
#include "common/ring.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace rocev2::test {

namespace {

constexpr size_t min_guard = 8;

// The first byte that is not poison, or the size.
size_t first_damage(std::span<const std::byte> bytes, std::byte poison)
{
    if (bytes.empty() || (bytes[0] == poison &&
                          !std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1)))
        return bytes.size();
    return static_cast<size_t>(
        std::find_if(bytes.begin(), bytes.end(), [&](std::byte b) { return b != poison; }) -
        bytes.begin());
}

} // namespace

Ring::Ring(const Side &side, size_t size, int access, Paging paging, Rng &rng)
    : buffer_(size, paging),
      huge_border_odds_(paging == Paging::hugetlb || paging == Paging::transparent ? 2 : 16)
{
    std::memset(buffer_.data(), 0, buffer_.size());
    const auto address = reinterpret_cast<uint64_t>(buffer_.data());
    // Two more keys over the same memory, at addresses that have nothing to
    // do with where it is mapped: iova != va, and one below 4 GiB.
    const uint64_t high = (rng.next() & 0x7fffffff00000000) | 0x10000000;
    const uint64_t low = 0x40000000 + rng.between<uint64_t>(0, 1024) * page_size;
    keys_.push_back({make_mr(side, buffer_.span(), access), address});
    keys_.push_back({make_mr_iova(side, buffer_.span(), high, access), high});
    keys_.push_back({make_mr_iova(side, buffer_.span(), low, access), low});
}

std::optional<Chunk> Ring::take(std::span<const uint32_t> lengths, size_t alignment, Rng &rng)
{
    std::vector<size_t> gaps(lengths.size() + 1);
    for (size_t &gap : gaps)
        gap = min_guard + rng.between<size_t>(0, 56);
    const size_t used = std::accumulate(lengths.begin(), lengths.end(), size_t{0}) +
        std::accumulate(gaps.begin(), gaps.end(), size_t{0}) + lengths.size() * alignment;

    // Memory order of the segments differs from message order.
    std::vector<size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[rng.between<size_t>(0, i - 1)]);

    // Half of the chunks are moved so that a border lies inside: mostly one
    // between pages, sometimes one between huge pages.
    uint64_t start = head_;
    size_t move = 0;
    if (rng.one_in(2)) {
        const size_t border = rng.one_in(huge_border_odds_) ? huge_page_size : page_size;
        const size_t inside = rng.between<size_t>(0, std::min(used, border) - 1);
        move = border - (start + inside) % border;
    }
    start += move;
    if (start % buffer_.size() + used > buffer_.size())
        start += buffer_.size() - start % buffer_.size();
    if (used > buffer_.size() / 2)
        fail("a message of {} bytes does not fit the test's buffers of {}", used, buffer_.size());
    if (start + used - tail_ > buffer_.size())
        return {};

    Chunk chunk;
    chunk.offset = start % buffer_.size();
    chunk.size = used;
    chunk.end = start + used;
    chunk.poison = static_cast<std::byte>(rng.next());
    chunk.segments.resize(lengths.size());
    size_t at = chunk.offset + gaps[0];
    for (size_t i = 0; i < order.size(); i++) {
        at = (at + alignment - 1) / alignment * alignment;
        chunk.segments[order[i]] = {at, lengths[order[i]]};
        if (lengths[order[i]] &&
            at / huge_page_size != (at + lengths[order[i]] - 1) / huge_page_size)
            huge_crossings_++;
        at += lengths[order[i]] + gaps[i + 1];
    }
    std::memset(buffer_.data() + chunk.offset, static_cast<int>(chunk.poison), chunk.size);
    head_ = chunk.end;
    return chunk;
}

std::vector<ibv_sge> Ring::sges(const Chunk &chunk, Rng &rng) const
{
    std::vector<ibv_sge> list;
    for (const Segment &segment : chunk.segments) {
        const Key &key = keys_[rng.between<size_t>(0, keys_.size() - 1)];
        list.push_back({key.base + segment.offset, segment.length, key.mr->lkey});
    }
    return list;
}

Ring::Remote Ring::remote(const Segment &segment, Rng &rng) const
{
    const Key &key = keys_[rng.between<size_t>(0, keys_.size() - 1)];
    return {key.base + segment.offset, key.mr->rkey};
}

int Ring::block_shift(const Side &side) const
{
    int least = 64;
    for (const Key &key : keys_)
        least = std::min(least, registered_block_shift(side.device, key.mr->lkey));
    return least;
}

void Ring::store(const Chunk &chunk, std::span<const std::byte> message) const
{
    size_t done = 0;
    for (const Segment &segment : chunk.segments) {
        const size_t n = std::min<size_t>(segment.length, message.size() - done);
        if (n)
            std::memcpy(buffer_.data() + segment.offset, message.data() + done, n);
        done += n;
    }
}

std::string Ring::verify(const Chunk &chunk, std::span<const std::byte> message) const
{
    struct Part {
        size_t offset;
        size_t written;
        size_t position; // in the message
    };
    std::vector<Part> parts;
    size_t done = 0;
    for (size_t i = 0; i < chunk.segments.size(); i++) {
        const Segment &segment = chunk.segments[i];
        const size_t n = std::min<size_t>(segment.length, message.size() - done);
        if (n && std::memcmp(buffer_.data() + segment.offset, message.data() + done, n)) {
            size_t j = 0;
            while (buffer_.data()[segment.offset + j] == message[done + j])
                j++;
            size_t never = 0;
            while (j + never < n && buffer_.data()[segment.offset + j + never] == chunk.poison)
                never++;
            return fmt::format("byte {} of {} is {:#04x}{}, expected {:#04x} (segment {} of {}, "
                               "page offset {:#x})",
                               done + j, message.size(),
                               static_cast<int>(buffer_.data()[segment.offset + j]),
                               never > 1 ? fmt::format(" ({} bytes never written)", never) : "",
                               static_cast<int>(message[done + j]), i, chunk.segments.size(),
                               (segment.offset + j) % page_size);
        }
        parts.push_back({segment.offset, n, done});
        done += n;
    }
    if (done != message.size())
        return fmt::format("{} bytes do not fit the segments", message.size() - done);

    // What lies between the written parts must be untouched.
    std::sort(parts.begin(), parts.end(),
              [](const Part &x, const Part &y) { return x.offset < y.offset; });
    size_t at = chunk.offset;
    parts.push_back({chunk.offset + chunk.size, 0, message.size()});
    for (const Part &part : parts) {
        const auto gap = buffer_.span(at, part.offset - at);
        const size_t damage = first_damage(gap, chunk.poison);
        if (damage != gap.size())
            return fmt::format("guard byte written {} bytes before the segment at message byte {}",
                               gap.size() - damage, part.position);
        at = part.offset + part.written;
    }
    return {};
}

std::vector<uint32_t> random_split(uint32_t length, uint32_t pieces, Rng &rng)
{
    std::vector<uint32_t> cuts{0, length};
    for (uint32_t i = 1; i < pieces; i++)
        cuts.push_back(rng.between<uint32_t>(0, length));
    std::sort(cuts.begin(), cuts.end());
    std::vector<uint32_t> lengths;
    for (size_t i = 1; i < cuts.size(); i++)
        lengths.push_back(cuts[i] - cuts[i - 1]);
    return lengths;
}

} // namespace rocev2::test
