// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Placement: packet bytes into the consumer's pages and back. Called by responder,
 * requester and completer, in the QP's owner, after the ICRC was found good.
 */
#include <linux/minmax.h>

#include "mem.h"
#include "odp.h"
#include "qp.h"
#include "srq.h"

/**
 * struct span - bytes of the consumer's memory that are accessed at once
 * @pd: the protection domain that the key must be of
 * @key: lkey or rkey
 * @addr: first byte
 * @len: bytes, > 0
 * @want: bytes from @addr on that this access and those after it will need
 * @access: enum ib_access_flags that the key must have
 * @write: they are written
 * @side: who tries again when a page is not there
 */
struct span {
	const struct ib_pd	*pd;
	u32			key;
	u64			addr;
	u32			len;
	u64			want;
	int			access;
	bool			write;
	enum rocev2_fault_side	side;
};

/* the pages of a region with on-demand paging: have them, or start to bring them in */
static enum rocev2_mr_status odp_begin(struct rocev2_qp *qp, enum rocev2_fault_side side,
				       struct rocev2_mr *mr, u64 addr, u32 len, u64 want,
				       bool write)
{
	enum rocev2_mr_status status = rocev2_odp_begin(mr, addr, len, write);

	if (status == ROCEV2_MR_NOT_PRESENT)
		status = rocev2_fault_start(qp, side, mr, addr, len, want, write);
	return status;
}

/* find, check, hold; mem_end() must follow */
static enum rocev2_mr_status mem_begin(struct rocev2_qp *qp, const struct span *s,
				       struct rocev2_mr **out)
{
	enum rocev2_mr_status status;
	struct rocev2_mr *mr;

	status = rocev2_mr_get(qp, s->pd, s->key, s->addr, s->len, s->access, &mr);
	if (status != ROCEV2_MR_OK)
		return status;
	if (unlikely(mr->odp)) {
		status = odp_begin(qp, s->side, mr, s->addr, s->len, s->want, s->write);
		if (status != ROCEV2_MR_OK) {
			rocev2_mr_put(mr);
			return status;
		}
	}
	*out = mr;
	return ROCEV2_MR_OK;
}

static void mem_end(struct rocev2_mr *mr)
{
	if (unlikely(mr->odp))
		rocev2_odp_end(mr);
	rocev2_mr_put(mr);
}

static enum rocev2_mr_status mem_read(struct rocev2_qp *qp, const struct span *s, void *dst)
{
	enum rocev2_mr_status status;
	u64 addr = s->addr;
	struct rocev2_mr *mr;
	u32 len = s->len;

	status = mem_begin(qp, s, &mr);
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
	mem_end(mr);
	return ROCEV2_MR_OK;
}

static void src_advance(struct rocev2_src *src, u32 len)
{
	if (unlikely(src->frags))
		src->off += len;
	else
		src->bytes += len;
}

static void src_copy(struct rocev2_src *src, void *dst, u32 len)
{
	if (unlikely(src->frags))
		rocev2_rx_copy_frags(src->frags, src->off, dst, len);
	else
		memcpy(dst, src->bytes, len);
	src_advance(src, len);
}

/*
 * The end of a packet, its last bytes last. Applications poll the last byte of a message in memory
 * and take the rest for there, as it is with cards, though no rule says so; memcpy() goes in
 * whatever direction it likes. Eight or four aligned bytes stay one store.
 */
static void place_end(struct rocev2_src *src, void *dst, u32 len)
{
	unsigned long end = (unsigned long)dst + len;
	u32 tail = sizeof(u8);
	u64 value = 0;

	if (len >= sizeof(u64) && IS_ALIGNED(end, sizeof(u64)))
		tail = sizeof(u64);
	else if (len >= sizeof(u32) && IS_ALIGNED(end, sizeof(u32)))
		tail = sizeof(u32);
	if (len > tail)
		src_copy(src, dst, len - tail);
	dst += len - tail;
	src_copy(src, &value, tail);
	smp_wmb(); /* all before it is stored before what an application polls */
	if (tail == sizeof(u64))
		WRITE_ONCE(*(u64 *)dst, value);
	else if (tail == sizeof(u32))
		WRITE_ONCE(*(u32 *)dst, *(u32 *)&value);
	else
		WRITE_ONCE(*(u8 *)dst, *(u8 *)&value);
}

static enum rocev2_mr_status mem_write(struct rocev2_qp *qp, const struct span *s,
				       struct rocev2_src src)
{
	enum rocev2_mr_status status;
	u64 addr = s->addr;
	struct rocev2_mr *mr;
	u32 len = s->len;

	status = mem_begin(qp, s, &mr);
	if (status != ROCEV2_MR_OK)
		return status;
	while (len) {
		u32 n = len;
		void *dst = rocev2_mr_map(mr, addr, &n);

		if (n < len)
			src_copy(&src, dst, n);
		else
			place_end(&src, dst, n);
		addr += n;
		len -= n;
	}
	mem_end(mr);
	return ROCEV2_MR_OK;
}

/* --- the responder's, by R_Key --- */

static struct span remote_span(const struct rocev2_qp *qp, u32 key, u64 addr, u32 len, u64 want,
			       int access, bool write)
{
	return (struct span){
		.pd = qp->ibqp->pd,
		.key = key,
		.addr = addr,
		.len = len,
		.want = want,
		.access = access,
		.write = write,
		.side = ROCEV2_FAULT_RESP,
	};
}

enum rocev2_mr_status rocev2_mem_read(struct rocev2_qp *qp, u32 key, u64 addr, u32 len, u64 want,
				      int access, void *dst)
{
	const struct span s = remote_span(qp, key, addr, len, want, access, false);

	return mem_read(qp, &s, dst);
}

enum rocev2_mr_status rocev2_mem_write(struct rocev2_qp *qp, u32 key, u64 addr, u32 len, u64 want,
				       int access, struct rocev2_src src)
{
	const struct span s = remote_span(qp, key, addr, len, want, access, true);

	return mem_write(qp, &s, src);
}

enum rocev2_mr_status rocev2_mem_readable(struct rocev2_qp *qp, u32 key, u64 addr, u32 len,
					  u32 first, int access)
{
	enum rocev2_mr_status status;
	struct rocev2_mr *mr;

	status = rocev2_mr_get(qp, qp->ibqp->pd, key, addr, len, access, &mr);
	if (status != ROCEV2_MR_OK)
		return status;
	if (unlikely(mr->odp))
		status = odp_begin(qp, ROCEV2_FAULT_RESP, mr, addr, first, len, false);
	if (status == ROCEV2_MR_OK)
		mem_end(mr);
	else
		rocev2_mr_put(mr);
	return status;
}

enum rocev2_mr_status rocev2_mem_begin_u64(struct rocev2_qp *qp, u32 key, u64 addr, int access,
					   struct rocev2_mr **mr, u64 **p)
{
	u32 len = sizeof(**p);
	const struct span s = remote_span(qp, key, addr, len, len, access, true);
	enum rocev2_mr_status status;

	status = mem_begin(qp, &s, mr);
	if (status == ROCEV2_MR_OK)
		*p = rocev2_mr_map(*mr, addr, &len);
	return status;
}

void rocev2_mem_end_u64(struct rocev2_mr *mr)
{
	mem_end(mr);
}

/* --- lists of SGEs --- */

/* one step through a list: the part of @sge that holds byte *@from, *@from made relative */
static u32 sg_part(const struct rocev2_sge *sge, u64 *from, u32 len)
{
	if (*from >= sge->length) {
		*from -= sge->length;
		return 0;
	}
	return min_t(u64, len, sge->length - *from);
}

static struct span sge_span(const struct ib_pd *pd, const struct rocev2_sge *sge, u64 from, u32 len,
			    bool write, enum rocev2_fault_side side)
{
	return (struct span){
		.pd = pd,
		.key = sge->lkey,
		.addr = sge->addr + from,
		.len = len,
		.want = sge->length - from,
		.access = write ? IB_ACCESS_LOCAL_WRITE : 0,
		.write = write,
		.side = side,
	};
}

enum rocev2_mr_status rocev2_sg_read(struct rocev2_qp *qp, const struct rocev2_sge *sge,
				     u32 num_sge, u64 from, u32 len, void *dst)
{
	enum rocev2_mr_status status;
	struct span s;
	u32 i, n;

	for (i = 0; len && i < num_sge; i++) {
		n = sg_part(&sge[i], &from, len);
		if (!n)
			continue;
		s = sge_span(qp->ibqp->pd, &sge[i], from, n, false, ROCEV2_FAULT_REQ);
		status = mem_read(qp, &s, dst);
		if (status != ROCEV2_MR_OK)
			return status;
		dst += n;
		len -= n;
		from = 0;
	}
	return len ? ROCEV2_MR_OUT_OF_BOUNDS : ROCEV2_MR_OK;
}

static enum rocev2_mr_status sg_write(struct rocev2_qp *qp, const struct ib_pd *pd,
				      enum rocev2_fault_side side, const struct rocev2_sge *sge,
				      u32 num_sge, u64 from, u32 len, struct rocev2_src src)
{
	enum rocev2_mr_status status;
	struct span s;
	u32 i, n;

	for (i = 0; len && i < num_sge; i++) {
		n = sg_part(&sge[i], &from, len);
		if (!n)
			continue;
		s = sge_span(pd, &sge[i], from, n, true, side);
		status = mem_write(qp, &s, src);
		if (status != ROCEV2_MR_OK)
			return status;
		src_advance(&src, n);
		len -= n;
		from = 0;
	}
	return len ? ROCEV2_MR_OUT_OF_BOUNDS : ROCEV2_MR_OK;
}

enum rocev2_mr_status rocev2_sg_write(struct rocev2_qp *qp, const struct rocev2_sge *sge,
				      u32 num_sge, u64 from, u32 len, struct rocev2_src src)
{
	return sg_write(qp, qp->ibqp->pd, ROCEV2_FAULT_REQ, sge, num_sge, from, len, src);
}

enum rocev2_mr_status rocev2_sg_writable(struct rocev2_qp *qp, const struct rocev2_sge *sge,
					 u32 num_sge, u64 from, u32 len)
{
	enum rocev2_mr_status status;
	struct rocev2_mr *mr;
	struct span s;
	u32 i, n;

	for (i = 0; len && i < num_sge; i++) {
		n = sg_part(&sge[i], &from, len);
		if (!n)
			continue;
		s = sge_span(qp->ibqp->pd, &sge[i], from, n, true, ROCEV2_FAULT_REQ);
		status = mem_begin(qp, &s, &mr);
		if (status != ROCEV2_MR_OK)
			return status;
		mem_end(mr);
		len -= n;
		from = 0;
	}
	return ROCEV2_MR_OK;
}

enum rocev2_mr_status rocev2_recv_write(struct rocev2_qp *qp, u64 from, u32 len,
					struct rocev2_src src)
{
	const struct rocev2_recv_wqe *wqe = &qp->recv.wqe;
	/* keys in WQEs of an SRQ are the SRQ's, whose PD may be another */
	const struct ib_pd *pd = qp->srq ? qp->srq->ibsrq.pd : qp->ibqp->pd;

	return sg_write(qp, pd, ROCEV2_FAULT_RESP, wqe->sge, wqe->num_sge, from, len, src);
}
