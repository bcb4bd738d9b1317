/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * User-space stand-in for the kernel's header of this name, so that the pure protocol
 * files compile unchanged under tests/unit. The fixed-size types come from the uapi.
 */
#ifndef SHIM_LINUX_TYPES_H
#define SHIM_LINUX_TYPES_H

#include_next <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/compiler.h>

typedef __u8 u8;
typedef __s8 s8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
/* the compiler's own 64-bit types: uapi's are long long too on every architecture */
typedef __u64 u64;
typedef __s64 s64;

struct rcu_head {
	void *next;
};

#endif
