// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder: atomics. Executed once, when the request arrives in order; a repeat
 * of the request gets the result of that one execution (9.7.5.1.5).
 *
 * Atomic towards the CPU and all QPs of all rocev2 devices: a locked instruction
 * on the consumer's memory.
 */
#include <linux/atomic.h>

#include "mem.h"
#include "qp.h"
#include "resp.h"

/* Return: the value before */
static u64 execute(u64 *p, u8 opcode, u64 swap_add, u64 compare)
{
	if (opcode == ROCEV2_OP_CMP_SWAP)
		return cmpxchg64(p, compare, swap_add);
	return atomic64_fetch_add(swap_add, (atomic64_t *)p);
}

/**
 * rocev2_resp_get_u64() - the operand of an atomic or an ATOMIC WRITE
 * @qp: the QP
 * @va: its address; must be aligned (9.4.5.1)
 * @rkey: its key
 * @access: the right that is needed
 * @mr: the region, held; the caller does rocev2_mem_end_u64()
 *
 * Return: the operand; NULL: refused, or not yet.
 */
u64 *rocev2_resp_get_u64(struct rocev2_qp *qp, u64 va, u32 rkey, int access,
			 struct rocev2_mr **mr)
{
	u32 psn = qp->recv.epsn;
	enum rocev2_mr_status status;
	u64 *p;

	if (va & (sizeof(u64) - 1)) {
		rocev2_resp_nak_invalid(qp, psn);
		return NULL;
	}
	status = rocev2_mem_begin_u64(qp, rkey, va, access, mr, &p);
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT)) {
		rocev2_resp_fault(qp, psn);
		return NULL;
	}
	if (status != ROCEV2_MR_OK) {
		rocev2_resp_nak_access(qp, psn);
		return NULL;
	}
	/* aligned for the peer need not be aligned in memory: iova is the consumer's choice */
	if ((uintptr_t)p & (sizeof(u64) - 1)) {
		rocev2_mem_end_u64(*mr);
		rocev2_resp_nak_invalid(qp, psn);
		return NULL;
	}
	return p;
}

void rocev2_resp_atomic(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	const struct rocev2_atomiceth *eth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	struct rocev2_resp_res *res;
	struct rocev2_mr *mr;
	u64 *p;

	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_ATOMIC)) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		return;
	}
	p = rocev2_resp_get_u64(qp, be64_to_cpu(eth->va), be32_to_cpu(eth->rkey),
				IB_ACCESS_REMOTE_ATOMIC, &mr);
	if (!p)
		return;
	res = rocev2_resp_res_alloc(qp, 1);
	if (res) {
		res->orig = execute(p, buf->opcode & ~ROCEV2_SVC_MASK,
				    be64_to_cpu(eth->swap_add), be64_to_cpu(eth->compare));
		res->atomic = true;
	}
	rocev2_mem_end_u64(mr);
}

void rocev2_resp_atomic_again(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	u32 psn = buf->psn;
	struct rocev2_resp_res *res = rocev2_resp_res_find(qp, psn);

	if (res && res->atomic)
		rocev2_resp_res_due(qp, res, psn);
}
