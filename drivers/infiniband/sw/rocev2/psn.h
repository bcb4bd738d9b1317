/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Packet sequence numbers: 24 bits, compared within half the space (IBA 9.7.2).
 *
 * Every PSN, MSN and SSN comparison of the module goes through here; arithmetic
 * on a bare u32 would forget the wrap at 2^24. Pure, tested in tests/unit.
 */
#ifndef ROCEV2_PSN_H
#define ROCEV2_PSN_H

#include <linux/types.h>

#define ROCEV2_PSN_BITS	24

static inline u32 rocev2_psn_add(u32 psn, u32 n)
{
	return (psn + n) & 0x00ffffffu;
}

/**
 * rocev2_psn_diff() - signed distance from @b to @a
 * @a: a PSN, 24 bits
 * @b: a PSN, 24 bits
 *
 * Return: a - b in -2^23 .. 2^23 - 1; negative when @a comes before @b.
 */
static inline s32 rocev2_psn_diff(u32 a, u32 b)
{
	/* move bit 23 to the sign bit, then back with its sign */
	return (s32)((a - b) << 8) >> 8;
}

static inline bool rocev2_psn_before(u32 a, u32 b)
{
	return rocev2_psn_diff(a, b) < 0;
}

static inline bool rocev2_psn_after(u32 a, u32 b)
{
	return rocev2_psn_diff(a, b) > 0;
}

/* true when @psn lies in the closed interval @first .. @last */
static inline bool rocev2_psn_between(u32 psn, u32 first, u32 last)
{
	return rocev2_psn_diff(psn, first) >= 0 && rocev2_psn_diff(psn, last) <= 0;
}

#endif
