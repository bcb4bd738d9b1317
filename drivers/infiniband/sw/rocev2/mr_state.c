// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Keys that stop working while what they name lives on: LOCAL_INV, SEND with
 * Invalidate, and what mw.c and mr_fast.c need of it. In the owner of the QP that
 * asks, under RCU.
 *
 * Changes of one region or window come from any QP of its PD, so they take
 * mr->lock. The data path does not: it counts itself in mr->users, looks at
 * mr->key, and copies. A change first takes the key away, then waits until nobody
 * is counted, and then nobody reads what belongs to the key. Translation caches
 * need no flush: they only remember which object a key named.
 */
#include "mr.h"
#include "qp.h"
#include "trace.h"

/**
 * rocev2_mr_quiesce() - take the key away and wait for copies in progress
 * @mr: region or window, locked and not dead
 *
 * When it returns, the memory is no longer touched by this key, as the completion
 * of an invalidation promises to the consumer. It waits for a packet's copy on
 * another CPU at most; whoever is counted runs with preemption off and takes no
 * lock meanwhile but that of on-demand paging, under which nobody waits. Prefetch is
 * counted with preemption on, but never for a kind that comes here.
 */
void rocev2_mr_quiesce(struct rocev2_mr *mr)
{
	lockdep_assert_held(&mr->lock);
	WRITE_ONCE(mr->key, 0);
	/* pairs with the barrier in rocev2_mr_get() */
	smp_mb();
	while (refcount_read(&mr->users) > 1)
		cpu_relax();
	/* what they have read and written comes before what the caller changes */
	smp_acquire__after_ctrl_dep();
}

/**
 * rocev2_mr_unbind() - a window lets go of its region
 * @mr: window, bound or not, without users and without a key; a region is left alone
 */
void rocev2_mr_unbind(struct rocev2_mr *mr)
{
	if (!mr->region)
		return;
	mr->table = NULL;
	mr->odp = NULL;
	mr->qp_serial = 0;
	/* the region may be deregistered from here on: its table was ours too */
	atomic_dec_return_release(&mr->region->windows);
	mr->region = NULL;
}

/**
 * rocev2_mr_refuse() - a memory management operation is not done
 * @qp: the QP whose send queue asked
 * @key: the key it named
 * @why: for the trace
 *
 * Return: the status it completes with.
 */
enum ib_wc_status rocev2_mr_refuse(struct rocev2_qp *qp, u32 key, enum rocev2_key_verdict why)
{
	trace_rocev2_key_refused(qp->qpn, key, why);
	rocev2_qp_count(qp, ROCEV2_CNT_REQ_MEM_MGMT);
	return IB_WC_MW_BIND_ERR;
}

static enum rocev2_key_verdict invalidate(struct rocev2_qp *qp, u32 key, bool remote)
{
	struct rocev2_mr *mr = xa_load(&qp->dev->mrs, key >> 8);
	enum rocev2_key_verdict verdict;

	if (!mr || mr->ibmr.pd != qp->ibqp->pd)
		return ROCEV2_KEY_BAD_KEY;
	spin_lock(&mr->lock);
	verdict = rocev2_invalidate_check(mr->kind, mr->key, key, mr->access, remote);
	/* a window of type 2B is the business of the QP that bound it */
	if (verdict == ROCEV2_KEY_OK && mr->qp_serial && mr->qp_serial != qp->serial)
		verdict = ROCEV2_KEY_BAD_KEY;
	if (verdict == ROCEV2_KEY_OK) {
		rocev2_mr_quiesce(mr);
		rocev2_mr_unbind(mr);
	}
	spin_unlock(&mr->lock);
	return verdict;
}

/**
 * rocev2_local_inv() - the LOCAL_INV work request
 * @qp: the QP; owner only
 * @key: what to invalidate
 *
 * Return: the status it completes with.
 */
enum ib_wc_status rocev2_local_inv(struct rocev2_qp *qp, u32 key)
{
	enum rocev2_key_verdict verdict = invalidate(qp, key, false);

	return verdict == ROCEV2_KEY_OK ? IB_WC_SUCCESS : rocev2_mr_refuse(qp, key, verdict);
}

/**
 * rocev2_remote_inv() - the peer's SEND with Invalidate, in order and for the first time
 * @qp: the QP; owner only
 * @key: what to invalidate
 *
 * Return: true when it is done; false: refuse the request.
 */
bool rocev2_remote_inv(struct rocev2_qp *qp, u32 key)
{
	enum rocev2_key_verdict verdict = invalidate(qp, key, true);

	if (verdict != ROCEV2_KEY_OK)
		trace_rocev2_key_refused(qp->qpn, key, verdict);
	return verdict == ROCEV2_KEY_OK;
}
