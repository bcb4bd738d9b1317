// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receive queue. The application writes receive WQEs into a ring that it has
 * mapped, without a doorbell; the responder takes one when a message needs it.
 * The ring is hostile: each field is read once into a private copy, which is
 * checked, and only the copy is used. post_recv of kernel consumers fills the
 * same ring.
 */
#include <linux/spinlock.h>

#include "qp.h"
#include "rq.h"
#include "srq.h"

u32 rocev2_rq_posted(const struct rocev2_rq *rq)
{
	return (rocev2_ring_producer(&rq->ring) - rq->ring.index) & rq->ring.mask;
}

size_t rocev2_rq_elem_size(const struct rocev2_rq *rq)
{
	return sizeof(struct rxe_recv_wqe) + rq->max_sge * sizeof(struct rxe_sge);
}

int rocev2_rq_create(struct rocev2_rq *rq, u32 *max_wr, u32 *max_sge, struct ib_ucontext *uc,
		     struct mminfo *mi)
{
	int err;

	spin_lock_init(&rq->lock);
	*max_sge = max(*max_sge, 1u);
	rq->max_sge = *max_sge;
	err = rocev2_ring_alloc(&rq->ring, max(*max_wr, 1u), rocev2_rq_elem_size(rq), uc, mi);
	if (err)
		return err;
	*max_wr = rocev2_ring_capacity(&rq->ring);
	return 0;
}

static void copy_wqe(struct rocev2_recv_wqe *wqe, const struct rxe_recv_wqe *ring,
		     u32 max_sge)
{
	u32 i;

	wqe->wr_id = READ_ONCE(ring->wr_id);
	wqe->num_sge = READ_ONCE(ring->dma.num_sge);
	wqe->length = 0;
	wqe->bad = wqe->num_sge > max_sge;
	if (wqe->bad) {
		wqe->num_sge = 0;
		return;
	}
	for (i = 0; i < wqe->num_sge; i++) {
		const struct rxe_sge *sge = &ring->dma.sge[i];

		wqe->sge[i].addr = READ_ONCE(sge->addr);
		wqe->sge[i].length = READ_ONCE(sge->length);
		wqe->sge[i].lkey = READ_ONCE(sge->lkey);
		wqe->length += wqe->sge[i].length;
	}
}

bool rocev2_rq_take(struct rocev2_rq *rq, struct rocev2_recv_wqe *wqe)
{
	struct rocev2_ring *ring = &rq->ring;

	if (!rocev2_rq_posted(rq))
		return false;
	copy_wqe(wqe, rocev2_ring_slot(ring, ring->index), rq->max_sge);
	ring->index++;
	rocev2_ring_set_consumer(ring, ring->index);
	return true;
}

bool rocev2_rq_next(struct rocev2_qp *qp)
{
	if (qp->srq)
		return rocev2_srq_next(qp->srq, &qp->recv.wqe);
	return rocev2_rq_take(&qp->rq, &qp->recv.wqe);
}

void rocev2_rq_reset(struct rocev2_rq *rq)
{
	/* a new QP has no ring yet, one with an SRQ never */
	if (!rq->ring.buf)
		return;
	rq->ring.index = rocev2_ring_producer(&rq->ring);
	rocev2_ring_set_consumer(&rq->ring, rq->ring.index);
}

static int post_one(struct rocev2_rq *rq, const struct ib_recv_wr *wr)
{
	struct rocev2_ring *ring = &rq->ring;
	u32 producer = rocev2_ring_producer(ring);
	struct rxe_recv_wqe *wqe;
	int i;

	if (wr->num_sge < 0 || wr->num_sge > rq->max_sge)
		return -EINVAL;
	if (((producer + 1 - rocev2_ring_consumer(ring)) & ring->mask) == 0)
		return -ENOMEM;
	wqe = rocev2_ring_slot(ring, producer);
	wqe->wr_id = wr->wr_id;
	wqe->dma.num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++) {
		wqe->dma.sge[i].addr = wr->sg_list[i].addr;
		wqe->dma.sge[i].length = wr->sg_list[i].length;
		wqe->dma.sge[i].lkey = wr->sg_list[i].lkey;
	}
	rocev2_ring_set_producer(ring, producer + 1);
	return 0;
}

int rocev2_rq_post(struct rocev2_rq *rq, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&rq->lock, flags);
	for (; wr; wr = wr->next) {
		err = post_one(rq, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&rq->lock, flags);
	return err;
}

/**
 * rocev2_post_recv() - the post_recv verb, for kernel consumers
 * @ibqp: the QP
 * @wr: receive work requests
 * @bad_wr: the first that was not posted
 *
 * Context: any. Return: 0, -EINVAL (state, SRQ, or too many SGEs), -ENOMEM (queue full).
 */
int rocev2_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad_wr)
{
	struct rocev2_qp *qp = to_rocev2_qp(ibqp);
	int err;

	*bad_wr = wr;
	if (qp->user || qp->srq || !(rocev2_qp_state(qp) & ROCEV2_QPS_POST_RECV))
		return -EINVAL;
	err = rocev2_rq_post(&qp->rq, wr, bad_wr);
	/*
	 * In the error state the owner flushes it. The producer index is stored before
	 * the state is read; pairs with the barrier in rocev2_qp_error().
	 */
	smp_mb();
	if (rocev2_qp_state(qp) & ROCEV2_QPS_FLUSH_RECV)
		rocev2_qp_kick(qp);
	return err;
}
