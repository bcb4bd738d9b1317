// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Test of draining as kernel consumers do it: ib_drain_qp() in every state of a QP,
 * before and after errors, and with packets pouring in. When it returns, all that was
 * posted has completed and nobody writes to the consumer's memory any more. Loaded by
 * tests/selftests/drain.sh with the names of two connected devices; runs all cases in
 * its init and prints KTAP into the kernel log, one line "rocev2_kdrain: ok ..." or
 * "not ok ..." a case.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "ends.h"

#define DEPTH	64
#define BYTES	SZ_64K
#define LIMIT	(5 * HZ)
#define FLUSHED	IB_WC_WR_FLUSH_ERR

/* one of the two queues of a QP: all work requests on it are alike */
struct queue {
	struct ib_cqe	cqe;
	atomic_t	posted;
	atomic_t	done;
	atomic_t	good;
	/* of the last completion that was neither */
	atomic_t	error;
};

struct side {
	int		end;
	struct ib_cq	*cq;
	struct ib_qp	*qp;
	struct ib_ah	*ah;
	struct queue	send;
	struct queue	recv;
	struct work_struct drain;
	u32		length;
	u8		*buf;
	spinlock_t	lock;	/* again */
	/* what completes is posted again */
	bool		again;
};

/* what each case gets, fresh */
struct bench {
	struct side	side[2];
	struct ib_qp	*pair[2];
};

static enum ib_poll_context poll_ctx;

/* --- work requests --- */

static int post_recv(struct side *s)
{
	struct ib_sge sge = { (uintptr_t)s->buf, BYTES, s->qp->pd->local_dma_lkey };
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1, .wr_cqe = &s->recv.cqe };
	int ret;

	atomic_inc(&s->recv.posted);
	ret = ib_post_recv(s->qp, &wr, NULL);
	if (ret)
		atomic_dec(&s->recv.posted);
	return ret;
}

static int post_wr(struct side *s, struct ib_send_wr *wr, u32 lkey)
{
	struct ib_sge sge = { (uintptr_t)s->buf, s->length, lkey };
	int ret;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IB_SEND_SIGNALED;
	wr->wr_cqe = &s->send.cqe;
	atomic_inc(&s->send.posted);
	ret = ib_post_send(s->qp, wr, NULL);
	if (ret)
		atomic_dec(&s->send.posted);
	return ret;
}

static int post_send_lkey(struct bench *b, struct side *s, u32 lkey)
{
	struct ib_ud_wr wr = { .wr.opcode = IB_WR_SEND };

	if (s->ah) {
		wr.ah = s->ah;
		wr.remote_qpn = b->side[!s->end].qp->qp_num;
		wr.remote_qkey = QKEY;
	}
	return post_wr(s, &wr.wr, lkey);
}

static int post_send(struct bench *b, struct side *s)
{
	return post_send_lkey(b, s, s->qp->pd->local_dma_lkey);
}

static int post_rdma(struct side *s, enum ib_wr_opcode opcode, u64 addr, u32 rkey)
{
	struct ib_rdma_wr wr = { .wr.opcode = opcode, .remote_addr = addr, .rkey = rkey };

	return post_wr(s, &wr.wr, s->qp->pd->local_dma_lkey);
}

static void account(struct queue *q, const struct ib_wc *wc)
{
	if (wc->status == IB_WC_SUCCESS)
		atomic_inc(&q->good);
	else if (wc->status != FLUSHED)
		atomic_set(&q->error, wc->status);
	/* release: who sees it done, in wait_done(), sees how */
	atomic_fetch_inc_release(&q->done);
}

static struct bench *bench_of(struct side *s)
{
	return container_of(s - s->end, struct bench, side[0]);
}

static bool may_again(struct side *s, const struct ib_wc *wc)
{
	lockdep_assert_held(&s->lock);
	return s->again && wc->status == IB_WC_SUCCESS;
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *s = container_of(wc->wr_cqe, struct side, send.cqe);

	account(&s->send, wc);
	spin_lock_bh(&s->lock);
	if (may_again(s, wc))
		post_send(bench_of(s), s);
	spin_unlock_bh(&s->lock);
}

static void recv_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *s = container_of(wc->wr_cqe, struct side, recv.cqe);

	account(&s->recv, wc);
	spin_lock_bh(&s->lock);
	if (may_again(s, wc))
		post_recv(s);
	spin_unlock_bh(&s->lock);
}

static bool post_sends(struct bench *b, int end, int count)
{
	while (count--)
		if (!ok(!post_send(b, &b->side[end])))
			return false;
	return true;
}

static bool post_recvs(struct bench *b, int end, int count)
{
	while (count--)
		if (!ok(!post_recv(&b->side[end])))
			return false;
	return true;
}

static void process(struct bench *b)
{
	int i;

	for (i = 0; poll_ctx == IB_POLL_DIRECT && i < 2; i++)
		if (b->side[i].cq)
			ib_process_cq_direct(b->side[i].cq, 16);
}

/* let the handlers run until @q has @count completions */
static bool wait_done(struct bench *b, struct queue *q, int count)
{
	unsigned long end = jiffies + LIMIT;

	/* acquire: pairs with account() */
	while (atomic_read_acquire(&q->done) < count) {
		process(b);
		if (!ok(time_before(jiffies, end)))
			return false;
		usleep_range(20, 100);
	}
	return true;
}

/* both ways, whole messages of many packets, for as long as both go on */
static bool pour(struct bench *b)
{
	int i;

	for (i = 0; i < 2; i++) {
		b->side[i].again = true;
		if (!post_recvs(b, i, DEPTH))
			return false;
	}
	for (i = 0; i < 2; i++)
		if (!post_sends(b, i, DEPTH / 2))
			return false;
	for (i = 0; i < 2; i++)
		if (!wait_done(b, &b->side[i].recv, 2 * DEPTH))
			return false;
	return true;
}

/* --- draining --- */

/* nobody may post beside a drain */
static void stop_posting(struct side *s)
{
	spin_lock_bh(&s->lock);
	s->again = false;
	spin_unlock_bh(&s->lock);
}

static bool all_done(struct queue *q)
{
	return ok(atomic_read(&q->done) == atomic_read(&q->posted));
}

static bool quiet(struct side *s)
{
	memset(s->buf, 0xa5, BYTES);
	msleep(20);
	return ok(!memchr_inv(s->buf, 0xa5, BYTES));
}

static bool drain(struct bench *b, int end)
{
	struct side *s = &b->side[end];
	unsigned long start = jiffies;

	stop_posting(s);
	ib_drain_qp(s->qp);
	return ok(time_before(jiffies, start + LIMIT)) && all_done(&s->send) &&
	       all_done(&s->recv) && quiet(s);
}

/* so many of each queue's completions were successes */
static bool drained(struct bench *b, int end, int sends, int recvs)
{
	struct side *s = &b->side[end];

	return drain(b, end) && ok(atomic_read(&s->send.good) == sends) &&
	       ok(atomic_read(&s->recv.good) == recvs) && ok(!atomic_read(&s->send.error)) &&
	       ok(!atomic_read(&s->recv.error));
}

static void drain_work(struct work_struct *work)
{
	struct side *s = container_of(work, struct side, drain);

	ib_drain_qp(s->qp);
}

/* --- cases: every state but RESET, which ib_core lets no QP leave for ERR --- */

static bool init(struct bench *b)
{
	return qp_to_state(b->pair[B], IB_QPS_RESET) && qp_to_init(b->pair[B]) &&
	       post_recvs(b, B, 8) && drained(b, B, 0, 0);
}

static bool rtr(struct bench *b)
{
	return qp_to_state(b->pair[B], IB_QPS_RESET) && qp_to_init(b->pair[B]) &&
	       qp_to_rtr(b->pair, B) && post_recvs(b, B, 8) && drained(b, B, 0, 0);
}

static bool rts(struct bench *b)
{
	return drained(b, A, 0, 0) && post_recvs(b, B, DEPTH) && drained(b, B, 0, 0);
}

/* the peer has no receive for what is sent */
static bool unanswered(struct bench *b)
{
	return post_sends(b, A, DEPTH) && post_recvs(b, A, DEPTH) && drained(b, A, 0, 0);
}

/* nobody answers at all: not as long as the time-outs */
static bool peer_gone(struct bench *b)
{
	return qp_to_state(b->pair[B], IB_QPS_RESET) && qp_to_init(b->pair[B]) &&
	       post_sends(b, A, DEPTH) && drained(b, A, 0, 0);
}

static bool sqd(struct bench *b)
{
	if (!post_recvs(b, B, 8) || !post_sends(b, A, 8) || !wait_done(b, &b->side[A].send, 8))
		return false;
	return qp_to_state(b->pair[A], IB_QPS_SQD) && post_sends(b, A, 8) &&
	       drained(b, A, 8, 0) && drained(b, B, 0, 8);
}

/* consumers post on for a while after an error, and drain more than once */
static bool error(struct bench *b)
{
	return post_recvs(b, A, 8) && qp_to_state(b->pair[A], IB_QPS_ERR) &&
	       post_recvs(b, A, 8) && post_sends(b, A, 8) && drained(b, A, 0, 0) &&
	       post_sends(b, A, 8) && post_recvs(b, A, 8) && drained(b, A, 0, 0) &&
	       drained(b, A, 0, 0);
}

static bool error_of_mine(struct bench *b)
{
	struct side *s = &b->side[A];

	if (!post_recvs(b, A, 8) || !ok(!post_send_lkey(b, s, 0xdead00)) || !post_sends(b, A, 8))
		return false;
	return drain(b, A) && ok(atomic_read(&s->send.good) == 0) && drained(b, B, 0, 0);
}

static bool error_of_peer(struct bench *b)
{
	struct side *s = &b->side[A];

	if (!post_recvs(b, A, 8) || !post_recvs(b, B, 8) ||
	    !ok(!post_rdma(s, IB_WR_RDMA_WRITE, 0, 0xdead00)) || !post_sends(b, A, 8))
		return false;
	/* both are in the error state by now */
	if (!wait_done(b, &s->send, 9) || !ok(atomic_read(&s->send.error) == IB_WC_REM_ACCESS_ERR))
		return false;
	return drain(b, A) && drained(b, B, 0, 0);
}

static bool reads(struct bench *b)
{
	struct side *s = &b->side[A];
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR };
	struct scatterlist sg;
	struct ib_mr *mr;
	bool passed;
	int i;

	mr = ib_alloc_mr(ends[B].pd, IB_MR_TYPE_MEM_REG, BYTES / PAGE_SIZE);
	if (!ok(!IS_ERR(mr)))
		return false;
	sg_init_one(&sg, b->side[B].buf, BYTES);
	ib_dma_map_sg(ends[B].dev, &sg, 1, DMA_BIDIRECTIONAL);
	passed = ok(ib_map_mr_sg(mr, &sg, 1, NULL, PAGE_SIZE) == 1);
	wr.mr = mr;
	wr.key = mr->rkey;
	wr.access = REMOTE | IB_ACCESS_LOCAL_WRITE;
	/* the sends of B are one REG_MR */
	wr.wr.send_flags = IB_SEND_SIGNALED;
	wr.wr.wr_cqe = &b->side[B].send.cqe;
	atomic_inc(&b->side[B].send.posted);
	passed = passed && ok(!ib_post_send(b->pair[B], &wr.wr, NULL)) &&
		 wait_done(b, &b->side[B].send, 1);
	for (i = 0; passed && i < DEPTH; i++)
		passed = ok(!post_rdma(s, IB_WR_RDMA_READ, mr->iova, mr->rkey));
	/* in the middle of the answers */
	passed = passed && wait_done(b, &s->send, 3) && drain(b, A) &&
		 ok(!atomic_read(&s->send.error)) && drained(b, B, 1, 0);
	ib_dereg_mr(mr);
	return passed;
}

/* one end goes while the other pours on */
static bool load(struct bench *b)
{
	return pour(b) && drain(b, B) && drain(b, A);
}

static bool load_both_ends(struct bench *b)
{
	int i;

	if (!pour(b))
		return false;
	for (i = 0; i < 2; i++)
		stop_posting(&b->side[i]);
	for (i = 0; i < 2; i++)
		schedule_work(&b->side[i].drain);
	for (i = 0; i < 2; i++)
		flush_work(&b->side[i].drain);
	return drain(b, A) && drain(b, B);
}

/* the two queues for themselves; each takes the QP to the error state */
static bool load_queues(struct bench *b)
{
	int i;

	if (!pour(b))
		return false;
	for (i = 0; i < 2; i++)
		stop_posting(&b->side[i]);
	ib_drain_rq(b->pair[A]);
	if (!all_done(&b->side[A].recv))
		return false;
	ib_drain_sq(b->pair[B]);
	if (!all_done(&b->side[B].send))
		return false;
	return drain(b, A) && drain(b, B);
}

static bool datagrams_sqe(struct bench *b)
{
	struct ib_qp_init_attr init;
	struct side *s = &b->side[A];
	struct ib_qp_attr attr;

	if (!post_recvs(b, A, 8) || !ok(!post_send_lkey(b, s, 0xdead00)) ||
	    !wait_done(b, &s->send, 1))
		return false;
	return ok(!ib_query_qp(s->qp, &attr, IB_QP_STATE, &init)) &&
	       ok(attr.qp_state == IB_QPS_SQE) && post_sends(b, A, 8) && drain(b, A) &&
	       ok(!atomic_read(&s->send.good));
}

static const struct {
	const char	*name;
	enum ib_qp_type	type;
	bool		(*run)(struct bench *b);
} cases[] = {
	{ "rc.init",		IB_QPT_RC, init },
	{ "rc.rtr",		IB_QPT_RC, rtr },
	{ "rc.rts",		IB_QPT_RC, rts },
	{ "rc.unanswered",	IB_QPT_RC, unanswered },
	{ "rc.peer_gone",	IB_QPT_RC, peer_gone },
	{ "rc.sqd",		IB_QPT_RC, sqd },
	{ "rc.error",		IB_QPT_RC, error },
	{ "rc.error_of_mine",	IB_QPT_RC, error_of_mine },
	{ "rc.error_of_peer",	IB_QPT_RC, error_of_peer },
	{ "rc.reads",		IB_QPT_RC, reads },
	{ "rc.load",		IB_QPT_RC, load },
	{ "rc.load_both_ends",	IB_QPT_RC, load_both_ends },
	{ "rc.load_queues",	IB_QPT_RC, load_queues },
	{ "uc.error",		IB_QPT_UC, error },
	{ "ud.init",		IB_QPT_UD, init },
	{ "ud.rts",		IB_QPT_UD, rts },
	{ "ud.error",		IB_QPT_UD, error },
	{ "ud.sqe",		IB_QPT_UD, datagrams_sqe },
};

/* --- the bench --- */

static bool side_init(struct side *s, enum ib_qp_type type)
{
	struct ib_qp_init_attr init = {
		.qp_type = type,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		/* and one for the drain */
		.cap = { .max_send_wr = DEPTH + 1, .max_recv_wr = DEPTH + 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ib_cq *cq;
	struct ib_qp *qp;

	s->send.cqe.done = send_done;
	s->recv.cqe.done = recv_done;
	spin_lock_init(&s->lock);
	INIT_WORK(&s->drain, drain_work);
	s->length = type == IB_QPT_UD ? 512 : BYTES;
	s->buf = kzalloc(BYTES, GFP_KERNEL);
	if (!ok(s->buf))
		return false;
	cq = ib_alloc_cq(ends[s->end].dev, NULL, 2 * (DEPTH + 1), 0, poll_ctx);
	if (!ok(!IS_ERR(cq)))
		return false;
	s->cq = cq;
	init.send_cq = cq;
	init.recv_cq = cq;
	qp = ib_create_qp(ends[s->end].pd, &init);
	if (!ok(!IS_ERR(qp)))
		return false;
	s->qp = qp;
	if (type == IB_QPT_UD) {
		struct rdma_ah_attr attr;
		struct ib_ah *ah;

		end_ah_attr(&attr, s->end);
		ah = rdma_create_ah(ends[s->end].pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
		if (!ok(!IS_ERR(ah)))
			return false;
		s->ah = ah;
	}
	return true;
}

static bool bench_init(struct bench *b, enum ib_qp_type type)
{
	int i;

	for (i = 0; i < 2; i++) {
		b->side[i].end = i;
		if (!side_init(&b->side[i], type))
			return false;
		b->pair[i] = b->side[i].qp;
	}
	return qp_connect(b->pair, A) && qp_connect(b->pair, B);
}

static void bench_exit(struct bench *b)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct side *s = &b->side[i];

		if (s->qp) {
			stop_posting(s);
			ib_drain_qp(s->qp);
			ib_destroy_qp(s->qp);
		}
		if (s->ah)
			rdma_destroy_ah(s->ah, RDMA_DESTROY_AH_SLEEPABLE);
		if (s->cq)
			ib_free_cq(s->cq);
		kfree(s->buf);
	}
}

static int run_cases(void)
{
	static const struct {
		enum ib_poll_context	ctx;
		const char		*name;
	} contexts[] = {
		{ IB_POLL_DIRECT,	"direct" },
		{ IB_POLL_SOFTIRQ,	"softirq" },
		{ IB_POLL_WORKQUEUE,	"workqueue" },
	};
	int i, j, n = 0;

	pr_info("1..%zu\n", ARRAY_SIZE(contexts) * ARRAY_SIZE(cases));
	for (i = 0; i < ARRAY_SIZE(contexts); i++) {
		poll_ctx = contexts[i].ctx;
		for (j = 0; j < ARRAY_SIZE(cases); j++) {
			struct bench *b = kzalloc(sizeof(*b), GFP_KERNEL);
			bool passed;

			if (!b)
				return -ENOMEM;
			passed = bench_init(b, cases[j].type) && cases[j].run(b);
			bench_exit(b);
			kfree(b);
			pr_info("%sok %d %s.%s\n", passed ? "" : "not ", ++n, contexts[i].name,
				cases[j].name);
		}
	}
	return 0;
}

static int __init kdrain_init(void)
{
	int ret = ends_register();

	if (ret)
		return ret;
	ret = run_cases();
	if (ret)
		ib_unregister_client(&ends_client);
	return ret;
}

static void __exit kdrain_exit(void)
{
	ib_unregister_client(&ends_client);
}

module_init(kdrain_init);
module_exit(kdrain_exit);

MODULE_DESCRIPTION("Test of draining as a kernel consumer");
MODULE_LICENSE("Dual BSD/GPL");
