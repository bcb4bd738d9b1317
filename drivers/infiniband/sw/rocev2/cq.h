/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completion queues. Producers are QP handlers (softirq, or process context with
 * bottom halves off); the consumer is the application or a kernel user.
 */
#ifndef ROCEV2_CQ_H
#define ROCEV2_CQ_H

#include <linux/hrtimer.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>

#include "ring.h"

/**
 * struct rocev2_cq - a completion queue
 * @ibcq: must be first
 * @ring: elements are struct ib_uverbs_wc (user) or struct ib_wc (kernel)
 * @lock: serializes producers, arming, moderation and resize; a leaf lock. Taken with
 *	interrupts off for kernel CQs (any context polls), with bottom halves off
 *	for user CQs
 * @user: @ring is mapped into an application
 * @overrun: a completion was lost; the CQ is dead (IBA 10.2.6.2)
 * @notify: IB_CQ_NEXT_COMP or IB_CQ_SOLICITED when armed, else 0
 * @moder_count: completions that are worth an event; 0 or 1: no moderation
 * @moder_period: microseconds that an event may be held for more of them
 * @held: completions added since the event that is held fell due; 0 when none is
 * @deadline: when it goes at the latest
 * @timer: runs until @deadline or shorter while an event is held, see cq_moderation.c
 */
struct rocev2_cq {
	struct ib_cq		ibcq;
	struct rocev2_ring	ring;
	spinlock_t		lock;	/* producers, arming, resize, moderation */
	bool			user;
	bool			overrun;
	u8			notify;

	u16			moder_count;
	u16			moder_period;
	u32			held;
	ktime_t			deadline;
	struct hrtimer		timer;
};

static inline struct rocev2_cq *to_rocev2_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct rocev2_cq, ibcq);
}

/*
 * Interrupts off for kernel CQs, bottom halves off for user CQs.
 */
static inline unsigned long rocev2_cq_lock(struct rocev2_cq *cq)
	__acquires(&cq->lock)
{
	unsigned long flags = 0;

	if (cq->user)
		spin_lock_bh(&cq->lock);
	else
		spin_lock_irqsave(&cq->lock, flags);
	return flags;
}

static inline void rocev2_cq_unlock(struct rocev2_cq *cq, unsigned long flags)
	__releases(&cq->lock)
{
	if (cq->user)
		spin_unlock_bh(&cq->lock);
	else
		spin_unlock_irqrestore(&cq->lock, flags);
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

/* cq_moderation.c */
void rocev2_cq_moderation_init(struct rocev2_cq *cq);
/* a completion was added, and an event fell due or is held: is it to wait? cq->lock is held */
bool rocev2_cq_hold(struct rocev2_cq *cq, bool full);
void rocev2_cq_settle(struct rocev2_cq *cq);
int rocev2_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);

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
