/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: atomic counters, references, and the barriers that go with them. */
#ifndef SHIM_LINUX_REFCOUNT_H
#define SHIM_LINUX_REFCOUNT_H

#include <linux/compiler.h>
#include <linux/types.h>

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

typedef struct {
	atomic_t refs;
} refcount_t;

#define smp_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define smp_rmb()		__atomic_thread_fence(__ATOMIC_ACQUIRE)
#define smp_wmb()		__atomic_thread_fence(__ATOMIC_RELEASE)
/* what is below is a full barrier by itself, as on x86 */
#define smp_mb__after_atomic()	__atomic_signal_fence(__ATOMIC_SEQ_CST)

static inline s64 atomic64_read_acquire(const atomic64_t *v)
{
	return smp_load_acquire(&v->counter);
}

static inline void refcount_set(refcount_t *r, int n)
{
	r->refs.counter = n;
}

static inline bool refcount_inc_not_zero(refcount_t *r)
{
	int old = __atomic_load_n(&r->refs.counter, __ATOMIC_RELAXED);

	do {
		if (!old)
			return false;
	} while (!__atomic_compare_exchange_n(&r->refs.counter, &old, old + 1, false,
					      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
	return true;
}

static inline bool refcount_dec_and_test(refcount_t *r)
{
	return __atomic_fetch_sub(&r->refs.counter, 1, __ATOMIC_SEQ_CST) == 1;
}

#endif
