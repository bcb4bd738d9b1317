/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues. Producers are QP handlers (softirq, or process context with
 * bottom halves off); the consumer is the application or a kernel user.
 */
#ifndef ROCEV2_CQ_H
#define ROCEV2_CQ_H

#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "ring.h"

/**
 * struct rocev2_cq - a completion queue
 * @ibcq: must be first
 * @ring: elements are struct ib_uverbs_wc (user) or struct ib_wc (kernel)
 * @lock: serializes producers, arming and resize; a leaf lock. Taken with
 *	interrupts off for kernel CQs (any context polls), with bottom halves off
 *	for user CQs
 * @user: @ring is mapped into an application
 * @overrun: a completion was lost; the CQ is dead (IBA 10.2.6.2)
 * @notify: IB_CQ_NEXT_COMP or IB_CQ_SOLICITED when armed, else 0
 */
struct rocev2_cq {
	struct ib_cq		ibcq;
	struct rocev2_ring	ring;
	spinlock_t		lock;	/* producers, arming, resize */
	bool			user;
	bool			overrun;
	u8			notify;
};

static inline struct rocev2_cq *to_rocev2_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct rocev2_cq, ibcq);
}

/**
 * rocev2_cq_post() - append one completion and raise the event if armed
 * @cq: the CQ
 * @wc: the completion; wc->qp is set
 * @solicited: counts as solicited (or as an error) for IB_CQ_SOLICITED
 *
 * Context: softirq, or process context with bottom halves off. On overrun the
 * completion is lost and IB_EVENT_CQ_ERR raised once.
 *
 * Return: 0, or -EOVERFLOW: the caller moves its QP to the error state.
 */
int rocev2_cq_post(struct rocev2_cq *cq, const struct ib_wc *wc, bool solicited);

/* ops of ib_device */
int rocev2_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs);
int rocev2_create_user_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
			  struct uverbs_attr_bundle *attrs);
int rocev2_resize_user_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata);
int rocev2_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int rocev2_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int rocev2_peek_cq(struct ib_cq *ibcq, int num);
int rocev2_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

#endif
