// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * On-demand paging. Nothing is pinned: a table entry of such a region (mr->table) is
 * filled when the page is wanted, and cleared when the kernel takes the page away.
 *
 * Placement runs in softirq and copies through the table entries under odp->lock.
 * The MMU notifier clears entries under the same lock before it returns: what is
 * being copied ends before, and what comes later finds no page. So no byte is read or
 * written behind an invalidation. The lock is not taken for memory that is pinned.
 *
 * Whoever meets an entry that does not serve starts a fault (struct rocev2_fault), of
 * which a QP has one for its responder and one for its requester. A work item brings
 * the pages in and kicks the QP, which tries again: responder RC by RNR NAK and the
 * peer's next try, READ responses, UC and UD by waiting, requester by waiting.
 *
 * Locks: odp->fault_mutex (one at a time brings pages in), then mmap_lock and the
 * notifier's lock, then umem_mutex (sleeps; all changes of the table), then odp->lock
 * (spins, bottom halves off; leaf). Entries are filled with umem_mutex held behind a
 * check that no invalidation has come meanwhile.
 */
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_user_ioctl_verbs.h>

#include "odp.h"
#include "qp.h"
#include "rocev2.h"
#include "trace.h"

/* entries that are cleared in one go: bounds how long the lock is held */
#define CLEAR_BATCH	1024u
/* bytes that are prefetched in one go: bounds how long a signal waits */
#define PREFETCH_BATCH	(2u << 20)
/* prefetches of all applications that run at once: they get in the way of nothing urgent */
#define PREFETCH_ACTIVE	4

/**
 * struct rocev2_odp - the pages of a region
 * @umem: the core's part; its umem_mutex protects changes of @table
 * @fault_mutex: held while pages are brought in, which may sleep for long
 * @lock: held while bytes are copied, and while entries of @table change
 * @table: mr->table of the region and its windows
 * @dev: the device
 * @serial: no other region has had it
 * @users: the region, faults in progress, a batch of a prefetch in progress
 * @going: the region is being deregistered: no prefetch begins another batch
 * @idle: completed when @users drops to 0
 * @refs: of this memory: the region, and prefetches from request to end
 */
struct rocev2_odp {
	struct ib_umem_odp	*umem;
	struct mutex		fault_mutex;	/* the core's page list while it is filled */
	spinlock_t		lock;	/* copies against invalidation */
	unsigned long		*table;
	struct rocev2_dev	*dev;
	u64			serial;
	refcount_t		users;
	bool			going;
	struct completion	idle;
	refcount_t		refs;
};

static struct workqueue_struct *fault_wq;
static struct workqueue_struct *prefetch_wq;
static atomic64_t last_serial = ATOMIC64_INIT(0);

int rocev2_odp_init(void)
{
	fault_wq = alloc_workqueue("rocev2_odp", WQ_UNBOUND, 0);
	if (!fault_wq)
		return -ENOMEM;
	/* apart: prefetches run for long, and a fault of a QP must not wait for a place */
	prefetch_wq = alloc_workqueue("rocev2_prefetch", WQ_UNBOUND, PREFETCH_ACTIVE);
	if (!prefetch_wq) {
		destroy_workqueue(fault_wq);
		return -ENOMEM;
	}
	return 0;
}

/*
 * No region is left. Faults may still be on their last instructions, prefetches even
 * wait for their turn, to find that their regions have gone.
 */
void rocev2_odp_exit(void)
{
	destroy_workqueue(prefetch_wq);
	destroy_workqueue(fault_wq);
}

void rocev2_odp_caps(struct ib_device_attr *attr)
{
	struct ib_odp_caps *caps = &attr->odp_caps;

	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	caps->general_caps = IB_ODP_SUPPORT;
	caps->per_transport_caps.rc_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_WRITE |
		IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV;
	if (attr->device_cap_flags & ROCEV2_DEVICE_FLUSH_GLOBAL)
		caps->per_transport_caps.rc_odp_caps |= ROCEV2_ODP_FLUSH | ROCEV2_ODP_ATOMIC_WRITE;
	caps->per_transport_caps.uc_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_WRITE |
		IB_ODP_SUPPORT_SRQ_RECV;
	caps->per_transport_caps.ud_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_SRQ_RECV;
}

static void odp_put(struct rocev2_odp *odp)
{
	if (refcount_dec_and_test(&odp->users))
		complete(&odp->idle);
}

static void odp_unref(struct rocev2_odp *odp)
{
	if (refcount_dec_and_test(&odp->refs))
		kfree(odp);
}

/* --- pages go --- */

/*
 * Pages [@first, @last) are not touched any more when this returns. With umem_mutex.
 * What was written becomes dirty now, not at the copy: pages of files want sleeping
 * locks, or locks that are not for softirqs. Nobody can clean it in between: to write
 * it back, the kernel takes write access away from us first, and waits here.
 */
static void drop_pages(struct rocev2_odp *odp, u64 first, u64 last)
{
	while (first < last) {
		u64 end = min(last, first + CLEAR_BATCH);
		u64 i;

		spin_lock_bh(&odp->lock);
		for (i = first; i < end; i++)
			odp->table[i] &= ~(ROCEV2_ODP_PRESENT | ROCEV2_ODP_WRITE);
		spin_unlock_bh(&odp->lock);
		for (i = first; i < end; i++) {
			if (odp->table[i] & ROCEV2_ODP_DIRTY)
				set_page_dirty(compound_head(virt_to_page((void *)odp->table[i])));
			odp->table[i] = 0;
		}
		first = end;
	}
}

static bool odp_invalidate(struct mmu_interval_notifier *mni,
			   const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ib_umem_odp *umem = container_of(mni, struct ib_umem_odp, notifier);
	struct rocev2_odp *odp;
	u64 start, end;

	if (mmu_notifier_range_blockable(range))
		mutex_lock(&umem->umem_mutex);
	else if (!mutex_trylock(&umem->umem_mutex))
		return false;
	mmu_interval_set_seq(mni, seq);
	odp = umem->private;
	/* before the region is complete, and when it is going, there are no pages */
	if (odp) {
		start = max_t(u64, range->start, ib_umem_start(umem));
		end = min_t(u64, range->end, ib_umem_end(umem));
		drop_pages(odp, (start - ib_umem_start(umem)) >> PAGE_SHIFT,
			   (end - ib_umem_start(umem) + PAGE_SIZE - 1) >> PAGE_SHIFT);
		ib_umem_odp_unmap_dma_pages(umem, start, end);
		rocev2_count(odp->dev, ROCEV2_CNT_ODP_INVALIDATIONS);
	}
	mutex_unlock(&umem->umem_mutex);
	return true;
}

static const struct mmu_interval_notifier_ops odp_notifier_ops = {
	.invalidate = odp_invalidate,
};

/* --- pages come --- */

/*
 * Can the kernel read the pages at its own addresses of them? Those of memfd_secret()
 * and the like are not in the direct map. They have left it before the process has
 * them, and return when it has not. With umem_mutex.
 */
static bool pages_reachable(const struct ib_umem_odp *umem, u64 first, u64 last)
{
	u64 i;
	u8 byte;

	for (i = first; i < last; i++) {
		unsigned long pfn = ib_umem_odp_pfn(umem, i);

		if (pfn & HMM_PFN_VALID &&
		    copy_from_kernel_nofault(&byte, page_address(hmm_pfn_to_page(pfn)), 1))
			return false;
	}
	return true;
}

static int map_pages(struct rocev2_odp *odp, u64 va, u64 len, bool write, bool fault)
{
	struct ib_umem_odp *umem = odp->umem;
	u64 i, first;
	u64 access = IB_UMEM_ODP_READ | (write ? IB_UMEM_ODP_WRITE : 0);
	int num;

	num = ib_umem_odp_map_dma_and_lock(umem, va, len, access, fault);
	if (num < 0)
		return num;
	first = (va - ib_umem_start(umem)) >> PAGE_SHIFT;
	if (!pages_reachable(umem, first, first + num)) {
		mutex_unlock(&umem->umem_mutex);
		return -EFAULT;
	}
	spin_lock_bh(&odp->lock);
	for (i = first; i < first + num; i++) {
		unsigned long pfn = ib_umem_odp_pfn(umem, i);

		if (!(pfn & HMM_PFN_VALID))
			continue;
		/* the same page as before, if there was one: else it would have been cleared */
		odp->table[i] = (unsigned long)page_address(hmm_pfn_to_page(pfn)) |
				(odp->table[i] & ROCEV2_ODP_DIRTY) | ROCEV2_ODP_PRESENT |
				(pfn & HMM_PFN_WRITE ? ROCEV2_ODP_WRITE : 0);
	}
	spin_unlock_bh(&odp->lock);
	mutex_unlock(&umem->umem_mutex);
	return 0;
}

/*
 * One at a time: the core lets two of them store into its page list without a lock. What
 * one finds valid under umem_mutex, the other may have put there before an invalidation
 * that it has yet to notice.
 *
 * Return: 0, -EFAULT (no such memory), -EINVAL (process gone), -EBUSY (try again),
 * -EINTR (killed while it waited for its turn), ...
 */
static int fault_in(struct rocev2_odp *odp, u64 va, u64 len, bool write, bool fault)
{
	int ret = mutex_lock_killable(&odp->fault_mutex);

	if (ret)
		return ret;
	ret = map_pages(odp, va, len, write, fault);
	mutex_unlock(&odp->fault_mutex);
	return ret;
}

/* outside the data path: the set of counters stays while it is read under RCU */
static void fault_count(const struct rocev2_qp *qp, enum rocev2_counter counter)
{
	rcu_read_lock();
	rocev2_qp_count(qp, counter);
	rcu_read_unlock();
}

static void fault_work(struct work_struct *work)
{
	struct rocev2_fault *fault = container_of(work, struct rocev2_fault, work);
	struct rocev2_odp *odp = fault->odp;
	struct rocev2_qp *qp = fault->qp;
	int ret;

	fault_count(qp, ROCEV2_CNT_ODP_FAULTS);
	ret = fault_in(odp, fault->va, fault->want, fault->write, true);
	/* what is only wanted may not be there */
	if (ret && fault->want > fault->need)
		ret = fault_in(odp, fault->va, fault->need, fault->write, true);
	trace_rocev2_odp_fault(qp->qpn, fault->va, fault->want, fault->write, ret);
	if (ret == -EBUSY || ret == -EAGAIN)
		ret = 0;
	if (ret)
		fault_count(qp, ROCEV2_CNT_ODP_FAULT_ERRORS);
	odp_put(odp);
	/* release: the owner that sees it sees the pages, and may start the next */
	smp_store_release(&fault->state, ret ? ROCEV2_FAULT_FAILED : ROCEV2_FAULT_IDLE);
	rocev2_qp_kick(qp);
	rocev2_qp_put(qp);
}

void rocev2_fault_init(struct rocev2_qp *qp)
{
	int i;

	for (i = 0; i < ROCEV2_FAULT_SIDES; i++) {
		INIT_WORK(&qp->fault[i].work, fault_work);
		qp->fault[i].qp = qp;
	}
}

/**
 * rocev2_fault_start() - have pages brought in, and the QP kicked
 * @qp: the QP; owner only
 * @side: who will try again
 * @mr: the region or window, held
 * @addr: first byte, checked
 * @len: bytes that the access needs, > 0
 * @want: bytes that the accesses behind it will need from @addr on
 * @write: to be written
 *
 * Return: ROCEV2_MR_NOT_PRESENT: the QP is kicked when it is time to try again;
 * ROCEV2_MR_NO_PAGE: it was tried, and there is no such memory.
 */
enum rocev2_mr_status rocev2_fault_start(struct rocev2_qp *qp, enum rocev2_fault_side side,
					 const struct rocev2_mr *mr, u64 addr, u64 len, u64 want,
					 bool write)
{
	struct rocev2_fault *fault = &qp->fault[side];
	struct rocev2_odp *odp = mr->odp;
	u64 va;

	if (rocev2_fault_busy(fault))
		return ROCEV2_MR_NOT_PRESENT;
	va = ib_umem_start(odp->umem) + mr->block_offset + (addr - mr->iova);
	if (fault->state == ROCEV2_FAULT_FAILED) {
		fault->state = ROCEV2_FAULT_IDLE;
		if (fault->serial == odp->serial && fault->va == va && fault->write == write)
			return ROCEV2_MR_NO_PAGE;
	}
	want = min_t(u64, want, ROCEV2_ODP_AROUND);
	want = min(want, mr->length - (addr - mr->iova));
	/* the caller holds the region, whose reference on its pages is the last to go */
	refcount_inc(&odp->users);
	/* destroy_qp owns the QP before it drops its reference: there is one */
	refcount_inc(&qp->users);
	fault->odp = odp;
	fault->serial = odp->serial;
	fault->va = va;
	fault->need = len;
	fault->want = max(want, len);
	fault->write = write;
	fault->started++;
	fault->state = ROCEV2_FAULT_BUSY;
	queue_work(fault_wq, &fault->work);
	return ROCEV2_MR_NOT_PRESENT;
}

/* --- copies --- */

/**
 * rocev2_odp_begin() - pages stay until rocev2_odp_end(), if all are there
 * @mr: region or window with mr->odp, held
 * @addr: first byte, checked
 * @len: bytes, > 0
 * @write: they will be written
 *
 * Context: bottom halves off.
 *
 * Return: ROCEV2_MR_OK: rocev2_mr_map() may be used; ROCEV2_MR_NOT_PRESENT.
 */
enum rocev2_mr_status rocev2_odp_begin(struct rocev2_mr *mr, u64 addr, u64 len, bool write)
{
	unsigned long need = ROCEV2_ODP_PRESENT | (write ? ROCEV2_ODP_WRITE : 0);
	u64 first = addr - mr->iova + mr->block_offset;
	struct rocev2_odp *odp = mr->odp;
	u64 i;

	spin_lock(&odp->lock);
	for (i = first >> PAGE_SHIFT; i <= (first + len - 1) >> PAGE_SHIFT; i++) {
		if ((odp->table[i] & need) != need) {
			spin_unlock(&odp->lock);
			return ROCEV2_MR_NOT_PRESENT;
		}
		if (write)
			odp->table[i] |= ROCEV2_ODP_DIRTY;
	}
	/* for sparse: it stays locked, but not always */
	__release(&odp->lock);
	return ROCEV2_MR_OK;
}

void rocev2_odp_end(struct rocev2_mr *mr)
{
	__acquire(&mr->odp->lock);
	spin_unlock(&mr->odp->lock);
}

/* --- regions --- */

/**
 * rocev2_odp_reg() - give a region its pages, none of which is there yet
 * @mr: region with length and access, not published
 * @start: its address in this process
 *
 * Return: 0 or a negative errno; -ENOMEM for more than ROCEV2_ODP_MAX_SIZE too.
 */
int rocev2_odp_reg(struct rocev2_mr *mr, u64 start)
{
	u64 num = rocev2_block_count(offset_in_page(start), mr->length, PAGE_SHIFT);
	/* pages are small to us, whatever the mapping's are */
	int access = mr->access & ~IB_ACCESS_HUGETLB;
	struct ib_umem_odp *umem;
	struct rocev2_odp *odp;

	/* the core's table and ours are of kvmalloc(), which stops at INT_MAX */
	BUILD_BUG_ON((ROCEV2_ODP_MAX_SIZE >> PAGE_SHIFT) >= INT_MAX / sizeof(*odp->table));
	if (mr->length > ROCEV2_ODP_MAX_SIZE)
		return -ENOMEM;
	odp = kzalloc_obj(*odp);
	if (!odp)
		return -ENOMEM;
	odp->table = kvcalloc(num, sizeof(*odp->table), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!odp->table) {
		kfree(odp);
		return -ENOMEM;
	}
	umem = ib_umem_odp_get(mr->ibmr.device, start, mr->length, access, &odp_notifier_ops);
	if (IS_ERR(umem)) {
		kvfree(odp->table);
		kfree(odp);
		return PTR_ERR(umem);
	}
	spin_lock_init(&odp->lock);
	mutex_init(&odp->fault_mutex);
	refcount_set(&odp->users, 1);
	refcount_set(&odp->refs, 1);
	init_completion(&odp->idle);
	odp->dev = mr->dev;
	odp->serial = atomic64_inc_return(&last_serial);
	odp->umem = umem;
	/* the notifier is at work already */
	mutex_lock(&umem->umem_mutex);
	umem->private = odp;
	mutex_unlock(&umem->umem_mutex);
	mr->block_shift = PAGE_SHIFT;
	mr->block_offset = offset_in_page(start);
	mr->table = (void **)odp->table;
	mr->odp = odp;
	mr->umem = &umem->umem;
	return 0;
}

/**
 * rocev2_odp_dereg() - undo rocev2_odp_reg()
 * @odp: pages of a region that nobody copies from or to any more; or NULL
 *
 * Waits for faults in progress, and for the batch of a prefetch in progress. Not for
 * prefetches as a whole: they may be long, and wait for others' in the queue.
 */
void rocev2_odp_dereg(struct rocev2_odp *odp)
{
	struct ib_umem_odp *umem;
	u64 i, num;

	if (!odp)
		return;
	/* prefetches come back for more, and two could keep the count up by turns */
	WRITE_ONCE(odp->going, true);
	odp_put(odp);
	wait_for_completion(&odp->idle);
	umem = odp->umem;
	num = ib_umem_odp_num_pages(umem);
	/* no page comes any more; the notifier, which may take some, need not wait for all */
	for (i = 0; i < num; i += CLEAR_BATCH) {
		mutex_lock(&umem->umem_mutex);
		drop_pages(odp, i, min(i + CLEAR_BATCH, num));
		mutex_unlock(&umem->umem_mutex);
		cond_resched();
	}
	mutex_lock(&umem->umem_mutex);
	umem->private = NULL;
	mutex_unlock(&umem->umem_mutex);
	ib_umem_odp_release(umem);
	kvfree(odp->table);
	odp_unref(odp);
}

/* --- prefetch --- */

struct prefetch_part {
	struct rocev2_odp	*odp;	/* its memory is held */
	u64			va;
	u64			len;
};

struct prefetch {
	struct work_struct	work;
	bool			write;
	bool			fault;
	u32			num;
	struct prefetch_part	part[];
};

/* -ENOENT: the region has gone, or is about to */
static int prefetch_part(const struct prefetch *pf, const struct prefetch_part *part)
{
	struct rocev2_odp *odp = part->odp;
	u64 va = part->va, left = part->len;
	int ret;

	while (left) {
		u64 len = min_t(u64, left, PREFETCH_BATCH);

		if (fatal_signal_pending(current))
			return -EINTR;
		if (READ_ONCE(odp->going) || !refcount_inc_not_zero(&odp->users))
			return -ENOENT;
		ret = fault_in(odp, va, len, pf->write, pf->fault);
		odp_put(odp);
		if (ret)
			return ret;
		va += len;
		left -= len;
		cond_resched();
	}
	return 0;
}

static int prefetch_run(const struct prefetch *pf)
{
	u32 i;
	int ret;

	for (i = 0; i < pf->num; i++) {
		ret = prefetch_part(pf, &pf->part[i]);
		if (ret)
			return ret;
	}
	return 0;
}

static void prefetch_free(struct prefetch *pf)
{
	u32 i;

	for (i = 0; i < pf->num; i++)
		odp_unref(pf->part[i].odp);
	kvfree(pf);
}

static void prefetch_work(struct work_struct *work)
{
	struct prefetch *pf = container_of(work, struct prefetch, work);

	/* an advice: whoever uses a page that is not there finds out */
	prefetch_run(pf);
	prefetch_free(pf);
}

/* where an SGE lies in the application; on success part->odp is held */
static int prefetch_find(struct ib_pd *ibpd, const struct ib_sge *sge, bool write,
			 struct prefetch_part *part)
{
	struct rocev2_mr *mr;
	int ret;

	rcu_read_lock();
	mr = xa_load(&to_rocev2_dev(ibpd->device)->mrs, sge->lkey >> 8);
	if (!mr || READ_ONCE(mr->key) != sge->lkey)
		ret = -ENOENT;
	else if (mr->ibmr.pd != ibpd)
		ret = -EPERM;
	else if (mr->kind != ROCEV2_KEY_MR)
		ret = -EINVAL;
	/*
	 * Not before PD and kind are known, which never change: a softirq spins until
	 * nobody is counted in rocev2_mr_quiesce(), for any kind but this, and we may be
	 * preempted. Deregistration of this kind sleeps.
	 */
	else if (!refcount_inc_not_zero(&mr->users))
		ret = -ENOENT;
	else
		ret = 0;
	if (ret) {
		rcu_read_unlock();
		return ret;
	}
	/* counted: what belongs to the key stays */
	if (!mr->odp)
		ret = -EINVAL;
	else if (write && !ib_access_writable(mr->access))
		ret = -EPERM;
	else if (!rocev2_bounds_ok(mr->iova, mr->length, sge->addr, sge->length))
		ret = -EFAULT;
	else
		ret = 0;
	if (!ret) {
		part->odp = mr->odp;
		part->va = ib_umem_start(mr->odp->umem) + mr->block_offset +
			   (sge->addr - mr->iova);
		part->len = sge->length;
		refcount_inc(&mr->odp->refs);
		/* here: the device may have gone when an asynchronous one runs */
		rocev2_count(mr->dev, ROCEV2_CNT_ODP_PREFETCHES);
	}
	rocev2_mr_put(mr);
	rcu_read_unlock();
	return ret;
}

/**
 * rocev2_advise_mr() - ops.advise_mr: bring pages in before they are used
 * @ibpd: the PD of the regions
 * @advice: for reading, for writing, or only what the process has already
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: wait until it is done
 * @sg_list: parts of regions with on-demand paging
 * @num_sge: how many
 * @attrs: unused
 *
 * Return: 0; -EOPNOTSUPP (advice), -ENOENT (no such key, or no longer), -EPERM (another
 * PD's, or not writable), -EINVAL (no on-demand paging), -EFAULT (bounds; with FLUSH: no
 * such memory), -ENOMEM, -EINTR.
 */
int rocev2_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		     struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	struct prefetch *pf;
	u32 i;
	int ret = 0;

	if (advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
	    advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	pf = kvzalloc(struct_size(pf, part, num_sge), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pf)
		return -ENOMEM;
	pf->write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	pf->fault = advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	for (i = 0; i < num_sge && !ret; i++) {
		pf->num = i + 1;
		ret = prefetch_find(ibpd, &sg_list[i], pf->write, &pf->part[i]);
	}
	/* the last one was not found */
	if (ret)
		pf->num--;
	if (ret || flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH) {
		if (!ret)
			ret = prefetch_run(pf);
		prefetch_free(pf);
		return ret;
	}
	INIT_WORK(&pf->work, prefetch_work);
	queue_work(prefetch_wq, &pf->work);
	return 0;
}
