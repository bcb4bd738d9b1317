// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Registration of memory. Process context.
 *
 * struct rocev2_mr belongs to whoever registered it. Its key is alive while it is
 * in dev->mrs. The data path finds it there or in a QP's translation cache, both
 * under RCU, and takes a reference for as long as it copies. Deregistration, in
 * this order: take the key out of dev->mrs; raise mr_generation, which empties the
 * caches; drop the first reference and wait for the copies in progress; unpin; free
 * after a grace period. Windows (mw.c) and regions for fast registration
 * (mr_fast.c) live and die the same way.
 */
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iter.h>

#include "mr.h"
#include "rocev2.h"
#include "uapi_new.h"

#define ROCEV2_MAX_KEY_INDEX	((1u << 24) - 1)

#define SUPPORTED_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |	\
				 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |	\
				 IB_ACCESS_MW_BIND | IB_ACCESS_HUGETLB |	\
				 ROCEV2_ACCESS_FLUSH_GLOBAL | IB_ACCESS_OPTIONAL)

/*
 * Reserve an index and make the key of it. The variant changes each time the
 * cyclic search wraps, so it differs from the one the index had before.
 */
static int alloc_key(struct rocev2_dev *dev, struct rocev2_mr *mr)
{
	u32 index;
	int ret;

	/* no MR yet: a peer that guesses the key must not see half of one */
	xa_lock(&dev->mrs);
	ret = __xa_alloc_cyclic(&dev->mrs, &index, NULL, XA_LIMIT(1, ROCEV2_MAX_KEY_INDEX),
				&dev->next_mr, GFP_KERNEL);
	if (ret == 1)
		dev->mr_variant++;
	mr->ibmr.lkey = index << 8 | dev->mr_variant;
	xa_unlock(&dev->mrs);
	if (ret < 0)
		return ret;
	mr->ibmr.rkey = mr->ibmr.lkey;
	return 0;
}

static atomic_t *count_of(struct rocev2_dev *dev, enum rocev2_key_kind kind)
{
	return rocev2_key_is_window(kind) ? &dev->num_mws : &dev->num_mrs;
}

/**
 * rocev2_mr_alloc() - make what a key will name
 * @ibpd: its PD
 * @kind: region or window
 * @access: enum ib_access_flags
 *
 * ibmr.lkey is its key, which does not work yet.
 *
 * Return: the MR or an ERR_PTR.
 */
struct rocev2_mr *rocev2_mr_alloc(struct ib_pd *ibpd, enum rocev2_key_kind kind, int access)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibpd->device);
	struct rocev2_mr *mr;
	int ret;

	if (!atomic_add_unless(count_of(dev, kind), 1,
			       rocev2_key_is_window(kind) ? ROCEV2_MAX_MW : ROCEV2_MAX_MR))
		return ERR_PTR(-ENOMEM);
	mr = kzalloc_obj(*mr);
	if (!mr) {
		ret = -ENOMEM;
		goto err_count;
	}
	ret = alloc_key(dev, mr);
	if (ret)
		goto err_free;
	mr->dev = dev;
	mr->ibmr.device = ibpd->device;
	/* the core sets it too, but only after the key is alive */
	mr->ibmr.pd = ibpd;
	mr->kind = kind;
	mr->access = access;
	spin_lock_init(&mr->lock);
	refcount_set(&mr->users, 1);
	init_completion(&mr->idle);
	return mr;

err_free:
	kfree(mr);
err_count:
	atomic_dec(count_of(dev, kind));
	return ERR_PTR(ret);
}

/**
 * rocev2_mr_publish() - from now on the index names it
 * @mr: region or window
 * @key: the key that works from now on; 0 for none yet
 */
void rocev2_mr_publish(struct rocev2_mr *mr, u32 key)
{
	mr->key = key;
	/* the index is reserved: nothing to allocate, cannot fail */
	WARN_ON(xa_err(xa_store(&mr->dev->mrs, mr->ibmr.lkey >> 8, mr, GFP_KERNEL)));
}

/**
 * rocev2_mr_free() - the key dies, and with it what it names
 * @mr: region without windows, or window
 *
 * Returns when no copy is in progress. The memory stays for a grace period:
 * mr_check.c may still look at it.
 */
void rocev2_mr_free(struct rocev2_mr *mr)
{
	struct rocev2_dev *dev = mr->dev;

	xa_erase(&dev->mrs, mr->ibmr.lkey >> 8);
	/* who reads the new generation no longer finds the key; pairs with find() */
	smp_mb__before_atomic();
	atomic64_inc(&dev->mr_generation);
	/* send queues that found it before give it no new key */
	spin_lock_bh(&mr->lock);
	mr->dead = true;
	WRITE_ONCE(mr->key, 0);
	spin_unlock_bh(&mr->lock);
	rocev2_mr_put(mr);
	wait_for_completion(&mr->idle);
	rocev2_mr_unbind(mr);
	ib_umem_release(mr->umem);
	kvfree(mr->table);
	rocev2_fast_free(mr->fast);
	atomic_dec(count_of(dev, mr->kind));
	kfree_rcu(mr, rcu);
}

/**
 * rocev2_get_dma_mr() - ops.get_dma_mr: all of kernel memory, for the kernel
 * @ibpd: the PD
 * @access: enum ib_access_flags
 *
 * Return: the MR or an ERR_PTR.
 */
struct ib_mr *rocev2_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct rocev2_mr *mr;

	if (access & ~SUPPORTED_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	mr = rocev2_mr_alloc(ibpd, ROCEV2_KEY_MR, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->dma = true;
	mr->length = U64_MAX;
	rocev2_mr_publish(mr, mr->ibmr.lkey);
	return &mr->ibmr;
}

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

	if (dmah || access & ~SUPPORTED_ACCESS)
		return ERR_PTR(-EOPNOTSUPP);
	if (length > ROCEV2_MAX_MR_SIZE)
		return ERR_PTR(-EINVAL);
	/* the last byte has an address, in both spaces */
	if (length && (start > U64_MAX - (length - 1) || iova > U64_MAX - (length - 1)))
		return ERR_PTR(-EINVAL);

	mr = rocev2_mr_alloc(ibpd, ROCEV2_KEY_MR, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->iova = iova;
	mr->length = length;
	mr->block_shift = PAGE_SHIFT;
	if (length) {
		struct ib_umem *umem = ib_umem_get_va(ibpd->device, start, length, access);

		if (IS_ERR(umem)) {
			ret = PTR_ERR(umem);
			goto err_free;
		}
		mr->umem = umem;
		ret = fill_table(mr, start);
		if (ret)
			goto err_free;
	}
	rocev2_mr_publish(mr, mr->ibmr.lkey);
	return &mr->ibmr;

err_free:
	rocev2_mr_free(mr);
	return ERR_PTR(ret);
}

/**
 * rocev2_dereg_mr() - ops.dereg_mr: the key dies
 * @ibmr: the MR
 * @udata: unused
 *
 * Returns when no copy from or to the memory is in progress.
 *
 * Return: 0, or -EBUSY while windows are bound to it.
 */
int rocev2_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct rocev2_mr *mr = to_rocev2_mr(ibmr);

	/* negative: from now on none can be bound */
	if (atomic_cmpxchg(&mr->windows, 0, -1) != 0)
		return -EBUSY;
	rocev2_mr_free(mr);
	return 0;
}

/**
 * rocev2_mrs_init() - make a device ready for keys
 * @dev: the device
 *
 * Return: 0 or -ENOMEM.
 */
int rocev2_mrs_init(struct rocev2_dev *dev)
{
	struct rocev2_mr *mr;

	xa_init_flags(&dev->mrs, XA_FLAGS_ALLOC1);
	dev->mr_variant = get_random_u32();
	mr = kzalloc_obj(*mr);
	if (!mr)
		return -ENOMEM;
	/* key 0, which no MR gets; see rocev2_mr_get() */
	mr->dev = dev;
	mr->dma = true;
	mr->length = U64_MAX;
	mr->access = IB_ACCESS_LOCAL_WRITE;
	refcount_set(&mr->users, 1);
	init_completion(&mr->idle);
	dev->local_dma_mr = mr;
	dev->ibdev.local_dma_lkey = 0;
	return 0;
}

/**
 * rocev2_mrs_exit() - undo rocev2_mrs_init()
 * @dev: the device, without MRs and QPs
 */
void rocev2_mrs_exit(struct rocev2_dev *dev)
{
	WARN_ON(!xa_empty(&dev->mrs));
	xa_destroy(&dev->mrs);
	kfree(dev->local_dma_mr);
}
