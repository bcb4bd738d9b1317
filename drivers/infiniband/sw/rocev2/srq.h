/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Shared receive queue: one ring that the owners of several QPs take receive WQEs
 * from, on any CPU.
 *
 * ib_core owns the object and counts the QPs that use it: destroy_srq is refused
 * while there is one, so whoever owns a QP may use its SRQ without a reference.
 */
#ifndef ROCEV2_SRQ_H
#define ROCEV2_SRQ_H

#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "qp.h"

/**
 * struct rocev2_srq - a shared receive queue
 * @ibsrq: must be first
 * @rq: the ring. Its lock, inside @lock, is the kernel posters'
 * @lock: serializes owners of QPs that take WQEs, and resize. Bottom halves off
 * @modify: serializes modify_srq, which sleeps
 * @limit: IB_EVENT_SRQ_LIMIT_REACHED is due when fewer WQEs are posted; 0: not armed
 * @num: our number for the application
 * @user: the ring is mapped into an application
 */
struct rocev2_srq {
	struct ib_srq		ibsrq;
	struct rocev2_rq	rq;
	spinlock_t		lock;	/* consumers, limit, resize */
	struct mutex		modify;	/* modify_srq */
	u32			limit;
	u32			num;
	bool			user;
};

static inline struct rocev2_srq *to_rocev2_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct rocev2_srq, ibsrq);
}

/**
 * rocev2_srq_next() - take the next receive WQE
 * @srq: the SRQ of a QP
 * @wqe: takes a private, checked copy, which outlives a resize
 *
 * Raises IB_EVENT_SRQ_LIMIT_REACHED when armed and due.
 *
 * Context: owner of the QP.
 *
 * Return: false when none is posted.
 */
bool rocev2_srq_next(struct rocev2_srq *srq, struct rocev2_recv_wqe *wqe);

/* ops of ib_device */
int rocev2_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		      struct ib_udata *udata);
int rocev2_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		      enum ib_srq_attr_mask mask, struct ib_udata *udata);
int rocev2_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int rocev2_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int rocev2_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad_wr);

#endif
