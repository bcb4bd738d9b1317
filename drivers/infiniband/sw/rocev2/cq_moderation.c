// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion moderation: an event that is due is held until so many completions
 * have been added, the CQ is full, or a period is over, whichever is first.
 *
 * An armed CQ that gets the completion it waits for still ends in one event: the
 * completion disarms it and makes the event due, and a due event is held, never
 * dropped. One that falls due while another is held is the same event: it comes after
 * both completions.
 *
 * The timer is lazy: events that go by count leave it running, and one that fires
 * before the deadline of what is held then is started anew. All under cq->lock.
 *
 * Completions come from QPs, so no event is held once the last QP has called
 * rocev2_cq_settle() and is gone. This, not destroy_cq, is what ends the timer:
 * ib_free_cq() cancels the consumer's work before it destroys the CQ, and an event
 * after that would queue the work again.
 */
#include <rdma/ib_verbs.h>

#include "cq.h"
#include "rocev2.h"

/* without the lock: the kernel's handlers may call back into the CQ */
static void raise(struct rocev2_cq *cq)
{
	struct ib_cq *ibcq = &cq->ibcq;

	if (ibcq->comp_handler)
		ibcq->comp_handler(ibcq, ibcq->cq_context);
}

static void start_timer(struct rocev2_cq *cq)
{
	/*
	 * Not queued, or already in cq_timer(), which waits for the lock and will look at
	 * the deadline.
	 */
	if (!hrtimer_is_queued(&cq->timer) ||
	    ktime_before(cq->deadline, hrtimer_get_expires(&cq->timer)))
		hrtimer_start(&cq->timer, cq->deadline, HRTIMER_MODE_ABS_SOFT);
}

bool rocev2_cq_hold(struct rocev2_cq *cq, bool full)
{
	lockdep_assert_held(&cq->lock);
	cq->held++;
	if (full || cq->held >= cq->moder_count) {
		cq->held = 0;
		return false;
	}
	if (cq->held == 1) {
		cq->deadline = ktime_add_us(ktime_get(), cq->moder_period);
		start_timer(cq);
	}
	return true;
}

/* softirq; the CQ outlives us, see rocev2_cq_settle() */
static enum hrtimer_restart cq_timer(struct hrtimer *timer)
{
	struct rocev2_cq *cq = container_of(timer, struct rocev2_cq, timer);
	unsigned long flags;
	bool due = false;

	flags = rocev2_cq_lock(cq);
	if (cq->held) {
		due = !ktime_before(ktime_get(), cq->deadline);
		if (due)
			cq->held = 0;
		else
			start_timer(cq);
	}
	rocev2_cq_unlock(cq, flags);

	if (due)
		raise(cq);
	return HRTIMER_NORESTART;
}

/* let the event go that is held, if one is */
static void release(struct rocev2_cq *cq, bool held)
{
	if (!held)
		return;
	/* handlers are called with bottom halves off, as by the data path */
	local_bh_disable();
	raise(cq);
	local_bh_enable();
}

/**
 * rocev2_modify_cq() - ops.modify_cq: set the moderation
 * @ibcq: the CQ
 * @count: completions that are worth an event
 * @period: microseconds that an event may wait for them
 *
 * Either of them 0, or one completion: no moderation. An event that is held under the
 * old rule goes at once.
 *
 * Context: process.
 *
 * Return: 0, or -EINVAL beyond what query_device tells.
 */
int rocev2_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct rocev2_cq *cq = to_rocev2_cq(ibcq);
	unsigned long flags;
	bool held;

	if (count > ROCEV2_MAX_CQ_MODERATION_COUNT || period > ROCEV2_MAX_CQ_MODERATION_PERIOD)
		return -EINVAL;

	flags = rocev2_cq_lock(cq);
	cq->moder_count = period ? count : 0;
	cq->moder_period = period;
	held = cq->held;
	cq->held = 0;
	rocev2_cq_unlock(cq, flags);

	release(cq, held);
	return 0;
}

/**
 * rocev2_cq_settle() - a QP that is gone has no event left
 * @cq: a CQ of the QP
 *
 * What other QPs of the CQ do meanwhile may be held again, and settled by them.
 *
 * Context: process.
 */
void rocev2_cq_settle(struct rocev2_cq *cq)
{
	unsigned long flags;
	bool held;

	/*
	 * First the timer, which is started with the lock held only: an event that was
	 * held and lost its timer here is found below, and a handler that is being called
	 * has returned.
	 */
	hrtimer_cancel(&cq->timer);
	flags = rocev2_cq_lock(cq);
	held = cq->held;
	cq->held = 0;
	rocev2_cq_unlock(cq, flags);
	release(cq, held);
}

void rocev2_cq_moderation_init(struct rocev2_cq *cq)
{
	hrtimer_setup(&cq->timer, cq_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
}
