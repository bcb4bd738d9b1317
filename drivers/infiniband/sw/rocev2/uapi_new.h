/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Numbers and layouts of <rdma/ib_user_verbs.h> and <rdma/rdma_user_rxe.h> that kernels
 * before 6.2 do not know, though the libraries on them may: for ATOMIC WRITE and FLUSH.
 */
#ifndef ROCEV2_UAPI_NEW_H
#define ROCEV2_UAPI_NEW_H

#include <linux/bits.h>
#include <linux/types.h>

#define ROCEV2_WR_FLUSH			14
#define ROCEV2_WR_ATOMIC_WRITE		15
#define ROCEV2_WC_FLUSH			8
#define ROCEV2_WC_ATOMIC_WRITE		9
#define ROCEV2_ACCESS_FLUSH_GLOBAL	BIT(8)
/* rights of placement types, in their order */
#define ROCEV2_ACCESS_FLUSH_SHIFT	8
#define ROCEV2_DEVICE_FLUSH_GLOBAL	BIT_ULL(38)
#define ROCEV2_DEVICE_ATOMIC_WRITE	BIT_ULL(40)
#define ROCEV2_ODP_FLUSH		BIT(6)
#define ROCEV2_ODP_ATOMIC_WRITE		BIT(7)

/* of a FLUSH, in the place of struct rxe_send_wr's union wr */
struct rocev2_uapi_flush {
	__aligned_u64	remote_addr;
	__u32		length;
	__u32		rkey;
	__u8		type;
	__u8		level;
};

#endif
