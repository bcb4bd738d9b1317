/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Encoded values of the AETH and of QP attributes: RNR timer (IBA table 45), credit
 * count (table 46), local ACK timeout (9.7.6.1.3).
 *
 * Pure, tested in tests/unit. Called by responder (credits) and completer (timers).
 */
#ifndef ROCEV2_AETH_H
#define ROCEV2_AETH_H

#include <linux/types.h>

#define ROCEV2_CREDIT_CODE_UNLIMITED	31	/* no end-to-end flow control */
#define ROCEV2_CREDIT_CODE_MAX		30	/* 32768 credits */

/*
 * Both tables step 1, 2, 3, 4, 6, 8, 12, 16, ...: even codes are powers of two, odd ones
 * lie half-way. Code 0 is special in each and the caller's to handle.
 */
static inline u32 rocev2_aeth_step(u8 code)
{
	if (code < 3)
		return code;
	return (u32)(code & 1 ? 3 : 4) << ((code - 3 - !(code & 1)) / 2);
}

/* the code of the largest count that is not above @credits: never promise too much */
static inline u8 rocev2_credit_encode(u32 credits)
{
	u8 code = 0;

	while (code < ROCEV2_CREDIT_CODE_MAX && rocev2_aeth_step(code + 1) <= credits)
		code++;
	return code;
}

/* how long the requester waits after an RNR NAK with timer @code, in nanoseconds */
static inline u64 rocev2_rnr_timer_ns(u8 code)
{
	code &= 0x1f;
	/* 0 is the longest, 655.36 ms, not the shortest */
	return 10000ull * (code ? rocev2_aeth_step(code) : 65536u);
}

/* 4.096 us * 2^@timeout in nanoseconds; 0 means that the timer is off */
static inline u64 rocev2_ack_timeout_ns(u8 timeout)
{
	timeout &= 0x1f;
	return timeout ? 4096ull << timeout : 0;
}

#endif
