// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Rings and doorbell records that a command's input describes. */
#include "command_ring.hpp"

namespace cx {
namespace {

constexpr Field kAddress = { 0, 64 }; /* an element of a list of physical addresses */
constexpr unsigned kMaxLogPage = 30;

} // namespace

std::uint64_t PagesOf(const Ring &ring)
{
    const std::uint64_t bytes = ring.first_offset + (std::uint64_t{ 1 } << (ring.log_entries + ring.log_stride));

    return (bytes + (std::uint64_t{ 1 } << ring.log_page) - 1) >> ring.log_page;
}

bool ReadPages(Call &call, Ring &ring, std::size_t pages_at, std::uint32_t page_offset)
{
    if (ring.log_page > kMaxLogPage)
        return call.Refuse(Status::kBadParameter, "page size 2^{}", ring.log_page);
    ring.first_offset = page_offset * 64;
    if (ring.first_offset >= 1U << ring.log_page)
        return call.Refuse(Status::kBadParameter, "page_offset {} is past the first page", page_offset);

    const std::uint64_t count = PagesOf(ring);

    if (call.in.size() < pages_at || (call.in.size() - pages_at) / 8 < count)
        return call.Refuse(Status::kBadInputLength, "input of {} bytes, but the ring has {} pages", call.in.size(),
                           count);
    ring.pages.clear();
    ring.pages.reserve(count);
    for (std::uint64_t page = 0; page < count; page++) {
        const std::uint64_t address = GetField(call.in.subspan(pages_at + page * 8), kAddress);

        if (address == 0 || (address & ((std::uint64_t{ 1 } << ring.log_page) - 1)) != 0)
            return call.Refuse(Status::kBadParameter, "page {} at {:#x} is not aligned to 2^{}", page, address,
                               ring.log_page);
        ring.pages.push_back(address);
    }
    for (std::size_t at = pages_at + count * 8; at < call.in.size(); at++)
        if (call.in[at] != std::byte{ 0 })
            return call.Refuse(Status::kBadParameter, "more than the ring's {} pages", count);
    return true;
}

void WritePages(std::span<std::byte> out, const Ring &ring, std::size_t pages_at)
{
    for (std::size_t page = 0; page < ring.pages.size() && pages_at + page * 8 + 8 <= out.size(); page++)
        SetField(out.subspan(pages_at + page * 8), kAddress, ring.pages[page]);
}

bool CheckDoorbellRecord(Call &call, std::uint64_t address)
{
    if (address == 0 || address % 8 != 0)
        return call.Refuse(Status::kBadParameter, "dbr_addr {:#x}", address);
    return true;
}

} // namespace cx
