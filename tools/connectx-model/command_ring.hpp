// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Rings and doorbell records that a command's input describes. */
#pragma once

#include "command_call.hpp"

namespace cx {

/**
 * Fill `ring` (entries, strides and page size are set) with the list of pages at `pages_at` bytes of the input and
 * first entry at `page_offset` in units of 64 bytes. False: refused; the list is short, or a page is not aligned or
 * given as zero.
 */
bool ReadPages(Call &call, Ring &ring, std::size_t pages_at, std::uint32_t page_offset);

/** Number of pages of a ring that is complete but for its list of pages. */
std::uint64_t PagesOf(const Ring &ring);

/** The list of pages, as a query's output carries it; as many as fit. */
void WritePages(std::span<std::byte> out, const Ring &ring, std::size_t pages_at);

/** False: refused; a doorbell record lies on 8 bytes and not at 0. */
bool CheckDoorbellRecord(Call &call, std::uint64_t address);

} // namespace cx
