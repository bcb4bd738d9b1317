/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: static_assert() with an optional message in C11 as in C++. */
#ifndef SHIM_LINUX_BUILD_BUG_H
#define SHIM_LINUX_BUILD_BUG_H

#ifndef __cplusplus
#undef static_assert
#define static_assert(expr, ...)	SHIM_STATIC_ASSERT(expr, ##__VA_ARGS__, #expr)
#define SHIM_STATIC_ASSERT(expr, msg, ...)	_Static_assert(expr, msg)
#endif

#endif
