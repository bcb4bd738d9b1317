// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Keys and what they name: birth and death. Process context.
 *
 * struct rocev2_mr belongs to whoever registered it. Its key is alive while it is
 * in dev->mrs. The data path finds it there or in a QP's translation cache, both
 * under RCU, and takes a reference for as long as it copies. Deregistration, in
 * this order: take the key out of dev->mrs; raise mr_generation, which empties the
 * caches; drop the first reference and wait for the copies in progress; unpin; free
 * after a grace period. Windows (mw.c) and regions for fast registration
 * (mr_fast.c) live and die the same way.
 */
#include <linux/random.h>
#include <linux/slab.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

#include "mr.h"
#include "odp.h"
#include "rocev2.h"

#define ROCEV2_MAX_KEY_INDEX	((1u << 24) - 1)

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

static struct rocev2_mr *make(struct ib_pd *ibpd, enum rocev2_key_kind kind, int access)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibpd->device);
	struct rocev2_mr *mr;

	if (!atomic_add_unless(count_of(dev, kind), 1,
			       rocev2_key_is_window(kind) ? ROCEV2_MAX_MW : ROCEV2_MAX_MR))
		return ERR_PTR(-ENOMEM);
	mr = kzalloc_obj(*mr);
	if (!mr) {
		atomic_dec(count_of(dev, kind));
		return ERR_PTR(-ENOMEM);
	}
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
	struct rocev2_mr *mr = make(ibpd, kind, access);
	int ret;

	if (IS_ERR(mr))
		return mr;
	ret = alloc_key(mr->dev, mr);
	if (ret) {
		atomic_dec(count_of(mr->dev, kind));
		kfree(mr);
		return ERR_PTR(ret);
	}
	return mr;
}

/**
 * rocev2_mr_alloc_heir() - make what a key will name instead of what it names now
 * @old: region of an application
 * @ibpd: PD of the new one
 * @access: enum ib_access_flags
 *
 * Return: the MR, to be published by rocev2_mr_replace(), or an ERR_PTR.
 */
struct rocev2_mr *rocev2_mr_alloc_heir(const struct rocev2_mr *old, struct ib_pd *ibpd, int access)
{
	struct rocev2_mr *mr = make(ibpd, old->kind, access);

	if (IS_ERR(mr))
		return mr;
	mr->ibmr.lkey = old->ibmr.lkey;
	mr->ibmr.rkey = old->ibmr.rkey;
	/* the index is still the other's */
	mr->dead = true;
	return mr;
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

/*
 * Nobody finds @mr any more: whoever does look it up anew, and nobody copies.
 * Before, its place in dev->mrs was cleared or taken by another. @key is what it keeps
 * for those who are counted.
 */
static void retire(struct rocev2_mr *mr, u32 key)
{
	/* who reads the new generation no longer finds it; pairs with find() */
	smp_mb__before_atomic();
	atomic64_inc(&mr->dev->mr_generation);
	/* send queues that found it before give it no new key */
	spin_lock_bh(&mr->lock);
	mr->dead = true;
	WRITE_ONCE(mr->key, key);
	spin_unlock_bh(&mr->lock);
	rocev2_mr_put(mr);
	wait_for_completion(&mr->idle);
}

/**
 * rocev2_mr_replace() - another region takes over the key, between two packets
 * @old: region of an application; @old->windows is negative
 * @mr: from rocev2_mr_alloc_heir()
 *
 * Each access sees one of the two, and whole. When this returns nobody copies by the
 * old one, which is only good for rocev2_mr_free().
 */
void rocev2_mr_replace(struct rocev2_mr *old, struct rocev2_mr *mr)
{
	mr->dead = false;
	rocev2_mr_publish(mr, old->key);
	/* who found the old one and is counted goes on by it */
	retire(old, old->key);
}

/**
 * rocev2_mr_kill() - the key dies
 * @mr: region without windows, or window
 *
 * Returns when no copy is in progress.
 */
void rocev2_mr_kill(struct rocev2_mr *mr)
{
	xa_erase(&mr->dev->mrs, mr->ibmr.lkey >> 8);
	retire(mr, 0);
}

/**
 * rocev2_mr_free() - the key dies, if it has not yet, and with it what it names
 * @mr: region without windows, or window
 *
 * Returns when no copy is in progress. The memory stays for a grace period:
 * mr_check.c may still look at it.
 */
void rocev2_mr_free(struct rocev2_mr *mr)
{
	struct rocev2_dev *dev = mr->dev;

	if (!mr->dead)
		rocev2_mr_kill(mr);
	rocev2_mr_unbind(mr);
	if (mr->odp) {
		rocev2_odp_dereg(mr->odp);
	} else if (mr->dmabuf) {
		rocev2_dmabuf_free(mr->dmabuf);
	} else {
		ib_umem_release(mr->umem);
		kvfree(mr->table);
	}
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

	if (access & ~ROCEV2_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	mr = rocev2_mr_alloc(ibpd, ROCEV2_KEY_MR, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->dma = true;
	mr->length = U64_MAX;
	rocev2_mr_publish(mr, mr->ibmr.lkey);
	return &mr->ibmr;
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

	/* negative: from now on none can be bound; re-registration has seen to it */
	if (!mr->dead && atomic_cmpxchg(&mr->windows, 0, -1) != 0)
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
