/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions and windows, and their keys. A key is an index (24 bits) into
 * dev->mrs and a variant (8 bits) that changes whenever the index is used anew. Of
 * windows and of regions for fast registration the consumer chooses the variant.
 */
#ifndef ROCEV2_MR_H
#define ROCEV2_MR_H

#include <linux/completion.h>
#include <linux/refcount.h>
#include <rdma/ib_verbs.h>

#include "mr_bounds.h"
#include "mr_key.h"
#include "uapi_new.h"

/* what may be asked for when memory is registered */
#define ROCEV2_ACCESS_SUPPORTED	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |	\
				 IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC |	\
				 IB_ACCESS_MW_BIND | IB_ACCESS_HUGETLB |	\
				 ROCEV2_ACCESS_FLUSH_GLOBAL | ROCEV2_ACCESS_ODP |	\
				 IB_ACCESS_OPTIONAL)

#define ROCEV2_ACCESS_ODP	(IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING) ?	\
				 IB_ACCESS_ON_DEMAND : 0)

/* of the addresses in a region's table; odp.h has flags in the bits below */
#define ROCEV2_TABLE_ALIGN	8ul

struct ib_dmah;
struct ib_umem;
struct rocev2_dev;
struct rocev2_dmabuf;
struct rocev2_fast;
struct rocev2_odp;
struct rocev2_qp;
struct scatterlist;
struct uverbs_attr_bundle;

/**
 * struct rocev2_mr - what a key names: a memory region, or a window on one
 * @ibmr: lkey and rkey are the same number. Of a window only device, pd and lkey
 * @dev: its device
 * @key: the key that works now; 0: none. Read without @lock, see mr_state.c
 * @kind: region or window
 * @iova: first byte, as the peer and the WQEs name it. This and all below up to
 *	@qp_serial changes only while @key is 0 and nobody copies
 * @length: bytes
 * @access: enum ib_access_flags
 * @dma: covers all of kernel memory at its own addresses (ib_get_dma_mr): no @table
 * @block_shift: log2 of the bytes behind one @table entry: PAGE_SHIFT, or more for huge pages
 * @block_offset: offset of @iova within its block, or of a window within its region's first
 * @table: kernel addresses of the blocks, see ROCEV2_TABLE_ALIGN; a window's is its region's
 * @odp: on-demand paging: the pages behind @table, which come and go; a window's are its
 *	region's
 * @region: window: the region it is bound to
 * @qp_serial: window of type 2: the QP that bound it, the only one that may use it
 * @lock: changes of @key and what belongs to it
 * @dead: not in dev->mrs any more, or not yet: no key for it (@lock)
 * @windows: region: windows bound to it; negative: it is being deregistered or registered anew
 * @fast: region for fast registration: what the next registration takes over
 * @dmabuf: the dma-buf, which @table belongs to, instead of @umem
 * @umem: the pinned pages, or with @odp where they are
 * @users: 1 while the key is alive, plus one per copy in progress
 * @idle: completed when @users drops to 0; deregistration waits for it
 * @rcu: QP handlers look keys up under RCU, so the memory lives a grace period longer
 */
struct rocev2_mr {
	struct ib_mr		ibmr;
	struct rocev2_dev	*dev;
	u32			key;
	enum rocev2_key_kind	kind;
	u64			iova;
	u64			length;
	int			access;
	bool			dma;
	u8			block_shift;
	u64			block_offset;
	void			**table;
	struct rocev2_odp	*odp;
	struct rocev2_dmabuf	*dmabuf;
	struct rocev2_mr	*region;
	u64			qp_serial;
	spinlock_t		lock;	/* changes of key */
	bool			dead;
	atomic_t		windows;
	struct rocev2_fast	*fast;
	struct ib_umem		*umem;
	refcount_t		users;
	struct completion	idle;
	struct rcu_head		rcu;
};

/* mr.c: life of the device's keys, and ops of ib_device */
int rocev2_mrs_init(struct rocev2_dev *dev);
void rocev2_mrs_exit(struct rocev2_dev *dev);
struct ib_mr *rocev2_get_dma_mr(struct ib_pd *ibpd, int access);
int rocev2_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* mr_user.c: ops of ib_device */
struct ib_mr *rocev2_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access,
				 struct ib_dmah *dmah, struct ib_udata *udata);
struct ib_mr *rocev2_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				   int access, struct ib_pd *ibpd, struct ib_udata *udata);

/* dmabuf.c */
struct ib_mr *rocev2_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
					int fd, int access, struct ib_dmah *dmah,
					struct uverbs_attr_bundle *attrs);
bool rocev2_dmabuf_allows(const struct rocev2_dmabuf *dmabuf, int access);
void rocev2_dmabuf_free(struct rocev2_dmabuf *dmabuf);

/* mr.c: birth and death of what a key names, for all kinds; process context */
struct rocev2_mr *rocev2_mr_alloc(struct ib_pd *ibpd, enum rocev2_key_kind kind, int access);
void rocev2_mr_publish(struct rocev2_mr *mr, u32 key);
struct rocev2_mr *rocev2_mr_alloc_heir(const struct rocev2_mr *old, struct ib_pd *ibpd, int access);
void rocev2_mr_replace(struct rocev2_mr *old, struct rocev2_mr *mr);
void rocev2_mr_kill(struct rocev2_mr *mr);
void rocev2_mr_free(struct rocev2_mr *mr);

/* mr_fast.c: ops of ib_device */
struct ib_mr *rocev2_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int rocev2_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		     unsigned int *sg_offset);
void rocev2_fast_free(struct rocev2_fast *fast);

/* send queue operations on keys; the QP's owner, under RCU. Refused: counted */
enum ib_wc_status rocev2_fast_reg(struct rocev2_qp *qp, u32 key, u64 iova, u32 access);
enum ib_wc_status rocev2_local_inv(struct rocev2_qp *qp, u32 key);
/* the peer's SEND with Invalidate; false: refused */
bool rocev2_remote_inv(struct rocev2_qp *qp, u32 key);

/* mr_state.c: with mr->lock: the key stops working, and no copy is in progress any more */
void rocev2_mr_quiesce(struct rocev2_mr *mr);
/* with mr->lock, quiet: a window lets go of its region */
void rocev2_mr_unbind(struct rocev2_mr *mr);
/* count a refusal; the status it completes with */
enum ib_wc_status rocev2_mr_refuse(struct rocev2_qp *qp, u32 key, enum rocev2_key_verdict why);

static inline struct rocev2_mr *to_rocev2_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct rocev2_mr, ibmr);
}

/**
 * rocev2_mr_get() - find a key, check that it allows an access, hold the MR
 * @qp: the QP that asks; owner only
 * @pd: the protection domain that the key must be of
 * @key: lkey or rkey
 * @addr: first byte, in the MR's iova space
 * @len: bytes, > 0
 * @access: enum ib_access_flags that must all be set; 0 for local reads
 * @mr: the MR on success; the caller does rocev2_mr_put()
 *
 * Context: softirq, or process context with bottom halves off (takes RCU itself).
 *
 * Return: ROCEV2_MR_OK, or why the key does not serve.
 */
enum rocev2_mr_status rocev2_mr_get(struct rocev2_qp *qp, const struct ib_pd *pd, u32 key,
				    u64 addr, u64 len, int access, struct rocev2_mr **mr);

static inline void rocev2_mr_put(struct rocev2_mr *mr)
{
	if (refcount_dec_and_test(&mr->users))
		complete(&mr->idle);
}

/**
 * rocev2_mr_map() - kernel address of a byte that rocev2_mr_get() has checked
 * @mr: the MR, held
 * @addr: in the MR's iova space
 * @len: in: bytes wanted; out: how many of them are contiguous at the address
 *
 * O(1) for any MR and page size. With on-demand paging between rocev2_odp_begin() and
 * rocev2_odp_end().
 *
 * Return: the address.
 */
static inline void *rocev2_mr_map(const struct rocev2_mr *mr, u64 addr, u32 *len)
{
	struct rocev2_block_pos pos;
	unsigned long block;

	if (mr->dma)
		return (void *)(uintptr_t)addr;
	pos = rocev2_block_pos(mr->iova, mr->block_offset, mr->block_shift, addr);
	*len = min_t(u64, *len, rocev2_block_left(pos, mr->block_shift));
	block = (unsigned long)mr->table[pos.index] & -ROCEV2_TABLE_ALIGN;
	return (void *)(block + pos.offset);
}

#endif
