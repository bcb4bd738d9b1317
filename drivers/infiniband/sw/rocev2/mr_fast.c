// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fast registration, for kernel consumers: a region is made once, and mapped and
 * registered for each transfer. map_mr_sg, called by the consumer in any context,
 * only prepares; the REG_MR work request, in the QP's owner, makes the key work.
 *
 * The two have a page list each: consumers map anew while the LOCAL_INV of the last
 * registration still waits in the send queue.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

#include "mr.h"
#include "qp.h"

/**
 * struct rocev2_fast - what the next registration of a region takes over
 * @length: bytes
 * @offset: of the first byte in the first page
 * @shift: log2 of the page size
 * @num: pages
 * @max: room in @page and in the region's table
 * @page: kernel addresses
 */
struct rocev2_fast {
	u64	length;
	u64	offset;
	u8	shift;
	u32	num;
	u32	max;
	void	*page[];
};

/**
 * rocev2_alloc_mr() - ops.alloc_mr: a region for fast registration
 * @ibpd: the PD
 * @type: IB_MR_TYPE_MEM_REG
 * @max_num_sg: pages it must be able to hold
 *
 * Return: the MR, without a valid key yet, or an ERR_PTR.
 */
struct ib_mr *rocev2_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg)
{
	struct rocev2_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > ROCEV2_MAX_FAST_PAGES)
		return ERR_PTR(-EINVAL);
	mr = rocev2_mr_alloc(ibpd, ROCEV2_KEY_FAST, 0);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->table = kcalloc(max_num_sg, sizeof(*mr->table), GFP_KERNEL);
	mr->fast = kzalloc(struct_size(mr->fast, page, max_num_sg), GFP_KERNEL);
	if (!mr->table || !mr->fast) {
		rocev2_mr_free(mr);
		return ERR_PTR(-ENOMEM);
	}
	mr->fast->max = max_num_sg;
	rocev2_mr_publish(mr, 0);
	return &mr->ibmr;
}

void rocev2_fast_free(struct rocev2_fast *fast)
{
	kfree(fast);
}

static int set_page(struct ib_mr *ibmr, u64 addr)
{
	struct rocev2_fast *fast = to_rocev2_mr(ibmr)->fast;

	if (fast->num == fast->max)
		return -ENOMEM;
	/* without a DMA device, DMA addresses are kernel addresses */
	fast->page[fast->num++] = (void *)(uintptr_t)addr;
	return 0;
}

/**
 * rocev2_map_mr_sg() - ops.map_mr_sg: prepare the next registration
 * @ibmr: the MR; ibmr->page_size is the consumer's choice, a power of two
 * @sg: the list, mapped
 * @sg_nents: its elements
 * @sg_offset: where to begin in the first; or NULL
 *
 * Context: any.
 *
 * Return: elements that fit, as ib_map_mr_sg() wants, or a negative errno.
 */
int rocev2_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		     unsigned int *sg_offset)
{
	struct rocev2_fast *fast = to_rocev2_mr(ibmr)->fast;
	int num;

	/* an aligned atomic operand must not lie across two pages */
	if (!fast || !is_power_of_2(ibmr->page_size) || ibmr->page_size < sizeof(u64))
		return -EINVAL;
	fast->num = 0;
	fast->length = 0;
	num = ib_sg_to_pages(ibmr, sg, sg_nents, sg_offset, set_page);
	if (num < 0)
		return num;
	fast->shift = ilog2(ibmr->page_size);
	fast->offset = ibmr->iova & (ibmr->page_size - 1);
	fast->length = ibmr->length;
	return num;
}

/**
 * rocev2_fast_reg() - the REG_MR work request
 * @qp: the QP of a kernel consumer; owner only, under RCU
 * @key: the MR's index and the consumer's variant
 * @iova: address of the first byte, of the consumer's choice
 * @access: enum ib_access_flags; with IB_ZERO_BASED the first byte has address 0
 *
 * The MR is found by its key: it may have been deregistered since the work request
 * was posted.
 *
 * Return: the status it completes with.
 */
enum ib_wc_status rocev2_fast_reg(struct rocev2_qp *qp, u32 key, u64 iova, u32 access)
{
	struct rocev2_mr *mr = xa_load(&qp->dev->mrs, key >> 8);
	enum rocev2_key_verdict verdict;
	const struct rocev2_fast *fast;

	if (!mr || mr->ibmr.pd != qp->ibqp->pd || !mr->fast)
		return rocev2_mr_refuse(qp, key, ROCEV2_KEY_BAD_KEY);
	fast = mr->fast;
	if (access & IB_ZERO_BASED)
		iova = 0;
	spin_lock(&mr->lock);
	if (mr->dead)
		verdict = ROCEV2_KEY_BAD_KEY;
	else
		verdict = rocev2_fast_reg_check(mr->kind, mr->key, access, iova, fast->length);
	if (verdict == ROCEV2_KEY_OK) {
		/* whoever copied by the last key has been waited for when that was invalidated */
		memcpy(mr->table, fast->page, fast->num * sizeof(*mr->table));
		mr->iova = iova;
		mr->length = fast->length;
		mr->block_shift = fast->shift;
		mr->block_offset = fast->offset;
		mr->access = access & (IB_ACCESS_LOCAL_WRITE | ROCEV2_ACCESS_REMOTE);
		/* release: whoever sees the key sees what belongs to it */
		smp_store_release(&mr->key, key);
	}
	spin_unlock(&mr->lock);
	return verdict == ROCEV2_KEY_OK ? IB_WC_SUCCESS : rocev2_mr_refuse(qp, key, verdict);
}
