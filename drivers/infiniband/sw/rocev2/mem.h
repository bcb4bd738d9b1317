/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Moving message bytes between packets and the consumer's memory, with the key
 * checks of each access. Owner of the QP only.
 */
#ifndef ROCEV2_MEM_H
#define ROCEV2_MEM_H

#include "mr.h"
#include "rx.h"

struct rocev2_qp;
struct rocev2_sge;

/**
 * struct rocev2_src - where bytes for the consumer's memory come from
 * @bytes: the bytes, in one piece
 * @frags: or a packet that has them in pieces, else NULL
 * @off: offset in @frags
 */
struct rocev2_src {
	const void			*bytes;
	const struct rocev2_rx_buf	*frags;
	u32				off;
};

static inline struct rocev2_src rocev2_payload(const struct rocev2_rx_buf *buf)
{
	const void *bytes = rocev2_rx_payload(buf);

	if (likely(bytes))
		return (struct rocev2_src){ .bytes = bytes };
	return (struct rocev2_src){ .frags = buf, .off = buf->payload };
}

/*
 * By R_Key. ROCEV2_MR_NOT_PRESENT, here and below: nothing was copied, or only a part
 * of it; the QP is kicked when it is time to try again. @want: bytes from @addr on that
 * the rest of the message will need too.
 */
/* memory -> @dst */
enum rocev2_mr_status rocev2_mem_read(struct rocev2_qp *qp, u32 key, u64 addr, u32 len, u64 want,
				      int access, void *dst);
/* @src -> memory */
enum rocev2_mr_status rocev2_mem_write(struct rocev2_qp *qp, u32 key, u64 addr, u32 len, u64 want,
				       int access, struct rocev2_src src);
/* may all @len bytes be read, and can the @first now? */
enum rocev2_mr_status rocev2_mem_readable(struct rocev2_qp *qp, u32 key, u64 addr, u32 len,
					  u32 first, int access);
/* 8 bytes in place, aligned by @addr, to be written; rocev2_mem_end_u64() must follow */
enum rocev2_mr_status rocev2_mem_begin_u64(struct rocev2_qp *qp, u32 key, u64 addr, int access,
					   struct rocev2_mr **mr, u64 **p);
void rocev2_mem_end_u64(struct rocev2_mr *mr);

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
/* could @len bytes be written into the list now? */
enum rocev2_mr_status rocev2_sg_writable(struct rocev2_qp *qp, const struct rocev2_sge *sge,
					 u32 num_sge, u64 from, u32 len);
/* ... into the receive WQE of the message in progress */
enum rocev2_mr_status rocev2_recv_write(struct rocev2_qp *qp, u64 from, u32 len,
					struct rocev2_src src);

#endif
