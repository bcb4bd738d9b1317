/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Moving message bytes between packets and the consumer's memory, with the key
 * checks of each access. Owner of the QP only.
 */
#ifndef ROCEV2_MEM_H
#define ROCEV2_MEM_H

#include <linux/skbuff.h>

#include "mr.h"
#include "rx.h"

struct rocev2_qp;
struct rocev2_sge;

/**
 * struct rocev2_src - where bytes for the consumer's memory come from
 * @skb: a packet, or NULL
 * @off: offset in the packet
 * @buf: the bytes, without a packet
 */
struct rocev2_src {
	const struct sk_buff	*skb;
	u32			off;
	const void		*buf;
};

static inline struct rocev2_src rocev2_payload(struct sk_buff *skb)
{
	return (struct rocev2_src){ .skb = skb, .off = rocev2_rx_buf(skb)->payload };
}

/* memory -> @dst */
enum rocev2_mr_status rocev2_mem_read(struct rocev2_qp *qp, u32 key, u64 addr, u32 len,
				      int access, void *dst);
/* @src -> memory */
enum rocev2_mr_status rocev2_mem_write(struct rocev2_qp *qp, u32 key, u64 addr, u32 len,
				       int access, struct rocev2_src src);

/**
 * rocev2_sg_read() - bytes of a scatter/gather list
 * @qp: the QP, whose PD and cache serve
 * @sge: the list
 * @num_sge: its elements
 * @from: offset in the list's bytes
 * @len: bytes
 * @dst: where to
 */
enum rocev2_mr_status rocev2_sg_read(struct rocev2_qp *qp, const struct rocev2_sge *sge,
				     u32 num_sge, u64 from, u32 len, void *dst);
/* @src into a scatter/gather list; needs local write access */
enum rocev2_mr_status rocev2_sg_write(struct rocev2_qp *qp, const struct rocev2_sge *sge,
				      u32 num_sge, u64 from, u32 len, struct rocev2_src src);
/* ... into the receive WQE of the message in progress */
enum rocev2_mr_status rocev2_recv_write(struct rocev2_qp *qp, u64 from, u32 len,
					struct rocev2_src src);

#endif
