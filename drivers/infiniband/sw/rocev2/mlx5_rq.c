// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receive queues of a ConnectX function: an RQ, a CQ and a NAPI context each, on a completion
 * vector of their own as far as these go. A buffer is a page (of some order) of a page pool, mapped
 * for DMA once:
 *
 *	| struct rocev2_rx_buf, headroom | Ethernet frame as the card wrote it ... |
 *
 * The poll fills in the descriptor and hands the buffer to the link; it comes back to the pool
 * when the QP is done with it. Nothing is allocated for a packet, and there is no skb.
 *
 * Owned by struct rocev2_mlx5. Opened and closed under its hw_lock, with no rule that steers here:
 * what arrives meanwhile takes the way through the netdev.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/mlx5/qp.h>
#include <linux/mlx5/transobj.h>
#include <net/page_pool/helpers.h>

#include "mlx5.h"
#include "rx.h"

/* one data segment per receive WQE */
#define WQE_SIZE		sizeof(struct mlx5_wqe_data_seg)
/* entries are given to the card in batches: one doorbell record write, one barrier */
#define REFILL_BATCH		32
/* a full ring of completions and as many again: what is flushed in error has room too */
#define CQES_PER_WQE		2

/* ring memory */

static int ring_alloc(struct rocev2_mlx5 *attach, struct mlx5_frag_buf *buf,
		      struct mlx5_frag_buf_ctrl *fbc, struct mlx5_db *db, u8 log_stride,
		      u8 log_size)
{
	struct mlx5_core_dev *mdev = attach->mdev;
	int ret;

	ret = mlx5_db_alloc_node(mdev, db, mdev->priv.numa_node);
	if (ret)
		return ret;
	ret = mlx5_frag_buf_alloc_node(mdev, 1 << (log_stride + log_size), buf,
				       mdev->priv.numa_node);
	if (ret) {
		mlx5_db_free(mdev, db);
		return ret;
	}
	mlx5_init_fbc(buf->frags, log_stride, log_size, fbc);
	return 0;
}

static void ring_free(struct rocev2_mlx5 *attach, struct mlx5_frag_buf *buf, struct mlx5_db *db)
{
	mlx5_frag_buf_free(attach->mdev, buf);
	mlx5_db_free(attach->mdev, db);
}

/* buffers */

/*
 * Post what the ring has room for. Fewer when the pool has no memory: the next poll tries again,
 * and the caller sees to it that there is one.
 */
static void rq_refill(struct rocev2_mlx5_rxq *rxq, gfp_t gfp)
{
	u32 size = rxq->attach->ring_size;
	u32 head = rxq->head;

	while (head - rxq->tail < size) {
		struct mlx5_wqe_data_seg *wqe;
		struct page *page;

		page = page_pool_alloc_pages(rxq->pool, gfp);
		if (unlikely(!page)) {
			rxq->stats.no_buffer++;
			break;
		}
		rxq->stats.buffers++;
		rxq->pages[head & (size - 1)] = page;
		wqe = mlx5_frag_buf_get_wqe(&rxq->rq_fbc, head & (size - 1));
		wqe->addr = cpu_to_be64(page_pool_get_dma_addr(page) + ROCEV2_MLX5_HEADROOM);
		head++;
	}
	if (head == rxq->head)
		return;
	rxq->head = head;
	/* the card reads the entries once it has read the record that counts them */
	dma_wmb();
	*rxq->rq_db.db = cpu_to_be32(head & 0xffff);
}

static void rq_drop_posted(struct rocev2_mlx5_rxq *rxq)
{
	u32 size = rxq->attach->ring_size;

	for (; rxq->tail != rxq->head; rxq->tail++)
		page_pool_put_full_page(rxq->pool, rxq->pages[rxq->tail & (size - 1)], false);
}

static int pool_create(struct rocev2_mlx5_rxq *rxq)
{
	struct rocev2_mlx5 *attach = rxq->attach;
	struct page_pool_params params = {
		.flags		= PP_FLAG_DMA_MAP | PP_FLAG_DMA_SYNC_DEV,
		.order		= attach->order,
		.pool_size	= attach->ring_size,
		.nid		= attach->mdev->priv.numa_node,
		.dev		= &attach->mdev->pdev->dev,
		.dma_dir	= DMA_FROM_DEVICE,
		.offset		= ROCEV2_MLX5_HEADROOM,
		.max_len	= rxq->frame_len,
	};

	rxq->pool = page_pool_create(&params);
	return PTR_ERR_OR_ZERO(rxq->pool);
}

/* the poll */

static struct mlx5_cqe64 *cq_next(struct rocev2_mlx5_rxq *rxq)
{
	struct mlx5_cqe64 *cqe;
	u32 ci = rxq->mcq.cons_index;

	cqe = mlx5_frag_buf_get_wqe(&rxq->cq_fbc, ci & rxq->cq_fbc.sz_m1);
	/* the card flips the owner bit with each lap of the ring */
	if ((READ_ONCE(cqe->op_own) & MLX5_CQE_OWNER_MASK) != (ci >> rxq->cq_fbc.log_sz & 1))
		return NULL;
	/* the owner bit is read before the rest of the entry */
	dma_rmb();
	return cqe;
}

/* what precedes a frame in its buffer */
struct rocev2_mlx5_buf {
	struct rocev2_rx_buf	buf;
	struct page_pool	*pool;
};

static_assert(sizeof(struct rocev2_mlx5_buf) <= ROCEV2_MLX5_HEADROOM);

static void buf_free(struct rocev2_rx_buf *buf, bool dropped)
{
	struct rocev2_mlx5_buf *mbuf = container_of(buf, struct rocev2_mlx5_buf, buf);

	page_pool_put_full_page(mbuf->pool, virt_to_page(mbuf), false);
}

/* for packets to groups, which no rule steers here */
static struct rocev2_rx_buf *buf_clone(struct rocev2_rx_buf *buf)
{
	return NULL;
}

static const struct rocev2_rx_ops buf_ops = {
	.free	= buf_free,
	.clone	= buf_clone,
	.on_ring = true,
};

/* where the IP header is, and the VLAN tag, which the card strips if it can; NULL: not IP */
static void *find_ip(void *frame, u32 *len, struct mlx5_cqe64 *cqe, __be16 *protocol,
		     u16 *vlan_tci)
{
	const struct ethhdr *eth = frame;
	u32 offset = sizeof(*eth);

	*vlan_tci = cqe_has_vlan(cqe) ? be16_to_cpu(cqe->vlan_info) : 0;
	if (*len < sizeof(struct vlan_ethhdr))
		return NULL;
	*protocol = eth->h_proto;
	if (*protocol == htons(ETH_P_8021Q)) {
		const struct vlan_ethhdr *vlan = frame;

		*vlan_tci = ntohs(vlan->h_vlan_TCI);
		*protocol = vlan->h_vlan_encapsulated_proto;
		offset = sizeof(*vlan);
	}
	*len -= offset;
	return frame + offset;
}

/* a frame that the card has written: to the link, or back to the pool */
static void rx_frame(struct rocev2_mlx5_rxq *rxq, struct rocev2_dev *link, struct page *page,
		     struct mlx5_cqe64 *cqe)
{
	struct rocev2_mlx5_buf *mbuf = page_address(page);
	u32 len = be32_to_cpu(cqe->byte_cnt);
	__be16 protocol;
	u16 vlan_tci;
	u8 flags = 0;
	void *ip;

	rxq->stats.packets++;
	rxq->stats.bytes += len;
	dma_sync_single_range_for_cpu(&rxq->attach->mdev->pdev->dev,
				      page_pool_get_dma_addr(page), ROCEV2_MLX5_HEADROOM, len,
				      DMA_FROM_DEVICE);
	mbuf->pool = rxq->pool;
	ip = find_ip((void *)mbuf + ROCEV2_MLX5_HEADROOM, &len, cqe, &protocol, &vlan_tci);
	/* what the rules say is not taken on trust: a packet of nobody ends here */
	if (unlikely(!link || !ip || !rocev2_rx_is_ours(link, protocol, ip, len))) {
		rxq->stats.drop_not_ours++;
		buf_free(&mbuf->buf, true);
		return;
	}
	if (protocol == htons(ETH_P_IPV6))
		flags |= ROCEV2_RX_IPV6;
	if ((cqe->hds_ip_ext & (CQE_L3_OK | CQE_L4_OK)) == (CQE_L3_OK | CQE_L4_OK))
		flags |= ROCEV2_RX_CSUM_OK;
	rocev2_rx_buf_init(&mbuf->buf, &buf_ops, ip, len, vlan_tci, flags);
	rocev2_rx(link, &mbuf->buf);
}

/* it takes no more packets, and gets no more buffers */
static void rxq_broken(struct rocev2_mlx5_rxq *rxq)
{
	rxq->broken = true;
	rocev2_mlx5_rebuild(rxq->attach);
}

static void rx_cqe(struct rocev2_mlx5_rxq *rxq, struct rocev2_dev *link,
		   struct mlx5_cqe64 *cqe)
{
	u32 size = rxq->attach->ring_size;
	struct page *page;

	/* a cyclic queue completes in the order of its entries, in error too */
	if (unlikely(rxq->tail == rxq->head ||
		     (be16_to_cpu(cqe->wqe_counter) & (size - 1)) != (rxq->tail & (size - 1)))) {
		rxq->stats.drop_error++;
		rxq_broken(rxq);
		return;
	}
	page = rxq->pages[rxq->tail & (size - 1)];
	rxq->tail++;
	if (unlikely(get_cqe_opcode(cqe) != MLX5_CQE_RESP_SEND ||
		     be32_to_cpu(cqe->byte_cnt) > rxq->frame_len)) {
		rxq->stats.drop_error++;
		page_pool_put_full_page(rxq->pool, page, false);
		rxq_broken(rxq);
		return;
	}
	rx_frame(rxq, link, page, cqe);
}

/* the consumer index of the record is written before the doorbell, by mlx5_cq_arm() */
static void cq_arm(struct rocev2_mlx5_rxq *rxq)
{
	mlx5_cq_arm(&rxq->mcq, MLX5_CQ_DB_REQ_NOT, rxq->attach->uar->map, rxq->mcq.cons_index);
}

static int rxq_poll(struct napi_struct *napi, int budget)
{
	struct rocev2_mlx5_rxq *rxq = container_of(napi, struct rocev2_mlx5_rxq, napi);
	struct mlx5_cqe64 *cqe;
	struct rocev2_dev *link;
	int work = 0;

	rxq->stats.polls++;
	rcu_read_lock();
	link = rcu_dereference(rxq->attach->link);
	while (work < budget) {
		cqe = cq_next(rxq);
		if (!cqe)
			break;
		rx_cqe(rxq, link, cqe);
		rxq->mcq.cons_index++;
		work++;
	}
	rcu_read_unlock();
	/* netpoll asks for no work at all */
	if (unlikely(!budget))
		return 0;

	if (work) {
		mlx5_cq_set_ci(&rxq->mcq);
		if (!rxq->broken &&
		    rxq->attach->ring_size - (rxq->head - rxq->tail) >= REFILL_BATCH)
			rq_refill(rxq, GFP_ATOMIC | __GFP_NOWARN);
	}
	if (work == budget)
		return budget;
	/* an empty ring gets no packet, so no interrupt: look again until there is memory */
	if (unlikely(rxq->head == rxq->tail && !rxq->broken)) {
		rq_refill(rxq, GFP_ATOMIC | __GFP_NOWARN);
		if (rxq->head == rxq->tail)
			return budget;
	}
	if (rocev2_mlx5_poll_on(rxq))
		return budget;
	if (napi_complete_done(napi, work)) {
		rocev2_mlx5_moderation_sample(rxq);
		cq_arm(rxq);
	}
	return work;
}

/* hard interrupt */
static void cq_completion(struct mlx5_core_cq *mcq, struct mlx5_eqe *eqe)
{
	struct rocev2_mlx5_rxq *rxq = container_of(mcq, struct rocev2_mlx5_rxq, mcq);

	rxq->stats.interrupts++;
	napi_schedule(&rxq->napi);
}

/* any context: the queue overran, or the card could not write to it */
static void cq_event(struct mlx5_core_cq *mcq, enum mlx5_event event)
{
	struct rocev2_mlx5_rxq *rxq = container_of(mcq, struct rocev2_mlx5_rxq, mcq);

	rxq->stats.cq_errors++;
	rocev2_mlx5_rebuild(rxq->attach);
}

/* the card's objects */

static int cq_create(struct rocev2_mlx5_rxq *rxq)
{
	struct rocev2_mlx5 *attach = rxq->attach;
	struct mlx5_core_dev *mdev = attach->mdev;
	u8 log_size = ilog2(attach->ring_size * CQES_PER_WQE);
	u32 vector = rxq->index % attach->num_vectors;
	u32 out[MLX5_ST_SZ_DW(create_cq_out)];
	u16 usecs, packets;
	void *in, *cqc;
	int inlen, ret, eqn;
	u32 i;

	ret = mlx5_comp_eqn_get(mdev, vector, &eqn);
	if (ret)
		return ret;
	ret = ring_alloc(attach, &rxq->cq_buf, &rxq->cq_fbc, &rxq->cq_db,
			 ilog2(sizeof(struct mlx5_cqe64)), log_size);
	if (ret)
		return ret;
	for (i = 0; i <= rxq->cq_fbc.sz_m1; i++) {
		struct mlx5_cqe64 *cqe = mlx5_frag_buf_get_wqe(&rxq->cq_fbc, i);

		cqe->op_own = MLX5_CQE_INVALID << 4 | MLX5_CQE_OWNER_MASK;
	}

	memset(&rxq->mcq, 0, sizeof(rxq->mcq));
	rxq->mcq.cqe_sz = sizeof(struct mlx5_cqe64);
	rxq->mcq.set_ci_db = rxq->cq_db.db;
	rxq->mcq.arm_db = rxq->cq_db.db + 1;
	*rxq->mcq.set_ci_db = 0;
	*rxq->mcq.arm_db = 0;
	rxq->mcq.vector = vector;
	rxq->mcq.comp = cq_completion;
	rxq->mcq.event = cq_event;

	inlen = MLX5_ST_SZ_BYTES(create_cq_in) + sizeof(u64) * rxq->cq_buf.npages;
	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in) {
		ret = -ENOMEM;
		goto err_ring;
	}
	mlx5_fill_page_frag_array(&rxq->cq_buf,
				  (__be64 *)MLX5_ADDR_OF(create_cq_in, in, pas));
	cqc = MLX5_ADDR_OF(create_cq_in, in, cq_context);
	rocev2_mlx5_moderation_first(attach, &usecs, &packets);
	MLX5_SET(cqc, cqc, cq_period_mode, MLX5_CQ_PERIOD_MODE_START_FROM_EQE);
	MLX5_SET(cqc, cqc, cq_period, usecs);
	MLX5_SET(cqc, cqc, cq_max_count, packets);
	MLX5_SET(cqc, cqc, log_cq_size, log_size);
	MLX5_SET(cqc, cqc, c_eqn_or_apu_element, eqn);
	MLX5_SET(cqc, cqc, uar_page, attach->uar->index);
	MLX5_SET(cqc, cqc, log_page_size, rxq->cq_buf.page_shift - MLX5_ADAPTER_PAGE_SHIFT);
	MLX5_SET64(cqc, cqc, dbr_addr, rxq->cq_db.dma);
	ret = mlx5_core_create_cq(mdev, &rxq->mcq, in, inlen, out, sizeof(out));
	kvfree(in);
	if (ret)
		goto err_ring;
	return 0;

err_ring:
	ring_free(attach, &rxq->cq_buf, &rxq->cq_db);
	return ret;
}

static void cq_destroy(struct rocev2_mlx5_rxq *rxq)
{
	mlx5_core_destroy_cq(rxq->attach->mdev, &rxq->mcq);
	ring_free(rxq->attach, &rxq->cq_buf, &rxq->cq_db);
}

static int rq_to_ready(struct rocev2_mlx5_rxq *rxq)
{
	u32 in[MLX5_ST_SZ_DW(modify_rq_in)] = {};
	void *rqc = MLX5_ADDR_OF(modify_rq_in, in, ctx);

	MLX5_SET(modify_rq_in, in, rq_state, MLX5_RQC_STATE_RST);
	MLX5_SET(rqc, rqc, state, MLX5_RQC_STATE_RDY);
	return mlx5_core_modify_rq(rxq->attach->mdev, rxq->rqn, in);
}

static int rq_create(struct rocev2_mlx5_rxq *rxq)
{
	struct rocev2_mlx5 *attach = rxq->attach;
	struct mlx5_core_dev *mdev = attach->mdev;
	u8 log_size = ilog2(attach->ring_size);
	void *in, *rqc, *wq;
	int inlen, ret;
	u32 i;

	ret = ring_alloc(attach, &rxq->rq_buf, &rxq->rq_fbc, &rxq->rq_db, ilog2(WQE_SIZE),
			 log_size);
	if (ret)
		return ret;
	*rxq->rq_db.db = 0;
	for (i = 0; i < attach->ring_size; i++) {
		struct mlx5_wqe_data_seg *wqe = mlx5_frag_buf_get_wqe(&rxq->rq_fbc, i);

		wqe->byte_count = cpu_to_be32(rxq->frame_len);
		wqe->lkey = cpu_to_be32(attach->mkey);
	}

	inlen = MLX5_ST_SZ_BYTES(create_rq_in) + sizeof(u64) * rxq->rq_buf.npages;
	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in) {
		ret = -ENOMEM;
		goto err_ring;
	}
	rqc = MLX5_ADDR_OF(create_rq_in, in, ctx);
	wq = MLX5_ADDR_OF(rqc, rqc, wq);
	MLX5_SET(rqc, rqc, mem_rq_type, MLX5_RQC_MEM_RQ_TYPE_MEMORY_RQ_INLINE);
	MLX5_SET(rqc, rqc, state, MLX5_RQC_STATE_RST);
	MLX5_SET(rqc, rqc, flush_in_error_en, 1);
	MLX5_SET(rqc, rqc, cqn, rxq->mcq.cqn);
	MLX5_SET(rqc, rqc, user_index, rxq->index);
	MLX5_SET(wq, wq, wq_type, MLX5_WQ_TYPE_CYCLIC);
	MLX5_SET(wq, wq, pd, attach->pdn);
	MLX5_SET(wq, wq, log_wq_stride, ilog2(WQE_SIZE));
	MLX5_SET(wq, wq, log_wq_sz, log_size);
	MLX5_SET(wq, wq, log_wq_pg_sz, rxq->rq_buf.page_shift - MLX5_ADAPTER_PAGE_SHIFT);
	MLX5_SET64(wq, wq, dbr_addr, rxq->rq_db.dma);
	mlx5_fill_page_frag_array(&rxq->rq_buf, (__be64 *)MLX5_ADDR_OF(wq, wq, pas));
	ret = mlx5_core_create_rq(mdev, in, inlen, &rxq->rqn);
	kvfree(in);
	if (ret)
		goto err_ring;
	return 0;

err_ring:
	ring_free(attach, &rxq->rq_buf, &rxq->rq_db);
	return ret;
}

static void rq_destroy(struct rocev2_mlx5_rxq *rxq)
{
	mlx5_core_destroy_rq(rxq->attach->mdev, rxq->rqn);
	ring_free(rxq->attach, &rxq->rq_buf, &rxq->rq_db);
}

static int rxq_open(struct rocev2_mlx5_rxq *rxq)
{
	u32 size = rxq->attach->ring_size;
	int ret;

	rxq->head = 0;
	rxq->tail = 0;
	rxq->broken = false;
	rxq->unseen = -1;
	rxq->frame_len = rxq->attach->frame_len;
	rxq->pages = kvcalloc(size, sizeof(*rxq->pages), GFP_KERNEL);
	if (!rxq->pages)
		return -ENOMEM;
	ret = pool_create(rxq);
	if (ret)
		goto err_pages;
	ret = cq_create(rxq);
	if (ret)
		goto err_pool;
	ret = rq_create(rxq);
	if (ret)
		goto err_cq;
	/* nobody polls yet; polls post what is missing */
	rq_refill(rxq, GFP_KERNEL | __GFP_NOWARN);
	ret = rxq->head ? rq_to_ready(rxq) : -ENOMEM;
	if (ret)
		goto err_rq;
	rocev2_mlx5_moderation_init(rxq);
	netif_napi_add(rxq->attach->napi_dev, &rxq->napi, rxq_poll);
	napi_enable(&rxq->napi);
	/* the first interrupt begins the first poll, on its CPU */
	cq_arm(rxq);
	return 0;

err_rq:
	rq_destroy(rxq);
	rq_drop_posted(rxq);
err_cq:
	cq_destroy(rxq);
err_pool:
	page_pool_destroy(rxq->pool);
err_pages:
	kvfree(rxq->pages);
	return ret;
}

/* no packet is steered here any more, and no poll runs or comes */
static void rxq_close(struct rocev2_mlx5_rxq *rxq)
{
	rocev2_mlx5_moderation_exit(rxq);
	/* on return no interrupt of it runs or comes */
	cq_destroy(rxq);
	netif_napi_del(&rxq->napi);
	rq_drop_posted(rxq);
	/* buffers that QPs hold come back later; the pool waits for them by itself */
	page_pool_destroy(rxq->pool);
	kvfree(rxq->pages);
}

static void rxqs_close(struct rocev2_mlx5 *attach, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++) {
		rq_destroy(&attach->rxqs[i]);
		/* interrupts find it scheduled from here on */
		napi_disable(&attach->rxqs[i].napi);
	}
	/* a poll that had completed may still be in what it does after that */
	synchronize_net();
	for (i = 0; i < count; i++)
		rxq_close(&attach->rxqs[i]);
}

/**
 * rocev2_mlx5_rxqs_open() - make all receive queues, ready for packets
 * @attach: the function
 *
 * Context: process, hw_lock.
 *
 * Return: 0 or a negative errno; then there is none.
 */
int rocev2_mlx5_rxqs_open(struct rocev2_mlx5 *attach)
{
	u32 i;
	int ret;

	for (i = 0; i < attach->num_rxqs; i++) {
		ret = rxq_open(&attach->rxqs[i]);
		if (ret) {
			rxqs_close(attach, i);
			return ret;
		}
	}
	return 0;
}

/**
 * rocev2_mlx5_rxqs_close() - undo rocev2_mlx5_rxqs_open()
 * @attach: the function; nothing is steered to its queues
 *
 * Context: process, hw_lock.
 */
void rocev2_mlx5_rxqs_close(struct rocev2_mlx5 *attach)
{
	rxqs_close(attach, attach->num_rxqs);
}

/**
 * rocev2_mlx5_rxqs_watch() - count queues whose interrupts get lost
 * @attach: the function
 *
 * Called every second or so. A completion that is still there the next time, with no poll under
 * way, has waited far longer than moderation lets it: its interrupt got lost. There will be none
 * any more, for anybody on that vector: the card sends the next one once mlx5_core has seen this
 * one and armed its event queue again, which we have no way to.
 *
 * Context: process, hw_lock.
 */
void rocev2_mlx5_rxqs_watch(struct rocev2_mlx5 *attach)
{
	u32 i;

	for (i = 0; attach->started && i < attach->num_rxqs; i++) {
		struct rocev2_mlx5_rxq *rxq = &attach->rxqs[i];
		u32 ci = READ_ONCE(rxq->mcq.cons_index);
		s64 before = rxq->unseen;

		rxq->unseen = -1;
		/* a poll that begins now moves the index, and is seen the next time */
		if (test_bit(NAPI_STATE_SCHED, &rxq->napi.state) || !cq_next(rxq))
			continue;
		rxq->unseen = ci;
		if (before == ci)
			rxq->stats.lost_interrupts++;
	}
}
