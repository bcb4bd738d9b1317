/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: the attributes and hints that the pure files use. */
#ifndef SHIM_LINUX_COMPILER_H
#define SHIM_LINUX_COMPILER_H

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

#undef __packed
#undef __aligned
#define __packed	__attribute__((packed))
#define __aligned(x)	__attribute__((aligned(x)))

#define READ_ONCE(x)	(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v)	(*(volatile __typeof__(x) *)&(x) = (v))

/* C++ has an attribute of this name */
#if !defined(fallthrough) && !defined(__cplusplus)
#define fallthrough	__attribute__((fallthrough))
#endif

#endif
