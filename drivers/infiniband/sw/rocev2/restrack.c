// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Details of objects for `rdma resource show OBJECT -dd`. Process context, with a
 * reference on the object; values are snapshots.
 */
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>

#include "cq.h"
#include "mr.h"
#include "qp.h"
#include "restrack.h"
#include "rq.h"
#include "srq.h"

/**
 * rocev2_fill_res_cq_entry() - ops.fill_res_cq_entry
 * @msg: the netlink message
 * @ibcq: the CQ
 *
 * Return: 0 or -EMSGSIZE.
 */
int rocev2_fill_res_cq_entry(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	u32 mask, produced, consumed;
	struct nlattr *nest;
	unsigned long flags;
	bool overrun;
	u8 notify;

	/* a resize may swap the ring */
	spin_lock_irqsave(&cq->lock, flags);
	mask = cq->ring.mask;
	produced = cq->ring.index;
	consumed = rocev2_ring_consumer(&cq->ring);
	overrun = cq->overrun;
	notify = cq->notify;
	spin_unlock_irqrestore(&cq->lock, flags);

	nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!nest)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "capacity", mask) ||
	    rdma_nl_put_driver_u32(msg, "producer", produced) ||
	    rdma_nl_put_driver_u32(msg, "consumer", consumed) ||
	    rdma_nl_put_driver_u32(msg, "armed", notify) ||
	    rdma_nl_put_driver_u32(msg, "overrun", overrun)) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

/**
 * rocev2_fill_res_mr_entry() - ops.fill_res_mr_entry
 * @msg: the netlink message
 * @ibmr: the MR
 *
 * Return: 0 or -EMSGSIZE.
 */
int rocev2_fill_res_mr_entry(struct sk_buff *msg, struct ib_mr *ibmr)
{
	const struct rocev2_mr *mr = to_rocev2_mr(ibmr);
	struct nlattr *nest;

	nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!nest)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32_hex(msg, "access", mr->access) ||
	    rdma_nl_put_driver_u32(msg, "block_shift", mr->block_shift) ||
	    rdma_nl_put_driver_u32(msg, "users", refcount_read(&mr->users) - 1) ||
	    rdma_nl_put_driver_u32(msg, "dma", mr->dma)) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

static int fill_qp(struct sk_buff *msg, struct rocev2_qp *qp)
{
	/* the owner changes these as we read: a snapshot for the eye */
	if (rdma_nl_put_driver_u32(msg, "dest_qpn", READ_ONCE(qp->dest_qpn)) ||
	    rdma_nl_put_driver_u32(msg, "mtu", READ_ONCE(qp->mtu)) ||
	    rdma_nl_put_driver_u32(msg, "sched", atomic_read(&qp->sched)) ||
	    rdma_nl_put_driver_u32(msg, "inflight", atomic_read(&qp->inflight)) ||
	    rdma_nl_put_driver_u32(msg, "rx_queued", READ_ONCE(qp->rx_queue.len)) ||
	    rdma_nl_put_driver_u32(msg, "req_psn", READ_ONCE(qp->req.psn)) ||
	    rdma_nl_put_driver_u32(msg, "req_una_psn", READ_ONCE(qp->req.una_psn)) ||
	    rdma_nl_put_driver_u32(msg, "req_max_psn", READ_ONCE(qp->req.max_psn)) ||
	    rdma_nl_put_driver_u32(msg, "req_rd_outstanding",
				   READ_ONCE(qp->req.rd_outstanding)) ||
	    rdma_nl_put_driver_u32(msg, "req_retry_left", READ_ONCE(qp->req.retry_left)) ||
	    rdma_nl_put_driver_u32(msg, "req_rnr_wait", READ_ONCE(qp->req.rnr_wait)) ||
	    rdma_nl_put_driver_u32(msg, "sq_pull", READ_ONCE(qp->sq.pull)) ||
	    rdma_nl_put_driver_u32(msg, "sq_cur", READ_ONCE(qp->sq.cur)) ||
	    rdma_nl_put_driver_u32(msg, "sq_una", READ_ONCE(qp->sq.una)) ||
	    rdma_nl_put_driver_u32(msg, "resp_epsn", READ_ONCE(qp->recv.epsn)) ||
	    rdma_nl_put_driver_u32(msg, "resp_msn", READ_ONCE(qp->recv.msn)) ||
	    rdma_nl_put_driver_u64(msg, "mr_cache_hits", READ_ONCE(qp->cache.hits)) ||
	    rdma_nl_put_driver_u64(msg, "mr_cache_misses", READ_ONCE(qp->cache.misses)))
		return -EMSGSIZE;
	return 0;
}

/**
 * rocev2_fill_res_qp_entry() - ops.fill_res_qp_entry
 * @msg: the netlink message
 * @ibqp: the QP
 *
 * Return: 0 or -EMSGSIZE.
 */
int rocev2_fill_res_qp_entry(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct rocev2_qp *qp;
	struct nlattr *nest;
	int ret = 0;

	nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!nest)
		return -EMSGSIZE;
	qp = rocev2_qp_lock(ibqp);
	if (qp)
		ret = fill_qp(msg, qp);
	rocev2_qp_unlock(ibqp);
	if (ret) {
		nla_nest_cancel(msg, nest);
		return ret;
	}
	nla_nest_end(msg, nest);
	return 0;
}

/**
 * rocev2_fill_res_srq_entry() - ops.fill_res_srq_entry
 * @msg: the netlink message
 * @ibsrq: the SRQ
 *
 * Return: 0 or -EMSGSIZE.
 */
int rocev2_fill_res_srq_entry(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct rocev2_srq *srq = to_rocev2_srq(ibsrq);
	u32 capacity, posted, taken, limit;
	struct nlattr *nest;

	/* a resize may swap the ring */
	spin_lock_bh(&srq->lock);
	capacity = rocev2_ring_capacity(&srq->rq.ring);
	posted = rocev2_rq_posted(&srq->rq);
	taken = srq->rq.ring.index;
	limit = srq->limit;
	spin_unlock_bh(&srq->lock);

	nest = nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
	if (!nest)
		return -EMSGSIZE;
	if (rdma_nl_put_driver_u32(msg, "srq_num", srq->num) ||
	    rdma_nl_put_driver_u32(msg, "capacity", capacity) ||
	    rdma_nl_put_driver_u32(msg, "max_sge", srq->rq.max_sge) ||
	    rdma_nl_put_driver_u32(msg, "posted", posted) ||
	    rdma_nl_put_driver_u32(msg, "taken", taken) ||
	    rdma_nl_put_driver_u32(msg, "limit", limit)) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}
