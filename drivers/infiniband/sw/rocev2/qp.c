// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QP life cycle, ownership and the owner's turn. See qp.h for who owns what and
 * how long it lives; post_send and post_recv are in req.c and resp.c's rings.
 *
 * Order of teardown in rocev2_destroy_qp():
 *  0. out of the verbs object: netlink requests find it no more;
 *  1. out of dev->qps and its multicast groups: the receive path finds it no more;
 *  2. own it, and never give it up: kicks find it RUNNING and leave it alone;
 *  3. drop the verbs object's reference, wait for ready lists to let go;
 *  4. stop the timer, free rings and tables;
 *  5. drop the memory reference; packets in devices may hold it longer, and RCU
 *     readers of dev->qps may still append to the packet queue, which the RCU
 *     callback empties.
 */
#include <linux/delay.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/uverbs_ioctl.h>

#include "comp.h"
#include "cq.h"
#include "mcast.h"
#include "qp.h"
#include "req.h"
#include "resp.h"
#include "rx.h"
#include "rq.h"
#include "rxq.h"
#include "srq.h"
#include "trace.h"

/* --- ownership --- */

/**
 * rocev2_qp_kick() - tell a QP's owner that there is work
 * @qp: the QP; the caller holds a reference or is under RCU
 *
 * The work (packet, ring entry, flag) is stored before. The cmpxchg is a full
 * barrier also where the state stays as it is: the owner's next state change
 * follows it, and the owner looks for work after that.
 *
 * Context: any.
 */
void rocev2_qp_kick(struct rocev2_qp *qp)
{
	int old = atomic_read(&qp->sched);
	int new;

	do {
		/*
		 * Leave an idle QP to the verb that waits for it, which kicks when it is
		 * done: a stream of packets would keep it QUEUED nearly all the time. The
		 * work is out before @waiters is read; pairs with atomic_dec() in disown.
		 */
		if (old == ROCEV2_QP_IDLE) {
			smp_mb(); /* work stored before waiters is read */
			if (atomic_read(&qp->waiters))
				return;
		}
		new = old == ROCEV2_QP_IDLE ? ROCEV2_QP_QUEUED :
		      old == ROCEV2_QP_RUNNING ? ROCEV2_QP_AGAIN : old;
	} while (!atomic_try_cmpxchg(&qp->sched, &old, new));

	if (old != ROCEV2_QP_IDLE)
		return;
	/* the place on the ready list holds a reference; none to be had: it is being destroyed */
	if (refcount_inc_not_zero(&qp->users))
		rocev2_rxq_schedule(qp);
	else
		atomic_set(&qp->sched, ROCEV2_QP_IDLE);
}

static bool qp_try_own(struct rocev2_qp *qp)
{
	return atomic_cmpxchg(&qp->sched, ROCEV2_QP_IDLE, ROCEV2_QP_RUNNING) == ROCEV2_QP_IDLE;
}

/* back on a ready list; a reference on qp->users goes with it */
static void qp_requeue(struct rocev2_qp *qp)
{
	atomic_set_release(&qp->sched, ROCEV2_QP_QUEUED);
	rocev2_rxq_schedule(qp);
}

/*
 * End of an owner's turn.
 * Return: true when the QP is idle now; false when more work has come and the
 * caller must put it back on a ready list.
 */
static bool qp_try_release(struct rocev2_qp *qp)
{
	return atomic_cmpxchg(&qp->sched, ROCEV2_QP_RUNNING, ROCEV2_QP_IDLE) ==
	       ROCEV2_QP_RUNNING;
}

void rocev2_qp_own(struct rocev2_qp *qp)
{
	atomic_inc(&qp->waiters);
	for (;;) {
		local_bh_disable();
		if (qp_try_own(qp))
			return;
		local_bh_enable();
		usleep_range(10, 50);
	}
}

/**
 * rocev2_qp_disown() - end rocev2_qp_own()
 * @qp: the QP
 *
 * Kicks in any case: runners have stepped aside meanwhile and left work.
 */
void rocev2_qp_disown(struct rocev2_qp *qp)
{
	atomic_dec(&qp->waiters);
	/* release: what we changed is visible to the next owner */
	atomic_set_release(&qp->sched, ROCEV2_QP_IDLE);
	rocev2_qp_kick(qp);
	local_bh_enable();
}

/* --- the owner's turn --- */

static enum hrtimer_restart qp_timer(struct hrtimer *timer)
{
	struct rocev2_qp *qp = container_of(timer, struct rocev2_qp, timer);

	set_bit(ROCEV2_QP_TIMER_FIRED, &qp->flags);
	rocev2_qp_kick(qp);
	return HRTIMER_NORESTART;
}

/*
 * Lazy timer: it is moved forward only, so that progress costs nothing; a timer
 * that fires early finds no deadline passed and is armed again here.
 */
static void qp_arm_timer(struct rocev2_qp *qp)
{
	ktime_t next = rocev2_comp_next_deadline(qp);

	/*
	 * An application posts receives without a doorbell, in the error state too,
	 * where they must flush: look again, less and less often. What is in an SRQ does
	 * not flush.
	 */
	if (qp->state == IB_QPS_ERR && qp->user && !qp->srq) {
		next = ktime_add_ms(ktime_get(), qp->flush_backoff);
		qp->flush_backoff = min(qp->flush_backoff * 2, 128u);
	}
	if (!next || (qp->timer_expires && qp->timer_expires <= next))
		return;
	qp->timer_expires = next;
	hrtimer_start(&qp->timer, next, HRTIMER_MODE_ABS_SOFT);
}

/* from rx_pending, filled when it is empty only: so rx_queue's limit holds for each of them */
static struct rocev2_rx_buf *qp_next_packet(struct rocev2_qp *qp)
{
	struct rocev2_rx_buf *buf;

	if (list_empty(&qp->rx_pending)) {
		rocev2_rx_queue_take(&qp->rx_queue, &qp->rx_pending);
		qp->rx_pending_detached = false;
	}
	buf = list_first_entry_or_null(&qp->rx_pending, struct rocev2_rx_buf, node);
	if (buf)
		list_del(&buf->node);
	return buf;
}

/**
 * rocev2_qp_run() - an owner's turn
 * @qp: the QP
 * @budget: packets to receive and send at most, but that superpackets are not split and
 *	a quarter is left for sending
 *
 * Context: bottom halves off. The order matters: packets first, since they
 * acknowledge and ask; then what was asked for (READ responses, then the one
 * acknowledgment of the batch); then new requests in the window that opened.
 *
 * Return: packets handled; @budget when work remains.
 */
int rocev2_qp_run(struct rocev2_qp *qp, int budget)
{
	struct rocev2_rx_buf *buf;
	bool timer = false;
	int work = 0;

	rcu_read_lock();
	qp->req.progress = false;
	if (test_bit(ROCEV2_QP_TIMER_FIRED, &qp->flags)) {
		clear_bit(ROCEV2_QP_TIMER_FIRED, &qp->flags);
		qp->timer_expires = 0;
		timer = true;
	}
	/* on-demand paging: what waited may go on */
	if (unlikely(qp->recv.stalled))
		qp->recv.stalled = rocev2_fault_busy(&qp->fault[ROCEV2_FAULT_RESP]);
	if (unlikely(qp->req.fault_wait) && !rocev2_fault_busy(&qp->fault[ROCEV2_FAULT_REQ]))
		rocev2_req_fault_done(qp);
	while (work < budget && likely(!qp->recv.stalled) &&
	       (buf = qp_next_packet(qp))) {
		work += rocev2_rx_packet(qp, buf);
	}
	if (unlikely(qp->recv.stalled))
		rocev2_rx_stalled(qp);
	if (timer)
		rocev2_comp_timers(qp);
	/* what came in, a superpacket maybe, must not keep everything from going out */
	work += rocev2_resp_read_run(qp, max(budget - work, budget / 4));
	rocev2_resp_flush(qp);
	work += rocev2_req_run(qp, max(budget - work, budget / 4));
	rocev2_tx_flush(qp);
	rocev2_comp_update_deadline(qp);
	qp_arm_timer(qp);
	rcu_read_unlock();

	if (!qp->recv.stalled && (!list_empty(&qp->rx_pending) ||
				  !rocev2_rx_queue_empty(&qp->rx_queue)))
		return budget;
	return min(work, budget);
}

/**
 * rocev2_qp_poll() - a receive queue's turn with a QP off its ready list
 * @qp: the QP, QUEUED
 * @budget: packets at most
 *
 * Return: packets handled.
 */
int rocev2_qp_poll(struct rocev2_qp *qp, int budget)
{
	int work = 0;

	/* full barrier: work stored before a kick that found QUEUED is seen from here on */
	atomic_xchg(&qp->sched, ROCEV2_QP_RUNNING);
	if (atomic_read(&qp->waiters)) {
		/* step aside for a verb; it kicks when it is done */
		atomic_set_release(&qp->sched, ROCEV2_QP_IDLE);
		/*
		 * The verb may be done already and its kick have found us RUNNING:
		 * look once more. Pairs with atomic_dec() before the kick in disown.
		 */
		smp_mb(); /* IDLE stored before waiters is read */
		if (!atomic_read(&qp->waiters))
			rocev2_qp_kick(qp);
		rocev2_qp_put(qp);
		return 0;
	}
	budget = min(budget, ROCEV2_RUN_BUDGET);
	work = rocev2_qp_run(qp, budget);
	if (work < budget && qp_try_release(qp))
		rocev2_qp_put(qp);
	else
		qp_requeue(qp);
	return work;
}

/**
 * rocev2_qp_doorbell() - run a QP now if nobody else does, else have it run
 * @qp: the QP, held by its verbs object
 *
 * Running inline spares the latency path a wake-up.
 *
 * Context: any.
 */
void rocev2_qp_doorbell(struct rocev2_qp *qp)
{
	bool more;

	/* bottom halves cannot be enabled again with interrupts off */
	if (in_hardirq() || irqs_disabled()) {
		rocev2_qp_kick(qp);
		return;
	}
	local_bh_disable();
	if (!atomic_read(&qp->waiters) && qp_try_own(qp)) {
		more = rocev2_qp_run(qp, ROCEV2_RUN_BUDGET) >= ROCEV2_RUN_BUDGET;
		if (more || !qp_try_release(qp)) {
			refcount_inc(&qp->users);
			qp_requeue(qp);
		}
	} else {
		rocev2_qp_kick(qp);
	}
	local_bh_enable();
}

/* --- errors and events --- */

void rocev2_qp_event(struct rocev2_qp *qp, enum ib_event_type event)
{
	struct ib_event ev = {
		.device = &qp->dev->ibdev,
		.element.qp = qp->ibqp,
		.event = event,
	};

	if (qp->ibqp->event_handler)
		qp->ibqp->event_handler(&ev, qp->ibqp->qp_context);
}

static void qp_set_state(struct rocev2_qp *qp, enum ib_qp_state state)
{
	trace_rocev2_qp_state(qp->qpn, qp->state, state);
	WRITE_ONCE(qp->state, state);
	qp->attr.qp_state = state;
}

void rocev2_qp_error(struct rocev2_qp *qp)
{
	if (qp->state == IB_QPS_ERR || qp->state == IB_QPS_RESET)
		return;
	qp_set_state(qp, IB_QPS_ERR);
	smp_mb(); /* state stored before producer indices are read; see rocev2_post_recv() */
	qp->flush_backoff = 1;
	qp->req.rnr_wait = false;
	qp->req.fault_wait = false;
	qp->req.nak_wait = false;
	qp->req.ack_deadline = 0;
	rocev2_rx_purge(&qp->req.ahead);
	rocev2_resp_stop(qp);
	/* req_run and resp_flush complete all WQEs with flush errors, now and as they are posted */
	rocev2_req_flush(qp);
	rocev2_resp_flush(qp);
}

void rocev2_qp_send_error(struct rocev2_qp *qp)
{
	/* what cannot be sent says nothing of what is received (IBA 10.3.1.5) */
	if (qp->type == IB_QPT_RC) {
		rocev2_qp_error(qp);
	} else if (qp->state == IB_QPS_RTS || qp->state == IB_QPS_SQD) {
		qp_set_state(qp, IB_QPS_SQE);
		rocev2_req_flush(qp);
	}
}

/* --- verbs --- */

static int qp_service(enum ib_qp_type type)
{
	switch (type) {
	case IB_QPT_RC:
		return ROCEV2_SVC_RC;
	case IB_QPT_UC:
		return ROCEV2_SVC_UC;
	case IB_QPT_UD:
	case IB_QPT_GSI:
		return ROCEV2_SVC_UD;
	default:
		return -EOPNOTSUPP;
	}
}

static int qp_check_init(const struct rocev2_dev *dev, const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (init->create_flags)
		return -EOPNOTSUPP;
	if (qp_service(init->qp_type) < 0)
		return -EOPNOTSUPP;
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (cap->max_send_wr > ROCEV2_MAX_QP_WR || cap->max_send_sge > ROCEV2_MAX_SGE ||
	    cap->max_inline_data > ROCEV2_MAX_INLINE)
		return -EINVAL;
	/* with an SRQ there is no receive queue to size */
	if (!init->srq &&
	    (cap->max_recv_wr > ROCEV2_MAX_QP_WR || cap->max_recv_sge > ROCEV2_MAX_SGE))
		return -EINVAL;
	return 0;
}

static int sq_create(struct rocev2_sq *sq, struct ib_qp_init_attr *init,
		     struct ib_ucontext *uc, struct mminfo *mi)
{
	struct ib_qp_cap *cap = &init->cap;
	size_t tail;
	int err;

	spin_lock_init(&sq->lock);
	cap->max_send_wr = max(cap->max_send_wr, 1u);
	cap->max_send_sge = max(cap->max_send_sge, 1u);
	/* inline data and SGEs share the end of a WQE: what one may take, the other may */
	tail = max_t(size_t, cap->max_send_sge * sizeof(struct rxe_sge), cap->max_inline_data);
	tail = round_up(tail, sizeof(struct rxe_sge));
	sq->max_sge = min_t(u32, tail / sizeof(struct rxe_sge), ROCEV2_MAX_SGE);
	sq->max_inline = tail;
	sq->sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	sq->wqe_size = sizeof(struct rocev2_send_wqe) + tail;

	err = rocev2_ring_alloc(&sq->ring, cap->max_send_wr, sizeof(struct rxe_send_wqe) + tail,
				uc, mi);
	if (err)
		return err;
	sq->wqes = kvcalloc(sq->ring.mask + 1, sq->wqe_size, GFP_KERNEL);
	if (!sq->wqes) {
		rocev2_ring_free(&sq->ring);
		return -ENOMEM;
	}
	cap->max_send_wr = rocev2_ring_capacity(&sq->ring);
	cap->max_send_sge = sq->max_sge;
	cap->max_inline_data = sq->max_inline;
	return 0;
}

static void sq_destroy(struct rocev2_sq *sq)
{
	kvfree(sq->wqes);
	rocev2_ring_free(&sq->ring);
}

static int rq_create(struct rocev2_qp *qp, struct ib_qp_init_attr *init,
		     struct ib_ucontext *uc, struct mminfo *mi)
{
	struct ib_qp_cap *cap = &init->cap;

	if (init->srq) {
		qp->srq = to_rocev2_srq(init->srq);
		cap->max_recv_wr = 0;
		cap->max_recv_sge = 0;
		return 0;
	}
	return rocev2_rq_create(&qp->rq, &cap->max_recv_wr, &cap->max_recv_sge, uc, mi);
}

/* of any device: numbers of QPs come back, these do not */
static atomic64_t last_serial = ATOMIC64_INIT(0);

static void qp_init_context(struct rocev2_qp *qp, struct rocev2_dev *dev, struct ib_qp *ibqp,
			    const struct ib_qp_init_attr *init)
{
	atomic_set(&qp->sched, ROCEV2_QP_IDLE);
	rocev2_rx_queue_init(&qp->rx_queue);
	INIT_LIST_HEAD(&qp->rx_pending);
	INIT_LIST_HEAD(&qp->recv.ahead);
	INIT_LIST_HEAD(&qp->req.ahead);
	qp->dev = dev;
	qp->counters = dev->counters;
	qp->ibqp = ibqp;
	qp->type = init->qp_type;
	qp->serial = atomic64_inc_return(&last_serial);
	qp->service = qp_service(init->qp_type);
	qp->state = IB_QPS_RESET;
	qp->attr.qp_state = IB_QPS_RESET;
	qp->attr.cur_qp_state = IB_QPS_RESET;
	qp->scq = to_rocev2_cq(init->send_cq);
	qp->rcq = to_rocev2_cq(init->recv_cq);
	qp->mtu = 256;
	qp->mtu_shift = 8;
	refcount_set(&qp->users, 1);
	init_completion(&qp->idle);
	kref_init(&qp->mem);
	hrtimer_setup(&qp->timer, qp_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	rocev2_resp_reset(qp);
	rocev2_req_reset(qp);
	rocev2_fault_init(qp);
}

static int qp_publish(struct rocev2_qp *qp)
{
	struct rocev2_dev *dev = qp->dev;

	if (qp->type == IB_QPT_GSI) {
		qp->qpn = ROCEV2_GSI_QPN;
		return xa_insert(&dev->qps, qp->qpn, qp, GFP_KERNEL);
	}
	return xa_alloc_cyclic(&dev->qps, &qp->qpn, qp,
			       XA_LIMIT(ROCEV2_MIN_QPN, ROCEV2_QPN_MASK - 1), &dev->next_qpn,
			       GFP_KERNEL);
}

/**
 * rocev2_create_qp() - the create_qp verb
 * @ibqp: the verbs object, allocated by ib_core
 * @init: what is asked for; capacities are rounded up to what was made
 * @udata: response channel of a user QP; NULL for kernel consumers
 *
 * Return: 0, -EOPNOTSUPP (service or flag not offered), -EINVAL (over a limit),
 * -ENOMEM, -EFAULT.
 */
int rocev2_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct rocev2_ucontext *uc = rdma_udata_to_drv_context(udata, struct rocev2_ucontext,
							       ibuc);
	struct rocev2_ib_qp *ib_qp = container_of(ibqp, struct rocev2_ib_qp, ibqp);
	struct rocev2_dev *dev = to_rocev2_dev(ibqp->device);
	struct rxe_create_qp_resp resp = {};
	struct rocev2_qp *qp;
	int err;

	if (udata && udata->outlen < sizeof(resp))
		return -EINVAL;
	err = qp_check_init(dev, init);
	if (err)
		return err;
	if (!atomic_add_unless(&dev->num_qps, 1, ROCEV2_MAX_QP))
		return -ENOMEM;
	qp = kzalloc_obj(*qp);
	if (!qp) {
		err = -ENOMEM;
		goto err_uncount;
	}
	qp_init_context(qp, dev, ibqp, init);
	qp->user = udata;
	ib_qp->qp = qp;
	mutex_init(&ib_qp->lock);

	if (rocev2_mr_cache_entries) {
		qp->cache_mem = kvzalloc(rocev2_mr_cache_bytes(rocev2_mr_cache_entries),
					 GFP_KERNEL);
		err = -ENOMEM;
		if (!qp->cache_mem)
			goto err_put_mem;
	}
	rocev2_mr_cache_init(&qp->cache, qp->cache_mem, rocev2_mr_cache_entries);

	err = sq_create(&qp->sq, init, uc ? &uc->ibuc : NULL, udata ? &resp.sq_mi : NULL);
	if (err)
		goto err_free_cache;
	err = rq_create(qp, init, uc ? &uc->ibuc : NULL, udata ? &resp.rq_mi : NULL);
	if (err)
		goto err_destroy_sq;
	qp->attr.cap = init->cap;
	if (udata) {
		err = ib_copy_to_udata(udata, &resp, sizeof(resp));
		if (err)
			goto err_free_rq;
	}
	/* last: from here on the receive path may find it */
	err = qp_publish(qp);
	if (err < 0)
		goto err_free_rq;
	ibqp->qp_num = qp->qpn;
	return 0;

err_free_rq:
	rocev2_ring_free(&qp->rq.ring);
err_destroy_sq:
	sq_destroy(&qp->sq);
err_free_cache:
	kvfree(qp->cache_mem);
err_put_mem:
	rocev2_qp_mem_put(qp);
err_uncount:
	atomic_dec(&dev->num_qps);
	return err;
}

static void qp_free_rcu(struct rcu_head *rcu)
{
	struct rocev2_qp *qp = container_of(rcu, struct rocev2_qp, rcu);

	WARN_ON_ONCE(!rocev2_rx_queue_empty(&qp->rx_queue));
	kfree(qp);
}

void rocev2_qp_mem_release(struct kref *mem)
{
	struct rocev2_qp *qp = container_of(mem, struct rocev2_qp, mem);

	call_rcu(&qp->rcu, qp_free_rcu);
}

static void qp_drop_packets(struct rocev2_qp *qp)
{
	rocev2_rx_queue_take(&qp->rx_queue, &qp->rx_pending);
	rocev2_rx_purge(&qp->rx_pending);
	rocev2_rx_purge(&qp->recv.ahead);
	rocev2_rx_purge(&qp->req.ahead);
}

/**
 * rocev2_destroy_qp() - the destroy_qp verb
 * @ibqp: the verbs object; ib_core frees it when we return
 * @udata: unused
 *
 * Return: 0.
 */
int rocev2_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct rocev2_qp *qp = rocev2_qp_lock(ibqp);

	container_of(ibqp, struct rocev2_ib_qp, ibqp)->qp = NULL;
	rocev2_qp_unlock(ibqp);
	xa_erase(&qp->dev->qps, qp->qpn);
	rocev2_mcast_leave_all(qp);
	rocev2_qp_own(qp);
	qp_set_state(qp, IB_QPS_RESET);
	/* a packet kept any longer would keep who brought it in */
	rocev2_rx_queue_close(&qp->rx_queue);
	qp_drop_packets(qp);
	local_bh_enable();

	rocev2_qp_put(qp);
	wait_for_completion(&qp->idle);
	hrtimer_cancel(&qp->timer);
	rocev2_cq_settle(qp->scq);
	if (qp->rcq != qp->scq)
		rocev2_cq_settle(qp->rcq);

	sq_destroy(&qp->sq);
	rocev2_ring_free(&qp->rq.ring);
	kvfree(qp->cache_mem);
	kfree(qp->recv.res);
	atomic_dec(&qp->dev->num_qps);
	rocev2_qp_mem_put(qp);
	return 0;
}

/* attributes that need more than ib_modify_qp_is_ok(); no change is made */
static int qp_check_attr(struct rocev2_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct net_device *ndev;
	int mtu;

	if (mask & IB_QP_PKEY_INDEX && attr->pkey_index != 0)
		return -EINVAL;
	if (mask & IB_QP_PORT && attr->port_num != ROCEV2_PORT)
		return -EINVAL;
	if (mask & (IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE) &&
	    (mask & IB_QP_ALT_PATH || attr->path_mig_state != IB_MIG_MIGRATED))
		return -EINVAL;
	if (mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > ROCEV2_MAX_RD_ATOMIC)
		return -EINVAL;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > ROCEV2_MAX_RD_ATOMIC)
		return -EINVAL;
	if (mask & IB_QP_TIMEOUT && attr->timeout > 31)
		return -EINVAL;
	if (mask & IB_QP_RETRY_CNT && attr->retry_cnt > 7)
		return -EINVAL;
	if (mask & IB_QP_RNR_RETRY && attr->rnr_retry > 7)
		return -EINVAL;
	if (mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > 31)
		return -EINVAL;
	if (mask & IB_QP_DEST_QPN && attr->dest_qp_num > ROCEV2_QPN_MASK)
		return -EINVAL;
	if (mask & IB_QP_PATH_MTU) {
		if (attr->path_mtu < IB_MTU_256 || attr->path_mtu > IB_MTU_4096)
			return -EINVAL;
		/* not ib_query_port(), which takes RTNL: connections are made by the thousand */
		rcu_read_lock();
		ndev = rcu_dereference(qp->dev->ndev);
		mtu = ndev ? rocev2_netdev_mtu(READ_ONCE(ndev->mtu)) : 0;
		rcu_read_unlock();
		if (!mtu)
			return -ENODEV;
		if (attr->path_mtu > mtu)
			return -EINVAL;
	}
	return 0;
}

/* back to RESET: as new, WQEs forgotten without completions (IBA 10.3.1.1) */
static void qp_reset(struct rocev2_qp *qp)
{
	int i;

	for (i = 0; i < ROCEV2_FAULT_SIDES; i++) {
		if (!rocev2_fault_busy(&qp->fault[i]))
			qp->fault[i].state = ROCEV2_FAULT_IDLE;
	}
	qp_set_state(qp, IB_QPS_RESET);
	qp_drop_packets(qp);
	rocev2_req_reset(qp);
	rocev2_resp_reset(qp);
}

static void qp_apply(struct rocev2_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	struct ib_qp_attr *cur = &qp->attr;

	if (mask & IB_QP_PORT)
		cur->port_num = attr->port_num;
	if (mask & IB_QP_PKEY_INDEX)
		cur->pkey_index = attr->pkey_index;
	if (mask & IB_QP_ACCESS_FLAGS)
		cur->qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_QKEY)
		cur->qkey = attr->qkey;
	if (mask & IB_QP_DEST_QPN) {
		cur->dest_qp_num = attr->dest_qp_num;
		qp->dest_qpn = cur->dest_qp_num;
	}
	if (mask & IB_QP_PATH_MTU) {
		cur->path_mtu = attr->path_mtu;
		qp->mtu = ib_mtu_enum_to_int(attr->path_mtu);
		qp->mtu_shift = ilog2(qp->mtu);
	}
	if (mask & IB_QP_RQ_PSN) {
		cur->rq_psn = attr->rq_psn & ROCEV2_PSN_MASK;
		qp->recv.epsn = cur->rq_psn;
	}
	if (mask & IB_QP_SQ_PSN) {
		cur->sq_psn = attr->sq_psn & ROCEV2_PSN_MASK;
		qp->req.psn = cur->sq_psn;
		qp->req.next_psn = cur->sq_psn;
		qp->req.max_psn = cur->sq_psn;
		qp->req.una_psn = cur->sq_psn;
	}
	if (mask & IB_QP_MIN_RNR_TIMER) {
		cur->min_rnr_timer = attr->min_rnr_timer;
		qp->recv.min_rnr_timer = attr->min_rnr_timer;
	}
	if (mask & IB_QP_TIMEOUT)
		cur->timeout = attr->timeout;
	if (mask & IB_QP_RETRY_CNT) {
		cur->retry_cnt = attr->retry_cnt;
		qp->req.retry_left = attr->retry_cnt;
	}
	if (mask & IB_QP_RNR_RETRY) {
		cur->rnr_retry = attr->rnr_retry;
		qp->req.rnr_left = attr->rnr_retry;
	}
	if (mask & IB_QP_MAX_QP_RD_ATOMIC) {
		cur->max_rd_atomic = attr->max_rd_atomic;
		qp->req.max_rd_atomic = attr->max_rd_atomic;
	}
	if (mask & IB_QP_EN_SQD_ASYNC_NOTIFY)
		cur->en_sqd_async_notify = attr->en_sqd_async_notify;
}

static void qp_apply_state(struct rocev2_qp *qp, enum ib_qp_state next)
{
	switch (next) {
	case IB_QPS_RESET:
		qp_reset(qp);
		break;
	case IB_QPS_ERR:
		/* also from INIT and RTR: posted receives flush */
		rocev2_qp_error(qp);
		break;
	case IB_QPS_SQD:
		if (qp->state == IB_QPS_RTS)
			qp->req.sqd_notify = qp->attr.en_sqd_async_notify;
		qp_set_state(qp, next);
		break;
	default:
		if (next != qp->state)
			qp_set_state(qp, next);
	}
}

/**
 * rocev2_modify_qp() - the modify_qp verb
 * @ibqp: the QP
 * @attr: new attributes
 * @mask: which of them
 * @udata: unused
 *
 * Return: 0, -EINVAL (transition or attribute), -EOPNOTSUPP (unknown mask bits),
 * -ENOMEM, -ENODEV (netdev gone).
 */
int rocev2_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata)
{
	struct rocev2_qp *qp = to_rocev2_qp(ibqp);
	struct rocev2_resp_res *res = NULL;
	enum ib_qp_state cur, next;
	struct rocev2_path path;
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	err = qp_check_attr(qp, attr, mask);
	if (err)
		return err;
	if (mask & IB_QP_AV) {
		err = rocev2_path_init(&path, qp->dev, &attr->ah_attr, qp->qpn,
				       mask & IB_QP_DEST_QPN ? attr->dest_qp_num : qp->dest_qpn);
		if (err)
			return err;
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic) {
		res = kcalloc(roundup_pow_of_two(attr->max_dest_rd_atomic), sizeof(*res),
			      GFP_KERNEL);
		if (!res)
			return -ENOMEM;
	}

	rocev2_qp_own(qp);
	cur = qp->state;
	next = mask & IB_QP_STATE ? attr->qp_state : cur;
	err = -EINVAL;
	if (mask & IB_QP_CUR_STATE && attr->cur_qp_state != cur)
		goto out;
	if (!ib_modify_qp_is_ok(cur, next, ibqp->qp_type, mask))
		goto out;
	if (mask & IB_QP_AV) {
		qp->path = path;
		qp->attr.ah_attr = attr->ah_attr;
		/* ib_core holds the GID reference */
		qp->attr.ah_attr.grh.sgid_attr = NULL;
	}
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC) {
		swap(qp->recv.res, res);
		qp->recv.res_count = attr->max_dest_rd_atomic;
		qp->recv.res_mask = qp->recv.res_count ?
				    roundup_pow_of_two(qp->recv.res_count) - 1 : 0;
		qp->recv.res_head = 0;
		qp->recv.res_due = 0;
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	}
	qp_apply(qp, attr, mask);
	qp_apply_state(qp, next);
	err = 0;
out:
	rocev2_qp_disown(qp);
	kfree(res);
	return err;
}

/**
 * rocev2_query_qp() - the query_qp verb
 * @ibqp: the QP
 * @attr: filled
 * @mask: ignored: all attributes are known at no cost
 * @init: filled
 *
 * ib_core calls it for `rdma resource show qp` too.
 *
 * Return: 0, or -EINVAL: it is being destroyed.
 */
int rocev2_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init)
{
	struct rocev2_qp *qp = rocev2_qp_lock(ibqp);

	if (!qp) {
		rocev2_qp_unlock(ibqp);
		return -EINVAL;
	}
	rocev2_qp_own(qp);
	*attr = qp->attr;
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	attr->path_mig_state = IB_MIG_MIGRATED;
	attr->rq_psn = qp->recv.epsn;
	attr->sq_psn = qp->req.next_psn;
	attr->sq_draining = qp->state == IB_QPS_SQD && qp->req.una_psn != qp->req.next_psn;
	init->cap = qp->attr.cap;
	init->sq_sig_type = qp->sq.sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	rocev2_qp_disown(qp);
	rocev2_qp_unlock(ibqp);

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->qp_type = ibqp->qp_type;
	return 0;
}
