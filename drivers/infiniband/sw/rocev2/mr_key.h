/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Keys that change while they exist: which binding, fast registration and
 * invalidation is allowed (IBA volume 1, 10.6).
 *
 * Pure rules over numbers that a work request or a packet brought. Tested in
 * tests/unit.
 */
#ifndef ROCEV2_MR_KEY_H
#define ROCEV2_MR_KEY_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

#include "mr_bounds.h"

/* what a key names */
enum rocev2_key_kind {
	ROCEV2_KEY_MR,		/* a region that is valid until it is deregistered */
	ROCEV2_KEY_FAST,	/* a region of the kernel for fast registration */
	ROCEV2_KEY_MW1,		/* a memory window of type 1 */
	ROCEV2_KEY_MW2,		/* a memory window of type 2B, of the QP that bound it */
};

#define ROCEV2_ACCESS_REMOTE	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
				 IB_ACCESS_REMOTE_ATOMIC)
/* what may be asked for; a window grants the remote rights alone */
#define ROCEV2_ACCESS_FAST	(IB_ACCESS_LOCAL_WRITE | ROCEV2_ACCESS_REMOTE | \
				 IB_ZERO_BASED | IB_ACCESS_OPTIONAL)

static inline bool rocev2_key_is_window(enum rocev2_key_kind kind)
{
	return kind == ROCEV2_KEY_MW1 || kind == ROCEV2_KEY_MW2;
}

/* the upper 24 bits are ours, the rest is the consumer's */
static inline bool rocev2_key_same_index(u32 a, u32 b)
{
	return a >> 8 == b >> 8;
}

/* a peer may only write where the consumer may */
static inline bool rocev2_access_consistent(u32 access)
{
	return !(access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)) ||
	       access & IB_ACCESS_LOCAL_WRITE;
}

/* why a memory management operation is refused; all complete with the same status */
enum rocev2_key_verdict {
	ROCEV2_KEY_OK,
	ROCEV2_KEY_UNBIND,	/* a bind of length 0: the window becomes unbound */
	ROCEV2_KEY_BAD_KEY,
	ROCEV2_KEY_BAD_STATE,
	ROCEV2_KEY_BAD_ACCESS,
	ROCEV2_KEY_BAD_RANGE,
};

/**
 * rocev2_bind_window_check() - may the window be bound (or unbound) now?
 * @kind: of the window
 * @window: any key it had: the index counts
 * @current_key: its key while it is bound, else 0
 * @key: the key it shall have
 * @length: bytes; 0 unbinds type 1
 * @access: enum ib_access_flags
 *
 * Type 1 may be bound anew at any time, but then its old key must not work any
 * more. Type 2 must be invalidated before.
 */
static inline enum rocev2_key_verdict
rocev2_bind_window_check(enum rocev2_key_kind kind, u32 window, u32 current_key, u32 key,
			 u64 length, u32 access)
{
	if (!rocev2_key_is_window(kind) || !rocev2_key_same_index(window, key))
		return ROCEV2_KEY_BAD_KEY;
	if (kind == ROCEV2_KEY_MW1 && key == current_key)
		return ROCEV2_KEY_BAD_KEY;
	if (kind == ROCEV2_KEY_MW2 && current_key)
		return ROCEV2_KEY_BAD_STATE;
	if (!length)
		return kind == ROCEV2_KEY_MW1 ? ROCEV2_KEY_UNBIND : ROCEV2_KEY_BAD_RANGE;
	if (access & ~ROCEV2_ACCESS_FAST)
		return ROCEV2_KEY_BAD_ACCESS;
	/* addresses of a type 1 window are those of its region */
	if (kind == ROCEV2_KEY_MW1 && access & IB_ZERO_BASED)
		return ROCEV2_KEY_BAD_ACCESS;
	return ROCEV2_KEY_OK;
}

/**
 * rocev2_bind_region_check() - may a window be bound to this part of a region?
 * @granted: access flags of the region
 * @start: its first address
 * @size: its length
 * @access: access flags of the window
 * @addr: first byte of the window
 * @length: its length
 *
 * The region itself need not allow what the window allows to the peer, but the
 * consumer must be allowed to write what the peer may.
 */
static inline enum rocev2_key_verdict
rocev2_bind_region_check(u32 granted, u64 start, u64 size, u32 access, u64 addr, u64 length)
{
	if (!(granted & IB_ACCESS_MW_BIND))
		return ROCEV2_KEY_BAD_ACCESS;
	if (!rocev2_access_consistent((access & ROCEV2_ACCESS_REMOTE) |
				      (granted & IB_ACCESS_LOCAL_WRITE)))
		return ROCEV2_KEY_BAD_ACCESS;
	return rocev2_bounds_ok(start, size, addr, length) ? ROCEV2_KEY_OK : ROCEV2_KEY_BAD_RANGE;
}

/**
 * rocev2_fast_reg_check() - may the region be registered with this key now?
 * @kind: of what the key's index names
 * @current_key: its key while it is valid, else 0
 * @access: enum ib_access_flags
 * @iova: address of its first byte
 * @length: bytes
 */
static inline enum rocev2_key_verdict
rocev2_fast_reg_check(enum rocev2_key_kind kind, u32 current_key, u32 access, u64 iova, u64 length)
{
	if (kind != ROCEV2_KEY_FAST)
		return ROCEV2_KEY_BAD_KEY;
	if (current_key)
		return ROCEV2_KEY_BAD_STATE;
	if (access & ~ROCEV2_ACCESS_FAST || !rocev2_access_consistent(access))
		return ROCEV2_KEY_BAD_ACCESS;
	/* the last byte has an address */
	if (length && iova + (length - 1) < iova)
		return ROCEV2_KEY_BAD_RANGE;
	return ROCEV2_KEY_OK;
}

/**
 * rocev2_invalidate_check() - may this key be invalidated?
 * @kind: of what its index names
 * @current_key: the key that is valid there, else 0
 * @key: the key to invalidate
 * @access: access flags of what it names
 * @remote: a peer asks (SEND with Invalidate), which may only take back what it was given
 */
static inline enum rocev2_key_verdict
rocev2_invalidate_check(enum rocev2_key_kind kind, u32 current_key, u32 key, u32 access,
			bool remote)
{
	if (kind != ROCEV2_KEY_FAST && kind != ROCEV2_KEY_MW2)
		return ROCEV2_KEY_BAD_KEY;
	if (!current_key)
		return ROCEV2_KEY_BAD_STATE;
	if (current_key != key)
		return ROCEV2_KEY_BAD_KEY;
	if (remote && !(access & ROCEV2_ACCESS_REMOTE))
		return ROCEV2_KEY_BAD_ACCESS;
	return ROCEV2_KEY_OK;
}

#endif
