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

/* access rights of an MR; the values are those of enum ib_access_flags */
enum rocev2_access {
	ROCEV2_ACC_LOCAL_WRITE		= 1 << 0,
	ROCEV2_ACC_REMOTE_WRITE		= 1 << 1,
	ROCEV2_ACC_REMOTE_READ		= 1 << 2,
	ROCEV2_ACC_REMOTE_ATOMIC	= 1 << 3,
};

/* what is about to be done with the memory */
enum rocev2_mr_use {
	ROCEV2_USE_GATHER,		/* source of an outgoing message: always allowed */
	ROCEV2_USE_SCATTER,		/* receive buffer, READ or atomic result */
	ROCEV2_USE_REMOTE_WRITE,
	ROCEV2_USE_REMOTE_READ,
	ROCEV2_USE_REMOTE_ATOMIC,
};

/* outcome of an MR check: mapped to a syndrome and to a completion status elsewhere */
enum rocev2_mr_status {
	ROCEV2_MR_OK,
	ROCEV2_MR_BAD_KEY,		/* no region has this index and variant */
	ROCEV2_MR_BAD_PD,
	ROCEV2_MR_BAD_ACCESS,		/* the region lacks the right */
	ROCEV2_MR_OUT_OF_BOUNDS,
	ROCEV2_MR_MISALIGNED,		/* an atomic not on its 8 bytes */
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

/* the right that @use needs; 0 when it needs none */
static inline u32 rocev2_access_needed(enum rocev2_mr_use use)
{
	switch (use) {
	case ROCEV2_USE_SCATTER:
		return ROCEV2_ACC_LOCAL_WRITE;
	case ROCEV2_USE_REMOTE_WRITE:
		return ROCEV2_ACC_REMOTE_WRITE;
	case ROCEV2_USE_REMOTE_READ:
		return ROCEV2_ACC_REMOTE_READ;
	case ROCEV2_USE_REMOTE_ATOMIC:
		return ROCEV2_ACC_REMOTE_ATOMIC;
	case ROCEV2_USE_GATHER:
		break;
	}
	return 0;
}

static inline bool rocev2_access_ok(u32 granted, enum rocev2_mr_use use)
{
	u32 needed = rocev2_access_needed(use);

	return (granted & needed) == needed;
}

/*
 * A remote right to change memory is void without the local one: refuse the
 * registration instead of the access.
 */
static inline bool rocev2_access_valid(u32 granted)
{
	return !(granted & (ROCEV2_ACC_REMOTE_WRITE | ROCEV2_ACC_REMOTE_ATOMIC)) ||
	       (granted & ROCEV2_ACC_LOCAL_WRITE);
}

/* rights, then bounds, then alignment; key and PD come before and are mr_check.c's */
static inline enum rocev2_mr_status
rocev2_mr_verdict(u32 granted, u64 start, u64 length, enum rocev2_mr_use use, u64 addr, u64 len)
{
	if (!rocev2_access_ok(granted, use))
		return ROCEV2_MR_BAD_ACCESS;
	if (!rocev2_bounds_ok(start, length, addr, len))
		return ROCEV2_MR_OUT_OF_BOUNDS;
	if (use == ROCEV2_USE_REMOTE_ATOMIC && (addr & 7))
		return ROCEV2_MR_MISALIGNED;
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
