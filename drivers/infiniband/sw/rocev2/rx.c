// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The receive path, top down. It has two halves: rocev2_rx() runs where the
 * packet arrives and only finds out whose it is; rocev2_rx_packet() runs in the
 * QP's owner and does everything else.
 */
#include <linux/export.h>

#include "comp.h"
#include "mcast.h"
#include "psn.h"
#include "qp.h"
#include "resp.h"
#include "rocev2.h"
#include "rx.h"
#include "trace.h"
#include "ud.h"

static void rx_free_dropped(struct rocev2_rx_buf *buf)
{
	trace_rocev2_rx_drop(buf->qpn, buf->psn, buf->opcode, buf->reason);
	rocev2_rx_free(buf, true);
}

/* what belongs to a QP is counted there */
static void rx_drop(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	rocev2_qp_count_add(qp, buf->reason, rocev2_rx_packets(buf));
	rx_free_dropped(buf);
}

/* of IP packets: those of a superpacket would each have IP and UDP headers */
static u32 rx_bytes(const struct rocev2_rx_buf *buf, u32 packets)
{
	return buf->len + (packets - 1) * rocev2_rx_net_len(buf);
}

/* append to the QP's queue and have its owner run */
static void rx_queue(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	u32 packets = rocev2_rx_packets(buf);

	rocev2_qp_count_add(qp, ROCEV2_CNT_RX_PACKETS, packets);
	rocev2_qp_count_add(qp, ROCEV2_CNT_RX_BYTES, rx_bytes(buf, packets));
	if (buf->flags & ROCEV2_RX_SUPER)
		rocev2_qp_count(qp, ROCEV2_CNT_RX_SUPER);
	if (READ_ONCE(qp->rx_queue.len) >= ROCEV2_RX_QUEUE_MAX) {
		buf->reason = ROCEV2_CNT_RX_QUEUE_FULL;
		rx_drop(qp, buf);
		return;
	}
	if (unlikely(!rocev2_rx_queue_add(&qp->rx_queue, buf, packets))) {
		buf->reason = ROCEV2_CNT_RX_QPN;
		rx_drop(qp, buf);
		return;
	}
	rocev2_qp_kick(qp);
}

static enum rocev2_rx_verdict rx_enqueue(struct rocev2_dev *dev, struct rocev2_rx_buf *buf)
{
	struct rocev2_qp *qp;

	if (unlikely(buf->flags & ROCEV2_RX_MCAST)) {
		if (buf->qpn != ROCEV2_MCAST_QPN ||
		    !rocev2_mcast_deliver(dev, buf, rx_queue))
			return rocev2_rx_drop(buf, ROCEV2_CNT_RX_QPN);
		rocev2_rx_free(buf, false);
		return ROCEV2_RX_DONE;
	}
	qp = xa_load(&dev->qps, buf->qpn);
	if (!qp)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_QPN);
	rx_queue(qp, buf);
	return ROCEV2_RX_DONE;
}

void rocev2_rx_refuse(struct rocev2_dev *dev, struct rocev2_rx_buf *buf,
		      enum rocev2_counter reason)
{
	u32 packets = rocev2_rx_packets(buf);

	buf->reason = reason;
	rocev2_count_add(dev, ROCEV2_CNT_RX_PACKETS, packets);
	rocev2_count_add(dev, ROCEV2_CNT_RX_BYTES, rx_bytes(buf, packets));
	rocev2_count_add(dev, reason, packets);
	rx_free_dropped(buf);
}

void rocev2_rx(struct rocev2_dev *dev, struct rocev2_rx_buf *buf)
{
	enum rocev2_rx_verdict verdict;

	if (buf->flags & ROCEV2_RX_SUPER)
		verdict = rocev2_rx_parse_super(buf);
	else
		verdict = rocev2_rx_parse(buf);
	if (verdict == ROCEV2_RX_CONTINUE)
		verdict = rx_enqueue(dev, buf);
	/* nobody's */
	if (verdict == ROCEV2_RX_DROP)
		rocev2_rx_refuse(dev, buf, buf->reason);
}
EXPORT_SYMBOL_GPL(rocev2_rx);

/* NULL: no memory; @buf is still there then */
static struct rocev2_rx_buf *rx_detach(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	struct rocev2_rx_buf *detached = rocev2_rx_detach(buf);

	if (detached && detached != buf)
		rocev2_qp_count(qp, ROCEV2_CNT_RX_COPIED);
	return detached;
}

enum rocev2_rx_verdict rocev2_rx_keep(struct rocev2_qp *qp, struct list_head *ahead,
				      struct rocev2_rx_buf *buf, u32 due)
{
	struct rocev2_rx_buf *kept;
	struct list_head *at;

	/* the distance bounds the list too: one packet a PSN */
	if (rocev2_psn_diff(buf->psn, due) >= ROCEV2_WINDOW)
		return ROCEV2_RX_DONE;
	/* mostly it belongs at the end */
	list_for_each_prev(at, ahead) {
		s32 diff = rocev2_psn_diff(buf->psn,
					   list_entry(at, struct rocev2_rx_buf, node)->psn);

		if (!diff)
			return ROCEV2_RX_DONE;
		if (diff > 0)
			break;
	}
	kept = rx_detach(qp, buf);
	if (!kept)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_NOMEM);
	list_add(&kept->node, at);
	return ROCEV2_RX_KEPT;
}

/* how many packets had to be dropped */
static u32 rx_detach_list(struct rocev2_qp *qp, struct list_head *packets)
{
	struct rocev2_rx_buf *buf, *next, *kept;
	u32 dropped = 0;

	list_for_each_entry_safe(buf, next, packets, node) {
		struct list_head *before = buf->node.prev;

		if (!buf->ops->on_ring)
			continue;
		list_del(&buf->node);
		kept = rx_detach(qp, buf);
		if (kept) {
			list_add(&kept->node, before);
			continue;
		}
		buf->reason = ROCEV2_CNT_RX_NOMEM;
		rx_drop(qp, buf);
		dropped++;
	}
	return dropped;
}

void rocev2_rx_stalled(struct rocev2_qp *qp)
{
	struct rocev2_rx_queue *queue = &qp->rx_queue;
	LIST_HEAD(packets);

	if (!qp->rx_pending_detached) {
		rx_detach_list(qp, &qp->rx_pending);
		qp->rx_pending_detached = true;
	}
	/* a packet that is missed has its QP run again */
	if (READ_ONCE(queue->len) == queue->detached)
		return;
	rocev2_rx_queue_borrow(queue, &packets);
	rocev2_rx_queue_put_back(queue, &packets, rx_detach_list(qp, &packets));
}

/* back to where the owner takes the next packet from */
static void rx_wait(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	list_add(&buf->node, &qp->rx_pending);
	qp->rx_pending_detached = false;
}

/* the kept packet with this PSN, or NULL; older ones have come again meanwhile */
static struct rocev2_rx_buf *rx_next_kept(struct list_head *ahead, u32 psn)
{
	struct rocev2_rx_buf *buf;

	while ((buf = list_first_entry_or_null(ahead, struct rocev2_rx_buf, node))) {
		s32 diff = rocev2_psn_diff(buf->psn, psn);

		if (diff > 0)
			return NULL;
		list_del(&buf->node);
		if (!diff)
			return buf;
		rocev2_rx_free(buf, false);
	}
	return NULL;
}

static void rx_finish(struct rocev2_qp *qp, struct rocev2_rx_buf *buf,
		      enum rocev2_rx_verdict verdict)
{
	if (verdict == ROCEV2_RX_DROP)
		rx_drop(qp, buf);
	else if (unlikely(verdict == ROCEV2_RX_STALLED))
		rx_wait(qp, buf);
	else if (verdict != ROCEV2_RX_KEPT)
		rocev2_rx_free(buf, false);
}

static enum rocev2_rx_verdict rx_dispatch(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	enum rocev2_rx_verdict verdict;

	if (qp->service == ROCEV2_SVC_UD)
		return rocev2_ud_receive(qp, buf);
	if (qp->service == ROCEV2_SVC_UC)
		return rocev2_resp_unreliable(qp, buf);
	if (rocev2_opcodes[buf->opcode].flags & ROCEV2_F_RESPONSE)
		return rocev2_comp_response(qp, buf);
	verdict = rocev2_rx_check_psn(qp, buf);
	return verdict == ROCEV2_RX_CONTINUE ? rocev2_resp_request(qp, buf) : verdict;
}

static enum rocev2_rx_verdict rx_stages(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	enum rocev2_rx_verdict verdict;

	trace_rocev2_rx(qp->qpn, buf->psn, buf->opcode, buf->payload_len);
	verdict = rocev2_rx_check_icrc(qp, buf);
	if (verdict == ROCEV2_RX_CONTINUE)
		verdict = rocev2_rx_check_qp(qp, buf);
	if (verdict == ROCEV2_RX_CONTINUE)
		verdict = rx_dispatch(qp, buf);
	return verdict;
}

/* what the absence of the packet before has kept waiting */
static void rx_kept(struct rocev2_qp *qp)
{
	struct rocev2_rx_buf *buf;

	while ((buf = rx_next_kept(&qp->recv.ahead, qp->recv.epsn)))
		rx_finish(qp, buf, rocev2_resp_request(qp, buf));
	while ((buf = rx_next_kept(&qp->req.ahead, qp->req.una_psn)))
		rx_finish(qp, buf, rocev2_comp_response(qp, buf));
}

/*
 * A packet of another QP than the first one of its superpacket: GRO looks at ports alone, and
 * QPs may share theirs. It is counted at both.
 */
static enum rocev2_rx_verdict rx_elsewhere(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	struct rocev2_qp *other = xa_load(&qp->dev->qps, buf->qpn);
	struct rocev2_rx_buf *copy;

	if (!other)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_QPN);
	copy = rx_detach(qp, buf);
	if (!copy)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_NOMEM);
	rx_queue(other, copy);
	return ROCEV2_RX_KEPT;
}

static enum rocev2_rx_verdict rx_segment(struct rocev2_qp *qp, struct rocev2_rx_segment *seg)
{
	struct rocev2_rx_buf *buf = &seg->buf;
	enum rocev2_rx_verdict verdict;

	verdict = rocev2_rx_parse_bth(buf, min(seg->seg_len, seg->end - seg->off));
	if (verdict != ROCEV2_RX_CONTINUE)
		return verdict;
	if (unlikely(buf->qpn != qp->qpn))
		return rx_elsewhere(qp, buf);
	return rx_stages(qp, buf);
}

/* the packets of a superpacket, one after the other; those that must be kept are copied */
static int rx_super(struct rocev2_qp *qp, struct rocev2_rx_buf *super)
{
	struct rocev2_rx_segment seg;
	int packets = 0;
	bool more;

	for (more = rocev2_rx_segment_first(&seg, super); more; packets++) {
		enum rocev2_rx_verdict verdict = rx_segment(qp, &seg);

		if (unlikely(verdict == ROCEV2_RX_STALLED)) {
			struct rocev2_rx_buf *kept = rx_detach(qp, &seg.buf);

			if (!kept)
				rx_finish(qp, &seg.buf,
					  rocev2_rx_drop(&seg.buf, ROCEV2_CNT_RX_NOMEM));
			/* the rest waits behind it */
			if (rocev2_rx_segment_next(&seg, super))
				rx_wait(qp, super);
			else
				rocev2_rx_free(super, seg.dropped);
			if (kept)
				rx_wait(qp, kept);
			return packets + 1;
		}
		rx_finish(qp, &seg.buf, verdict);
		rx_kept(qp);
		more = rocev2_rx_segment_next(&seg, super);
	}
	rocev2_rx_free(super, seg.dropped);
	return packets;
}

int rocev2_rx_packet(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	/*
	 * A local sender counts the packet until here, not until it is queued: it
	 * cannot run its receiver over.
	 */
	rocev2_rx_orphan(buf);
	if (buf->flags & ROCEV2_RX_SUPER)
		return rx_super(qp, buf);
	rx_finish(qp, buf, rx_stages(qp, buf));
	rx_kept(qp);
	return 1;
}
