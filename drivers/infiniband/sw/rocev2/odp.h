/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * On-demand paging: regions whose pages come when they are used and go when the
 * kernel wants them. odp.c has the story.
 */
#ifndef ROCEV2_ODP_H
#define ROCEV2_ODP_H

#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "mr.h"

struct rocev2_qp;

/*
 * A table entry of such a region is 0 or a page's kernel address and these, which fit
 * below ROCEV2_TABLE_ALIGN.
 */
#define ROCEV2_ODP_PRESENT	1ul	/* the page may be read */
#define ROCEV2_ODP_WRITE	2ul	/* ... and written */
#define ROCEV2_ODP_DIRTY	4ul	/* ... and has been */

/*
 * Bytes of a region. Nothing is pinned, so no limit of the application bounds it, and
 * what does not exist costs as much as what does: 4 bytes a KiB for the two tables, and
 * a walk through them in the MMU notifier, without a pause.
 */
#define ROCEV2_ODP_MAX_SIZE	(64ull << 30)

/* bytes faulted in at once, if the message in progress will want so many */
#define ROCEV2_ODP_AROUND	(256u << 10)

/* who waits for a page; one fault at a time each */
enum rocev2_fault_side {
	ROCEV2_FAULT_RESP,
	ROCEV2_FAULT_REQ,
	ROCEV2_FAULT_SIDES
};

enum rocev2_fault_state {
	ROCEV2_FAULT_IDLE,
	ROCEV2_FAULT_BUSY,	/* the work item's */
	ROCEV2_FAULT_FAILED,	/* there is no such page; told to whoever asks for it again */
};

/**
 * struct rocev2_fault - a page fault of a QP's owner
 * @work: brings the pages in and kicks the QP
 * @state: enum rocev2_fault_state. The owner takes it from IDLE or FAILED, the work
 *	item from BUSY (release)
 * @qp: the QP, held while BUSY
 * @odp: the region's pages, held while BUSY
 * @serial: of @odp
 * @va: first byte, in the application
 * @need: bytes that must be there
 * @want: bytes that will be wanted, at least @need
 * @write: to be written
 * @started: faults so far
 */
struct rocev2_fault {
	struct work_struct	work;
	int			state;
	struct rocev2_qp	*qp;
	struct rocev2_odp	*odp;
	u64			serial;
	u64			va;
	u64			need;
	u64			want;
	bool			write;
	u32			started;
};

struct uverbs_attr_bundle;

#if IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING)

int rocev2_odp_init(void);
void rocev2_odp_exit(void);
void rocev2_odp_caps(struct ib_device_attr *attr);

/* region side, process context */
int rocev2_odp_reg(struct rocev2_mr *mr, u64 start);
void rocev2_odp_dereg(struct rocev2_odp *odp);

int rocev2_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		     struct ib_sge *sg_list, u32 num_sge, struct uverbs_attr_bundle *attrs);

/* data path: bottom halves off; ROCEV2_MR_OK: rocev2_odp_end() must follow */
enum rocev2_mr_status rocev2_odp_begin(struct rocev2_mr *mr, u64 addr, u64 len, bool write);
void rocev2_odp_end(struct rocev2_mr *mr);

void rocev2_fault_init(struct rocev2_qp *qp);
enum rocev2_mr_status rocev2_fault_start(struct rocev2_qp *qp, enum rocev2_fault_side side,
					 const struct rocev2_mr *mr, u64 addr, u64 len, u64 want,
					 bool write);

#else

static inline int rocev2_odp_init(void)
{
	return 0;
}

static inline void rocev2_odp_exit(void)
{
}

static inline void rocev2_odp_caps(struct ib_device_attr *attr)
{
}

static inline int rocev2_odp_reg(struct rocev2_mr *mr, u64 start)
{
	return -EOPNOTSUPP;
}

static inline void rocev2_odp_dereg(struct rocev2_odp *odp)
{
}

static inline int rocev2_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice,
				   u32 flags, struct ib_sge *sg_list, u32 num_sge,
				   struct uverbs_attr_bundle *attrs)
{
	return -EOPNOTSUPP;
}

/* no region has mr->odp */
static inline enum rocev2_mr_status rocev2_odp_begin(struct rocev2_mr *mr, u64 addr, u64 len,
						     bool write)
{
	return ROCEV2_MR_NO_PAGE;
}

static inline void rocev2_odp_end(struct rocev2_mr *mr)
{
}

static inline void rocev2_fault_init(struct rocev2_qp *qp)
{
}

static inline enum rocev2_mr_status
rocev2_fault_start(struct rocev2_qp *qp, enum rocev2_fault_side side, const struct rocev2_mr *mr,
		   u64 addr, u64 len, u64 want, bool write)
{
	return ROCEV2_MR_NO_PAGE;
}

#endif

/* owner of the QP: is the page that this side waits for still on its way? */
static inline bool rocev2_fault_busy(const struct rocev2_fault *fault)
{
	/* acquire: pairs with the release of the work item, behind its table entries */
	return smp_load_acquire(&fault->state) == ROCEV2_FAULT_BUSY;
}

#endif
