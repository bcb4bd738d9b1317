// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The receive path, top down. It has two halves: rocev2_rx() runs where the
 * packet arrives and only finds out whose it is; rocev2_rx_packet() runs in the
 * QP's owner and does everything else.
 */
#include "comp.h"
#include "mcast.h"
#include "psn.h"
#include "qp.h"
#include "resp.h"
#include "rocev2.h"
#include "rx.h"
#include "trace.h"
#include "ud.h"

static void rx_free_dropped(struct sk_buff *skb)
{
	const struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);

	trace_rocev2_rx_drop(buf->qpn, buf->psn, buf->opcode, buf->reason);
	kfree_skb(skb);
}

/* what belongs to a QP is counted there */
static void rx_drop(struct rocev2_qp *qp, struct sk_buff *skb)
{
	rocev2_qp_count(qp, rocev2_rx_buf(skb)->reason);
	rx_free_dropped(skb);
}

/* append to the QP's queue and have its owner run */
static void rx_queue(struct rocev2_qp *qp, struct sk_buff *skb)
{
	rocev2_qp_count(qp, ROCEV2_CNT_RX_PACKETS);
	rocev2_qp_count_add(qp, ROCEV2_CNT_RX_BYTES, rocev2_rx_buf(skb)->len);
	if (skb_queue_len_lockless(&qp->rx_queue) >= ROCEV2_RX_QUEUE_MAX) {
		rocev2_rx_buf(skb)->reason = ROCEV2_CNT_RX_QUEUE_FULL;
		rx_drop(qp, skb);
		return;
	}
	spin_lock(&qp->rx_queue.lock);
	__skb_queue_tail(&qp->rx_queue, skb);
	spin_unlock(&qp->rx_queue.lock);
	rocev2_qp_kick(qp);
}

static enum rocev2_rx_verdict rx_enqueue(struct rocev2_dev *dev, struct sk_buff *skb)
{
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	struct rocev2_qp *qp;

	if (unlikely(buf->flags & ROCEV2_RX_MCAST)) {
		if (buf->qpn != ROCEV2_MCAST_QPN ||
		    !rocev2_mcast_deliver(dev, skb, rx_queue))
			return rocev2_rx_drop(buf, ROCEV2_CNT_RX_QPN);
		consume_skb(skb);
		return ROCEV2_RX_DONE;
	}
	qp = xa_load(&dev->qps, buf->qpn);
	if (!qp)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_QPN);
	rx_queue(qp, skb);
	return ROCEV2_RX_DONE;
}

void rocev2_rx_refuse(struct rocev2_dev *dev, struct sk_buff *skb, enum rocev2_counter reason)
{
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);

	buf->reason = reason;
	rocev2_count(dev, ROCEV2_CNT_RX_PACKETS);
	rocev2_count_add(dev, ROCEV2_CNT_RX_BYTES, buf->len);
	rocev2_count(dev, reason);
	rx_free_dropped(skb);
}

void rocev2_rx(struct rocev2_dev *dev, struct sk_buff *skb)
{
	enum rocev2_rx_verdict verdict;

	verdict = rocev2_rx_parse(rocev2_rx_buf(skb));
	if (verdict == ROCEV2_RX_CONTINUE)
		verdict = rx_enqueue(dev, skb);
	/* nobody's */
	if (verdict == ROCEV2_RX_DROP)
		rocev2_rx_refuse(dev, skb, rocev2_rx_buf(skb)->reason);
}

enum rocev2_rx_verdict rocev2_rx_keep(struct sk_buff_head *ahead, struct sk_buff *skb, u32 due)
{
	u32 psn = rocev2_rx_buf(skb)->psn;
	struct sk_buff *at;

	/* the distance bounds the list too: one packet a PSN */
	if (rocev2_psn_diff(psn, due) >= ROCEV2_WINDOW)
		return ROCEV2_RX_DONE;
	/* mostly it belongs at the end */
	skb_queue_reverse_walk(ahead, at) {
		s32 diff = rocev2_psn_diff(psn, rocev2_rx_buf(at)->psn);

		if (!diff)
			return ROCEV2_RX_DONE;
		if (diff > 0)
			break;
	}
	__skb_queue_after(ahead, at, skb);
	return ROCEV2_RX_KEPT;
}

/* the kept packet with this PSN, or NULL; older ones have come again meanwhile */
static struct sk_buff *rx_next_kept(struct sk_buff_head *ahead, u32 psn)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(ahead))) {
		s32 diff = rocev2_psn_diff(rocev2_rx_buf(skb)->psn, psn);

		if (diff > 0)
			return NULL;
		__skb_unlink(skb, ahead);
		if (!diff)
			return skb;
		consume_skb(skb);
	}
	return NULL;
}

static void rx_finish(struct rocev2_qp *qp, struct sk_buff *skb, enum rocev2_rx_verdict verdict)
{
	if (verdict == ROCEV2_RX_DROP)
		rx_drop(qp, skb);
	else if (unlikely(verdict == ROCEV2_RX_STALLED))
		__skb_queue_head(&qp->rx_pending, skb);
	else if (verdict != ROCEV2_RX_KEPT)
		consume_skb(skb);
}

static enum rocev2_rx_verdict rx_dispatch(struct rocev2_qp *qp, struct sk_buff *skb)
{
	enum rocev2_rx_verdict verdict;

	if (qp->service == ROCEV2_SVC_UD)
		return rocev2_ud_receive(qp, skb);
	if (qp->service == ROCEV2_SVC_UC)
		return rocev2_resp_unreliable(qp, skb);
	if (rocev2_opcodes[rocev2_rx_buf(skb)->opcode].flags & ROCEV2_F_RESPONSE)
		return rocev2_comp_response(qp, skb);
	verdict = rocev2_rx_check_psn(qp, skb);
	return verdict == ROCEV2_RX_CONTINUE ? rocev2_resp_request(qp, skb) : verdict;
}

void rocev2_rx_packet(struct rocev2_qp *qp, struct sk_buff *skb)
{
	const struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	enum rocev2_rx_verdict verdict;

	/*
	 * A local sender counts the packet until here, not until it is queued: it
	 * cannot run its receiver over.
	 */
	skb_orphan(skb);
	trace_rocev2_rx(qp->qpn, buf->psn, buf->opcode, buf->payload_len);

	verdict = rocev2_rx_check_icrc(qp, skb);
	if (verdict == ROCEV2_RX_CONTINUE)
		verdict = rocev2_rx_check_qp(qp, skb);
	if (verdict == ROCEV2_RX_CONTINUE)
		verdict = rx_dispatch(qp, skb);
	rx_finish(qp, skb, verdict);

	/* what this packet's absence has kept waiting */
	while ((skb = rx_next_kept(&qp->recv.ahead, qp->recv.epsn)))
		rx_finish(qp, skb, rocev2_resp_request(qp, skb));
	while ((skb = rx_next_kept(&qp->req.ahead, qp->req.una_psn)))
		rx_finish(qp, skb, rocev2_comp_response(qp, skb));
}
