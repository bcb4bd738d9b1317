/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_LINUX_DIM_H
#define _COMPAT_LINUX_DIM_H

#include_next <linux/dim.h>

#ifndef HAVE_NET_DIM_SAMPLE_POINTER
#define net_dim(dim, sample) net_dim(dim, *(sample))
#endif

#endif
