/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in for programs of one thread: nobody contends. */
#ifndef SHIM_LINUX_SPINLOCK_H
#define SHIM_LINUX_SPINLOCK_H

typedef struct {
	int unused;
} spinlock_t;

#define spin_lock_init(lock)	((void)(lock))
#define spin_lock(lock)		((void)(lock))
#define spin_unlock(lock)	((void)(lock))

#endif
