// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions of an application's memory: registration and re-registration. Process
 * context.
 *
 * Re-registration makes a new region and lets it take the place of the old one, so
 * the data path never sees a mixture, and a failure leaves the old one as it was.
 * Memory and page table go along where they stay the same.
 */
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iter.h>

#include "mr.h"
#include "odp.h"
#include "rocev2.h"

/*
 * One table entry per block of the largest size in which the pages come: huge pages
 * make it short, and lookup is a shift in any case. The blocks are aligned by the
 * application's address, not by @iova, which has no influence on the pages.
 */
static int fill_table(struct rocev2_mr *mr, u64 start)
{
	/* no log lines for a size that an application chose */
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
	struct ib_block_iter biter;
	unsigned long block_size;
	u64 num, i = 0;

	block_size = ib_umem_find_best_pgsz(mr->umem, PAGE_MASK, start);
	if (!block_size)
		return -EINVAL;
	mr->block_shift = ilog2(block_size);
	mr->block_offset = start & (block_size - 1);
	num = rocev2_block_count(mr->block_offset, mr->length, mr->block_shift);
	/* kvmalloc() stops at INT_MAX; 2^40 bytes of small pages need 2^31 */
	mr->table = num > INT_MAX / sizeof(*mr->table) / 2 ?
		    __vmalloc(array_size(num, sizeof(*mr->table)), gfp) :
		    kvmalloc_array(num, sizeof(*mr->table), gfp);
	if (!mr->table)
		return -ENOMEM;
	/* without a DMA device, DMA addresses are kernel addresses */
	rdma_umem_for_each_dma_block(mr->umem, &biter, block_size) {
		if (WARN_ON_ONCE(i == num))
			return -EINVAL;
		mr->table[i++] = (void *)(uintptr_t)rdma_block_iter_dma_address(&biter);
	}
	return WARN_ON_ONCE(i != num) ? -EINVAL : 0;
}

/* the last byte has an address, in both spaces */
static bool range_ok(u64 start, u64 length, u64 iova)
{
	return length <= ROCEV2_MAX_MR_SIZE &&
	       (!length || (start <= U64_MAX - (length - 1) && iova <= U64_MAX - (length - 1)));
}

/* @mr gets @length bytes at @start of this process, pinned if they must be */
static int get_memory(struct rocev2_mr *mr, u64 start, u64 length, u64 iova)
{
	struct ib_umem *umem;

	mr->iova = iova;
	mr->length = length;
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	mr->block_shift = PAGE_SHIFT;
	if (!length)
		return 0;
	if (mr->access & IB_ACCESS_ON_DEMAND)
		return rocev2_odp_reg(mr, start);
	umem = ib_umem_get_va(mr->ibmr.device, start, length, mr->access);
	if (IS_ERR(umem))
		return PTR_ERR(umem);
	mr->umem = umem;
	return fill_table(mr, start);
}

/**
 * rocev2_reg_user_mr() - ops.reg_user_mr: register memory of an application
 * @ibpd: the PD
 * @start: its address in the application
 * @length: bytes, up to ROCEV2_MAX_MR_SIZE; 0 makes a key that allows nothing
 * @iova: its address in work requests and on the wire
 * @access: enum ib_access_flags
 * @dmah: must be NULL: there is no DMA to give hints for
 * @udata: unused
 *
 * Return: the MR or an ERR_PTR.
 */
struct ib_mr *rocev2_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
				 struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct rocev2_mr *mr;
	int ret;

	if (dmah || access & ~ROCEV2_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	/* implicit on-demand paging: all of the address space */
	if (access & IB_ACCESS_ON_DEMAND && length == U64_MAX)
		return ERR_PTR(-EOPNOTSUPP);
	if (!range_ok(start, length, iova))
		return ERR_PTR(-EINVAL);
	mr = rocev2_mr_alloc(ibpd, ROCEV2_KEY_MR, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	ret = get_memory(mr, start, length, iova);
	if (ret) {
		rocev2_mr_free(mr);
		return ERR_PTR(ret);
	}
	rocev2_mr_publish(mr, mr->ibmr.lkey);
	return &mr->ibmr;
}

/* is the memory of @mr good for other rights? What is for reading is not for writing. */
static bool memory_serves(const struct rocev2_mr *mr, int access)
{
	if (!mr->umem)
		return true;
	if (!mr->odp != !(access & IB_ACCESS_ON_DEMAND))
		return false;
	return mr->umem->writable || !ib_access_writable(access);
}

/* @heir has the memory of @mr too; rocev2_mr_free() of one of them must not see it */
static void share_memory(struct rocev2_mr *heir, const struct rocev2_mr *mr)
{
	heir->iova = mr->iova;
	heir->length = mr->length;
	heir->ibmr.iova = mr->iova;
	heir->ibmr.length = mr->length;
	heir->block_shift = mr->block_shift;
	heir->block_offset = mr->block_offset;
	heir->table = mr->table;
	heir->umem = mr->umem;
	heir->odp = mr->odp;
	heir->dmabuf = mr->dmabuf;
}

static void forget_memory(struct rocev2_mr *mr)
{
	mr->table = NULL;
	mr->umem = NULL;
	mr->odp = NULL;
	mr->dmabuf = NULL;
}

/* same memory as before, in other hands or with other rights; the keys stay */
static struct ib_mr *rereg_rights(struct rocev2_mr *old, struct ib_pd *ibpd, int access)
{
	bool anew = !memory_serves(old, access);
	struct rocev2_mr *mr;
	int ret = 0;

	if (old->dmabuf && !rocev2_dmabuf_allows(old->dmabuf, access))
		return ERR_PTR(-EACCES);
	/* another process that has inherited the file would get memory of its own */
	if (anew && old->umem->owning_mm != current->mm)
		return ERR_PTR(-EPERM);
	mr = rocev2_mr_alloc_heir(old, ibpd, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	if (anew)
		ret = get_memory(mr, old->umem->address, old->length, old->iova);
	if (!ret && atomic_cmpxchg(&old->windows, 0, -1) != 0)
		ret = -EBUSY;
	if (ret) {
		rocev2_mr_free(mr);
		return ERR_PTR(ret);
	}
	if (!anew)
		share_memory(mr, old);
	rocev2_mr_replace(old, mr);
	if (!anew)
		forget_memory(old);
	return &mr->ibmr;
}

/* other memory: a message in progress must not end there, so the keys are new */
static struct ib_mr *rereg_memory(struct rocev2_mr *old, struct ib_pd *ibpd, u64 start, u64 length,
				  u64 iova, int access)
{
	struct ib_mr *ibmr = rocev2_reg_user_mr(ibpd, start, length, iova, access, NULL, NULL);

	if (IS_ERR(ibmr))
		return ibmr;
	if (atomic_cmpxchg(&old->windows, 0, -1) != 0) {
		rocev2_mr_free(to_rocev2_mr(ibmr));
		return ERR_PTR(-EBUSY);
	}
	rocev2_mr_kill(old);
	return ibmr;
}

/**
 * rocev2_rereg_user_mr() - ops.rereg_user_mr: change PD, rights or memory of a region
 * @ibmr: the region
 * @flags: enum ib_mr_rereg_flags: which of the following count
 * @start: as rocev2_reg_user_mr()
 * @length: the same
 * @iova: the same
 * @access: the same
 * @ibpd: the PD that the region will be in, changed or not
 * @udata: unused
 *
 * With IB_MR_REREG_TRANS both keys are new, and the old ones are dead when this
 * returns; without it they stay, and each packet is checked against the old rights
 * or the new ones.
 *
 * Return: the region that takes the place of @ibmr, for which only dereg_mr is left;
 * or an ERR_PTR, and @ibmr is as it was: -EBUSY while windows are bound to it, -EPERM
 * if the memory is not good for the new rights and belongs to another process.
 */
struct ib_mr *rocev2_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				   int access, struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rocev2_mr *old = to_rocev2_mr(ibmr);

	if (!(flags & IB_MR_REREG_ACCESS))
		access = old->access;
	if (access & ~ROCEV2_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	if (flags & IB_MR_REREG_TRANS)
		return rereg_memory(old, ibpd, start, length, iova, access);
	return rereg_rights(old, ibpd, access);
}
