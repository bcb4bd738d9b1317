// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The only way from a key to memory, for keys of work requests and of packets
 * alike. Data path: softirq, or process context with bottom halves off.
 */
#include <rdma/ib_verbs.h>

#include "mr.h"
#include "mr_cache.h"
#include "qp.h"
#include "trace.h"

/*
 * Key 0 is all of kernel memory, for local access of QPs that the kernel made.
 * An application's PD has a uobject: for it the key does not exist. Remote access
 * asks for a right that @local_dma_mr lacks.
 */
static struct rocev2_mr *find_local_dma(struct rocev2_dev *dev, const struct ib_pd *pd)
{
	return pd->uobject ? NULL : dev->local_dma_mr;
}

/*
 * The generation is read before the key table: an MR that dies in between is put
 * into the cache under the generation that its death has ended, and the next lookup
 * flushes it.
 *
 * What is found may have lost this key, or have another one by now (invalidated,
 * bound or registered anew): that changes no generation, check() sees it in the MR
 * itself, which it reads in any case.
 */
static struct rocev2_mr *find(struct rocev2_qp *qp, u32 key)
{
	struct rocev2_mr_cache *cache = &qp->cache;
	struct rocev2_dev *dev = qp->dev;
	u64 generation = atomic64_read_acquire(&dev->mr_generation);
	struct rocev2_mr *mr;

	mr = rocev2_mr_cache_lookup(cache, key, generation);
	if (mr) {
		rocev2_qp_count(qp, ROCEV2_CNT_MR_CACHE_HIT);
		return mr;
	}
	rocev2_qp_count(qp, ROCEV2_CNT_MR_CACHE_MISS);
	mr = xa_load(&dev->mrs, key >> 8);
	/* keys that do not work would only push others out; check() decides */
	if (!mr || READ_ONCE(mr->key) != key)
		return NULL;
	rocev2_mr_cache_insert(cache, key, mr);
	return mr;
}

static enum rocev2_mr_status check(const struct rocev2_mr *mr, const struct rocev2_qp *qp,
				   const struct ib_pd *pd, u32 key, u64 addr, u64 len, int access)
{
	/* acquire: pairs with the release that made the key work; what belongs to it follows */
	if (smp_load_acquire(&mr->key) != key)
		return ROCEV2_MR_BAD_KEY;
	/* an R_Key of a window is no L_Key (writes need a right that it lacks) */
	if (!access && rocev2_key_is_window(mr->kind))
		return ROCEV2_MR_BAD_KEY;
	/* key 0 has no PD: find_local_dma() has looked at the QP's */
	if (mr->ibmr.pd && mr->ibmr.pd != pd)
		return ROCEV2_MR_BAD_PD;
	if (mr->qp_serial && mr->qp_serial != qp->serial)
		return ROCEV2_MR_BAD_KEY;
	return rocev2_mr_allows(mr->access, access, mr->iova, mr->length, addr, len);
}

enum rocev2_mr_status rocev2_mr_get(struct rocev2_qp *qp, const struct ib_pd *pd, u32 key,
				    u64 addr, u64 len, int access, struct rocev2_mr **out)
{
	enum rocev2_mr_status status = ROCEV2_MR_BAD_KEY;
	struct rocev2_mr *mr;

	rcu_read_lock();
again:
	mr = likely(key) ? find(qp, key) : find_local_dma(qp->dev, pd);
	if (mr && unlikely(!refcount_inc_not_zero(&mr->users))) {
		/*
		 * It has died since we found it, maybe for another to take its key
		 * (rocev2_mr_replace()). Its last user went after the generation was
		 * raised: this read of users comes before that of the generation.
		 */
		smp_rmb();
		goto again;
	}
	if (mr) {
		/*
		 * Counted before the key is looked at: either we see that it has stopped
		 * working, or who stopped it sees us and waits. Pairs with the barrier in
		 * rocev2_mr_quiesce().
		 */
		smp_mb__after_atomic();
		status = check(mr, qp, pd, key, addr, len, access);
		if (unlikely(status != ROCEV2_MR_OK))
			rocev2_mr_put(mr);
	}
	rcu_read_unlock();
	if (unlikely(status != ROCEV2_MR_OK)) {
		trace_rocev2_mr_check(key, addr, len, access, status);
		return status;
	}
	*out = mr;
	return ROCEV2_MR_OK;
}
