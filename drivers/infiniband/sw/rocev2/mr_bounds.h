/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * May this access touch that memory region, and where in its page table does it land?
 *
 * Pure arithmetic under the checks of mr_check.c, for addresses and lengths that come
 * from the wire or from user space and can have any value. Tested in tests/unit.
 */
#ifndef ROCEV2_MR_BOUNDS_H
#define ROCEV2_MR_BOUNDS_H

#include <linux/types.h>

/* why a key does not serve; mapped to a wire syndrome and to a completion status elsewhere */
enum rocev2_mr_status {
	ROCEV2_MR_OK,
	ROCEV2_MR_BAD_KEY,	/* no such key, or a stale variant */
	ROCEV2_MR_BAD_PD,
	ROCEV2_MR_BAD_ACCESS,
	ROCEV2_MR_OUT_OF_BOUNDS,
	ROCEV2_MR_NOT_PRESENT,	/* on-demand paging: it is being brought in, try again */
	ROCEV2_MR_NO_PAGE,	/* ... it was tried, and there is no such memory */
};

/**
 * rocev2_bounds_ok() - does [@addr, @addr + @len) lie within the region?
 * @start: first address of the region
 * @length: its length; @start + @length may be 2^64 but not more
 * @addr: first address of the access
 * @len: its length; 0 is fine anywhere in the region, its end included
 *
 * By subtraction: no sum here can wrap, whatever the peer sent.
 *
 * Return: true when it does.
 */
static inline bool rocev2_bounds_ok(u64 start, u64 length, u64 addr, u64 len)
{
	if (addr < start || addr - start > length)
		return false;
	return len <= length - (addr - start);
}

/**
 * rocev2_mr_allows() - rights, then bounds; key and PD come before and are mr_check.c's
 * @granted: the region's enum ib_access_flags
 * @needed: those that the access needs; 0 for local reads
 * @start: first address of the region
 * @length: its length
 * @addr: first address of the access
 * @len: its length
 */
static inline enum rocev2_mr_status rocev2_mr_allows(u32 granted, u32 needed, u64 start, u64 length,
						     u64 addr, u64 len)
{
	if ((granted & needed) != needed)
		return ROCEV2_MR_BAD_ACCESS;
	if (!rocev2_bounds_ok(start, length, addr, len))
		return ROCEV2_MR_OUT_OF_BOUNDS;
	return ROCEV2_MR_OK;
}

/**
 * struct rocev2_block_pos - a place in a region's table of equal blocks
 * @index: which block
 * @offset: byte in it
 */
struct rocev2_block_pos {
	u64	index;
	u64	offset;
};

/**
 * rocev2_block_pos() - where in the block table is @addr?
 * @start: first address of the region (its iova)
 * @first_offset: where in block 0 that address lies, below the block size
 * @page_shift: log2 of the block size, 12 or more for pages, below 64
 * @addr: an address that rocev2_bounds_ok() let pass
 *
 * The iova's own low bits say nothing of the place in the first block when iova and
 * virtual address differ, hence @first_offset.
 *
 * Return: block and offset.
 */
static inline struct rocev2_block_pos
rocev2_block_pos(u64 start, u64 first_offset, u8 page_shift, u64 addr)
{
	u64 byte = addr - start + first_offset;
	struct rocev2_block_pos pos = {
		.index = byte >> page_shift,
		.offset = byte & ((1ull << page_shift) - 1),
	};

	return pos;
}

/* bytes from @pos to the end of its block */
static inline u64 rocev2_block_left(struct rocev2_block_pos pos, u8 page_shift)
{
	return (1ull << page_shift) - pos.offset;
}

/* entries of the table for @length bytes that start at @first_offset of block 0 */
static inline u64 rocev2_block_count(u64 first_offset, u64 length, u8 page_shift)
{
	if (!length)
		return 0;
	return ((first_offset + length - 1) >> page_shift) + 1;
}

#endif
