// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder: atomics. Executed once, when the request arrives in order; a repeat
 * of the request gets the result of that one execution (9.7.5.1.5).
 *
 * Atomic towards the CPU and all QPs of all rocev2 devices: a locked instruction
 * on the consumer's memory.
 */
#include <linux/atomic.h>

#include "mr.h"
#include "psn.h"
#include "qp.h"
#include "resp.h"

/* Return: the value before */
static u64 execute(u64 *p, u8 opcode, u64 swap_add, u64 compare)
{
	if (opcode == ROCEV2_OP_CMP_SWAP)
		return cmpxchg64(p, compare, swap_add);
	return atomic64_fetch_add(swap_add, (atomic64_t *)p);
}

void rocev2_resp_atomic(struct rocev2_qp *qp, struct sk_buff *skb)
{
	const struct rocev2_atomiceth *eth = rocev2_rx_hdr(skb, sizeof(struct rocev2_bth));
	const struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	struct rocev2_recv_qp *recv = &qp->recv;
	u64 va = be64_to_cpu(eth->va);
	struct rocev2_resp_res *res;
	struct rocev2_mr *mr;
	u32 len = sizeof(u64);
	u64 *p;

	/* the operand is aligned (9.4.5.1) */
	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_ATOMIC) || va & (sizeof(u64) - 1)) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		return;
	}
	if (rocev2_mr_get(qp, qp->ibqp->pd, be32_to_cpu(eth->rkey), va, len,
			  IB_ACCESS_REMOTE_ATOMIC, &mr) != ROCEV2_MR_OK) {
		rocev2_resp_nak_access(qp, buf->psn);
		return;
	}
	/* aligned for the peer need not be aligned in memory: iova is the consumer's choice */
	p = rocev2_mr_map(mr, va, &len);
	if ((uintptr_t)p & (sizeof(u64) - 1)) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		goto out;
	}
	res = rocev2_resp_res_alloc(qp);
	if (!res) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		goto out;
	}
	res->orig = execute(p, buf->opcode & ~ROCEV2_SVC_MASK, be64_to_cpu(eth->swap_add),
			    be64_to_cpu(eth->compare));
	res->atomic = true;
	res->first_psn = recv->epsn;
	res->start_psn = recv->epsn;
	res->cur_psn = recv->epsn;
	res->last_psn = recv->epsn;
	recv->epsn = rocev2_psn_add(recv->epsn, 1);
	recv->msn = rocev2_psn_add(recv->msn, 1);
	res->msn = recv->msn;
out:
	rocev2_mr_put(mr);
}

void rocev2_resp_atomic_again(struct rocev2_qp *qp, struct sk_buff *skb)
{
	u32 psn = rocev2_rx_buf(skb)->psn;
	struct rocev2_resp_res *res = rocev2_resp_res_find(qp, psn);

	if (res && res->atomic)
		rocev2_resp_res_due(qp, res, psn);
}
