/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_RDMA_RDMA_NETLINK_H
#define _COMPAT_RDMA_RDMA_NETLINK_H

#include_next <rdma/rdma_netlink.h>

/* initializer of rdma_link_ops.dellink; the caller marks the function __maybe_unused */
#ifdef HAVE_LINK_DELLINK
#define RDMA_LINK_OP_DELLINK(fn) .dellink = (fn),
#else
#define RDMA_LINK_OP_DELLINK(fn)
#endif

#endif
