// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Test of what a kernel consumer gets when memory is short: each allocation of each
 * verb fails in turn, in the loading task. Loaded by tests/selftests/alloc_faults_kernel.sh
 * with the names of two connected devices; runs all cases in its init and prints KTAP
 * into the kernel log, one line "rocev2_kfault: ok ..." or "not ok ..." a case.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "ends.h"

#define BYTES	(4 * PAGE_SIZE)
#define PAGES	512
#define MOST	2000
#define LIMIT	(20 * HZ)

/* what the cases find at each end, beside what ends.h keeps */
struct side {
	struct ib_pd	*pd;	/* with a key for the other end */
	struct ib_cq	*cq;
	struct ib_qp	*qp;
	u8		*buf;
};

static struct side sides[2];

/* what a case has made; its undo() takes it down */
static struct {
	struct ib_pd	*pd;
	struct ib_cq	*cq;
	struct ib_qp	*qp;
	struct ib_mr	*mr;
	struct ib_ah	*ah;
	struct ib_srq	*srq;
	bool		posted;
} made;

#ifdef CONFIG_FAULT_INJECTION
static void arm(unsigned int nth)
{
	current->fail_nth = nth;
}

/* was the allocation reached? */
static bool disarm(void)
{
	bool reached = !current->fail_nth;

	current->fail_nth = 0;
	return reached;
}

static bool available(void)
{
	return true;
}
#else
static void arm(unsigned int nth)
{
}

static bool disarm(void)
{
	return false;
}

static bool available(void)
{
	return false;
}
#endif

/* an ERR_PTR becomes an error, and no object */
#define keep(object, maker)						\
({									\
	typeof(object) __new = (maker);					\
									\
	(object) = IS_ERR(__new) ? NULL : __new;			\
	PTR_ERR_OR_ZERO(__new);						\
})

/* --- states: as in ends.h, but with the errno, and silent: to fail is no news here --- */

static int to_init(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = REMOTE,
	};

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			    IB_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ib_qp *qp, int from)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = sides[!from].qp->qp_num,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 14,
	};

	end_ah_attr(&attr.ah_attr, from);
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			    IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
			    IB_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.timeout = 12,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 16,
	};

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC);
}

static struct ib_qp *make_qp(const struct side *side, enum ib_qp_type type, struct ib_srq *srq)
{
	struct ib_qp_init_attr init = {
		.qp_type = type,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.send_cq = side->cq,
		.recv_cq = side->cq,
		.srq = srq,
		.cap = { .max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 2,
			 .max_recv_sge = 2 },
	};

	return ib_create_qp(side->pd, &init);
}

/* a completion of A's CQ, which nobody else polls */
static int completed(u64 wr_id)
{
	unsigned long end = jiffies + LIMIT;
	struct ib_wc wc;

	while (ib_poll_cq(sides[A].cq, 1, &wc) != 1) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(20, 100);
	}
	if (wc.status != IB_WC_SUCCESS || wc.wr_id != wr_id) {
		pr_info("# request %llu: %s, expected %llu\n", wc.wr_id,
			ib_wc_status_msg(wc.status), wr_id);
		return -EIO;
	}
	return 0;
}

/* --- verbs: 0 or a negative errno --- */

static int alloc_pd(void)
{
	return keep(made.pd, ib_alloc_pd(ends[A].dev, 0));
}

static int alloc_cq_direct(void)
{
	return keep(made.cq, ib_alloc_cq(ends[A].dev, NULL, 100, 0, IB_POLL_DIRECT));
}

static int alloc_cq_workqueue(void)
{
	return keep(made.cq, ib_alloc_cq(ends[A].dev, NULL, 5000, 0, IB_POLL_WORKQUEUE));
}

static int create_qp_rc(void)
{
	return keep(made.qp, make_qp(&sides[A], IB_QPT_RC, NULL));
}

static int create_qp_ud(void)
{
	return keep(made.qp, make_qp(&sides[A], IB_QPT_UD, NULL));
}

static int modify_qp(void)
{
	struct ib_qp *qp = make_qp(&sides[A], IB_QPT_RC, NULL);
	int ret;

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	made.qp = qp;
	ret = to_init(qp);
	ret = ret ?: to_rtr(qp, A);
	return ret ?: to_rts(qp);
}

static int alloc_mr(void)
{
	return keep(made.mr, ib_alloc_mr(sides[A].pd, IB_MR_TYPE_MEM_REG, PAGES));
}

static int create_ah(void)
{
	struct rdma_ah_attr attr;

	end_ah_attr(&attr, A);
	return keep(made.ah, rdma_create_ah(sides[A].pd, &attr, RDMA_CREATE_AH_SLEEPABLE));
}

static int create_srq(void)
{
	struct ib_srq_init_attr init = {
		.srq_type = IB_SRQT_BASIC,
		.attr = { .max_wr = 100, .max_sge = 2 },
	};

	return keep(made.srq, ib_create_srq(sides[A].pd, &init));
}

static int resize_srq(void)
{
	struct ib_srq_attr attr = { .max_wr = 4000 };
	int ret;

	ret = create_srq();
	return ret ?: ib_modify_srq(made.srq, &attr, IB_SRQ_MAX_WR);
}

/* nothing that is posted may fail for want of memory: packets that get none are sent again */
static int post_write(void)
{
	struct ib_sge sge = { (uintptr_t)sides[A].buf, BYTES, sides[A].pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
			.send_flags = IB_SEND_SIGNALED, .wr_id = 1 },
		.remote_addr = (uintptr_t)sides[B].buf,
		.rkey = sides[B].pd->unsafe_global_rkey,
	};
	int ret = ib_post_send(sides[A].qp, &wr.wr, NULL);

	made.posted = !ret;
	return ret;
}

static int fast_register(void)
{
	struct ib_reg_wr reg = {
		.wr = { .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED, .wr_id = 1 },
		.access = IB_ACCESS_LOCAL_WRITE | REMOTE,
	};
	struct scatterlist sg;
	int ret;

	ret = alloc_mr();
	if (ret)
		return ret;
	sg_init_one(&sg, sides[A].buf, BYTES);
	ib_dma_map_sg(ends[A].dev, &sg, 1, DMA_BIDIRECTIONAL);
	if (ib_map_mr_sg(made.mr, &sg, 1, NULL, PAGE_SIZE) != 1)
		return -EIO;
	reg.mr = made.mr;
	reg.key = made.mr->rkey;
	ret = ib_post_send(sides[A].qp, &reg.wr, NULL);
	made.posted = !ret;
	return ret;
}

static int undo(void)
{
	int ret = made.posted ? completed(1) : 0;

	if (made.qp)
		ib_destroy_qp(made.qp);
	if (made.srq)
		ib_destroy_srq(made.srq);
	if (made.cq)
		ib_free_cq(made.cq);
	if (made.mr)
		ib_dereg_mr(made.mr);
	if (made.ah)
		rdma_destroy_ah(made.ah, RDMA_DESTROY_AH_SLEEPABLE);
	if (made.pd)
		ib_dealloc_pd(made.pd);
	memset(&made, 0, sizeof(made));
	return ret;
}

/* new data goes over */
static int works(void)
{
	static u8 byte;
	int ret;

	memset(sides[A].buf, ++byte, BYTES);
	memset(sides[B].buf, 0, BYTES);
	ret = post_write();
	ret = ret ?: undo();
	if (!ret && memchr_inv(sides[B].buf, byte, BYTES))
		ret = -EIO;
	return ret;
}

static const struct {
	const char	*name;
	int		(*verb)(void);
} cases[] = {
	{ "alloc_pd",		alloc_pd },
	{ "alloc_cq_direct",	alloc_cq_direct },
	{ "alloc_cq_workqueue",	alloc_cq_workqueue },
	{ "create_qp_rc",	create_qp_rc },
	{ "create_qp_ud",	create_qp_ud },
	{ "modify_qp",		modify_qp },
	{ "alloc_mr",		alloc_mr },
	{ "create_ah",		create_ah },
	{ "create_srq",		create_srq },
	{ "resize_srq",		resize_srq },
	{ "post_write",		post_write },
	{ "fast_register",	fast_register },
};

static bool run_case(int (*verb)(void))
{
	unsigned int nth, refused = 0, endured = 0, elsewhere = 0;
	bool reached = true;
	int ret, undone;

	/* once without, so that what is made lazily is there */
	ret = verb();
	undone = undo();
	if (ret || undone) {
		pr_info("# without a fault: %pe, %pe\n", ERR_PTR(ret), ERR_PTR(undone));
		return false;
	}
	for (nth = 1; nth < MOST; nth++) {
		arm(nth);
		ret = verb();
		reached = disarm();
		undone = undo();
		if (undone || (ret && (!reached || ret != -ENOMEM))) {
			pr_info("# without allocation %u: %pe, %pe\n", nth, ERR_PTR(ret),
				ERR_PTR(undone));
			return false;
		}
		if (!reached) {
			/*
			 * The verb ended before the nth allocation; or the QP was another
			 * context's at the moment, which then made the packets: again.
			 */
			if (refused || endured || elsewhere++ == 100)
				break;
			nth = 0;
		} else if (ret) {
			refused++;
		} else {
			endured++;
		}
	}
	ret = works();
	pr_info("# %u faults, %u refused with an error, %u endured\n", refused + endured,
		refused, endured);
	if (ret)
		pr_info("# afterwards: %pe\n", ERR_PTR(ret));
	return !ret && !reached && refused + endured;
}

/* --- the bench --- */

static int bench_init(void)
{
	struct ib_device *dev;
	struct side *side;
	int i, ret = 0;

	for (i = 0; i < 2 && !ret; i++) {
		dev = ends[i].dev;
		side = &sides[i];
		side->buf = kzalloc(BYTES, GFP_KERNEL);
		if (!side->buf)
			return -ENOMEM;
		ret = keep(side->pd, ib_alloc_pd(dev, IB_PD_UNSAFE_GLOBAL_RKEY));
		ret = ret ?: keep(side->cq, ib_alloc_cq(dev, NULL, 128, 0, IB_POLL_DIRECT));
		ret = ret ?: keep(side->qp, make_qp(side, IB_QPT_RC, NULL));
		ret = ret ?: to_init(side->qp);
	}
	for (i = 0; i < 2 && !ret; i++)
		ret = to_rtr(sides[i].qp, i);
	for (i = 0; i < 2 && !ret; i++)
		ret = to_rts(sides[i].qp);
	return ret;
}

static void bench_exit(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (sides[i].qp)
			ib_destroy_qp(sides[i].qp);
		if (sides[i].cq)
			ib_free_cq(sides[i].cq);
		if (sides[i].pd)
			ib_dealloc_pd(sides[i].pd);
		kfree(sides[i].buf);
	}
}

static void run_cases(void)
{
	int i, ret;

	pr_info("1..%zu\n", ARRAY_SIZE(cases));
	ret = bench_init();
	if (ret)
		pr_info("# bench: %pe\n", ERR_PTR(ret));
	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *no = "not ";

		if (!ret && run_case(cases[i].verb))
			no = "";
		pr_info("%sok %d %s\n", no, i + 1, cases[i].name);
	}
	bench_exit();
}

static int __init kfault_init(void)
{
	int ret;

	if (!available())
		return -EOPNOTSUPP;
	ret = ends_register();
	if (ret)
		return ret;
	run_cases();
	return 0;
}

static void __exit kfault_exit(void)
{
	ib_unregister_client(&ends_client);
}

module_init(kfault_init);
module_exit(kfault_exit);

MODULE_DESCRIPTION("Test of RDMA devices as a kernel consumer short of memory");
MODULE_LICENSE("Dual BSD/GPL");
