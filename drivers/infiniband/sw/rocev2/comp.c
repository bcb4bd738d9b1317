// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completer: what comes back for the requester's packets. One response may
 * acknowledge many requests; all acknowledgments go through ack_before(), which
 * stops at a READ or atomic whose response is missing.
 */
#include "aeth.h"
#include "comp.h"
#include "cq.h"
#include "mem.h"
#include "psn.h"
#include "qp.h"
#include "req.h"
#include "trace.h"

/*
 * A software responder answers from its softirq: a shorter wait than this would
 * measure scheduling, not loss.
 */
#define MIN_ACK_TIMEOUT_NS	(2 * NSEC_PER_MSEC)
#define MAX_ACK_BACKOFF		2

/*
 * The peer's RNR timer is a minimum (9.7.5.2.8). One of 10 us would have both ends in
 * softirq all the time, for ever with an rnr_retry of 7: wait longer, and longer each
 * time that nothing has come of it.
 */
#define MIN_RNR_WAIT_NS		(100ull * NSEC_PER_USEC)
#define MAX_RNR_BACKOFF		5

/* --- completing send WQEs --- */

static enum ib_wc_opcode wc_opcode(u8 opcode)
{
	switch (opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		return IB_WC_RDMA_WRITE;
	case IB_WR_RDMA_READ:
		return IB_WC_RDMA_READ;
	case IB_WR_ATOMIC_CMP_AND_SWP:
		return IB_WC_COMP_SWAP;
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		return IB_WC_FETCH_ADD;
	case IB_WR_BIND_MW:
		return IB_WC_BIND_MW;
	case IB_WR_LOCAL_INV:
		return IB_WC_LOCAL_INV;
	case IB_WR_REG_MR:
		return IB_WC_REG_MR;
	case ROCEV2_WR_FLUSH:
		return (enum ib_wc_opcode)ROCEV2_WC_FLUSH;
	case ROCEV2_WR_ATOMIC_WRITE:
		return (enum ib_wc_opcode)ROCEV2_WC_ATOMIC_WRITE;
	default:
		return IB_WC_SEND;
	}
}

void rocev2_comp_complete(struct rocev2_qp *qp, enum ib_wc_status status)
{
	struct rocev2_sq *sq = &qp->sq;
	struct rocev2_send_wqe *wqe = rocev2_sq_wqe(sq, sq->una);
	struct ib_wc wc = {
		.wr_id = wqe->wr_id,
		.status = status,
		.opcode = wc_opcode(wqe->opcode),
		.qp = qp->ibqp,
		.port_num = ROCEV2_PORT,
	};
	bool signaled = sq->sig_all || wqe->send_flags & IB_SEND_SIGNALED ||
			status != IB_WC_SUCCESS;

	if (wqe->rd_counted) {
		wqe->rd_counted = false;
		qp->req.rd_outstanding--;
	}
	if (wqe->opcode == IB_WR_RDMA_READ)
		wc.byte_len = wqe->length;
	else if (rocev2_comp_is_rd(wqe->opcode))
		wc.byte_len = sizeof(u64);
	/* what completes without having been sent: keep una <= assigned, cur */
	if (sq->cur == sq->una)
		sq->cur++;
	if (sq->assigned == sq->una)
		sq->assigned++;
	/* the slot is the consumer's again before it learns of the completion */
	sq->una++;
	rocev2_ring_set_consumer(&sq->ring, sq->una);
	if (!signaled)
		return;
	trace_rocev2_cqe(qp->qpn, wc.wr_id, wc.status, wc.opcode);
	if (rocev2_cq_post(qp->scq, &wc, status != IB_WC_SUCCESS) && qp->state != IB_QPS_ERR) {
		rocev2_qp_error(qp);
		rocev2_qp_event(qp, IB_EVENT_QP_FATAL);
	}
}

void rocev2_comp_fail(struct rocev2_qp *qp, enum ib_wc_status status)
{
	rocev2_comp_complete(qp, status);
	rocev2_qp_send_error(qp);
}

/* the oldest WQE ends as the NAK says, the others flush */
static void comp_fatal_nak(struct rocev2_qp *qp, u8 syndrome)
{
	switch (syndrome) {
	case ROCEV2_AETH_NAK_INV_REQ:
		rocev2_qp_count(qp, ROCEV2_CNT_REQ_REM_INV_REQ);
		rocev2_comp_fail(qp, IB_WC_REM_INV_REQ_ERR);
		break;
	case ROCEV2_AETH_NAK_REM_ACC:
		rocev2_qp_count(qp, ROCEV2_CNT_REQ_REM_ACCESS);
		rocev2_comp_fail(qp, IB_WC_REM_ACCESS_ERR);
		break;
	case ROCEV2_AETH_NAK_REM_OP:
		rocev2_qp_count(qp, ROCEV2_CNT_REQ_REM_OP);
		rocev2_comp_fail(qp, IB_WC_REM_OP_ERR);
		break;
	}
}

/* --- acknowledging --- */

static struct rocev2_send_wqe *oldest(const struct rocev2_qp *qp)
{
	return rocev2_sq_wqe(&qp->sq, qp->sq.una);
}

/* the shortest round trip, forgotten slowly: paths change */
static void rtt_sample(struct rocev2_req *req)
{
	u64 rtt = ktime_to_ns(ktime_sub(ktime_get(), req->rtt_start));

	req->rtt_start = 0;
	if (!req->rtt || rtt < req->rtt)
		req->rtt = rtt;
	else
		req->rtt += (rtt - req->rtt) / 64;
}

void rocev2_comp_local(struct rocev2_qp *qp)
{
	/* they are done when they get their place, so what is assigned is done */
	while (qp->sq.una != qp->sq.assigned && rocev2_comp_is_local(oldest(qp)->opcode))
		rocev2_comp_complete(qp, IB_WC_SUCCESS);
}

static void progress(struct rocev2_qp *qp, u32 una_psn)
{
	struct rocev2_req *req = &qp->req;
	u32 acked = rocev2_psn_diff(una_psn, req->una_psn);

	/* twice as much each round trip */
	req->window = min(req->window + acked, (u32)ROCEV2_WINDOW);
	req->una_psn = una_psn;
	req->progress = true;
	req->rnr_backoff = 0;
	req->gap = false;
	req->nak_wait = false;
	if (req->rtt_start && rocev2_psn_after(una_psn, req->rtt_psn))
		rtt_sample(req);
	req->retry_left = qp->attr.retry_cnt;
	req->rnr_left = qp->attr.rnr_retry;
	/* the peer is further than we went back: do not send again what it has */
	if (rocev2_psn_before(req->psn, una_psn))
		rocev2_req_go_back(qp, una_psn);
}

/*
 * All PSNs before @psn are acknowledged.
 * Return: false when a READ or atomic before @psn still lacks its response;
 * una_psn is the first one missing.
 */
static bool ack_before(struct rocev2_qp *qp, u32 psn)
{
	struct rocev2_req *req = &qp->req;

	for (;;) {
		struct rocev2_send_wqe *wqe;
		u32 last_psn;

		rocev2_comp_local(qp);
		if (qp->sq.una == qp->sq.assigned || !rocev2_psn_before(req->una_psn, psn))
			return true;
		wqe = oldest(qp);
		last_psn = wqe->last_psn;
		if (rocev2_comp_is_rd(wqe->opcode))
			return false;
		if (rocev2_psn_before(last_psn, psn)) {
			rocev2_comp_complete(qp, IB_WC_SUCCESS);
			progress(qp, rocev2_psn_add(last_psn, 1));
		} else {
			progress(qp, psn);
		}
	}
}

/* WQE that an outstanding PSN belongs to */
static struct rocev2_send_wqe *wqe_of(const struct rocev2_qp *qp, u32 psn)
{
	u32 i;

	for (i = qp->sq.una; i != qp->sq.assigned; i++) {
		struct rocev2_send_wqe *wqe = rocev2_sq_wqe(&qp->sq, i);

		if (!rocev2_psn_after(psn, wqe->last_psn))
			return wqe;
	}
	return NULL;
}

/* go back to the oldest unacknowledged PSN and spend a retry, or give up */
static void retry(struct rocev2_qp *qp, enum rocev2_counter reason)
{
	struct rocev2_req *req = &qp->req;

	if (req->fatal_nak) {
		comp_fatal_nak(qp, req->fatal_nak);
		return;
	}
	/* packets of this turn have answered everything */
	if (req->una_psn == req->max_psn)
		return;
	rocev2_qp_count(qp, reason);
	trace_rocev2_retry(qp->qpn, req->una_psn, reason);
	if (!req->retry_left) {
		rocev2_qp_count(qp, ROCEV2_CNT_RETRY_EXCEEDED);
		rocev2_comp_fail(qp, IB_WC_RETRY_EXC_ERR);
		return;
	}
	req->retry_left--;
	req->ack_deadline = 0;
	req->nak_wait = false;
	req->went_back = ktime_get();
	rocev2_req_go_back(qp, req->una_psn);
}

/*
 * The peer says that packets are missing. What comes within a round trip of the
 * last time may still speak of the packets sent before it: wait whether those sent
 * since close the gap, lest one reordered packet brings several floods.
 */
static void packets_missing(struct rocev2_qp *qp, enum rocev2_counter reason)
{
	struct rocev2_req *req = &qp->req;

	/* what is missing will not come by asking again, or will be asked for when there is room */
	if (req->fatal_nak || req->fault_again)
		return;
	if (req->went_back &&
	    ktime_before(ktime_get(), ktime_add_ns(req->went_back, req->rtt))) {
		req->nak_wait = true;
		req->nak_reason = reason;
		return;
	}
	retry(qp, reason);
}

/* an answer for what comes later says that a response was lost (9.7.5.2.3); go back once */
static void response_missing(struct rocev2_qp *qp)
{
	if (qp->req.gap)
		return;
	packets_missing(qp, ROCEV2_CNT_IMPLIED_NAK_SEQ_ERR);
	qp->req.gap = true;
}

static void comp_rnr(struct rocev2_qp *qp, u8 syndrome)
{
	struct rocev2_req *req = &qp->req;
	u64 wait;

	rocev2_qp_count(qp, ROCEV2_CNT_REQ_RNR_NAK);
	/* the peer is there and the request reached it: not a transport retry */
	req->retry_left = qp->attr.retry_cnt;
	/* 7 means for ever (11.2.5.4) */
	if (qp->attr.rnr_retry != 7) {
		if (!req->rnr_left) {
			rocev2_qp_count(qp, ROCEV2_CNT_RNR_RETRY_EXCEEDED);
			rocev2_comp_fail(qp, IB_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		req->rnr_left--;
	}
	wait = max_t(u64, rocev2_rnr_timer_ns(syndrome & ROCEV2_AETH_VALUE_MASK),
		     MIN_RNR_WAIT_NS << req->rnr_backoff);
	if (req->rnr_backoff < MAX_RNR_BACKOFF)
		req->rnr_backoff++;
	req->rnr_wait = true;
	req->rnr_until = ktime_add_ns(ktime_get(), wait);
	req->nak_wait = false;
	/*
	 * The peer dropped all that was on the way: ask with one packet whether it is ready
	 * now. QPs that send whole windows into an empty SRQ leave its consumer no time to
	 * post.
	 */
	req->window = 1;
	req->ack_deadline = 0;
	rocev2_req_go_back(qp, req->una_psn);
}

/* any NAK code but sequence error: the peer's QP is in the error state */
static bool syndrome_fatal(u8 syndrome)
{
	return (syndrome & ROCEV2_AETH_KIND_MASK) == ROCEV2_AETH_NAK &&
	       syndrome != ROCEV2_AETH_NAK_PSN_SEQ;
}

/* syndromes of table 47 and NAK codes of table 48 that have a meaning on RC */
static bool syndrome_known(u8 syndrome)
{
	if (syndrome & 0x80)
		return false;
	switch (syndrome & ROCEV2_AETH_KIND_MASK) {
	case ROCEV2_AETH_ACK:
	case ROCEV2_AETH_RNR_NAK:
		return true;
	case ROCEV2_AETH_NAK:
		return syndrome <= ROCEV2_AETH_NAK_REM_OP;
	default:
		return false;
	}
}

/*
 * A fatal NAK, with a READ or atomic response before it missing: it may have been
 * overtaken, so give it one more time-out. Asking again is in vain.
 */
static void fatal_nak_ahead(struct rocev2_qp *qp, u32 psn, u8 syndrome)
{
	struct rocev2_req *req = &qp->req;

	if (req->fatal_nak)
		return;
	req->fatal_nak = syndrome;
	req->fatal_psn = psn;
	req->nak_wait = false;
	req->ack_deadline = 0;
}

static enum rocev2_rx_verdict comp_ack(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	const struct rocev2_aeth *aeth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	u8 syndrome = rocev2_aeth_syndrome(aeth);
	bool ack = (syndrome & ROCEV2_AETH_KIND_MASK) == ROCEV2_AETH_ACK;
	struct rocev2_req *req = &qp->req;
	u32 psn;

	if (!syndrome_known(syndrome))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_RESPONSE);
	/* an ACK covers its PSN, a NAK what is before it (9.7.5.1.1) */
	psn = ack ? rocev2_psn_add(buf->psn, 1) : buf->psn;
	if (!ack_before(qp, psn)) {
		if (syndrome_fatal(syndrome)) {
			fatal_nak_ahead(qp, psn, syndrome);
			return ROCEV2_RX_DONE;
		}
		/* what it says stands once the responses before it are here */
		if (!req->acked || rocev2_psn_after(psn, req->acked_psn))
			req->acked_psn = psn;
		req->acked = true;
		response_missing(qp);
		return ROCEV2_RX_DONE;
	}
	if (qp->state == IB_QPS_ERR)
		return ROCEV2_RX_DONE;	/* a completion found its CQ full */
	if (ack)
		return ROCEV2_RX_DONE;
	if ((syndrome & ROCEV2_AETH_KIND_MASK) == ROCEV2_AETH_RNR_NAK)
		comp_rnr(qp, syndrome);
	else if (syndrome_fatal(syndrome))
		comp_fatal_nak(qp, syndrome);
	else
		packets_missing(qp, ROCEV2_CNT_PACKET_SEQ_ERR);
	return ROCEV2_RX_DONE;
}

/* --- responses with data --- */

/*
 * All responses: find the WQE, and acknowledge what is before it.
 * Return: true when @psn is the very response that is due.
 */
static bool response_in_order(struct rocev2_qp *qp, u32 psn)
{
	if (ack_before(qp, psn) && qp->req.una_psn == psn)
		return qp->state != IB_QPS_ERR;
	if (qp->state != IB_QPS_ERR)
		response_missing(qp);
	return false;
}

/* a response that has overtaken others, or outlived them: its turn comes when they are here */
static enum rocev2_rx_verdict keep_response(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	struct rocev2_req *req = &qp->req;
	enum rocev2_rx_verdict verdict;

	if (qp->state == IB_QPS_ERR)
		return ROCEV2_RX_DONE;
	verdict = rocev2_rx_keep(qp, &req->ahead, buf, req->una_psn);
	return verdict == ROCEV2_RX_DONE ? rocev2_rx_drop(buf, ROCEV2_CNT_RX_RESPONSE) : verdict;
}

/* a response has been taken: @psn is the last; what was acknowledged behind it may count now */
static void response_taken(struct rocev2_qp *qp, u32 psn)
{
	struct rocev2_req *req = &qp->req;

	progress(qp, rocev2_psn_add(psn, 1));
	if (req->acked && ack_before(qp, req->acked_psn))
		req->acked = false;
	/* all that a fatal NAK acknowledges is here */
	if (req->fatal_nak && ack_before(qp, req->fatal_psn) && qp->state != IB_QPS_ERR)
		comp_fatal_nak(qp, req->fatal_nak);
}

/*
 * On-demand paging: the memory for a response has gone since it was asked for. It is
 * asked for again when the memory is there, and costs no retry: nothing was lost.
 */
static enum rocev2_rx_verdict response_fault(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	struct rocev2_req *req = &qp->req;

	req->fault_wait = true;
	req->fault_again = true;
	req->nak_wait = false;
	req->ack_deadline = 0;
	return rocev2_rx_drop(buf, ROCEV2_CNT_RX_ODP_RESPONSE);
}

/*
 * Does the opcode stand where it may among the responses (9.7.3)? First and only ones
 * stand where a request began: at the start of the READ or of a part of it, or where
 * the requester went back to; there a middle or last one can still be an answer to
 * the request before.
 */
static bool read_opcode_ok(const struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe,
			   const struct rocev2_rx_buf *buf)
{
	u32 index = rocev2_psn_diff(buf->psn, wqe->first_psn);
	u8 flags = rocev2_opcodes[buf->opcode].flags;
	bool begins = !(index % ROCEV2_MAX_READ_PSNS);
	bool ends = buf->psn == wqe->last_psn || !((index + 1) % ROCEV2_MAX_READ_PSNS);

	if (!(flags & ROCEV2_F_END) == ends)
		return false;
	return flags & ROCEV2_F_START ? begins || buf->psn == qp->req.read_psn : !begins;
}

static enum rocev2_rx_verdict comp_read_response(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	struct rocev2_send_wqe *wqe = wqe_of(qp, buf->psn);
	enum rocev2_mr_status status;
	u64 off;
	u32 len;

	if (!wqe || (wqe->opcode != IB_WR_RDMA_READ && !rocev2_comp_is_placement(wqe->opcode)))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_RESPONSE);
	if (!response_in_order(qp, buf->psn))
		return keep_response(qp, buf);
	off = (u64)(u32)rocev2_psn_diff(buf->psn, wqe->first_psn) << qp->mtu_shift;
	len = rocev2_comp_is_placement(wqe->opcode) ? 0 : min_t(u64, wqe->length - off, qp->mtu);
	if (buf->payload_len != len || !read_opcode_ok(qp, wqe, buf)) {
		rocev2_comp_fail(qp, IB_WC_BAD_RESP_ERR);
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_RESPONSE);
	}
	status = rocev2_sg_write(qp, wqe->sge, wqe->num_sge, off, len, rocev2_payload(buf));
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT))
		return response_fault(qp, buf);
	if (status != ROCEV2_MR_OK) {
		rocev2_comp_fail(qp, IB_WC_LOC_PROT_ERR);
		return ROCEV2_RX_DONE;
	}
	if (buf->psn == wqe->last_psn)
		rocev2_comp_complete(qp, IB_WC_SUCCESS);
	response_taken(qp, buf->psn);
	return ROCEV2_RX_DONE;
}

static enum rocev2_rx_verdict comp_atomic_response(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	const struct rocev2_atomicacketh *ack =
		rocev2_rx_hdr(buf, sizeof(struct rocev2_bth) + sizeof(struct rocev2_aeth));
	struct rocev2_send_wqe *wqe = wqe_of(qp, buf->psn);
	u64 orig = be64_to_cpu(ack->orig);
	struct rocev2_src src = { .bytes = &orig };
	enum rocev2_mr_status status;

	if (!wqe || !rocev2_comp_is_rd(wqe->opcode) || wqe->opcode == IB_WR_RDMA_READ ||
	    rocev2_comp_is_placement(wqe->opcode))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_RESPONSE);
	if (!response_in_order(qp, buf->psn))
		return keep_response(qp, buf);
	status = rocev2_sg_write(qp, wqe->sge, wqe->num_sge, 0, sizeof(orig), src);
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT))
		return response_fault(qp, buf);
	if (status != ROCEV2_MR_OK) {
		rocev2_comp_fail(qp, IB_WC_LOC_PROT_ERR);
		return ROCEV2_RX_DONE;
	}
	rocev2_comp_complete(qp, IB_WC_SUCCESS);
	response_taken(qp, buf->psn);
	return ROCEV2_RX_DONE;
}

enum rocev2_rx_verdict rocev2_comp_response(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	struct rocev2_req *req = &qp->req;

	/* late, repeated, or for what was never sent: a ghost (9.7.5.1) */
	if (rocev2_psn_before(buf->psn, req->una_psn) ||
	    !rocev2_psn_before(buf->psn, req->max_psn))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_RESPONSE);
	switch (rocev2_opcodes[buf->opcode].cls) {
	case ROCEV2_CLASS_READ_RESP:
		return comp_read_response(qp, buf);
	case ROCEV2_CLASS_ATOMIC_ACK:
		return comp_atomic_response(qp, buf);
	default:
		return comp_ack(qp, buf);
	}
}

/* --- time --- */

/*
 * Between the QP's timeout and four times as much (9.7.6.1.3): longer each time that
 * nothing has come of it. The peer may be slow.
 */
static u64 ack_timeout_ns(const struct rocev2_qp *qp)
{
	u64 timeout = max_t(u64, rocev2_ack_timeout_ns(qp->attr.timeout), MIN_ACK_TIMEOUT_NS);

	return timeout << min(qp->attr.retry_cnt - qp->req.retry_left, MAX_ACK_BACKOFF);
}

/*
 * What must be sent again waits for a device that has taken packets meanwhile, if not yet enough
 * of them: it is slow, and has all the time it needs. Nothing is lost.
 */
static bool device_is_slow(const struct rocev2_qp *qp)
{
	const struct rocev2_req *req = &qp->req;

	return req->stuck && !req->fatal_nak &&
	       atomic_read(&qp->inflight) < req->stuck_inflight;
}

void rocev2_comp_timers(struct rocev2_qp *qp)
{
	struct rocev2_req *req = &qp->req;
	ktime_t now = ktime_get();

	if (req->rnr_wait) {
		if (ktime_before(now, req->rnr_until))
			return;
		req->rnr_wait = false;
	}
	if (req->nak_wait && !ktime_before(now, ktime_add_ns(req->went_back, req->rtt))) {
		retry(qp, req->nak_reason);
	} else if (req->ack_deadline && !req->progress &&
		   !ktime_before(now, req->ack_deadline)) {
		if (device_is_slow(qp)) {
			req->ack_deadline = 0;
			return;
		}
		/* a response that was asked for again may be asked for once more */
		req->gap = false;
		/*
		 * The peer may only be slow. With all of it again and again, in front of what is
		 * new, it would get slower yet: ask with one packet what it has.
		 */
		req->window = 1;
		retry(qp, ROCEV2_CNT_LOCAL_ACK_TIMEOUT);
	}
}

void rocev2_comp_update_deadline(struct rocev2_qp *qp)
{
	struct rocev2_req *req = &qp->req;
	bool stuck = req->una_psn == req->psn;

	/*
	 * A timeout of 0 means no limit (9.7.6.1.3). After a fatal NAK nothing is sent again, and
	 * there is a limit in any case. A device that takes nothing of what must be sent again
	 * may have lost it; once it has, the peer has the whole time.
	 */
	if (!(rocev2_qp_state(qp) & ROCEV2_QPS_TX) || req->una_psn == req->max_psn ||
	    req->rnr_wait || req->fault_wait || (!req->fatal_nak && !qp->attr.timeout)) {
		req->ack_deadline = 0;
	} else if (!req->ack_deadline || req->progress || (req->stuck && !stuck)) {
		req->ack_deadline = ktime_add_ns(ktime_get(), ack_timeout_ns(qp));
		req->stuck_inflight = atomic_read(&qp->inflight);
	}
	req->stuck = stuck;
}

ktime_t rocev2_comp_next_deadline(const struct rocev2_qp *qp)
{
	const struct rocev2_req *req = &qp->req;
	ktime_t next = req->ack_deadline;

	if (req->rnr_wait)
		return req->rnr_until;
	if (req->nak_wait) {
		ktime_t at = ktime_add_ns(req->went_back, req->rtt);

		if (!next || ktime_before(at, next))
			next = at;
	}
	return next;
}
