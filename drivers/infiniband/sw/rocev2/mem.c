// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Placement: packet bytes into pinned pages and back. Called by responder,
 * requester and completer, in the QP's owner, after the ICRC was found good.
 */
#include <linux/minmax.h>

#include "mem.h"
#include "qp.h"
#include "srq.h"

enum rocev2_mr_status rocev2_mem_read(struct rocev2_qp *qp, u32 key, u64 addr, u32 len,
				      int access, void *dst)
{
	enum rocev2_mr_status status;
	struct rocev2_mr *mr;

	status = rocev2_mr_get(qp, qp->ibqp->pd, key, addr, len, access, &mr);
	if (status != ROCEV2_MR_OK)
		return status;
	while (len) {
		u32 n = len;
		const void *src = rocev2_mr_map(mr, addr, &n);

		memcpy(dst, src, n);
		dst += n;
		addr += n;
		len -= n;
	}
	rocev2_mr_put(mr);
	return ROCEV2_MR_OK;
}

static void src_copy(struct rocev2_src *src, void *dst, u32 len)
{
	if (src->skb) {
		/* cannot fail: the parser held all lengths against skb->len */
		WARN_ON_ONCE(skb_copy_bits(src->skb, src->off, dst, len));
		src->off += len;
	} else {
		memcpy(dst, src->buf, len);
		src->buf += len;
	}
}

static enum rocev2_mr_status mem_write(struct rocev2_qp *qp, struct ib_pd *pd, u32 key, u64 addr,
				       u32 len, int access, struct rocev2_src src)
{
	enum rocev2_mr_status status;
	struct rocev2_mr *mr;

	status = rocev2_mr_get(qp, pd, key, addr, len, access, &mr);
	if (status != ROCEV2_MR_OK)
		return status;
	while (len) {
		u32 n = len;
		void *dst = rocev2_mr_map(mr, addr, &n);

		src_copy(&src, dst, n);
		addr += n;
		len -= n;
	}
	rocev2_mr_put(mr);
	return ROCEV2_MR_OK;
}

enum rocev2_mr_status rocev2_mem_write(struct rocev2_qp *qp, u32 key, u64 addr, u32 len,
				       int access, struct rocev2_src src)
{
	return mem_write(qp, qp->ibqp->pd, key, addr, len, access, src);
}

/* one step through a list: the part of @sge that holds byte *@from, *@from made relative */
static u32 sg_part(const struct rocev2_sge *sge, u64 *from, u32 len)
{
	if (*from >= sge->length) {
		*from -= sge->length;
		return 0;
	}
	return min_t(u64, len, sge->length - *from);
}

enum rocev2_mr_status rocev2_sg_read(struct rocev2_qp *qp, const struct rocev2_sge *sge,
				     u32 num_sge, u64 from, u32 len, void *dst)
{
	enum rocev2_mr_status status;
	u32 i, n;

	for (i = 0; len && i < num_sge; i++) {
		n = sg_part(&sge[i], &from, len);
		if (!n)
			continue;
		status = rocev2_mem_read(qp, sge[i].lkey, sge[i].addr + from, n, 0, dst);
		if (status != ROCEV2_MR_OK)
			return status;
		dst += n;
		len -= n;
		from = 0;
	}
	return len ? ROCEV2_MR_OUT_OF_BOUNDS : ROCEV2_MR_OK;
}

static enum rocev2_mr_status sg_write(struct rocev2_qp *qp, struct ib_pd *pd,
				      const struct rocev2_sge *sge, u32 num_sge, u64 from,
				      u32 len, struct rocev2_src src)
{
	enum rocev2_mr_status status;
	u32 i, n;

	for (i = 0; len && i < num_sge; i++) {
		n = sg_part(&sge[i], &from, len);
		if (!n)
			continue;
		status = mem_write(qp, pd, sge[i].lkey, sge[i].addr + from, n,
				   IB_ACCESS_LOCAL_WRITE, src);
		if (status != ROCEV2_MR_OK)
			return status;
		if (src.skb)
			src.off += n;
		else
			src.buf += n;
		len -= n;
		from = 0;
	}
	return len ? ROCEV2_MR_OUT_OF_BOUNDS : ROCEV2_MR_OK;
}

enum rocev2_mr_status rocev2_sg_write(struct rocev2_qp *qp, const struct rocev2_sge *sge,
				      u32 num_sge, u64 from, u32 len, struct rocev2_src src)
{
	return sg_write(qp, qp->ibqp->pd, sge, num_sge, from, len, src);
}

enum rocev2_mr_status rocev2_recv_write(struct rocev2_qp *qp, u64 from, u32 len,
					struct rocev2_src src)
{
	const struct rocev2_recv_wqe *wqe = &qp->recv.wqe;
	/* keys in WQEs of an SRQ are the SRQ's, whose PD may be another */
	struct ib_pd *pd = qp->srq ? qp->srq->ibsrq.pd : qp->ibqp->pd;

	return sg_write(qp, pd, wqe->sge, wqe->num_sge, from, len, src);
}
