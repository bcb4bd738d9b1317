// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Test of what only a kernel consumer can do: fast registration, invalidation,
 * draining, CQs that the core moderates. Loaded by tests/selftests/fast_reg.sh with the
 * names of two connected devices; runs all cases in its init and prints KTAP into the
 * kernel log, one line "rocev2_ktest: ok ..." or "not ok ..." a case. A asks, B owns the
 * memory.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/dim.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ends.h"

static bool lossy;
module_param(lossy, bool, 0444);
MODULE_PARM_DESC(lossy, "packets get lost on the way");

#define CONNS	3
#define PAGES	512
#define BYTES	(PAGES * PAGE_SIZE)
#define LIMIT	(20 * HZ)
#define ALL	(IB_ACCESS_LOCAL_WRITE | REMOTE)
/* as the mapping says */
#define OWN_IOVA	(~0ull)

struct conn {
	struct ib_cq	*cq[2];
	struct ib_qp	*qp[2];
};

/* a work request and its completion */
struct op {
	struct ib_cqe		cqe;
	struct completion	done;
	struct ib_wc		wc;
};

/* memory of B: single pages that are not neighbours, and how they look in a row */
struct mem {
	struct page		*pages[PAGES];
	u8			*view;
	struct scatterlist	sg[PAGES];
	u32			num;
	u32			offset;
	u32			length;
};

/* what each case gets, fresh */
struct bench {
	struct conn	conn[CONNS];
	struct mem	*mem;
	struct ib_mr	*mr;
	u8		*src;
	u8		*dst;
};

static enum ib_poll_context poll_ctx;

/* --- work requests --- */

static void op_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct op *op = container_of(wc->wr_cqe, struct op, cqe);

	op->wc = *wc;
	complete(&op->done);
}

/* not on the stack: after a failure the queues are drained when the case has returned */
static struct op *op_new(void)
{
	static struct op pool[128];
	static unsigned int next;

	return &pool[next++ % ARRAY_SIZE(pool)];
}

static void op_init(struct op *op)
{
	op->cqe.done = op_done;
	init_completion(&op->done);
}

static bool op_wait_any(struct ib_cq *cq, struct op *op)
{
	unsigned long end = jiffies + LIMIT;

	while (poll_ctx == IB_POLL_DIRECT && !completion_done(&op->done)) {
		ib_process_cq_direct(cq, -1);
		if (!ok(time_before(jiffies, end)))
			return false;
		cond_resched();
	}
	if (!ok(wait_for_completion_timeout(&op->done, LIMIT)))
		return false;
	return true;
}

static bool op_wait(struct ib_cq *cq, struct op *op, enum ib_wc_status status)
{
	if (!ok(op_wait_any(cq, op)))
		return false;
	/* a lost NAK is not repeated: the peer's QP is in the error state (IBA 9.9.3) */
	if (lossy && status == IB_WC_REM_ACCESS_ERR && op->wc.status == IB_WC_RETRY_EXC_ERR)
		return true;
	if (op->wc.status != status)
		pr_info("# completed with %s, not %s\n", ib_wc_status_msg(op->wc.status),
			ib_wc_status_msg(status));
	if (!ok(op->wc.status == status))
		return false;
	return true;
}

static bool post(struct ib_qp *qp, struct op *op, struct ib_send_wr *wr)
{
	op_init(op);
	wr->wr_cqe = &op->cqe;
	wr->send_flags |= IB_SEND_SIGNALED;
	if (!ok(!ib_post_send(qp, wr, NULL)))
		return false;
	return true;
}

static bool post_recv(struct ib_qp *qp, struct op *op, void *addr, u32 length)
{
	struct ib_sge sge = { (uintptr_t)addr, length, qp->pd->local_dma_lkey };
	struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = length ? 1 : 0 };

	op_init(op);
	wr.wr_cqe = &op->cqe;
	if (!ok(!ib_post_recv(qp, &wr, NULL)))
		return false;
	return true;
}

/* A's RDMA request */
static bool rdma(struct conn *c, enum ib_wr_opcode opcode, void *addr, u32 length, u32 rkey,
		 u64 raddr, enum ib_wc_status status)
{
	struct ib_sge sge = { (uintptr_t)addr, length, c->qp[A]->pd->local_dma_lkey };
	struct ib_rdma_wr wr = {
		.wr = { .opcode = opcode, .sg_list = &sge, .num_sge = 1 },
		.remote_addr = raddr,
		.rkey = rkey,
	};
	struct op *op = op_new();

	if (!ok(post(c->qp[A], op, &wr.wr)))
		return false;
	return op_wait(c->cq[A], op, status);
}

static struct ib_send_wr inv_wr(enum ib_wr_opcode opcode, u32 key)
{
	return (struct ib_send_wr){ .opcode = opcode, .ex.invalidate_rkey = key };
}

static struct ib_reg_wr reg_of(struct ib_mr *mr, u32 key, int access)
{
	return (struct ib_reg_wr){
		.wr = { .opcode = IB_WR_REG_MR },
		.mr = mr,
		.key = key,
		.access = access,
	};
}

static bool local_inv(struct conn *c, u32 key, enum ib_wc_status status)
{
	struct ib_send_wr wr = inv_wr(IB_WR_LOCAL_INV, key);
	struct op *op = op_new();

	if (!ok(post(c->qp[B], op, &wr)))
		return false;
	if (!ok(op_wait(c->cq[B], op, status)))
		return false;
	if (!ok(status != IB_WC_SUCCESS || op->wc.opcode == IB_WC_LOCAL_INV))
		return false;
	return true;
}

static u32 new_key(struct ib_mr *mr)
{
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	return mr->rkey;
}

/* B maps its memory and registers it with the MR's next key */
static bool fast_reg_as(struct bench *b, struct conn *c, u32 page_size, u64 iova, int access,
			enum ib_wc_status status)
{
	struct ib_reg_wr wr;
	struct op *op = op_new();

	if (!ok(ib_map_mr_sg(b->mr, b->mem->sg, b->mem->num, NULL, page_size) == b->mem->num))
		return false;
	if (!ok(b->mr->length == b->mem->length))
		return false;
	if (iova != OWN_IOVA)
		b->mr->iova = iova;
	wr = reg_of(b->mr, new_key(b->mr), access);
	if (!ok(post(c->qp[B], op, &wr.wr)))
		return false;
	if (!ok(op_wait(c->cq[B], op, status)))
		return false;
	if (!ok(status != IB_WC_SUCCESS || op->wc.opcode == IB_WC_REG_MR))
		return false;
	return true;
}

static bool fast_reg(struct bench *b, int access)
{
	return fast_reg_as(b, &b->conn[0], PAGE_SIZE, OWN_IOVA, access, IB_WC_SUCCESS);
}

/* --- memory --- */

static void mem_set(struct mem *m, u32 num, u32 offset, u32 length)
{
	u32 i, left = length;

	sg_init_table(m->sg, num);
	for (i = 0; i < num; i++) {
		u32 off = i ? 0 : offset;
		u32 len = min_t(u32, left, PAGE_SIZE - off);

		sg_set_page(&m->sg[i], m->pages[i], len, off);
		left -= len;
	}
	WARN_ON(left);
	/* a device without DMA: no unmapping, kernel addresses stay what they are */
	ib_dma_map_sg(ends[B].dev, m->sg, num, DMA_BIDIRECTIONAL);
	m->num = num;
	m->offset = offset;
	m->length = length;
}

static void mem_poison(struct mem *m)
{
	memset(m->view, 0xa5, BYTES);
}

/* the registered bytes are the first of @want, the others are poison */
static bool mem_holds(struct mem *m, const u8 *want)
{
	if (!ok(!memcmp(m->view + m->offset, want, m->length)))
		return false;
	if (!ok(!m->offset || !memchr_inv(m->view, 0xa5, m->offset)))
		return false;
	if (!ok(!memchr_inv(m->view + m->offset + m->length, 0xa5, BYTES - m->offset - m->length)))
		return false;
	return true;
}

static bool write_and_read(struct bench *b, struct conn *c, u32 key, u64 iova)
{
	get_random_bytes(b->src, b->mem->length);
	mem_poison(b->mem);
	if (!ok(rdma(c, IB_WR_RDMA_WRITE, b->src, b->mem->length, key, iova, IB_WC_SUCCESS)))
		return false;
	if (!ok(mem_holds(b->mem, b->src)))
		return false;
	memset(b->dst, 0, b->mem->length);
	if (!ok(rdma(c, IB_WR_RDMA_READ, b->dst, b->mem->length, key, iova, IB_WC_SUCCESS)))
		return false;
	if (!ok(!memcmp(b->dst, b->src, b->mem->length)))
		return false;
	return true;
}

static bool refused(struct bench *b, struct conn *c, u32 key, u64 raddr, u32 length)
{
	mem_poison(b->mem);
	if (!ok(rdma(c, IB_WR_RDMA_WRITE, b->src, length, key, raddr, IB_WC_REM_ACCESS_ERR)))
		return false;
	if (!ok(!memchr_inv(b->mem->view, 0xa5, BYTES)))
		return false;
	return true;
}

/* --- cases --- */

static bool attributes(struct bench *b)
{
	const struct ib_device_attr *attr = &ends[B].dev->attrs;
	struct ib_mr *mr;

	if (!ok(attr->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return false;
	if (!ok(attr->max_fast_reg_page_list_len >= PAGES))
		return false;
	mr = ib_alloc_mr(ends[B].pd, IB_MR_TYPE_MEM_REG, attr->max_fast_reg_page_list_len + 1);
	if (!ok(IS_ERR(mr)))
		return false;
	mr = ib_alloc_mr(ends[B].pd, IB_MR_TYPE_SG_GAPS, 16);
	if (!ok(IS_ERR(mr)))
		return false;
	/* more elements than fit: the number that did */
	mr = ib_alloc_mr(ends[B].pd, IB_MR_TYPE_MEM_REG, 4);
	if (!ok(!IS_ERR(mr)))
		return false;
	if (!ok(ib_map_mr_sg(mr, b->mem->sg, b->mem->num, NULL, PAGE_SIZE) == 4))
		return false;
	if (!ok(mr->length == 4 * PAGE_SIZE - b->mem->offset))
		return false;
	if (!ok(ib_map_mr_sg(mr, b->mem->sg, b->mem->num, NULL, 3000) < 0))
		return false;
	if (!ok(!ib_dereg_mr(mr)))
		return false;
	return true;
}

static bool write_read(struct bench *b)
{
	if (!ok(fast_reg(b, ALL)))
		return false;
	if (!ok(write_and_read(b, &b->conn[0], b->mr->rkey, b->mr->iova)))
		return false;
	/* any QP of the PD, and one byte beyond either end by none */
	if (!ok(write_and_read(b, &b->conn[1], b->mr->rkey, b->mr->iova)))
		return false;
	if (!ok(refused(b, &b->conn[1], b->mr->rkey, b->mr->iova + b->mem->length - 7, 8)))
		return false;
	if (!ok(refused(b, &b->conn[2], b->mr->rkey, b->mr->iova - 1, 8)))
		return false;
	return true;
}

static bool zero_based(struct bench *b)
{
	if (!ok(fast_reg_as(b, &b->conn[0], PAGE_SIZE, OWN_IOVA, ALL | IB_ZERO_BASED,
			    IB_WC_SUCCESS)))
		return false;
	if (!ok(write_and_read(b, &b->conn[0], b->mr->rkey, 0)))
		return false;
	if (!ok(local_inv(&b->conn[0], b->mr->rkey, IB_WC_SUCCESS)))
		return false;
	if (!ok(fast_reg_as(b, &b->conn[0], PAGE_SIZE, 0, ALL, IB_WC_SUCCESS)))
		return false;
	if (!ok(write_and_read(b, &b->conn[0], b->mr->rkey, 0)))
		return false;
	if (!ok(refused(b, &b->conn[1], b->mr->rkey, ~0ull, 8)))
		return false;
	return true;
}

static bool page_sizes(struct bench *b)
{
	static const u32 sizes[] = { 8, 512, PAGE_SIZE };
	u32 i, offset = 1 << 12;
	struct scatterlist sg;

	/* 16 bytes of the first and of the second page */
	mem_set(b->mem, 2, PAGE_SIZE - 16, 32);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		if (!ok(fast_reg_as(b, &b->conn[0], sizes[i], 0x123450000 + i, ALL, IB_WC_SUCCESS)))
			return false;
		if (!ok(write_and_read(b, &b->conn[0], b->mr->rkey, 0x123450000 + i)))
			return false;
		if (!ok(local_inv(&b->conn[0], b->mr->rkey, IB_WC_SUCCESS)))
			return false;
	}
	/* larger than ours: one piece that begins and ends within such pages */
	for (i = PAGE_SHIFT + 1; i <= 20; i++) {
		struct ib_reg_wr wr;
		struct op *op = op_new();

		sg_init_one(&sg, b->dst + offset + 100, BYTES / 2);
		ib_dma_map_sg(ends[B].dev, &sg, 1, DMA_BIDIRECTIONAL);
		if (!ok(ib_map_mr_sg(b->mr, &sg, 1, NULL, 1 << i) == 1))
			return false;
		wr = reg_of(b->mr, new_key(b->mr), ALL);
		if (!ok(post(b->conn[0].qp[B], op, &wr.wr)))
			return false;
		if (!ok(op_wait(b->conn[0].cq[B], op, IB_WC_SUCCESS)))
			return false;
		get_random_bytes(b->src, BYTES / 2);
		if (!ok(rdma(&b->conn[0], IB_WR_RDMA_WRITE, b->src, BYTES / 2, b->mr->rkey,
			     b->mr->iova, IB_WC_SUCCESS)))
			return false;
		if (!ok(!memcmp(b->dst + offset + 100, b->src, BYTES / 2)))
			return false;
		if (!ok(local_inv(&b->conn[0], b->mr->rkey, IB_WC_SUCCESS)))
			return false;
	}
	return true;
}

static bool full_list(struct bench *b)
{
	mem_set(b->mem, PAGES, 0, BYTES);
	if (!ok(fast_reg(b, ALL)))
		return false;
	if (!ok(write_and_read(b, &b->conn[0], b->mr->rkey, b->mr->iova)))
		return false;
	return true;
}

static bool rights(struct bench *b)
{
	if (!ok(fast_reg(b, IB_ACCESS_REMOTE_READ)))
		return false;
	if (!ok(rdma(&b->conn[0], IB_WR_RDMA_READ, b->dst, 8, b->mr->rkey, b->mr->iova,
		     IB_WC_SUCCESS)))
		return false;
	if (!ok(refused(b, &b->conn[0], b->mr->rkey, b->mr->iova, 8)))
		return false;
	return true;
}

/* SEND from the registration and receive into it */
static bool as_lkey(struct bench *b)
{
	struct conn *c = &b->conn[0];
	struct ib_send_wr wr = { .opcode = IB_WR_SEND, .num_sge = 1 };
	struct ib_recv_wr rwr = { .num_sge = 1 };
	struct ib_sge sge;
	struct op *op = op_new();
	struct op *rop = op_new();

	if (!ok(fast_reg(b, IB_ACCESS_LOCAL_WRITE)))
		return false;
	sge = (struct ib_sge){ b->mr->iova, b->mem->length, b->mr->lkey };
	get_random_bytes(b->mem->view, BYTES);
	if (!ok(post_recv(c->qp[A], rop, b->dst, b->mem->length)))
		return false;
	wr.sg_list = &sge;
	if (!ok(post(c->qp[B], op, &wr)))
		return false;
	if (!ok(op_wait(c->cq[B], op, IB_WC_SUCCESS)))
		return false;
	if (!ok(op_wait(c->cq[A], rop, IB_WC_SUCCESS)))
		return false;
	if (!ok(!memcmp(b->dst, b->mem->view + b->mem->offset, b->mem->length)))
		return false;

	mem_poison(b->mem);
	get_random_bytes(b->src, b->mem->length);
	op_init(rop);
	rwr.wr_cqe = &rop->cqe;
	rwr.sg_list = &sge;
	if (!ok(!ib_post_recv(c->qp[B], &rwr, NULL)))
		return false;
	sge = (struct ib_sge){ (uintptr_t)b->src, b->mem->length, c->qp[A]->pd->local_dma_lkey };
	if (!ok(post(c->qp[A], op, &wr)))
		return false;
	if (!ok(op_wait(c->cq[A], op, IB_WC_SUCCESS)))
		return false;
	if (!ok(op_wait(c->cq[B], rop, IB_WC_SUCCESS)))
		return false;
	if (!ok(mem_holds(b->mem, b->src)))
		return false;
	return true;
}

static bool stale_key(struct bench *b)
{
	u32 first, second;

	if (!ok(fast_reg(b, ALL)))
		return false;
	first = b->mr->rkey;
	/* the other QPs have it in their translation caches too */
	if (!ok(write_and_read(b, &b->conn[1], first, b->mr->iova)))
		return false;
	if (!ok(write_and_read(b, &b->conn[2], first, b->mr->iova)))
		return false;
	if (!ok(local_inv(&b->conn[0], first, IB_WC_SUCCESS)))
		return false;
	if (!ok(refused(b, &b->conn[1], first, b->mr->iova, 8)))
		return false;
	if (!ok(fast_reg(b, ALL)))
		return false;
	second = b->mr->rkey;
	if (!ok(second >> 8 == first >> 8 && second != first))
		return false;
	if (!ok(write_and_read(b, &b->conn[0], second, b->mr->iova)))
		return false;
	if (!ok(refused(b, &b->conn[2], first, b->mr->iova, 8)))
		return false;
	if (!ok(write_and_read(b, &b->conn[0], second, b->mr->iova)))
		return false;
	return true;
}

/* keys come back after 256 registrations */
static bool many_keys(struct bench *b)
{
	int i;

	mem_set(b->mem, 2, 1000, PAGE_SIZE);
	for (i = 0; i < 600; i++) {
		if (!ok(fast_reg(b, ALL)))
			return false;
		if (!ok(write_and_read(b, &b->conn[i & 1], b->mr->rkey, b->mr->iova)))
			return false;
		if (!ok(local_inv(&b->conn[0], b->mr->rkey, IB_WC_SUCCESS)))
			return false;
	}
	return true;
}

static bool refused_reg_valid(struct bench *b)
{
	u32 first;

	if (!ok(fast_reg(b, ALL)))
		return false;
	first = b->mr->rkey;
	if (!ok(fast_reg_as(b, &b->conn[0], PAGE_SIZE, OWN_IOVA, ALL, IB_WC_MW_BIND_ERR)))
		return false;
	/* as it was */
	if (!ok(write_and_read(b, &b->conn[1], first, b->mr->iova)))
		return false;
	if (!ok(refused(b, &b->conn[1], b->mr->rkey, b->mr->iova, 8)))
		return false;
	return true;
}

static bool refused_reg_access(struct bench *b)
{
	return fast_reg_as(b, &b->conn[0], PAGE_SIZE, OWN_IOVA, IB_ACCESS_REMOTE_WRITE,
			   IB_WC_MW_BIND_ERR) &&
	       fast_reg_as(b, &b->conn[1], PAGE_SIZE, OWN_IOVA, ALL | IB_ACCESS_MW_BIND,
			   IB_WC_MW_BIND_ERR);
}

static bool refused_reg_wrap(struct bench *b)
{
	return fast_reg_as(b, &b->conn[0], PAGE_SIZE, ~0ull - b->mem->length + 2, ALL,
			   IB_WC_MW_BIND_ERR);
}

static bool refused_reg_index(struct bench *b)
{
	struct ib_reg_wr wr = reg_of(b->mr, b->mr->rkey ^ 0x10000, ALL);

	if (!ok(ib_post_send(b->conn[0].qp[B], &wr.wr, NULL) == -EINVAL))
		return false;
	return true;
}

static bool refused_inv(struct bench *b)
{
	if (!ok(local_inv(&b->conn[0], b->mr->rkey, IB_WC_MW_BIND_ERR)))
		return false;
	if (!ok(fast_reg_as(b, &b->conn[1], PAGE_SIZE, OWN_IOVA, ALL, IB_WC_SUCCESS)))
		return false;
	if (!ok(local_inv(&b->conn[1], ib_inc_rkey(b->mr->rkey), IB_WC_MW_BIND_ERR)))
		return false;
	if (!ok(write_and_read(b, &b->conn[2], b->mr->rkey, b->mr->iova)))
		return false;
	return true;
}

static bool send_inv(struct conn *c, u32 key, enum ib_wc_status status, struct op *rop)
{
	struct ib_send_wr wr = inv_wr(IB_WR_SEND_WITH_INV, key);
	struct op *op = op_new();

	if (!ok(post_recv(c->qp[B], rop, NULL, 0)))
		return false;
	if (!ok(post(c->qp[A], op, &wr)))
		return false;
	return op_wait(c->cq[A], op, status);
}

static bool send_with_inv(struct bench *b)
{
	struct op *rop = op_new();
	u32 key;

	if (!ok(fast_reg(b, ALL)))
		return false;
	key = b->mr->rkey;
	if (!ok(write_and_read(b, &b->conn[1], key, b->mr->iova)))
		return false;
	if (!ok(send_inv(&b->conn[0], key, IB_WC_SUCCESS, rop)))
		return false;
	if (!ok(op_wait(b->conn[0].cq[B], rop, IB_WC_SUCCESS)))
		return false;
	if (!ok(rop->wc.wc_flags == IB_WC_WITH_INVALIDATE && rop->wc.ex.invalidate_rkey == key))
		return false;
	if (!ok(refused(b, &b->conn[1], key, b->mr->iova, 8)))
		return false;
	/* B need not invalidate it any more */
	if (!ok(fast_reg(b, ALL)))
		return false;
	if (!ok(write_and_read(b, &b->conn[2], b->mr->rkey, b->mr->iova)))
		return false;
	return true;
}

/* the peer may not take what it was not given */
static bool refused_send_with_inv(struct bench *b)
{
	struct op *rop = op_new();

	if (!ok(fast_reg(b, IB_ACCESS_LOCAL_WRITE)))
		return false;
	if (!ok(send_inv(&b->conn[1], b->mr->rkey, IB_WC_REM_ACCESS_ERR, rop)))
		return false;
	if (!ok(op_wait(b->conn[1].cq[B], rop, IB_WC_LOC_ACCESS_ERR)))
		return false;
	if (!ok(local_inv(&b->conn[0], b->mr->rkey, IB_WC_SUCCESS)))
		return false;
	return true;
}

/*
 * As storage drivers do: map for the next transfer while the last key still works,
 * then one post that takes the old key back, gives a new one and tells the peer.
 */
static bool pipeline(struct bench *b)
{
	struct conn *c = &b->conn[0];
	struct op *op = op_new();
	struct op *rop = op_new();
	int i;

	mem_set(b->mem, 3, 100, 2 * PAGE_SIZE);
	if (!ok(fast_reg(b, ALL)))
		return false;
	for (i = 0; i < 500; i++) {
		struct ib_send_wr inv = inv_wr(IB_WR_LOCAL_INV, b->mr->rkey);
		struct ib_send_wr tell = { .opcode = IB_WR_SEND };
		struct ib_reg_wr reg;
		u64 old = b->mr->iova;
		u32 *key = (u32 *)b->dst;
		struct ib_sge sge;

		mem_set(b->mem, 3, 100 + i, 2 * PAGE_SIZE);
		if (!ok(ib_map_mr_sg(b->mr, b->mem->sg, 3, NULL, PAGE_SIZE) == 3))
			return false;
		/* mapped anew, and still what it was */
		if (!ok(rdma(c, IB_WR_RDMA_WRITE, b->src, 8, b->mr->rkey, old, IB_WC_SUCCESS)))
			return false;
		reg = reg_of(b->mr, new_key(b->mr), ALL);
		*key = b->mr->rkey;
		sge = (struct ib_sge){ (uintptr_t)key, sizeof(*key), ends[B].pd->local_dma_lkey };
		tell.sg_list = &sge;
		tell.num_sge = 1;
		inv.next = &reg.wr;
		reg.wr.next = &tell;
		if (!ok(post_recv(c->qp[A], rop, b->src + BYTES - 4, 4)))
			return false;
		op_init(op);
		tell.wr_cqe = &op->cqe;
		tell.send_flags = IB_SEND_SIGNALED;
		if (!ok(!ib_post_send(c->qp[B], &inv, NULL)))
			return false;
		if (!ok(op_wait(c->cq[A], rop, IB_WC_SUCCESS)))
			return false;
		if (!ok(*(u32 *)(b->src + BYTES - 4) == b->mr->rkey))
			return false;
		if (!ok(op_wait(c->cq[B], op, IB_WC_SUCCESS)))
			return false;
		if (!ok(write_and_read(b, c, b->mr->rkey, b->mr->iova)))
			return false;
	}
	return true;
}

/* what is not acknowledged yet may be sent again: the key must last as long */
static bool inv_behind_send(struct bench *b)
{
	struct conn *c = &b->conn[0];
	int i;

	mem_set(b->mem, 64, 0, 64 * PAGE_SIZE);
	for (i = 0; i < 20; i++) {
		struct ib_send_wr wr = { .opcode = IB_WR_SEND, .num_sge = 1 };
		struct ib_send_wr inv;
		struct ib_sge sge;
		struct op *op = op_new();
		struct op *iop = op_new();
		struct op *rop = op_new();

		if (!ok(fast_reg(b, IB_ACCESS_LOCAL_WRITE)))
			return false;
		get_random_bytes(b->mem->view, b->mem->length);
		sge = (struct ib_sge){ b->mr->iova, b->mem->length, b->mr->lkey };
		wr.sg_list = &sge;
		inv = inv_wr(IB_WR_LOCAL_INV, b->mr->lkey);
		if (!ok(post_recv(c->qp[A], rop, b->dst, b->mem->length)))
			return false;
		if (!ok(post(c->qp[B], op, &wr)))
			return false;
		if (!ok(post(c->qp[B], iop, &inv)))
			return false;
		if (!ok(op_wait(c->cq[A], rop, IB_WC_SUCCESS)))
			return false;
		if (!ok(op_wait(c->cq[B], op, IB_WC_SUCCESS)))
			return false;
		if (!ok(op_wait(c->cq[B], iop, IB_WC_SUCCESS)))
			return false;
		if (!ok(!memcmp(b->dst, b->mem->view, b->mem->length)))
			return false;
	}
	return true;
}

/* once LOCAL_INV has completed, nobody writes any more, whatever is under way */
static bool inv_under_writes(struct bench *b)
{
	struct ib_sge sge = { (uintptr_t)b->src, 64 * PAGE_SIZE, ends[A].pd->local_dma_lkey };
	struct conn *c = &b->conn[1];
	struct op *ops[16];
	int i;

	mem_set(b->mem, 64, 0, 64 * PAGE_SIZE);
	if (!ok(fast_reg(b, ALL)))
		return false;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		struct ib_rdma_wr wr = {
			.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
			.remote_addr = b->mr->iova,
			.rkey = b->mr->rkey,
		};

		ops[i] = op_new();
		if (!ok(post(c->qp[A], ops[i], &wr.wr)))
			return false;
	}
	if (!ok(local_inv(&b->conn[0], b->mr->rkey, IB_WC_SUCCESS)))
		return false;
	mem_poison(b->mem);
	msleep(50);
	if (!ok(!memchr_inv(b->mem->view, 0xa5, BYTES)))
		return false;
	/* some of them came through, one was refused, the others flush */
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (!ok(op_wait_any(c->cq[A], ops[i])))
			return false;
	if (!ok(!memchr_inv(b->mem->view, 0xa5, BYTES)))
		return false;
	return true;
}

static bool dereg_under_writes(struct bench *b)
{
	struct ib_sge sge = { (uintptr_t)b->src, 64 * PAGE_SIZE, ends[A].pd->local_dma_lkey };
	struct conn *c = &b->conn[1];
	struct op *ops[16];
	int i;

	mem_set(b->mem, 64, 0, 64 * PAGE_SIZE);
	if (!ok(fast_reg(b, ALL)))
		return false;
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		struct ib_rdma_wr wr = {
			.wr = { .opcode = IB_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1 },
			.remote_addr = b->mr->iova,
			.rkey = b->mr->rkey,
		};

		ops[i] = op_new();
		if (!ok(post(c->qp[A], ops[i], &wr.wr)))
			return false;
	}
	if (!ok(!ib_dereg_mr(b->mr)))
		return false;
	b->mr = NULL;
	mem_poison(b->mem);
	for (i = 0; i < ARRAY_SIZE(ops); i++)
		if (!ok(op_wait_any(c->cq[A], ops[i])))
			return false;
	if (!ok(!memchr_inv(b->mem->view, 0xa5, BYTES)))
		return false;
	return true;
}

/* a REG_MR that waits in the queue outlives its MR */
static bool dereg_before_reg(struct bench *b)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_SQD };
	struct conn *c = &b->conn[0];
	struct op *op = op_new();
	struct ib_reg_wr reg;

	if (!ok(ib_map_mr_sg(b->mr, b->mem->sg, b->mem->num, NULL, PAGE_SIZE) == b->mem->num))
		return false;
	reg = reg_of(b->mr, new_key(b->mr), ALL);
	/* the send queue stands still */
	if (!ok(!ib_modify_qp(c->qp[B], &attr, IB_QP_STATE)))
		return false;
	if (!ok(post(c->qp[B], op, &reg.wr)))
		return false;
	if (!ok(!ib_dereg_mr(b->mr)))
		return false;
	b->mr = NULL;
	attr.qp_state = IB_QPS_RTS;
	if (!ok(!ib_modify_qp(c->qp[B], &attr, IB_QP_STATE)))
		return false;
	return op_wait(c->cq[B], op, IB_WC_MW_BIND_ERR);
}

/* all that is posted flushes, on both queues, and draining returns */
static bool drain(struct bench *b)
{
	struct conn *c = &b->conn[0];
	struct op *recvs[8];
	struct op *sends[8];
	int i;

	for (i = 0; i < ARRAY_SIZE(recvs); i++) {
		recvs[i] = op_new();
		if (!ok(post_recv(c->qp[B], recvs[i], NULL, 0)))
			return false;
	}
	/* A has no receive: the first waits, the others behind it */
	for (i = 0; i < ARRAY_SIZE(sends); i++) {
		struct ib_send_wr wr = { .opcode = i & 1 ? IB_WR_LOCAL_INV : IB_WR_SEND,
					 .ex.invalidate_rkey = b->mr->rkey };

		sends[i] = op_new();
		if (!ok(post(c->qp[B], sends[i], &wr)))
			return false;
	}
	ib_drain_qp(c->qp[B]);
	for (i = 0; i < ARRAY_SIZE(recvs); i++)
		if (!ok(op_wait(c->cq[B], recvs[i], IB_WC_WR_FLUSH_ERR)))
			return false;
	for (i = 0; i < ARRAY_SIZE(sends); i++)
		if (!ok(op_wait(c->cq[B], sends[i], IB_WC_WR_FLUSH_ERR)))
			return false;
	return true;
}

/* --- completion moderation --- */

static bool conn_init(struct conn *c);

/* messages from A, posted and not awaited */
static bool messages(struct conn *c, struct op **recvs, struct op **sends, int count)
{
	int i;

	for (i = 0; i < count; i++) {
		recvs[i] = op_new();
		if (!ok(post_recv(c->qp[B], recvs[i], NULL, 0)))
			return false;
	}
	for (i = 0; i < count; i++) {
		struct ib_send_wr wr = { .opcode = IB_WR_SEND };

		sends[i] = op_new();
		if (!ok(post(c->qp[A], sends[i], &wr)))
			return false;
	}
	return true;
}

/* microseconds until all of them were received */
static bool exchange(struct conn *c, int count, s64 *us)
{
	struct op *recvs[16], *sends[16];
	ktime_t start = ktime_get();
	int i;

	if (!messages(c, recvs, sends, count))
		return false;
	for (i = 0; i < count; i++)
		if (!ok(op_wait(c->cq[B], recvs[i], IB_WC_SUCCESS)))
			return false;
	*us = ktime_us_delta(ktime_get(), start);
	for (i = 0; i < count; i++)
		if (!ok(op_wait(c->cq[A], sends[i], IB_WC_SUCCESS)))
			return false;
	return true;
}

/* other work may delay one exchange, not all */
static bool exchange_within(struct conn *c, int count, s64 limit)
{
	s64 us;
	int i;

	for (i = 0; i < 20; i++) {
		if (!exchange(c, count, &us))
			return false;
		if (us < limit)
			return true;
	}
	pr_info("# %d messages took %lld us\n", count, us);
	return ok(us < limit);
}

static bool moderation(struct bench *b)
{
	const struct ib_cq_caps *caps = &ends[B].dev->attrs.cq_caps;
	struct conn *c = &b->conn[0];
	struct ib_cq *cq = c->cq[B];
	s64 us;
	int i;

	if (!ok(caps->max_cq_moderation_count >= 100 && caps->max_cq_moderation_period >= 10000))
		return false;
	if (!ok(rdma_set_cq_moderation(cq, caps->max_cq_moderation_count + 1, 1) == -EINVAL) ||
	    !ok(rdma_set_cq_moderation(cq, 1, caps->max_cq_moderation_period + 1) == -EINVAL))
		return false;

	/* nobody waits for events of a CQ that is polled directly */
	if (!ok(!rdma_set_cq_moderation(cq, 100, 5000)))
		return false;
	for (i = 0; i < 5; i++) {
		if (!exchange(c, 2, &us))
			return false;
		if (!ok(us >= 5000 || poll_ctx == IB_POLL_DIRECT))
			return false;
	}
	if (!ok(!rdma_set_cq_moderation(cq, 4, caps->max_cq_moderation_period)))
		return false;
	if (!exchange_within(c, 4, caps->max_cq_moderation_period))
		return false;
	if (!ok(!rdma_set_cq_moderation(cq, 0, 0)))
		return false;
	return exchange_within(c, 1, caps->max_cq_moderation_period);
}

/* QPs and CQs go while an event is held: the consumer's work is not queued again */
static bool moderation_free(struct bench *b)
{
	struct op *recvs[3], *sends[3];
	bool passed = true;
	int i, j;

	for (i = 0; i < 100 && passed; i++) {
		struct conn c = {};

		passed = conn_init(&c) &&
			 ok(!rdma_set_cq_moderation(c.cq[A], 1000, 1 + i * 5)) &&
			 ok(!rdma_set_cq_moderation(c.cq[B], 1000, i & 1 ? 10000 : 1 + i * 5)) &&
			 messages(&c, recvs, sends, ARRAY_SIZE(sends));
		udelay(i * 4);
		for (j = 0; j < 2; j++)
			if (c.qp[j])
				ib_destroy_qp(c.qp[j]);
		for (j = 0; j < 2; j++)
			if (c.cq[j])
				ib_free_cq(c.cq[j]);
	}
	/* longer than any period */
	msleep(20);
	return passed;
}

/* the core moderates by load, and all completions come */
static bool moderation_dim(struct bench *b)
{
	struct conn *c = &b->conn[0];
	struct dim *dim = c->cq[B]->dim;
	unsigned long end;
	s64 us;
	int i;

	/* no events, nothing to moderate */
	if (poll_ctx == IB_POLL_DIRECT)
		return ok(!dim);
	if (!ok(dim))
		return false;
	for (i = 0; i < 3 * DIM_NEVENTS; i++) {
		if (!exchange(c, 1, &us))
			return false;
		usleep_range(500, 1000);
	}
	/* some ten times as many: more in an event is better */
	end = jiffies + LIMIT;
	while (!READ_ONCE(dim->profile_ix) || READ_ONCE(dim->state) == DIM_APPLY_NEW_PROFILE)
		if (!exchange(c, 16, &us) || !ok(time_before(jiffies, end)))
			return false;
	return true;
}

static const struct {
	const char *name;
	bool (*run)(struct bench *b);
} cases[] = {
	{ "attributes",			attributes },
	{ "write_read",			write_read },
	{ "zero_based",			zero_based },
	{ "page_sizes",			page_sizes },
	{ "full_list",			full_list },
	{ "rights",			rights },
	{ "as_lkey",			as_lkey },
	{ "stale_key",			stale_key },
	{ "many_keys",			many_keys },
	{ "refused_reg_valid",		refused_reg_valid },
	{ "refused_reg_access",		refused_reg_access },
	{ "refused_reg_wrap",		refused_reg_wrap },
	{ "refused_reg_index",		refused_reg_index },
	{ "refused_inv",		refused_inv },
	{ "send_with_inv",		send_with_inv },
	{ "refused_send_with_inv",	refused_send_with_inv },
	{ "pipeline",			pipeline },
	{ "inv_behind_send",		inv_behind_send },
	{ "inv_under_writes",		inv_under_writes },
	{ "dereg_under_writes",		dereg_under_writes },
	{ "dereg_before_reg",		dereg_before_reg },
	{ "drain",			drain },
	{ "moderation",			moderation },
	{ "moderation_free",		moderation_free },
	{ "moderation_dim",		moderation_dim },
};

/* --- the bench --- */

static bool conn_init(struct conn *c)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct ib_qp_init_attr init = {
			.qp_type = IB_QPT_RC,
			.sq_sig_type = IB_SIGNAL_REQ_WR,
			.cap = { .max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 2,
				 .max_recv_sge = 2 },
		};
		struct ib_cq *cq = ib_alloc_cq(ends[i].dev, NULL, 128, 0, poll_ctx);
		struct ib_qp *qp;

		if (!ok(!IS_ERR(cq)))
			return false;
		c->cq[i] = cq;
		init.send_cq = cq;
		init.recv_cq = cq;
		qp = ib_create_qp(ends[i].pd, &init);
		if (!ok(!IS_ERR(qp)))
			return false;
		c->qp[i] = qp;
	}
	return qp_connect(c->qp, A) && qp_connect(c->qp, B);
}

static void conn_exit(struct conn *c)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (c->qp[i]) {
			ib_drain_qp(c->qp[i]);
			ib_destroy_qp(c->qp[i]);
		}
		if (c->cq[i])
			ib_free_cq(c->cq[i]);
	}
}

static bool mem_alloc(struct mem *m)
{
	int i;

	/* from the top: neighbours in the list are none in memory */
	for (i = PAGES - 1; i >= 0; i--) {
		m->pages[i] = alloc_page(GFP_KERNEL);
		if (!ok(m->pages[i]))
			return false;
	}
	m->view = vmap(m->pages, PAGES, VM_MAP, PAGE_KERNEL);
	if (!ok(m->view))
		return false;
	mem_poison(m);
	mem_set(m, 16, 123, 15 * PAGE_SIZE);
	return true;
}

static void mem_free(struct mem *m)
{
	int i;

	vunmap(m->view);
	for (i = 0; i < PAGES; i++)
		if (m->pages[i])
			__free_page(m->pages[i]);
	vfree(m);
}

static bool bench_init(struct bench *b)
{
	struct ib_mr *mr;
	int i;

	b->mem = vzalloc(sizeof(*b->mem));
	if (!ok(b->mem))
		return false;
	if (!ok(mem_alloc(b->mem)))
		return false;
	b->src = alloc_pages_exact(BYTES, GFP_KERNEL);
	b->dst = alloc_pages_exact(BYTES, GFP_KERNEL);
	if (!ok(b->src && b->dst))
		return false;
	memset(b->src, 0x3c, BYTES);
	mr = ib_alloc_mr(ends[B].pd, IB_MR_TYPE_MEM_REG, PAGES);
	if (!ok(!IS_ERR(mr)))
		return false;
	b->mr = mr;
	for (i = 0; i < CONNS; i++)
		if (!ok(conn_init(&b->conn[i])))
			return false;
	return true;
}

static bool bench_exit(struct bench *b)
{
	int i;

	for (i = 0; i < CONNS; i++)
		conn_exit(&b->conn[i]);
	if (!ok(!b->mr || !ib_dereg_mr(b->mr)))
		return false;
	if (b->src)
		free_pages_exact(b->src, BYTES);
	if (b->dst)
		free_pages_exact(b->dst, BYTES);
	if (b->mem)
		mem_free(b->mem);
	return true;
}

static void run_cases(void)
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
			struct bench b = {};
			bool passed = bench_init(&b) && cases[j].run(&b);

			passed &= bench_exit(&b);
			pr_info("%sok %d %s.%s\n", passed ? "" : "not ", ++n, contexts[i].name,
				cases[j].name);
		}
	}
}

static int __init ktest_init(void)
{
	int ret = ends_register();

	if (ret)
		return ret;
	run_cases();
	return 0;
}

static void __exit ktest_exit(void)
{
	ib_unregister_client(&ends_client);
}

module_init(ktest_init);
module_exit(ktest_exit);

MODULE_DESCRIPTION("Test of RDMA devices as a kernel consumer");
MODULE_LICENSE("Dual BSD/GPL");
