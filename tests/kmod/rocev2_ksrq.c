// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Test of shared receive queues as a kernel consumer: posting, limit, resize, last
 * WQE, draining. Loaded by tests/selftests/srq_kernel.sh with the names of two
 * connected devices; runs all cases in its init and prints KTAP into the kernel log,
 * one line "rocev2_ksrq: ok ..." or "not ok ..." a case. A sends, B has the SRQ.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "ends.h"

#define QPS	3
#define SLOTS	256
#define ROOM	512
#define LIMIT	(10 * HZ)

/* what each case gets, fresh */
struct bench {
	struct ib_srq		*srq;
	struct ib_cq		*cq[2];
	struct ib_qp		*qp[QPS][2];
	u8			*src;
	u8			*slots;
	atomic_t		limits;
	atomic_t		lasts[QPS];
	atomic_t		others;
	/* the limit handler posts this many */
	int			refill;
	u32			next;
};

/* --- work requests --- */

static u8 *slot(struct bench *b, u64 id)
{
	return b->slots + id % SLOTS * ROOM;
}

/* receives with ids from b->next on, as one list; the number that was posted */
static int post_list(struct bench *b, int count, int *err)
{
	const struct ib_recv_wr *bad = NULL;
	struct ib_recv_wr *wr;
	struct ib_sge *sge;
	int i;

	wr = kcalloc(count, sizeof(*wr), GFP_ATOMIC);
	sge = kcalloc(count, sizeof(*sge), GFP_ATOMIC);
	if (!wr || !sge) {
		kfree(wr);
		kfree(sge);
		*err = -ENOMEM;
		return 0;
	}
	for (i = 0; i < count; i++) {
		sge[i].addr = (uintptr_t)slot(b, b->next + i);
		sge[i].length = ROOM;
		sge[i].lkey = ends[B].pd->local_dma_lkey;
		wr[i].wr_id = b->next + i;
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < count ? &wr[i + 1] : NULL;
	}
	*err = ib_post_srq_recv(b->srq, wr, &bad);
	count = *err ? bad - wr : count;
	b->next += count;
	kfree(wr);
	kfree(sge);
	return count;
}

static bool post(struct bench *b, int count)
{
	int err;

	return ok(post_list(b, count, &err) == count) && ok(!err);
}

static bool poll(struct ib_cq *cq, struct ib_wc *wc)
{
	unsigned long end = jiffies + LIMIT;

	while (ib_poll_cq(cq, 1, wc) != 1) {
		if (!ok(time_before(jiffies, end)))
			return false;
		usleep_range(20, 100);
	}
	return true;
}

static bool send(struct bench *b, int qp, u32 length)
{
	struct ib_sge sge = { (uintptr_t)b->src, length, ends[A].pd->local_dma_lkey };
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ok(!ib_post_send(b->qp[qp][A], &wr, NULL));
}

/* a message that must take receive @id */
static bool exchange(struct bench *b, int qp, u64 id)
{
	struct ib_wc wc;

	get_random_bytes(b->src, 100);
	if (!send(b, qp, 100) || !poll(b->cq[B], &wc))
		return false;
	if (wc.wr_id != id)
		pr_info("# receive %llu, not %llu\n", wc.wr_id, id);
	if (!ok(wc.status == IB_WC_SUCCESS && wc.wr_id == id && wc.qp == b->qp[qp][B]) ||
	    !ok(wc.byte_len == 100 && !memcmp(slot(b, id), b->src, 100)))
		return false;
	return poll(b->cq[A], &wc) && ok(wc.status == IB_WC_SUCCESS);
}

/* --- events --- */

static void srq_event(struct ib_event *event, void *context)
{
	struct bench *b = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED && event->element.srq == b->srq) {
		atomic_inc(&b->limits);
		if (b->refill)
			post(b, b->refill);
	} else {
		atomic_inc(&b->others);
	}
}

static void qp_event(struct ib_event *event, void *context)
{
	struct bench *b = context;
	int i;

	for (i = 0; i < QPS; i++)
		if (event->event == IB_EVENT_QP_LAST_WQE_REACHED &&
		    event->element.qp == b->qp[i][B]) {
			atomic_inc(&b->lasts[i]);
			return;
		}
	if (event->event != IB_EVENT_COMM_EST)
		atomic_inc(&b->others);
}

/* --- cases --- */

static bool posting(struct bench *b)
{
	struct ib_sge sge[2] = {};
	struct ib_recv_wr wr = { .sg_list = sge, .num_sge = 2 };
	const struct ib_recv_wr *bad = NULL;
	struct ib_srq_attr attr;
	int err;

	if (!ok(!ib_query_srq(b->srq, &attr)) || !ok(attr.max_wr == 31 && attr.max_sge == 1))
		return false;
	/* more SGEs than the SRQ was made for */
	if (!ok(ib_post_srq_recv(b->srq, &wr, &bad) == -EINVAL && bad == &wr))
		return false;
	wr.num_sge = 0;
	/* not to a QP that has an SRQ */
	if (!ok(ib_post_recv(b->qp[0][B], &wr, &bad) == -EINVAL))
		return false;
	if (!ok(post_list(b, 40, &err) == 31) || !ok(err == -ENOMEM))
		return false;
	return exchange(b, 0, 0) && exchange(b, 1, 1) && exchange(b, 2, 2) && post(b, 3) &&
	       exchange(b, 2, 3) && ok(!atomic_read(&b->others));
}

static bool resizing(struct bench *b)
{
	static const u32 sizes[] = { 200, 33, 1000, 32 };
	struct ib_srq_attr attr;
	u64 id = 0;
	int i;

	for (i = 0; i < 20; i++)
		if (!post(b, 1) || !exchange(b, i % QPS, id++))
			return false;
	if (!post(b, 30))
		return false;
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		attr.max_wr = sizes[i];
		if (!ok(!ib_modify_srq(b->srq, &attr, IB_SRQ_MAX_WR)) ||
		    !ok(attr.max_wr >= sizes[i]))
			return false;
		if (!exchange(b, i % QPS, id++) || !post(b, 1))
			return false;
	}
	attr.max_wr = 15;
	if (!ok(ib_modify_srq(b->srq, &attr, IB_SRQ_MAX_WR) == -EINVAL))
		return false;
	for (; id < b->next; id++)
		if (!exchange(b, id % QPS, id))
			return false;
	return true;
}

/* A handler may post, whatever context it is called in. */
static bool limit(struct bench *b)
{
	struct ib_srq_attr attr = { .srq_limit = 5 };
	u64 id = 0;
	int round;

	if (!post(b, 8))
		return false;
	b->refill = 6;
	for (round = 1; round <= 5; round++) {
		attr.srq_limit = 5;
		if (!ok(!ib_modify_srq(b->srq, &attr, IB_SRQ_LIMIT)))
			return false;
		for (; atomic_read(&b->limits) < round; id++)
			if (!ok(b->next - id >= 4) || !exchange(b, id % QPS, id))
				return false;
		/* six came when four were left; not armed: nothing more comes */
		if (!ok(b->next - id == 10) || !exchange(b, 0, id++) || !exchange(b, 1, id++))
			return false;
		if (!ok(!ib_query_srq(b->srq, &attr)) || !ok(!attr.srq_limit))
			return false;
	}
	return ok(atomic_read(&b->limits) == 5) && ok(!atomic_read(&b->others));
}

/* Posters with interrupts off and resizes against consumers; nothing is lost. */
static bool contention(struct bench *b)
{
	unsigned long flags;
	DECLARE_BITMAP(seen, 2 * SLOTS);
	struct ib_srq_attr attr;
	struct ib_wc wc;
	u32 sent = 0, received = 0, acked = 0, round = 0;
	unsigned long end = jiffies + 3 * LIMIT;
	const u32 total = 2 * SLOTS;

	bitmap_zero(seen, 2 * SLOTS);
	while (received < total || acked < total) {
		if (!ok(time_before(jiffies, end)))
			return false;
		if (b->next < total && b->next - received < 24) {
			local_irq_save(flags);
			if (!post(b, 1)) {
				local_irq_restore(flags);
				return false;
			}
			local_irq_restore(flags);
		}
		if (sent < total && sent - acked < 40) {
			if (!send(b, sent % QPS, 8))
				return false;
			sent++;
		}
		attr.max_wr = ++round & 1 ? 24 : 100;
		if (round % 5 == 0 && !ok(!ib_modify_srq(b->srq, &attr, IB_SRQ_MAX_WR)))
			return false;
		while (ib_poll_cq(b->cq[B], 1, &wc) == 1) {
			if (!ok(wc.status == IB_WC_SUCCESS) ||
			    !ok(wc.wr_id < total && !test_and_set_bit(wc.wr_id, seen)))
				return false;
			received++;
		}
		while (ib_poll_cq(b->cq[A], 1, &wc) == 1) {
			if (!ok(wc.status == IB_WC_SUCCESS))
				return false;
			acked++;
		}
		cond_resched();
	}
	return ok(!atomic_read(&b->others));
}

static bool last_wqe(struct bench *b)
{
	if (!post(b, 10) || !exchange(b, 0, 0) || !qp_to_state(b->qp[0][B], IB_QPS_ERR) ||
	    !qp_to_state(b->qp[0][B], IB_QPS_ERR))
		return false;
	if (!exchange(b, 1, 1) || !exchange(b, 2, 2) || !qp_to_state(b->qp[2][B], IB_QPS_ERR))
		return false;
	if (!exchange(b, 1, 3))
		return false;
	return ok(atomic_read(&b->lasts[0]) == 1 && !atomic_read(&b->lasts[1]) &&
		  atomic_read(&b->lasts[2]) == 1) && ok(!atomic_read(&b->others));
}

static const struct {
	const char *name;
	bool (*run)(struct bench *b);
} cases[] = {
	{ "posting",	posting },
	{ "resizing",	resizing },
	{ "limit",	limit },
	{ "contention",	contention },
	{ "last_wqe",	last_wqe },
};

/* --- the bench --- */

static bool bench_init(struct bench *b)
{
	struct ib_srq_init_attr srq_init = {
		.event_handler = srq_event,
		.srq_context = b,
		.attr = { .max_wr = 20, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_cq_init_attr cq_init = { .cqe = 512 };
	int i, end;

	b->src = kzalloc(ROOM, GFP_KERNEL);
	b->slots = kzalloc(SLOTS * ROOM, GFP_KERNEL);
	if (!ok(b->src && b->slots))
		return false;
	for (end = 0; end < 2; end++) {
		b->cq[end] = ib_create_cq(ends[end].dev, NULL, NULL, NULL, &cq_init);
		if (!ok(!IS_ERR(b->cq[end]))) {
			b->cq[end] = NULL;
			return false;
		}
	}
	b->srq = ib_create_srq(ends[B].pd, &srq_init);
	if (!ok(!IS_ERR(b->srq))) {
		b->srq = NULL;
		return false;
	}
	for (i = 0; i < QPS; i++) {
		for (end = 0; end < 2; end++) {
			struct ib_qp_init_attr init = {
				.event_handler = qp_event,
				.qp_context = b,
				.qp_type = IB_QPT_RC,
				.send_cq = b->cq[end],
				.recv_cq = b->cq[end],
				.srq = end == B ? b->srq : NULL,
				.cap = { .max_send_wr = 64, .max_send_sge = 1 },
			};

			b->qp[i][end] = ib_create_qp(ends[end].pd, &init);
			if (!ok(!IS_ERR(b->qp[i][end]))) {
				b->qp[i][end] = NULL;
				return false;
			}
		}
		if (!qp_connect(b->qp[i], A) || !qp_connect(b->qp[i], B))
			return false;
	}
	return true;
}

static void bench_exit(struct bench *b)
{
	int i, end;

	for (i = 0; i < QPS; i++)
		for (end = 0; end < 2; end++)
			if (b->qp[i][end])
				ib_destroy_qp(b->qp[i][end]);
	if (b->srq)
		ib_destroy_srq(b->srq);
	for (end = 0; end < 2; end++)
		if (b->cq[end])
			ib_destroy_cq(b->cq[end]);
	kfree(b->src);
	kfree(b->slots);
}

static int run_cases(void)
{
	int i;

	pr_info("1..%zu\n", ARRAY_SIZE(cases));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bench *b = kzalloc(sizeof(*b), GFP_KERNEL);
		bool passed;

		if (!b)
			return -ENOMEM;
		passed = bench_init(b) && cases[i].run(b);
		bench_exit(b);
		kfree(b);
		pr_info("%sok %d %s\n", passed ? "" : "not ", i + 1, cases[i].name);
	}
	return 0;
}

static int __init ksrq_init(void)
{
	int ret = ends_register();

	if (ret)
		return ret;
	ret = run_cases();
	if (ret)
		ib_unregister_client(&ends_client);
	return ret;
}

static void __exit ksrq_exit(void)
{
	ib_unregister_client(&ends_client);
}

module_init(ksrq_init);
module_exit(ksrq_exit);

MODULE_DESCRIPTION("Test of shared receive queues as a kernel consumer");
MODULE_LICENSE("Dual BSD/GPL");
