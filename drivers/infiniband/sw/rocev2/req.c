// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requester: copies send WQEs out of the (hostile) ring, gives them PSNs and
 * sends their packets as far as the window, the peer's READ limit, fences and the
 * device's queues allow. Position is a PSN: going back after a loss means
 * setting it back (Go-Back-N, 9.7.5.2).
 */
#include "ah.h"
#include "comp.h"
#include "mem.h"
#include "mw.h"
#include "psn.h"
#include "qp.h"
#include "req.h"
#include "trace.h"
#include "ud.h"

/* --- from the ring --- */

/* operations by service: IBA table 45 */
static bool opcode_known(const struct rocev2_qp *qp, u32 opcode)
{
	switch (opcode) {
	/* windows are for applications, fast registration for the kernel */
	case IB_WR_BIND_MW:
		return qp->user && qp->service != ROCEV2_SVC_UD;
	case IB_WR_REG_MR:
		return !qp->user && qp->service != ROCEV2_SVC_UD;
	case IB_WR_LOCAL_INV:
		return qp->service != ROCEV2_SVC_UD;
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
		return true;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return qp->service != ROCEV2_SVC_UD;
	case IB_WR_SEND_WITH_INV:
	case IB_WR_RDMA_READ:
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return qp->service == ROCEV2_SVC_RC;
	/* no verb of the kernel's posts these */
	case ROCEV2_WR_FLUSH:
	case ROCEV2_WR_ATOMIC_WRITE:
		return qp->user && qp->service == ROCEV2_SVC_RC;
	default:
		return false;
	}
}

/* message bytes travel in the WQE; the copy is of checked length */
static enum ib_wc_status copy_inline(const struct rocev2_sq *sq, struct rocev2_send_wqe *wqe,
				     const struct rxe_send_wqe *ring)
{
	u32 length = READ_ONCE(ring->dma.length);

	if (rocev2_comp_is_rd(wqe->opcode))
		return IB_WC_LOC_QP_OP_ERR;
	if (length > sq->max_inline)
		return IB_WC_LOC_LEN_ERR;
	wqe->length = length;
	memcpy(wqe->inline_data, ring->dma.inline_data, length);
	return IB_WC_SUCCESS;
}

static enum ib_wc_status copy_sges(const struct rocev2_sq *sq, struct rocev2_send_wqe *wqe,
				   const struct rxe_send_wqe *ring)
{
	u32 num_sge = READ_ONCE(ring->dma.num_sge);
	u64 length = 0;
	u32 i;

	if (num_sge > sq->max_sge)
		return IB_WC_LOC_QP_OP_ERR;
	wqe->num_sge = num_sge;
	for (i = 0; i < num_sge; i++) {
		wqe->sge[i].addr = READ_ONCE(ring->dma.sge[i].addr);
		wqe->sge[i].length = READ_ONCE(ring->dma.sge[i].length);
		wqe->sge[i].lkey = READ_ONCE(ring->dma.sge[i].lkey);
		length += wqe->sge[i].length;
	}
	if (length > ROCEV2_MAX_MSG)
		return IB_WC_LOC_LEN_ERR;
	wqe->length = length;
	return IB_WC_SUCCESS;
}

/* work requests on keys: no message, so neither SGEs nor inline data */
static void copy_local(struct rocev2_send_wqe *wqe, const struct rxe_send_wqe *ring)
{
	switch (wqe->opcode) {
	case IB_WR_LOCAL_INV:
		wqe->rkey = READ_ONCE(ring->wr.ex.invalidate_rkey);
		break;
	case IB_WR_REG_MR:
		wqe->rkey = READ_ONCE(ring->wr.wr.reg.key);
		wqe->access = READ_ONCE(ring->wr.wr.reg.access);
		wqe->raddr = READ_ONCE(ring->iova);
		break;
	default:
		wqe->raddr = READ_ONCE(ring->wr.wr.mw.addr);
		wqe->bind.length = READ_ONCE(ring->wr.wr.mw.length);
		wqe->bind.lkey = READ_ONCE(ring->wr.wr.mw.mr_lkey);
		wqe->bind.window = READ_ONCE(ring->wr.wr.mw.mw_rkey);
		wqe->rkey = READ_ONCE(ring->wr.wr.mw.rkey);
		wqe->access = READ_ONCE(ring->wr.wr.mw.access);
	}
	wqe->status = IB_WC_SUCCESS;
}

/* the bytes of an ATOMIC WRITE lie where inline data does; a FLUSH has none */
static enum ib_wc_status copy_placement(struct rocev2_send_wqe *wqe,
					const struct rxe_send_wqe *ring)
{
	const struct rocev2_uapi_flush *flush = (const void *)&ring->wr.wr;
	u8 type, level;

	if (wqe->opcode == ROCEV2_WR_ATOMIC_WRITE) {
		wqe->raddr = READ_ONCE(ring->wr.wr.rdma.remote_addr);
		wqe->rkey = READ_ONCE(ring->wr.wr.rdma.rkey);
		memcpy(&wqe->compare_add, ring->dma.inline_data, sizeof(wqe->compare_add));
		return IB_WC_SUCCESS;
	}
	wqe->raddr = READ_ONCE(flush->remote_addr);
	wqe->rkey = READ_ONCE(flush->rkey);
	/* rdma-core leaves flush->length at zero: the length lies where that of data does */
	wqe->compare_add = READ_ONCE(ring->dma.length);
	type = READ_ONCE(flush->type);
	level = READ_ONCE(flush->level);
	if (!type || type & ~(ROCEV2_FLUSH_GLOBAL | ROCEV2_FLUSH_PERSISTENT) ||
	    level > ROCEV2_FLUSH_MR)
		return IB_WC_LOC_QP_OP_ERR;
	wqe->access = type | level << ROCEV2_FLUSH_LEVEL_SHIFT;
	return IB_WC_SUCCESS;
}

/* each field of the ring is read once, the copy is checked, and only the copy is used */
static void copy_wqe(const struct rocev2_qp *qp, struct rocev2_send_wqe *wqe,
		     const struct rxe_send_wqe *ring)
{
	const struct rocev2_sq *sq = &qp->sq;
	u32 opcode = READ_ONCE(ring->wr.opcode);

	wqe->wr_id = READ_ONCE(ring->wr.wr_id);
	wqe->send_flags = READ_ONCE(ring->wr.send_flags);
	wqe->imm = READ_ONCE(ring->wr.ex.imm_data);
	wqe->num_sge = 0;
	wqe->length = 0;
	wqe->rd_counted = false;
	if (!opcode_known(qp, opcode)) {
		wqe->opcode = IB_WR_SEND;
		wqe->status = IB_WC_LOC_QP_OP_ERR;
		return;
	}
	wqe->opcode = opcode;
	if (rocev2_comp_is_local(opcode)) {
		copy_local(wqe, ring);
		return;
	}
	if (rocev2_comp_is_placement(opcode)) {
		wqe->status = copy_placement(wqe, ring);
		return;
	}
	if (qp->service == ROCEV2_SVC_UD) {
		wqe->ud.ah = READ_ONCE(ring->wr.wr.ud.ah_num);
		wqe->ud.qpn = READ_ONCE(ring->wr.wr.ud.remote_qpn);
		wqe->ud.qkey = READ_ONCE(ring->wr.wr.ud.remote_qkey);
	} else if (opcode == IB_WR_ATOMIC_CMP_AND_SWP || opcode == IB_WR_ATOMIC_FETCH_AND_ADD) {
		wqe->raddr = READ_ONCE(ring->wr.wr.atomic.remote_addr);
		wqe->rkey = READ_ONCE(ring->wr.wr.atomic.rkey);
		wqe->compare_add = READ_ONCE(ring->wr.wr.atomic.compare_add);
		wqe->swap = READ_ONCE(ring->wr.wr.atomic.swap);
	} else {
		wqe->raddr = READ_ONCE(ring->wr.wr.rdma.remote_addr);
		wqe->rkey = READ_ONCE(ring->wr.wr.rdma.rkey);
	}
	if (wqe->send_flags & IB_SEND_INLINE)
		wqe->status = copy_inline(sq, wqe, ring);
	else
		wqe->status = copy_sges(sq, wqe, ring);
	if (wqe->status == IB_WC_SUCCESS && rocev2_comp_is_rd(opcode) &&
	    opcode != IB_WR_RDMA_READ && wqe->length != sizeof(u64))
		wqe->status = IB_WC_LOC_LEN_ERR;
}

/* copies hold at most as many WQEs as the ring, whatever its producer index says */
static bool pull_one(struct rocev2_qp *qp)
{
	struct rocev2_sq *sq = &qp->sq;

	if (!((rocev2_ring_producer(&sq->ring) - sq->pull) & sq->ring.mask) ||
	    sq->pull - sq->una >= rocev2_ring_capacity(&sq->ring))
		return false;
	copy_wqe(qp, rocev2_sq_wqe(sq, sq->pull), rocev2_ring_slot(&sq->ring, sq->pull));
	sq->pull++;
	return true;
}

/* --- packets --- */

/* BTH operations of SEND and WRITE, by place in the message */
static u8 data_opcode(const struct rocev2_send_wqe *wqe, bool first, bool last)
{
	static const u8 send[] = { ROCEV2_OP_SEND_MIDDLE, ROCEV2_OP_SEND_FIRST,
				   ROCEV2_OP_SEND_LAST, ROCEV2_OP_SEND_ONLY };
	static const u8 send_imm[] = { ROCEV2_OP_SEND_MIDDLE, ROCEV2_OP_SEND_FIRST,
				       ROCEV2_OP_SEND_LAST_IMM, ROCEV2_OP_SEND_ONLY_IMM };
	static const u8 send_inv[] = { ROCEV2_OP_SEND_MIDDLE, ROCEV2_OP_SEND_FIRST,
				       ROCEV2_OP_SEND_LAST_INV, ROCEV2_OP_SEND_ONLY_INV };
	static const u8 write[] = { ROCEV2_OP_WRITE_MIDDLE, ROCEV2_OP_WRITE_FIRST,
				    ROCEV2_OP_WRITE_LAST, ROCEV2_OP_WRITE_ONLY };
	static const u8 write_imm[] = { ROCEV2_OP_WRITE_MIDDLE, ROCEV2_OP_WRITE_FIRST,
					ROCEV2_OP_WRITE_LAST_IMM, ROCEV2_OP_WRITE_ONLY_IMM };
	u32 place = (first ? 1 : 0) | (last ? 2 : 0);

	switch (wqe->opcode) {
	case IB_WR_SEND_WITH_IMM:
		return send_imm[place];
	case IB_WR_SEND_WITH_INV:
		return send_inv[place];
	case IB_WR_RDMA_WRITE:
		return write[place];
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return write_imm[place];
	default:
		return send[place];
	}
}

/* does the consumer's solicited flag go into this packet? (9.2.3: not with plain WRITE) */
static bool solicited(const struct rocev2_send_wqe *wqe, const struct rocev2_opcode_info *info)
{
	return wqe->send_flags & IB_SEND_SOLICITED && info->flags & ROCEV2_F_END &&
	       wqe->opcode != IB_WR_RDMA_WRITE;
}

enum rocev2_mr_status rocev2_req_gather(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe,
					u32 from, u32 len, void *dst)
{
	enum rocev2_mr_status status;

	if (wqe->send_flags & IB_SEND_INLINE) {
		memcpy(dst, wqe->inline_data + from, len);
		return ROCEV2_MR_OK;
	}
	status = rocev2_sg_read(qp, wqe->sge, wqe->num_sge, from, len, dst);
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT))
		qp->req.fault_wait = true;
	return status;
}

/* is the packet at req->psn sent for the first time? */
static bool first_time(const struct rocev2_req *req)
{
	return req->psn == req->max_psn;
}

/* one packet of a SEND or WRITE at req->psn; false: the WQE's memory is not usable, or not yet */
static bool send_data(struct rocev2_qp *qp, struct rocev2_send_wqe *wqe)
{
	struct rocev2_req *req = &qp->req;
	u32 index = rocev2_psn_diff(req->psn, wqe->first_psn);
	u32 from = index << qp->mtu_shift;
	u32 len = min(wqe->length - from, qp->mtu);
	bool last = req->psn == wqe->last_psn;
	u8 opcode = qp->service | data_opcode(wqe, index == 0, last);
	const struct rocev2_opcode_info *info = &rocev2_opcodes[opcode];
	/* the window closes with this packet: the peer must answer to open it */
	bool full = rocev2_psn_diff(req->psn, req->una_psn) + 1 >= (s32)req->window;
	struct rocev2_bth *bth;

	bth = rocev2_tx_begin(qp, &qp->path, info->hdr_len, len, first_time(req));
	if (!bth)
		return true;	/* counted; as good as lost on the way */
	rocev2_bth_fill(bth, opcode, -len & 3, solicited(wqe, info),
			qp->service == ROCEV2_SVC_RC &&
			(last || full || (index + 1) % ROCEV2_ACKREQ_EVERY == 0),
			qp->dest_qpn, req->psn);
	if (info->flags & ROCEV2_F_RETH) {
		struct rocev2_reth *reth = (void *)(bth + 1);

		reth->va = cpu_to_be64(wqe->raddr);
		reth->rkey = cpu_to_be32(wqe->rkey);
		reth->len = cpu_to_be32(wqe->length);
	}
	if (info->flags & ROCEV2_F_IMMDT) {
		struct rocev2_immdt *immdt = (void *)bth + info->imm_off;

		immdt->imm = wqe->imm;
	} else if (info->flags & ROCEV2_F_IETH) {
		struct rocev2_ieth *ieth = (void *)bth + info->imm_off;

		/* the union member is a host-order key here */
		ieth->rkey = cpu_to_be32((__force u32)wqe->imm);
	}
	if (len && rocev2_req_gather(qp, wqe, from, len, (void *)bth + info->hdr_len) !=
	    ROCEV2_MR_OK) {
		rocev2_tx_cancel(qp);
		return false;
	}
	rocev2_tx_commit(qp);
	return true;
}

/* request for the responses from req->psn on; returns how many are asked for */
static u32 send_read(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe)
{
	struct rocev2_req *req = &qp->req;
	u32 index = rocev2_psn_diff(req->psn, wqe->first_psn);
	u32 packets = rocev2_psn_diff(wqe->last_psn, req->psn) + 1;
	u32 part = ROCEV2_MAX_READ_PSNS - index % ROCEV2_MAX_READ_PSNS;
	u64 skip = (u64)index << qp->mtu_shift;
	u32 len = wqe->length - skip;
	struct rocev2_reth *reth;
	struct rocev2_bth *bth;

	/*
	 * A repeat ends where the first request did: beyond lie PSNs that the responder
	 * has not seen, and it answers only what it was asked before (9.7.4.1.4).
	 */
	if (packets > part) {
		packets = part;
		len = packets << qp->mtu_shift;
	}
	if (index % ROCEV2_MAX_READ_PSNS)
		req->read_psn = req->psn;
	bth = rocev2_tx_begin(qp, &qp->path, sizeof(*bth) + sizeof(*reth), 0, first_time(req));
	if (!bth)
		return packets;
	rocev2_bth_fill(bth, ROCEV2_OP_READ_REQ, 0, false, true, qp->dest_qpn, req->psn);
	reth = (void *)(bth + 1);
	reth->va = cpu_to_be64(wqe->raddr + skip);
	reth->rkey = cpu_to_be32(wqe->rkey);
	reth->len = cpu_to_be32(len);
	rocev2_tx_commit(qp);
	return packets;
}

static void send_atomic(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe)
{
	bool cas = wqe->opcode == IB_WR_ATOMIC_CMP_AND_SWP;
	u8 opcode = cas ? ROCEV2_OP_CMP_SWAP : ROCEV2_OP_FETCH_ADD;
	struct rocev2_atomiceth *eth;
	struct rocev2_bth *bth;

	bth = rocev2_tx_begin(qp, &qp->path, sizeof(*bth) + sizeof(*eth), 0,
			      first_time(&qp->req));
	if (!bth)
		return;
	rocev2_bth_fill(bth, opcode, 0, false, true, qp->dest_qpn, qp->req.psn);
	eth = (void *)(bth + 1);
	eth->va = cpu_to_be64(wqe->raddr);
	eth->rkey = cpu_to_be32(wqe->rkey);
	eth->swap_add = cpu_to_be64(cas ? wqe->swap : wqe->compare_add);
	eth->compare = cpu_to_be64(cas ? wqe->compare_add : 0);
	rocev2_tx_commit(qp);
}

static void send_placement(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe)
{
	bool flush = wqe->opcode == ROCEV2_WR_FLUSH;
	u8 opcode = flush ? ROCEV2_OP_FLUSH : ROCEV2_OP_ATOMIC_WRITE;
	u32 hdr_len = rocev2_opcodes[opcode].hdr_len;
	u32 payload = flush ? 0 : sizeof(wqe->compare_add);
	struct rocev2_reth *reth;
	struct rocev2_bth *bth;

	bth = rocev2_tx_begin(qp, &qp->path, hdr_len, payload, first_time(&qp->req));
	if (!bth)
		return;
	rocev2_bth_fill(bth, opcode, 0, false, true, qp->dest_qpn, qp->req.psn);
	reth = (void *)(bth + 1);
	if (flush) {
		struct rocev2_feth *feth = (void *)(bth + 1);

		feth->bits = cpu_to_be32(wqe->access);
		reth = (void *)(feth + 1);
	}
	reth->va = cpu_to_be64(wqe->raddr);
	reth->rkey = cpu_to_be32(wqe->rkey);
	reth->len = cpu_to_be32(flush ? (u32)wqe->compare_add : payload);
	memcpy((void *)bth + hdr_len, &wqe->compare_add, payload);
	rocev2_tx_commit(qp);
}

/* --- the send queue --- */

static void assign_psns(struct rocev2_qp *qp, struct rocev2_send_wqe *wqe)
{
	struct rocev2_req *req = &qp->req;
	/* READ: one PSN a response; atomics, datagrams and empty messages: one */
	u32 packets = wqe->length && qp->service != ROCEV2_SVC_UD ?
		      ((wqe->length - 1) >> qp->mtu_shift) + 1 : 1;

	wqe->first_psn = req->next_psn;
	wqe->last_psn = rocev2_psn_add(wqe->first_psn, packets - 1);
	req->psn = wqe->first_psn;
	req->next_psn = rocev2_psn_add(wqe->last_psn, 1);
	qp->sq.assigned++;
}

/* may the message at the head of the queue begin? A WQE that failed its checks fails here. */
static bool may_begin(struct rocev2_qp *qp, struct rocev2_send_wqe *wqe)
{
	struct rocev2_req *req = &qp->req;

	if (!(rocev2_qp_state(qp) & ROCEV2_QPS_TX_NEW))
		return false;
	if (rocev2_comp_is_rd(wqe->opcode) && !req->max_rd_atomic)
		wqe->status = IB_WC_LOC_QP_OP_ERR;
	if (wqe->status != IB_WC_SUCCESS) {
		/* completions keep their order: wait for those before */
		if (qp->sq.una == qp->sq.cur)
			rocev2_comp_fail(qp, wqe->status);
		return false;
	}
	/* a fence waits for READs and atomics before it (10.8.3.3) */
	return !(wqe->send_flags & IB_SEND_FENCE && req->rd_outstanding);
}

/* may memory still be read or written by this key for a WQE that is not complete? */
static bool key_in_use(const struct rocev2_qp *qp, u32 key)
{
	u32 i, j;

	for (i = qp->sq.una; i != qp->sq.cur; i++) {
		const struct rocev2_send_wqe *wqe = rocev2_sq_wqe(&qp->sq, i);

		if (wqe->send_flags & IB_SEND_INLINE)
			continue;
		for (j = 0; j < wqe->num_sge; j++)
			if (wqe->sge[j].lkey == key)
				return true;
	}
	return false;
}

/*
 * A work request that sends nothing, at the head of the queue: done at once, in
 * order; complete when those before it are. It has a place in the queue and no PSN,
 * so that going back and forth leads past it.
 * Return: false when it cannot be done now.
 */
static bool do_local(struct rocev2_qp *qp, struct rocev2_send_wqe *wqe)
{
	struct rocev2_sq *sq = &qp->sq;

	switch (wqe->opcode) {
	case IB_WR_LOCAL_INV:
		/* what may have to be sent again is read again by its key */
		if (key_in_use(qp, wqe->rkey))
			return false;
		wqe->status = rocev2_local_inv(qp, wqe->rkey);
		break;
	case IB_WR_REG_MR:
		wqe->status = rocev2_fast_reg(qp, wqe->rkey, wqe->raddr, wqe->access);
		break;
	default:
		wqe->status = rocev2_bind_mw(qp, wqe);
	}
	if (wqe->status != IB_WC_SUCCESS) {
		if (sq->una == sq->cur)
			rocev2_comp_fail(qp, wqe->status);
		return false;
	}
	wqe->first_psn = qp->req.next_psn;
	wqe->last_psn = rocev2_psn_add(wqe->first_psn, -1);
	sq->assigned++;
	sq->cur++;
	rocev2_comp_local(qp);
	return true;
}

/*
 * On-demand paging: ask only for what can be placed, at least its beginning. Other
 * reasons why it cannot show when the response comes.
 * Return: false: not now, or never.
 */
static bool memory_present(struct rocev2_qp *qp, struct rocev2_send_wqe *wqe)
{
	u64 from = (u64)(u32)rocev2_psn_diff(qp->req.psn, wqe->first_psn) << qp->mtu_shift;
	enum rocev2_mr_status status;

	if (rocev2_comp_is_placement(wqe->opcode))
		return true;
	status = rocev2_sg_writable(qp, wqe->sge, wqe->num_sge, from,
				    min_t(u64, wqe->length - from, qp->mtu));
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT))
		qp->req.fault_wait = true;
	else if (unlikely(status == ROCEV2_MR_NO_PAGE))
		wqe->status = IB_WC_LOC_PROT_ERR;
	return status != ROCEV2_MR_NOT_PRESENT && status != ROCEV2_MR_NO_PAGE;
}

/*
 * The next packet or request of the current WQE.
 * Return: false when it cannot go now.
 */
static bool send_next(struct rocev2_qp *qp, struct rocev2_send_wqe *wqe)
{
	struct rocev2_req *req = &qp->req;
	u32 packets = 1;

	if (rocev2_comp_is_rd(wqe->opcode)) {
		if (!wqe->rd_counted && req->rd_outstanding >= req->max_rd_atomic)
			return false;
		/* the rest of a long READ, once its first part is here */
		if (wqe->rd_counted && req->psn != req->una_psn)
			return false;
		if (!memory_present(qp, wqe))
			goto out;
		if (!wqe->rd_counted) {
			wqe->rd_counted = true;
			req->rd_outstanding++;
		}
		if (wqe->opcode == IB_WR_RDMA_READ)
			packets = send_read(qp, wqe);
		else if (rocev2_comp_is_placement(wqe->opcode))
			send_placement(qp, wqe);
		else
			send_atomic(qp, wqe);
	} else if (qp->service == ROCEV2_SVC_UD) {
		wqe->status = rocev2_ud_send(qp, wqe);
	} else if (!send_data(qp, wqe) && !req->fault_wait) {
		wqe->status = IB_WC_LOC_PROT_ERR;
	}
out:
	if (unlikely(req->fault_wait))
		return false;
	if (wqe->status != IB_WC_SUCCESS) {
		if (qp->sq.una == qp->sq.cur)
			rocev2_comp_fail(qp, wqe->status);
		return false;
	}
	/* time a round trip: of a packet sent for the first time that is answered at once */
	if (!req->rtt_start && qp->service == ROCEV2_SVC_RC && packets == 1 &&
	    first_time(req) && req->psn == wqe->last_psn) {
		req->rtt_psn = req->psn;
		req->rtt_start = ktime_get();
	}
	req->psn = rocev2_psn_add(req->psn, packets);
	if (rocev2_psn_after(req->psn, req->max_psn))
		req->max_psn = req->psn;
	/* nobody acknowledges: what is sent is done (9.8.2.3, 9.8.3.1) */
	if (qp->service != ROCEV2_SVC_RC)
		req->una_psn = req->psn;
	if (rocev2_psn_after(req->psn, wqe->last_psn)) {
		qp->sq.cur++;
		if (qp->service != ROCEV2_SVC_RC)
			rocev2_comp_complete(qp, IB_WC_SUCCESS);
	}
	return true;
}

/* IBA 10.3.1.6: the send queue has drained */
static void check_drained(struct rocev2_qp *qp)
{
	if (qp->state != IB_QPS_SQD || !qp->req.sqd_notify || qp->sq.una != qp->sq.assigned)
		return;
	qp->req.sqd_notify = false;
	rocev2_qp_event(qp, IB_EVENT_SQ_DRAINED);
}

int rocev2_req_run(struct rocev2_qp *qp, int budget)
{
	struct rocev2_req *req = &qp->req;
	struct rocev2_sq *sq = &qp->sq;
	int sent = 0;

	if (rocev2_qp_state(qp) & ROCEV2_QPS_FLUSH_SEND) {
		rocev2_req_flush(qp);
		return sq->una != sq->pull ? budget : 0;
	}
	rocev2_comp_local(qp);
	if (!(rocev2_qp_state(qp) & ROCEV2_QPS_TX) || req->rnr_wait || req->fault_wait ||
	    req->fatal_nak)
		return 0;
	while (sq->cur != sq->pull || pull_one(qp)) {
		struct rocev2_send_wqe *wqe = rocev2_sq_wqe(sq, sq->cur);

		if (sent >= budget)
			return budget;
		if (sq->cur != sq->assigned && rocev2_comp_is_local(wqe->opcode)) {
			/* done before we went back */
			sq->cur++;
			continue;
		}
		if (wqe->status != IB_WC_SUCCESS && sq->cur != sq->assigned) {
			/* its memory went bad half-way */
			if (sq->una == sq->cur)
				rocev2_comp_fail(qp, wqe->status);
			break;
		}
		if (rocev2_psn_diff(req->psn, req->una_psn) >= (s32)req->window ||
		    !rocev2_tx_may_send(qp, ROCEV2_MAX_INFLIGHT_REQ))
			break;
		if (sq->cur == sq->assigned) {
			if (!may_begin(qp, wqe))
				break;
			if (rocev2_comp_is_local(wqe->opcode)) {
				if (!do_local(qp, wqe))
					break;
				sent++;
				continue;
			}
			assign_psns(qp, wqe);
		}
		if (!send_next(qp, wqe))
			break;
		sent++;
	}
	check_drained(qp);
	return sent;
}

void rocev2_req_go_back(struct rocev2_qp *qp, u32 psn)
{
	struct rocev2_sq *sq = &qp->sq;
	u32 i, cur = sq->una;

	while (cur != sq->assigned && rocev2_psn_after(psn, rocev2_sq_wqe(sq, cur)->last_psn))
		cur++;
	/* READs and atomics from here on will be asked for again */
	for (i = cur; i != sq->assigned; i++) {
		struct rocev2_send_wqe *wqe = rocev2_sq_wqe(sq, i);

		if (wqe->rd_counted) {
			wqe->rd_counted = false;
			qp->req.rd_outstanding--;
		}
	}
	sq->cur = cur;
	qp->req.psn = psn;
	/* an answer might be to either transmission */
	qp->req.rtt_start = 0;
}

/* the memory that the requester has waited for is there, or will never be */
void rocev2_req_fault_done(struct rocev2_qp *qp)
{
	struct rocev2_req *req = &qp->req;

	req->fault_wait = false;
	if (!req->fault_again)
		return;
	req->fault_again = false;
	req->gap = false;
	rocev2_req_go_back(qp, req->una_psn);
}

void rocev2_req_flush(struct rocev2_qp *qp)
{
	struct rocev2_sq *sq = &qp->sq;
	u32 left = rocev2_ring_capacity(&sq->ring);

	while (sq->una != sq->pull || pull_one(qp)) {
		/* an application that keeps posting must not keep us here: req_run goes on */
		if (!left--)
			break;
		rocev2_comp_complete(qp, IB_WC_WR_FLUSH_ERR);
	}
}

void rocev2_req_reset(struct rocev2_qp *qp)
{
	struct rocev2_req *req = &qp->req;
	struct rocev2_sq *sq = &qp->sq;

	req->window = ROCEV2_WINDOW;
	req->rd_outstanding = 0;
	req->rnr_wait = false;
	req->fault_wait = false;
	req->fault_again = false;
	req->rnr_backoff = 0;
	req->gap = false;
	req->acked = false;
	req->nak_wait = false;
	req->fatal_nak = 0;
	/* none: PSNs have 24 bits */
	req->read_psn = U32_MAX;
	req->rtt = 0;
	req->rtt_start = 0;
	req->went_back = 0;
	req->sqd_notify = false;
	req->ack_deadline = 0;
	req->stuck = false;
	req->una_psn = 0;
	req->max_psn = 0;
	req->next_psn = 0;
	req->psn = 0;
	/* a new QP has no ring yet */
	if (!sq->ring.buf)
		return;
	sq->pull = rocev2_ring_producer(&sq->ring);
	sq->cur = sq->pull;
	sq->una = sq->pull;
	sq->assigned = sq->pull;
	rocev2_ring_set_consumer(&sq->ring, sq->una);
}

/* --- post_send --- */

static int copy_inline_wr(struct rocev2_sq *sq, struct rxe_send_wqe *wqe,
			  const struct ib_send_wr *wr)
{
	u32 len = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ib_sge *sge = &wr->sg_list[i];

		if (sge->length > sq->max_inline - len)
			return -EINVAL;
		memcpy(wqe->dma.inline_data + len, (void *)(uintptr_t)sge->addr, sge->length);
		len += sge->length;
	}
	wqe->dma.length = len;
	wqe->dma.num_sge = 0;
	return 0;
}

/* what belongs to the operation, and what it reads or writes */
static int fill_wqe(struct rocev2_qp *qp, struct rxe_send_wqe *wqe, const struct ib_send_wr *wr)
{
	int i;

	if (qp->service == ROCEV2_SVC_UD) {
		wqe->wr.wr.ud.ah_num = to_rocev2_ah(ud_wr(wr)->ah)->num;
		wqe->wr.wr.ud.remote_qpn = ud_wr(wr)->remote_qpn;
		wqe->wr.wr.ud.remote_qkey = ud_wr(wr)->remote_qkey;
	} else if (rocev2_comp_is_rd(wr->opcode) && wr->opcode != IB_WR_RDMA_READ) {
		wqe->wr.wr.atomic.remote_addr = atomic_wr(wr)->remote_addr;
		wqe->wr.wr.atomic.compare_add = atomic_wr(wr)->compare_add;
		wqe->wr.wr.atomic.swap = atomic_wr(wr)->swap;
		wqe->wr.wr.atomic.rkey = atomic_wr(wr)->rkey;
	} else if (wr->opcode == IB_WR_RDMA_READ || wr->opcode == IB_WR_RDMA_WRITE ||
		   wr->opcode == IB_WR_RDMA_WRITE_WITH_IMM) {
		wqe->wr.wr.rdma.remote_addr = rdma_wr(wr)->remote_addr;
		wqe->wr.wr.rdma.rkey = rdma_wr(wr)->rkey;
	} else if (wr->opcode == IB_WR_REG_MR) {
		if (!rocev2_key_same_index(reg_wr(wr)->key, reg_wr(wr)->mr->lkey))
			return -EINVAL;
		/* not the MR itself: it is found by its key, if it still exists then */
		wqe->wr.wr.reg.key = reg_wr(wr)->key;
		wqe->wr.wr.reg.access = reg_wr(wr)->access;
		wqe->iova = reg_wr(wr)->mr->iova;
	}
	if (wr->send_flags & IB_SEND_INLINE)
		return copy_inline_wr(&qp->sq, wqe, wr);
	wqe->dma.num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++) {
		wqe->dma.sge[i].addr = wr->sg_list[i].addr;
		wqe->dma.sge[i].length = wr->sg_list[i].length;
		wqe->dma.sge[i].lkey = wr->sg_list[i].lkey;
	}
	return 0;
}

/* a kernel consumer's work request into the ring; checked again when it is pulled */
static int post_one(struct rocev2_qp *qp, const struct ib_send_wr *wr)
{
	bool known = opcode_known(qp, wr->opcode);
	struct rocev2_sq *sq = &qp->sq;
	u32 producer = rocev2_ring_producer(&sq->ring);
	struct rxe_send_wqe *wqe;

	if (wr->num_sge < 0 || wr->num_sge > sq->max_sge)
		return -EINVAL;
	/*
	 * What only flushes may be any operation: ib_drain_sq() posts an RDMA WRITE whatever
	 * the service. Of what such a work request holds nothing is read.
	 */
	if (!known && !(rocev2_qp_state(qp) & ROCEV2_QPS_FLUSH_SEND))
		return -EINVAL;
	if (((producer + 1 - rocev2_ring_consumer(&sq->ring)) & sq->ring.mask) == 0)
		return -ENOMEM;
	wqe = rocev2_ring_slot(&sq->ring, producer);
	wqe->wr.wr_id = wr->wr_id;
	wqe->wr.opcode = wr->opcode;
	wqe->wr.send_flags = wr->send_flags;
	wqe->wr.ex.imm_data = wr->ex.imm_data;
	if (known && fill_wqe(qp, wqe, wr))
		return -EINVAL;
	rocev2_ring_set_producer(&sq->ring, producer + 1);
	return 0;
}

/**
 * rocev2_post_send() - the post_send verb, and the doorbell of user QPs
 * @ibqp: the QP
 * @wr: send work requests; NULL for user QPs, whose WQEs are in the ring already
 * @bad_wr: the first that was not posted
 *
 * Context: any. Return: 0, -EINVAL (state or work request), -ENOMEM (queue full).
 */
int rocev2_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad_wr)
{
	struct rocev2_qp *qp = to_rocev2_qp(ibqp);
	unsigned long flags;
	int err = 0;

	*bad_wr = wr;
	if (!(rocev2_qp_state(qp) & ROCEV2_QPS_POST_SEND) || (qp->user && wr))
		return -EINVAL;
	if (wr) {
		spin_lock_irqsave(&qp->sq.lock, flags);
		for (; wr; wr = wr->next) {
			err = post_one(qp, wr);
			if (err) {
				*bad_wr = wr;
				break;
			}
		}
		spin_unlock_irqrestore(&qp->sq.lock, flags);
	}
	rocev2_qp_doorbell(qp);
	return err;
}
