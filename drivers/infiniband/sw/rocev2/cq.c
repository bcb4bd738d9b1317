// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues. Verbs run in process context (those of kernel CQs in any);
 * rocev2_cq_post() is the data path's.
 *
 * The core owns struct rocev2_cq and frees it after ops.destroy_cq. QPs hold a use
 * count in the core, so no producer is left by then.
 */
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>

#include "cq.h"
#include "rocev2.h"

static_assert(sizeof(struct ib_uverbs_wc) == 48, "ibv_poll_cq() copies struct ibv_wc from it");

static int create(struct rocev2_cq *cq, const struct ib_cq_init_attr *attr)
{
	struct rocev2_dev *dev = to_rocev2_dev(cq->ibcq.device);

	/* overruns to be ignored, time stamps */
	if (attr->flags)
		return -EOPNOTSUPP;
	if (attr->comp_vector >= cq->ibcq.device->num_comp_vectors)
		return -EINVAL;
	if (!attr->cqe || attr->cqe > ROCEV2_MAX_CQE)
		return -EINVAL;
	return atomic_add_unless(&dev->num_cqs, 1, ROCEV2_MAX_CQ) ? 0 : -ENOMEM;
}

/**
 * rocev2_create_cq() - ops.create_cq: for the kernel
 * @ibcq: allocated by the core
 * @attr: entries, vector
 * @attrs: NULL
 *
 * Return: 0 or a negative errno.
 */
int rocev2_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs)
{
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	int ret;

	ret = create(cq, attr);
	if (ret)
		return ret;
	ret = rocev2_ring_alloc(&cq->ring, attr->cqe, sizeof(struct ib_wc), NULL, NULL);
	if (ret) {
		atomic_dec(&to_rocev2_dev(ibcq->device)->num_cqs);
		return ret;
	}
	/* a lock class of its own: kernel CQs are polled with interrupts off */
	spin_lock_init(&cq->lock);
	rocev2_cq_moderation_init(cq);
	ibcq->cqe = rocev2_ring_capacity(&cq->ring);
	return 0;
}

/**
 * rocev2_create_user_cq() - ops.create_user_cq: for applications
 * @ibcq: allocated by the core
 * @attr: entries, vector
 * @attrs: its driver_udata takes struct rxe_create_cq_resp
 *
 * Return: 0 or a negative errno.
 */
int rocev2_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			  struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = &attrs->driver_udata;
	struct rocev2_ucontext *uc = rdma_udata_to_drv_context(udata, struct rocev2_ucontext, ibuc);
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	struct rxe_create_cq_resp resp = {};
	int ret;

	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	ret = create(cq, attr);
	if (ret)
		return ret;
	ret = rocev2_ring_alloc(&cq->ring, attr->cqe, sizeof(struct ib_uverbs_wc), &uc->ibuc,
				&resp.mi);
	if (ret)
		goto err_count;
	cq->user = true;
	spin_lock_init(&cq->lock);
	rocev2_cq_moderation_init(cq);
	ret = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (ret)
		goto err_ring;
	ibcq->cqe = rocev2_ring_capacity(&cq->ring);
	return 0;

err_ring:
	rocev2_ring_free(&cq->ring);
err_count:
	atomic_dec(&to_rocev2_dev(ibcq->device)->num_cqs);
	return ret;
}

/**
 * rocev2_destroy_cq() - ops.destroy_cq
 * @ibcq: the CQ, without QPs; the core frees it next
 * @udata: unused
 *
 * Return: 0.
 */
int rocev2_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	/* it may run for an event that went by count; none is held, see rocev2_cq_settle() */
	hrtimer_cancel(&to_rocev2_cq(ibcq)->timer);
	rocev2_ring_free(&to_rocev2_cq(ibcq)->ring);
	atomic_dec(&to_rocev2_dev(ibcq->device)->num_cqs);
	return 0;
}

/**
 * rocev2_resize_user_cq() - ops.resize_user_cq
 * @ibcq: the CQ of an application
 * @cqe: completions it must hold from now on
 * @udata: takes struct rxe_resize_cq_resp
 *
 * Completions that the application has not polled move to the new ring in order.
 * The library keeps its CQ lock over the call, so the application polls the old
 * ring before and the new one after.
 *
 * Return: 0 or a negative errno; then the old ring stays.
 */
int rocev2_resize_user_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata)
{
	struct rocev2_ucontext *uc = rdma_udata_to_drv_context(udata, struct rocev2_ucontext, ibuc);
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	struct rxe_resize_cq_resp resp = {};
	struct rocev2_ring ring, *old = &cq->ring;
	u32 from;
	int ret;

	if (!cq->user || !cqe || cqe > ROCEV2_MAX_CQE || udata->outlen < sizeof(resp))
		return -EINVAL;
	ret = rocev2_ring_alloc(&ring, cqe, sizeof(struct ib_uverbs_wc), &uc->ibuc, &resp.mi);
	if (ret)
		return ret;
	ret = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (ret)
		goto err_free;

	spin_lock_bh(&cq->lock);
	from = rocev2_ring_consumer(old);
	/* IBA 11.2.8.3: a CQ cannot become smaller than what is in it */
	if (((old->index - from) & old->mask) > rocev2_ring_capacity(&ring)) {
		spin_unlock_bh(&cq->lock);
		ret = -EINVAL;
		goto err_free;
	}
	/* what the application may have scribbled here goes back to it alone */
	for (; from != old->index; from = (from + 1) & old->mask)
		memcpy(rocev2_ring_slot(&ring, ring.index++), rocev2_ring_slot(old, from),
		       sizeof(struct ib_uverbs_wc));
	rocev2_ring_set_producer(&ring, ring.index);
	swap(cq->ring, ring);
	ibcq->cqe = rocev2_ring_capacity(&cq->ring);
	spin_unlock_bh(&cq->lock);

err_free:
	rocev2_ring_free(&ring);
	return ret;
}

/**
 * rocev2_poll_cq() - ops.poll_cq: take completions; for the kernel
 * @ibcq: the CQ
 * @num: room in @wc
 * @wc: takes the completions
 *
 * Context: any.
 *
 * Return: how many.
 */
int rocev2_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	struct rocev2_ring *ring = &cq->ring;
	unsigned long flags;
	u32 index;
	int i;

	spin_lock_irqsave(&cq->lock, flags);
	index = rocev2_ring_consumer(ring);
	for (i = 0; i < num && index != ring->index; i++, index = (index + 1) & ring->mask)
		memcpy(&wc[i], rocev2_ring_slot(ring, index), sizeof(*wc));
	rocev2_ring_set_consumer(ring, index);
	spin_unlock_irqrestore(&cq->lock, flags);
	return i;
}

/**
 * rocev2_peek_cq() - ops.peek_cq: count completions, up to a number
 * @ibcq: the CQ
 * @num: count no further
 *
 * Context: any.
 *
 * Return: how many.
 */
int rocev2_peek_cq(struct ib_cq *ibcq, int num)
{
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	unsigned long flags;
	int count;

	spin_lock_irqsave(&cq->lock, flags);
	count = (cq->ring.index - rocev2_ring_consumer(&cq->ring)) & cq->ring.mask;
	spin_unlock_irqrestore(&cq->lock, flags);
	return min(num, count);
}

/**
 * rocev2_req_notify_cq() - ops.req_notify_cq: arm the CQ
 * @ibcq: the CQ
 * @flags: any or solicited completions, and whether to report missed ones
 *
 * A CQ that is armed for any completion stays so when solicited ones are asked
 * for (IBA 11.4.2.2).
 *
 * Context: any for kernel CQs, process for those of applications.
 *
 * Return: 0, or 1 when completions are in the CQ and the caller wants to know.
 */
int rocev2_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	unsigned long irq;
	int ret = 0;

	irq = rocev2_cq_lock(cq);
	if (cq->notify != IB_CQ_NEXT_COMP)
		cq->notify = flags & IB_CQ_SOLICITED_MASK;
	if ((flags & IB_CQ_REPORT_MISSED_EVENTS) &&
	    rocev2_ring_consumer(&cq->ring) != cq->ring.index)
		ret = 1;
	rocev2_cq_unlock(cq, irq);
	return ret;
}

/* enum ibv_wc_flags: the library's number for it, which is not the kernel's */
#define USER_WC_WITH_INV	BIT(3)

/*
 * struct ibv_wc has no member for the type of a datagram's network header (A17.4.5.1).
 * ConnectX tells applications in the SL, and UCX goes by that to find the address in
 * the header.
 */
#define USER_SL_UDP	BIT(3)
#define USER_SL_IPV6	1
#define USER_SL_IPV4	2

static u8 user_sl(const struct ib_wc *wc)
{
	if (!(wc->wc_flags & IB_WC_WITH_NETWORK_HDR_TYPE))
		return wc->sl;
	if (wc->network_hdr_type == RDMA_NETWORK_IPV6)
		return USER_SL_UDP | USER_SL_IPV6;
	return USER_SL_UDP | USER_SL_IPV4;
}

static void put_user_wc(struct ib_uverbs_wc *to, const struct ib_wc *wc)
{
	/* the others mean something else to the library, or nothing */
	int flags = wc->wc_flags & (IB_WC_GRH | IB_WC_WITH_IMM);

	if (wc->wc_flags & IB_WC_WITH_INVALIDATE)
		flags |= USER_WC_WITH_INV;
	*to = (struct ib_uverbs_wc) {
		.wr_id		= wc->wr_id,
		.status		= wc->status,
		.opcode		= wc->opcode,
		.vendor_err	= wc->vendor_err,
		.byte_len	= wc->byte_len,
		.ex.imm_data	= wc->ex.imm_data,
		.qp_num		= wc->qp->qp_num,
		.src_qp		= wc->src_qp,
		.wc_flags	= flags,
		.pkey_index	= wc->pkey_index,
		.slid		= wc->slid,
		.sl		= user_sl(wc),
		.dlid_path_bits	= wc->dlid_path_bits,
		.port_num	= wc->port_num,
	};
}

/*
 * Return: 0; 1 when the CQ event is due; -EOVERFLOW once for the overrun and
 * -EPIPE ever after.
 */
static int append(struct rocev2_cq *cq, const struct ib_wc *wc, bool solicited)
{
	struct rocev2_ring *ring = &cq->ring;
	u32 next = (ring->index + 1) & ring->mask;
	u32 consumer = rocev2_ring_consumer(ring);
	bool due;

	lockdep_assert_held(&cq->lock);
	if (unlikely(cq->overrun))
		return -EPIPE;
	if (unlikely(next == consumer)) {
		cq->overrun = true;
		return -EOVERFLOW;
	}
	if (cq->user)
		put_user_wc(rocev2_ring_slot(ring, ring->index), wc);
	else
		memcpy(rocev2_ring_slot(ring, ring->index), wc, sizeof(*wc));
	ring->index = next;
	rocev2_ring_set_producer(ring, next);

	due = cq->notify == IB_CQ_NEXT_COMP || (cq->notify == IB_CQ_SOLICITED && solicited);
	if (due)
		cq->notify = 0;
	/* a CQ that is full must not wait for more */
	return (due || cq->held) && !rocev2_cq_hold(cq, ((next + 1) & ring->mask) == consumer);
}

int rocev2_cq_post(struct rocev2_cq *cq, const struct ib_wc *wc, bool solicited)
{
	struct ib_cq *ibcq = &cq->ibcq;
	unsigned long flags;
	int ret;

	if (cq->user) {
		spin_lock(&cq->lock);
		ret = append(cq, wc, solicited);
		spin_unlock(&cq->lock);
	} else {
		spin_lock_irqsave(&cq->lock, flags);
		ret = append(cq, wc, solicited);
		spin_unlock_irqrestore(&cq->lock, flags);
	}

	/* without the lock: both handlers of the kernel may call back into the CQ */
	if (ret > 0 && ibcq->comp_handler)
		ibcq->comp_handler(ibcq, ibcq->cq_context);
	if (ret == -EOVERFLOW && ibcq->event_handler) {
		struct ib_event event = {
			.device		= ibcq->device,
			.event		= IB_EVENT_CQ_ERR,
			.element.cq	= ibcq,
		};

		ibcq->event_handler(&event, ibcq->cq_context);
	}
	return ret < 0 ? -EOVERFLOW : 0;
}
