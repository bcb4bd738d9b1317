/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in. No min() and max(): C++ has its own. */
#ifndef SHIM_LINUX_MINMAX_H
#define SHIM_LINUX_MINMAX_H

#define min_t(type, a, b) __extension__ ({	\
	type min_a = (a);			\
	type min_b = (b);			\
	min_a < min_b ? min_a : min_b; })

#endif
