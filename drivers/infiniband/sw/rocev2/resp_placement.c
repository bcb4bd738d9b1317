// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder: ATOMIC WRITE and FLUSH (annex A19, memory placement extensions). Both are
 * answered by an empty READ response, take a responder resource for it, and are not
 * executed again when they are repeated.
 */
#include "mem.h"
#include "qp.h"
#include "resp.h"
#include "uapi_new.h"

void rocev2_resp_atomic_write(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	const struct rocev2_reth *reth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	struct rocev2_mr *mr;
	u64 value, *p;

	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_WRITE) ||
	    be32_to_cpu(reth->len) != sizeof(value) || buf->payload_len != sizeof(value)) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		return;
	}
	p = rocev2_resp_get_u64(qp, be64_to_cpu(reth->va), be32_to_cpu(reth->rkey),
				IB_ACCESS_REMOTE_WRITE, &mr);
	if (!p)
		return;
	if (rocev2_resp_res_alloc(qp, 1)) {
		rocev2_rx_copy(buf, buf->payload, &value, sizeof(value));
		/* whoever sees it sees the WRITEs before it */
		smp_store_release(p, value);
	}
	rocev2_mem_end_u64(mr);
}

void rocev2_resp_flush_memory(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	const struct rocev2_feth *feth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	const struct rocev2_reth *reth = (const void *)(feth + 1);
	u32 bits = be32_to_cpu(feth->bits);
	bool range = bits >> ROCEV2_FLUSH_LEVEL_SHIFT == ROCEV2_FLUSH_RANGE;
	u32 types = bits & ROCEV2_FLUSH_TYPES;
	enum rocev2_mr_status status;
	struct rocev2_mr *mr;

	if (!types || types & ~(ROCEV2_FLUSH_GLOBAL | ROCEV2_FLUSH_PERSISTENT) ||
	    bits >> ROCEV2_FLUSH_LEVEL_SHIFT > ROCEV2_FLUSH_MR) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		return;
	}
	/* each type is a right; no region has that of persistence: this memory has none */
	status = rocev2_mr_get(qp, qp->ibqp->pd, be32_to_cpu(reth->rkey), be64_to_cpu(reth->va),
			       be32_to_cpu(reth->len), types << ROCEV2_ACCESS_FLUSH_SHIFT, &mr);
	if (status == ROCEV2_MR_OK) {
		rocev2_mr_put(mr);
	} else if (range || status != ROCEV2_MR_OUT_OF_BOUNDS) {
		/* bounds come last, and of a whole region they do not count */
		rocev2_resp_nak_access(qp, buf->psn);
		return;
	}
	/* what was placed by this CPU before is visible before the answer leaves */
	smp_mb();
	rocev2_resp_res_alloc(qp, 1);
}

void rocev2_resp_placement_again(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	u32 psn = buf->psn;
	struct rocev2_resp_res *res = rocev2_resp_res_find(qp, psn);

	/* its answer is all there is to repeat; a READ has PSNs of its own */
	if (res && !res->atomic && !res->len)
		rocev2_resp_res_due(qp, res, psn);
}
