// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder: executes requests in PSN order. SEND and WRITE are here, READ in
 * resp_read.c, atomics in resp_atomic.c. Runs in the QP's owner; one
 * acknowledgment a batch leaves from rocev2_resp_flush().
 */
#include "aeth.h"
#include "cq.h"
#include "mem.h"
#include "psn.h"
#include "qp.h"
#include "resp.h"
#include "rq.h"
#include "trace.h"

/* --- refusing --- */

void rocev2_resp_nak(struct rocev2_qp *qp, u32 psn, u8 syndrome, s8 event)
{
	struct rocev2_recv_qp *recv = &qp->recv;

	/* UC: nobody to tell; the rest of the message will be dropped (9.8.2.2) */
	if (qp->service != ROCEV2_SVC_RC) {
		recv->msg = ROCEV2_CLASS_NONE;
		recv->epsn = rocev2_psn_add(psn, 1);
		return;
	}
	recv->nak = syndrome;
	recv->nak_psn = psn;
	recv->nak_event = event;
	/* what follows is refused too: by PSN, or for a fatal NAK by the error state */
	recv->gap = true;
	if (syndrome != ROCEV2_AETH_NAK_PSN_SEQ &&
	    (syndrome & ROCEV2_AETH_KIND_MASK) != ROCEV2_AETH_RNR_NAK)
		recv->dead = true;
}

void rocev2_resp_nak_access(struct rocev2_qp *qp, u32 psn)
{
	rocev2_qp_count(qp, ROCEV2_CNT_RESP_REM_ACCESS);
	rocev2_resp_nak(qp, psn, ROCEV2_AETH_NAK_REM_ACC, IB_EVENT_QP_ACCESS_ERR);
}

void rocev2_resp_nak_invalid(struct rocev2_qp *qp, u32 psn)
{
	rocev2_qp_count(qp, ROCEV2_CNT_RESP_REM_INV_REQ);
	rocev2_resp_nak(qp, psn, ROCEV2_AETH_NAK_INV_REQ, IB_EVENT_QP_REQ_ERR);
}

/* the receive WQE cannot take the message through no fault of the requester */
static void resp_nak_operational(struct rocev2_qp *qp, u32 psn)
{
	rocev2_qp_count(qp, ROCEV2_CNT_RESP_REM_OP);
	rocev2_resp_nak(qp, psn, ROCEV2_AETH_NAK_REM_OP, ROCEV2_NO_EVENT);
}

static void resp_nak_rnr(struct rocev2_qp *qp, u32 psn)
{
	rocev2_qp_count(qp, qp->service == ROCEV2_SVC_RC ? ROCEV2_CNT_RESP_RNR_NAK :
							   ROCEV2_CNT_RX_NO_WQE);
	rocev2_resp_nak(qp, psn, ROCEV2_AETH_RNR_NAK | qp->recv.min_rnr_timer, ROCEV2_NO_EVENT);
}

/*
 * The memory is on its way (on-demand paging). RC: the peer tries again, later and
 * later while it is the same fault, so that a slow page costs few of its RNR retries. A
 * page that was there and has gone again is not slow.
 * The QP's own timer is for receives that are not posted, up to 655 ms. UC and UD have
 * no second try: the packet stays, and those behind it wait.
 */
void rocev2_resp_fault(struct rocev2_qp *qp, u32 psn)
{
	u32 started = qp->fault[ROCEV2_FAULT_RESP].started;
	struct rocev2_recv_qp *recv = &qp->recv;

	if (qp->service != ROCEV2_SVC_RC) {
		recv->stalled = true;
		return;
	}
	if (recv->fault_seen != started) {
		recv->fault_seen = started;
		recv->fault_timer = ROCEV2_FAULT_TIMER_MIN;
	}
	rocev2_qp_count(qp, ROCEV2_CNT_RESP_ODP_RNR_NAK);
	rocev2_resp_nak(qp, psn, ROCEV2_AETH_RNR_NAK | recv->fault_timer, ROCEV2_NO_EVENT);
	recv->fault_timer = min(recv->fault_timer + 4, ROCEV2_FAULT_TIMER_MAX);
}

/* --- completing receive WQEs --- */

bool rocev2_resp_post(struct rocev2_qp *qp, struct ib_wc *wc, bool solicited)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	bool full;

	wc->wr_id = recv->wqe.wr_id;
	wc->qp = qp->ibqp;
	wc->port_num = ROCEV2_PORT;
	recv->have_wqe = false;
	trace_rocev2_cqe(qp->qpn, wc->wr_id, wc->status, wc->opcode);
	full = rocev2_cq_post(qp->rcq, wc, solicited || wc->status != IB_WC_SUCCESS) &&
	       qp->state != IB_QPS_ERR;
	if (qp->service == ROCEV2_SVC_RC)
		return full;
	/* nobody to refuse */
	if (full || wc->status != IB_WC_SUCCESS)
		rocev2_qp_error(qp);
	if (full)
		rocev2_qp_event(qp, IB_EVENT_QP_FATAL);
	return full;
}

/* the receive WQE of the message in progress is done */
static void resp_complete(struct rocev2_qp *qp, enum ib_wc_status status,
			  const struct rocev2_rx_buf *buf)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	struct ib_wc wc = {
		.status = status,
		.opcode = IB_WC_RECV,
		.src_qp = qp->dest_qpn,
	};
	bool solicited = false;

	if (status == IB_WC_SUCCESS) {
		const struct rocev2_opcode_info *info = &rocev2_opcodes[buf->opcode];

		wc.byte_len = recv->received;
		if (info->cls == ROCEV2_CLASS_WRITE)
			wc.opcode = IB_WC_RECV_RDMA_WITH_IMM;
		if (info->flags & ROCEV2_F_IMMDT) {
			const struct rocev2_immdt *immdt = rocev2_rx_hdr(buf, info->imm_off);

			wc.wc_flags = IB_WC_WITH_IMM;
			wc.ex.imm_data = immdt->imm;
		} else if (info->flags & ROCEV2_F_IETH) {
			const struct rocev2_ieth *ieth = rocev2_rx_hdr(buf, info->imm_off);

			wc.wc_flags = IB_WC_WITH_INVALIDATE;
			wc.ex.invalidate_rkey = be32_to_cpu(ieth->rkey);
		}
		solicited = buf->flags & ROCEV2_RX_SOLICITED;
	}
	if (rocev2_resp_post(qp, &wc, solicited) && qp->service == ROCEV2_SVC_RC) {
		/* the peer learns of the full CQ at once, not by its time-outs */
		if (!recv->dead)
			resp_nak_operational(qp, buf->psn);
		recv->nak_event = IB_EVENT_QP_FATAL;
	}
}

/* --- SEND and WRITE --- */

/* the request takes effect: the expected PSN moves on */
static void resp_advance(struct rocev2_qp *qp, const struct rocev2_opcode_info *info)
{
	struct rocev2_recv_qp *recv = &qp->recv;

	recv->epsn = rocev2_psn_add(recv->epsn, 1);
	if (info->flags & ROCEV2_F_END) {
		recv->msg = ROCEV2_CLASS_NONE;
		recv->msn = rocev2_psn_add(recv->msn, 1);
	} else {
		recv->msg = info->cls;
	}
}

static void resp_send(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf,
		      const struct rocev2_opcode_info *info)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	enum rocev2_mr_status status;

	if (info->flags & ROCEV2_F_START) {
		/* UC: that of a message which lost a packet serves the next */
		if (!recv->have_wqe && !rocev2_rq_next(qp)) {
			resp_nak_rnr(qp, buf->psn);
			return;
		}
		recv->have_wqe = true;
		recv->received = 0;
	}
	if (recv->wqe.bad) {
		resp_nak_operational(qp, buf->psn);
		resp_complete(qp, IB_WC_LOC_QP_OP_ERR, buf);
		return;
	}
	/* a message has 2^31 bytes at most (C9-26), whatever the WQE could take */
	if (buf->payload_len > min_t(u64, recv->wqe.length, ROCEV2_MAX_MSG) - recv->received) {
		rocev2_qp_count(qp, ROCEV2_CNT_RESP_LOCAL_LENGTH);
		rocev2_resp_nak(qp, buf->psn, ROCEV2_AETH_NAK_INV_REQ, ROCEV2_NO_EVENT);
		resp_complete(qp, IB_WC_LOC_LEN_ERR, buf);
		return;
	}
	status = rocev2_recv_write(qp, recv->received, buf->payload_len, rocev2_payload(buf));
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT)) {
		rocev2_resp_fault(qp, buf->psn);
		return;
	}
	if (status != ROCEV2_MR_OK) {
		resp_nak_operational(qp, buf->psn);
		resp_complete(qp, IB_WC_LOC_PROT_ERR, buf);
		return;
	}
	/* the key is gone before the consumer hears of it, or the message is refused as a whole */
	if (info->flags & ROCEV2_F_IETH) {
		const struct rocev2_ieth *ieth = rocev2_rx_hdr(buf, info->imm_off);

		if (!rocev2_remote_inv(qp, be32_to_cpu(ieth->rkey))) {
			rocev2_qp_count(qp, ROCEV2_CNT_RESP_REM_ACCESS);
			rocev2_resp_nak(qp, buf->psn, ROCEV2_AETH_NAK_REM_ACC, ROCEV2_NO_EVENT);
			resp_complete(qp, IB_WC_LOC_ACCESS_ERR, buf);
			return;
		}
	}
	recv->received += buf->payload_len;
	resp_advance(qp, info);
	if (info->flags & ROCEV2_F_END)
		resp_complete(qp, IB_WC_SUCCESS, buf);
}

/* first packet of a WRITE: where it goes and whether it may; false when it was refused */
static bool resp_write_start(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	const struct rocev2_reth *reth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	struct rocev2_recv_qp *recv = &qp->recv;
	struct rocev2_mr *mr;

	recv->va = be64_to_cpu(reth->va);
	recv->rkey = be32_to_cpu(reth->rkey);
	recv->resid = be32_to_cpu(reth->len);
	recv->received = 0;
	/* RDMA WRITE not enabled on this QP: an unsupported opcode (9.7.4.1.5, table 57) */
	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_WRITE) ||
	    recv->resid > ROCEV2_MAX_MSG) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		return false;
	}
	/* the key of an empty WRITE is not looked at (C9-88) */
	if (!recv->resid)
		return true;
	if (rocev2_mr_get(qp, qp->ibqp->pd, recv->rkey, recv->va, recv->resid,
			  IB_ACCESS_REMOTE_WRITE, &mr) != ROCEV2_MR_OK) {
		rocev2_resp_nak_access(qp, buf->psn);
		return false;
	}
	rocev2_mr_put(mr);
	return true;
}

static void resp_write(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf,
		       const struct rocev2_opcode_info *info)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	enum rocev2_mr_status status = ROCEV2_MR_OK;

	if (info->flags & ROCEV2_F_START && !resp_write_start(qp, buf))
		return;
	if (buf->payload_len > recv->resid ||
	    (info->flags & ROCEV2_F_END && buf->payload_len != recv->resid)) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		return;
	}
	if (info->flags & ROCEV2_F_RECV_WQE) {
		if (!recv->have_wqe && !rocev2_rq_next(qp)) {
			resp_nak_rnr(qp, buf->psn);
			return;
		}
		recv->have_wqe = true;
		if (recv->wqe.bad) {
			resp_nak_operational(qp, buf->psn);
			resp_complete(qp, IB_WC_LOC_QP_OP_ERR, buf);
			return;
		}
	}
	/* the key is looked up for every packet: it may have died since the first */
	if (buf->payload_len)
		status = rocev2_mem_write(qp, recv->rkey, recv->va, buf->payload_len, recv->resid,
					  IB_ACCESS_REMOTE_WRITE, rocev2_payload(buf));
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT)) {
		rocev2_resp_fault(qp, buf->psn);
		return;
	}
	if (status != ROCEV2_MR_OK) {
		rocev2_resp_nak_access(qp, buf->psn);
		return;
	}
	recv->va += buf->payload_len;
	recv->resid -= buf->payload_len;
	recv->received += buf->payload_len;
	resp_advance(qp, info);
	if (info->flags & ROCEV2_F_RECV_WQE)
		resp_complete(qp, IB_WC_SUCCESS, buf);
}

/* --- dispatch --- */

/* packets of a message follow each other, and none comes between (9.7.4.1.2) */
static bool resp_order_ok(const struct rocev2_recv_qp *recv,
			  const struct rocev2_opcode_info *info)
{
	if (info->flags & ROCEV2_F_START)
		return recv->msg == ROCEV2_CLASS_NONE;
	return recv->msg == info->cls;
}

/* all packets of a message but the last are full, and the last is not empty (9.7.4.1.6) */
static bool resp_length_ok(const struct rocev2_qp *qp, const struct rocev2_rx_buf *buf,
			   const struct rocev2_opcode_info *info)
{
	if (!(info->flags & ROCEV2_F_PAYLOAD))
		return true;
	if (!(info->flags & ROCEV2_F_END))
		return buf->payload_len == qp->mtu;
	if (!(info->flags & ROCEV2_F_START) && !buf->payload_len)
		return false;
	return buf->payload_len <= qp->mtu;
}

/* the first request of a peer whose CM message may have been lost (11.6.3.1) */
static void resp_established(struct rocev2_qp *qp)
{
	if (qp->state != IB_QPS_RTR || qp->recv.established)
		return;
	qp->recv.established = true;
	rocev2_qp_event(qp, IB_EVENT_COMM_EST);
}

/*
 * UC: a message that lacks a packet is dropped as a whole, and the next one begins
 * wherever its first packet is (9.8.2.2).
 */
enum rocev2_rx_verdict rocev2_resp_unreliable(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	const struct rocev2_opcode_info *info = &rocev2_opcodes[buf->opcode];
	struct rocev2_recv_qp *recv = &qp->recv;

	resp_established(qp);
	if (info->flags & ROCEV2_F_START || buf->psn != recv->epsn)
		recv->msg = ROCEV2_CLASS_NONE;
	recv->epsn = buf->psn;
	if (!resp_order_ok(recv, info) || !resp_length_ok(qp, buf, info)) {
		recv->msg = ROCEV2_CLASS_NONE;
		recv->epsn = rocev2_psn_add(buf->psn, 1);
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LOST);
	}
	if (info->cls == ROCEV2_CLASS_SEND)
		resp_send(qp, buf, info);
	else
		resp_write(qp, buf, info);
	return unlikely(recv->stalled) ? ROCEV2_RX_STALLED : ROCEV2_RX_DONE;
}

enum rocev2_rx_verdict rocev2_resp_request(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	const struct rocev2_opcode_info *info = &rocev2_opcodes[buf->opcode];

	resp_established(qp);
	if (!resp_order_ok(&qp->recv, info) || !resp_length_ok(qp, buf, info)) {
		rocev2_resp_nak_invalid(qp, buf->psn);
		return ROCEV2_RX_DONE;
	}
	switch (info->cls) {
	case ROCEV2_CLASS_SEND:
		resp_send(qp, buf, info);
		break;
	case ROCEV2_CLASS_WRITE:
		resp_write(qp, buf, info);
		break;
	case ROCEV2_CLASS_READ_REQ:
		rocev2_resp_read(qp, buf);
		return ROCEV2_RX_DONE;
	case ROCEV2_CLASS_ATOMIC:
		rocev2_resp_atomic(qp, buf);
		return ROCEV2_RX_DONE;
	case ROCEV2_CLASS_ATOMIC_WRITE:
		rocev2_resp_atomic_write(qp, buf);
		return ROCEV2_RX_DONE;
	case ROCEV2_CLASS_FLUSH:
		rocev2_resp_flush_memory(qp, buf);
		return ROCEV2_RX_DONE;
	}
	if (buf->flags & ROCEV2_RX_ACKREQ)
		qp->recv.ack_due = true;
	return ROCEV2_RX_DONE;
}

enum rocev2_rx_verdict rocev2_resp_duplicate(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	rocev2_qp_count(qp, ROCEV2_CNT_DUPLICATE_REQUEST);
	switch (rocev2_opcodes[buf->opcode].cls) {
	case ROCEV2_CLASS_READ_REQ:
		rocev2_resp_read_again(qp, buf);
		break;
	case ROCEV2_CLASS_ATOMIC:
		rocev2_resp_atomic_again(qp, buf);
		break;
	case ROCEV2_CLASS_ATOMIC_WRITE:
	case ROCEV2_CLASS_FLUSH:
		rocev2_resp_placement_again(qp, buf);
		break;
	default:
		/* its acknowledgment was lost: acknowledge all we have (9.7.5.1.4) */
		qp->recv.ack_due = true;
	}
	return ROCEV2_RX_DONE;
}

enum rocev2_rx_verdict rocev2_resp_gap(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	u32 psn = buf->psn;

	rocev2_qp_count(qp, ROCEV2_CNT_OUT_OF_SEQUENCE);
	/* one NAK a gap: the requester goes back once (9.7.5.1.3) */
	if (recv->nak == ROCEV2_AETH_NAK_PSN_SEQ && rocev2_psn_before(psn, recv->nak_psn))
		psn = recv->nak_psn;
	if (!recv->gap)
		rocev2_resp_nak(qp, psn, ROCEV2_AETH_NAK_PSN_SEQ, ROCEV2_NO_EVENT);
	else if (recv->nak == ROCEV2_AETH_NAK_PSN_SEQ)
		recv->nak_psn = psn;
	/*
	 * Keep what may just have overtaken: the gap may close without the requester
	 * sending all again, as if the network had kept the order.
	 */
	return rocev2_rx_keep(qp, &recv->ahead, buf, recv->epsn);
}

/* --- answers --- */

u8 rocev2_resp_ack_syndrome(const struct rocev2_qp *qp)
{
	/* WQEs of an SRQ are promised to nobody: no end-to-end credits (9.7.7.2) */
	if (qp->srq)
		return ROCEV2_AETH_ACK | ROCEV2_CREDIT_CODE_UNLIMITED;
	/* what is posted now; the requester adds it to our MSN (9.7.7.2.1) */
	return ROCEV2_AETH_ACK | rocev2_credit_encode(rocev2_rq_posted(&qp->rq));
}

/*
 * A QP with an SRQ holds one WQE at most. What is in the SRQ is for the other QPs:
 * the consumer learns that this one takes no more, once (11.6.3.1).
 */
static void resp_last_wqe(struct rocev2_qp *qp)
{
	if (qp->recv.last_wqe)
		return;
	qp->recv.last_wqe = true;
	rocev2_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
}

static void resp_flush_recv(struct rocev2_qp *qp)
{
	int left = ROCEV2_RUN_BUDGET;

	if (qp->recv.have_wqe)
		resp_complete(qp, IB_WC_WR_FLUSH_ERR, NULL);
	if (qp->srq) {
		resp_last_wqe(qp);
		return;
	}
	while (left-- && rocev2_rq_next(qp))
		resp_complete(qp, IB_WC_WR_FLUSH_ERR, NULL);
	/* an application that keeps posting must not keep us here */
	if (rocev2_rq_posted(&qp->rq))
		rocev2_qp_kick(qp);
}

void rocev2_resp_flush(struct rocev2_qp *qp)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	u8 nak = recv->nak;
	u32 psn;

	if (rocev2_qp_state(qp) & ROCEV2_QPS_FLUSH_RECV) {
		resp_flush_recv(qp);
		return;
	}
	if (!(nak || recv->ack_due) || rocev2_resp_reads_due(qp))
		return;
	recv->ack_due = false;
	/* nothing of what a gap made us drop is missing any more: no reason to go back */
	if (nak == ROCEV2_AETH_NAK_PSN_SEQ && rocev2_psn_after(recv->epsn, recv->nak_psn)) {
		recv->nak = 0;
		nak = 0;
	}
	if (!nak) {
		rocev2_tx_ack(qp, rocev2_psn_add(recv->epsn, -1), rocev2_resp_ack_syndrome(qp),
			      recv->msn);
		return;
	}
	/*
	 * The gap may have closed since, with what lay ahead dropped: the requester
	 * must still go back, to where we are now.
	 */
	psn = nak == ROCEV2_AETH_NAK_PSN_SEQ ? recv->epsn : recv->nak_psn;
	recv->nak = 0;
	trace_rocev2_nak(qp->qpn, psn, nak);
	rocev2_tx_ack(qp, psn, nak, recv->msn);
	if (recv->dead) {
		rocev2_qp_error(qp);
		if (recv->nak_event != ROCEV2_NO_EVENT)
			rocev2_qp_event(qp, recv->nak_event);
	}
}

void rocev2_resp_stop(struct rocev2_qp *qp)
{
	struct rocev2_recv_qp *recv = &qp->recv;

	recv->nak = 0;
	recv->ack_due = false;
	recv->res_due = recv->res_head;
	rocev2_rx_purge(&recv->ahead);
}

void rocev2_resp_reset(struct rocev2_qp *qp)
{
	struct rocev2_recv_qp *recv = &qp->recv;

	rocev2_resp_stop(qp);
	recv->msn = 0;
	recv->msg = ROCEV2_CLASS_NONE;
	recv->gap = false;
	recv->dead = false;
	recv->established = false;
	recv->last_wqe = false;
	recv->have_wqe = false;
	recv->stalled = false;
	recv->res_head = 0;
	recv->res_due = 0;
	rocev2_rq_reset(&qp->rq);
}
