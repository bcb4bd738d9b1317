// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory windows. Verbs in process context; binding in the owner of the QP whose
 * send queue asks.
 *
 * To the data path a window is a struct rocev2_mr like a region: at bind time it
 * takes over the region's page table with an offset, and narrower rights and
 * bounds. The region cannot be deregistered while windows are bound to it
 * (mr->windows), so the table stays.
 */
#include "mr.h"
#include "mw.h"
#include "qp.h"

/**
 * rocev2_alloc_mw() - ops.alloc_mw
 * @ibmw: allocated by the core
 * @udata: unused
 *
 * Return: 0, -EINVAL (type), -ENOMEM. The window is unbound: its R_Key is a handle.
 */
int rocev2_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct rocev2_mr *mr;

	if (ibmw->type != IB_MW_TYPE_1 && ibmw->type != IB_MW_TYPE_2)
		return -EINVAL;
	mr = rocev2_mr_alloc(ibmw->pd, ibmw->type == IB_MW_TYPE_1 ? ROCEV2_KEY_MW1 :
								    ROCEV2_KEY_MW2, 0);
	if (IS_ERR(mr))
		return PTR_ERR(mr);
	container_of(ibmw, struct rocev2_mw, ibmw)->mr = mr;
	ibmw->rkey = mr->ibmr.lkey;
	rocev2_mr_publish(mr, 0);
	return 0;
}

/**
 * rocev2_dealloc_mw() - ops.dealloc_mw
 * @ibmw: the window, bound or not
 *
 * Returns when no copy from or to the memory behind it is in progress.
 *
 * Return: 0.
 */
int rocev2_dealloc_mw(struct ib_mw *ibmw)
{
	rocev2_mr_free(container_of(ibmw, struct rocev2_mw, ibmw)->mr);
	return 0;
}

/* the region by its L_Key; on success it has one window more */
static enum rocev2_key_verdict get_region(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe,
					  struct rocev2_mr **out)
{
	struct rocev2_mr *region = xa_load(&qp->dev->mrs, wqe->bind.lkey >> 8);
	enum rocev2_key_verdict verdict;

	/* regions that lose their key by themselves, and all of memory, carry no windows */
	if (!region || region->ibmr.pd != qp->ibqp->pd || region->kind != ROCEV2_KEY_MR ||
	    region->dma || READ_ONCE(region->key) != wqe->bind.lkey)
		return ROCEV2_KEY_BAD_KEY;
	verdict = rocev2_bind_region_check(region->access, region->iova, region->length,
					   wqe->access, wqe->raddr, wqe->bind.length);
	if (verdict != ROCEV2_KEY_OK)
		return verdict;
	/* negative: it is being deregistered */
	if (!atomic_inc_unless_negative(&region->windows))
		return ROCEV2_KEY_BAD_KEY;
	*out = region;
	return ROCEV2_KEY_OK;
}

/* the window is locked and quiet */
static void bind(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe, struct rocev2_mr *mr,
		 struct rocev2_mr *region)
{
	mr->region = region;
	mr->iova = wqe->access & IB_ZERO_BASED ? 0 : wqe->raddr;
	mr->length = wqe->bind.length;
	mr->access = wqe->access & ROCEV2_ACCESS_REMOTE;
	mr->table = region->table;
	mr->odp = region->odp;
	mr->block_shift = region->block_shift;
	mr->block_offset = region->block_offset + (wqe->raddr - region->iova);
	mr->qp_serial = mr->kind == ROCEV2_KEY_MW2 ? qp->serial : 0;
	/* release: whoever sees the key sees what belongs to it */
	smp_store_release(&mr->key, wqe->rkey);
}

/**
 * rocev2_bind_mw() - the BIND_MW work request
 * @qp: the QP; owner only, under RCU
 * @wqe: its @bind.window names the window by its index: the library does not always know
 *	which key it has
 *
 * Return: the status it completes with.
 */
enum ib_wc_status rocev2_bind_mw(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe)
{
	struct rocev2_mr *mr = xa_load(&qp->dev->mrs, wqe->bind.window >> 8);
	struct rocev2_mr *region = NULL;
	enum rocev2_key_verdict verdict;

	if (!mr || mr->ibmr.pd != qp->ibqp->pd)
		return rocev2_mr_refuse(qp, wqe->rkey, ROCEV2_KEY_BAD_KEY);
	spin_lock(&mr->lock);
	verdict = mr->dead ? ROCEV2_KEY_BAD_KEY :
		  rocev2_bind_window_check(mr->kind, wqe->bind.window, mr->key, wqe->rkey,
					   wqe->bind.length, wqe->access);
	if (verdict == ROCEV2_KEY_OK)
		verdict = get_region(qp, wqe, &region);
	/* a refused bind leaves the window as it was */
	if (verdict == ROCEV2_KEY_OK || verdict == ROCEV2_KEY_UNBIND) {
		rocev2_mr_quiesce(mr);
		rocev2_mr_unbind(mr);
	}
	if (verdict == ROCEV2_KEY_OK)
		bind(qp, wqe, mr, region);
	spin_unlock(&mr->lock);
	if (verdict == ROCEV2_KEY_OK || verdict == ROCEV2_KEY_UNBIND)
		return IB_WC_SUCCESS;
	return rocev2_mr_refuse(qp, wqe->rkey, verdict);
}
