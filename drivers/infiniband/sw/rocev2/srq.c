// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Shared receive queues. Verbs run in process context (post_srq_recv in any);
 * rocev2_srq_next() is the responder's. The ring is as hostile as a QP's own: the
 * code that reads it is rq.c's.
 *
 * IB_EVENT_SRQ_ERR is for errors that no completion can tell (IBA 11.6.3). There
 * are none here: indices are masked, and a malformed WQE ends the message that
 * gets it, with a completion.
 */
#include <linux/idr.h>
#include <linux/uaccess.h>
#include <rdma/uverbs_ioctl.h>

#include "rocev2.h"
#include "rq.h"
#include "srq.h"

/* --- taking WQEs --- */

static void srq_event(struct rocev2_srq *srq, enum ib_event_type event)
{
	struct ib_event ev = {
		.device = srq->ibsrq.device,
		.element.srq = &srq->ibsrq,
		.event = event,
	};

	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&ev, srq->ibsrq.srq_context);
}

/* once for each arming (IBA 10.2.9) */
static bool limit_reached(struct rocev2_srq *srq)
{
	lockdep_assert_held(&srq->lock);
	if (!srq->limit || rocev2_rq_posted(&srq->rq) >= srq->limit)
		return false;
	srq->limit = 0;
	return true;
}

bool rocev2_srq_next(struct rocev2_srq *srq, struct rocev2_recv_wqe *wqe)
{
	bool taken, limit;

	spin_lock(&srq->lock);
	taken = rocev2_rq_take(&srq->rq, wqe);
	limit = taken && limit_reached(srq);
	spin_unlock(&srq->lock);
	/* without the lock: handlers of the kernel may post */
	if (limit)
		srq_event(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	return taken;
}

/* --- verbs --- */

/**
 * rocev2_create_srq() - ops.create_srq
 * @ibsrq: allocated by the core
 * @init: what is asked for; capacities are rounded up to what was made. The limit
 *	is no input of this verb (IBA 11.2.3)
 * @udata: takes struct rxe_create_srq_resp; NULL for kernel consumers
 *
 * Return: 0, -EOPNOTSUPP (not a basic SRQ), -EINVAL (over a limit), -ENOMEM, -EFAULT.
 */
int rocev2_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		      struct ib_udata *udata)
{
	struct rocev2_ucontext *uc = rdma_udata_to_drv_context(udata, struct rocev2_ucontext,
							       ibuc);
	struct rocev2_dev *dev = to_rocev2_dev(ibsrq->device);
	struct rocev2_srq *srq = to_rocev2_srq(ibsrq);
	struct ib_srq_attr *attr = &init->attr;
	struct rxe_create_srq_resp resp = {};
	int ret;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (udata && udata->outlen < sizeof(resp))
		return -EINVAL;
	if (!attr->max_wr || attr->max_wr > ROCEV2_MAX_SRQ_WR || attr->max_sge > ROCEV2_MAX_SGE)
		return -EINVAL;
	ret = ida_alloc_range(&dev->srq_nums, 1, ROCEV2_MAX_SRQ, GFP_KERNEL);
	if (ret < 0)
		return -ENOMEM;
	srq->num = ret;
	srq->user = udata;
	spin_lock_init(&srq->lock);
	mutex_init(&srq->modify);
	ret = rocev2_rq_create(&srq->rq, &attr->max_wr, &attr->max_sge, uc ? &uc->ibuc : NULL,
			       udata ? &resp.mi : NULL);
	if (ret)
		goto err_num;
	if (udata) {
		resp.srq_num = srq->num;
		ret = ib_copy_to_udata(udata, &resp, sizeof(resp));
		if (ret)
			goto err_ring;
	}
	return 0;

err_ring:
	rocev2_ring_free(&srq->rq.ring);
err_num:
	ida_free(&dev->srq_nums, srq->num);
	return ret;
}

/* the application gets the new ring by a pointer that it passes in */
static int tell_user(struct ib_udata *udata, const struct mminfo *mi)
{
	struct rxe_modify_srq_cmd cmd;
	int ret;

	if (udata->inlen < sizeof(cmd))
		return -EINVAL;
	ret = ib_copy_from_udata(&cmd, udata, sizeof(cmd));
	if (ret)
		return ret;
	return copy_to_user(u64_to_user_ptr(cmd.mmap_info_addr), mi, sizeof(*mi)) ? -EFAULT : 0;
}

/* WQEs @from to @to, in indices that run free; what was scribbled there is not looked at */
static void copy_wqes(struct rocev2_ring *new, const struct rocev2_ring *old, u32 from, u32 to)
{
	for (; (s32)(to - from) > 0; from++)
		memcpy(rocev2_ring_slot(new, from), rocev2_ring_slot(old, from),
		       1u << old->elem_shift);
}

/*
 * Move what is posted from the SRQ's ring to @new and exchange the two. Indices go
 * on in the new ring where they are, so a WQE taken meanwhile needs no care: most
 * WQEs are copied before the consumers are locked out.
 *
 * Return: 0, or -EINVAL when more is posted than @new can hold (IBA 11.2.3).
 */
static int replace_ring(struct rocev2_srq *srq, struct rocev2_ring *new)
{
	struct rocev2_ring *old = &srq->rq.ring;
	u32 from, copied, end;
	unsigned long flags;

	spin_lock_bh(&srq->lock);
	from = old->index;
	copied = from + rocev2_rq_posted(&srq->rq);
	spin_unlock_bh(&srq->lock);
	if (copied - from > rocev2_ring_capacity(new))
		return -EINVAL;
	copy_wqes(new, old, from, copied);

	spin_lock_bh(&srq->lock);
	spin_lock_irqsave(&srq->rq.lock, flags);
	from = old->index;
	end = from + rocev2_rq_posted(&srq->rq);
	if (end - from > rocev2_ring_capacity(new)) {
		spin_unlock_irqrestore(&srq->rq.lock, flags);
		spin_unlock_bh(&srq->lock);
		return -EINVAL;
	}
	copy_wqes(new, old, (s32)(copied - from) > 0 ? copied : from, end);
	new->index = from;
	rocev2_ring_set_consumer(new, from);
	rocev2_ring_set_producer(new, end);
	swap(*old, *new);
	spin_unlock_irqrestore(&srq->rq.lock, flags);
	spin_unlock_bh(&srq->lock);
	return 0;
}

/* the ring of a resize, announced to the application but not in use yet */
static int make_ring(struct rocev2_srq *srq, struct rocev2_ring *ring, u32 max_wr,
		     struct ib_udata *udata)
{
	struct rocev2_ucontext *uc = rdma_udata_to_drv_context(udata, struct rocev2_ucontext,
							       ibuc);
	struct mminfo mi = {};
	int ret;

	if (!max_wr || max_wr > ROCEV2_MAX_SRQ_WR || srq->user != !!udata)
		return -EINVAL;
	ret = rocev2_ring_alloc(ring, max_wr, rocev2_rq_elem_size(&srq->rq),
				uc ? &uc->ibuc : NULL, udata ? &mi : NULL);
	if (ret || !udata)
		return ret;
	ret = tell_user(udata, &mi);
	if (ret)
		rocev2_ring_free(ring);
	return ret;
}

static int modify(struct rocev2_srq *srq, const struct ib_srq_attr *attr, int mask,
		  struct rocev2_ring *ring)
{
	const struct rocev2_ring *next = mask & IB_SRQ_MAX_WR ? ring : &srq->rq.ring;
	bool limit;
	int ret;

	/* srq->limit can only become 0 meanwhile */
	if ((mask & IB_SRQ_LIMIT ? attr->srq_limit : READ_ONCE(srq->limit)) >
	    rocev2_ring_capacity(next))
		return -EINVAL;
	if (mask & IB_SRQ_MAX_WR) {
		ret = replace_ring(srq, ring);
		if (ret)
			return ret;
	}
	if (mask & IB_SRQ_LIMIT) {
		spin_lock_bh(&srq->lock);
		srq->limit = attr->srq_limit;
		/* what was taken before arming counts: else the event would never come */
		limit = limit_reached(srq);
		spin_unlock_bh(&srq->lock);
		if (limit)
			srq_event(srq, IB_EVENT_SRQ_LIMIT_REACHED);
	}
	return 0;
}

/**
 * rocev2_modify_srq() - ops.modify_srq: arm the limit, resize
 * @ibsrq: the SRQ
 * @attr: the limit, the WQEs it must hold; gets what was made
 * @mask: which of them
 * @udata: for a resize brings struct rxe_modify_srq_cmd; NULL for kernel consumers
 *
 * All or nothing. The library keeps the SRQ's lock over a resize: it posts to the
 * old ring before and to the new one after.
 *
 * Return: 0, -EINVAL (attribute; more posted than would fit), -ENOMEM, -EFAULT.
 */
int rocev2_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		      enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct rocev2_srq *srq = to_rocev2_srq(ibsrq);
	struct rocev2_ring ring = {};
	int ret = 0;

	if (mask & ~(IB_SRQ_MAX_WR | IB_SRQ_LIMIT))
		return -EINVAL;
	if (mask & IB_SRQ_MAX_WR)
		ret = make_ring(srq, &ring, attr->max_wr, udata);
	if (ret)
		return ret;
	mutex_lock(&srq->modify);
	ret = modify(srq, attr, mask, &ring);
	attr->max_wr = rocev2_ring_capacity(&srq->rq.ring);
	mutex_unlock(&srq->modify);
	/* the old one, or the new one when that was refused */
	rocev2_ring_free(&ring);
	return ret;
}

/**
 * rocev2_query_srq() - ops.query_srq
 * @ibsrq: the SRQ
 * @attr: filled; the limit is 0 when not armed, or no longer
 *
 * Return: 0.
 */
int rocev2_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct rocev2_srq *srq = to_rocev2_srq(ibsrq);

	spin_lock_bh(&srq->lock);
	attr->max_wr = rocev2_ring_capacity(&srq->rq.ring);
	attr->max_sge = srq->rq.max_sge;
	attr->srq_limit = srq->limit;
	spin_unlock_bh(&srq->lock);
	return 0;
}

/**
 * rocev2_destroy_srq() - ops.destroy_srq
 * @ibsrq: the SRQ, without QPs; the core frees it next
 * @udata: unused
 *
 * Return: 0.
 */
int rocev2_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct rocev2_srq *srq = to_rocev2_srq(ibsrq);

	rocev2_ring_free(&srq->rq.ring);
	ida_free(&to_rocev2_dev(ibsrq->device)->srq_nums, srq->num);
	return 0;
}

/**
 * rocev2_post_srq_recv() - ops.post_srq_recv, for kernel consumers
 * @ibsrq: the SRQ
 * @wr: receive work requests
 * @bad_wr: the first that was not posted
 *
 * Context: any. Return: 0, -EINVAL (too many SGEs), -ENOMEM (queue full).
 */
int rocev2_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad_wr)
{
	struct rocev2_srq *srq = to_rocev2_srq(ibsrq);

	*bad_wr = wr;
	if (srq->user)
		return -EINVAL;
	return rocev2_rq_post(&srq->rq, wr, bad_wr);
}
