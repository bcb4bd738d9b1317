/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * In place of qp.h, rocev2.h, odp.h, srq.h and trace.h, whose objects are the kernel's: as much of them
 * as the stages of the receive path use. The compiler is told to include it first (CMakeLists.txt),
 * so the stages themselves are compiled as they are.
 */
#ifndef MICRO_STAND_IN_H
#define MICRO_STAND_IN_H

/* those headers are skipped */
#define ROCEV2_H
#define ROCEV2_QP_H
#define ROCEV2_ODP_H
#define ROCEV2_SRQ_H
#define ROCEV2_TRACE_H

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <rdma/ib_verbs.h>

#include "counters.h"
#include "mr.h"
#include "mr_cache.h"
#include "qp_state.h"
#include "rx.h"

#define rcu_read_lock()		((void)0)
#define rcu_read_unlock()	((void)0)

/* a key table that costs nothing: what is compared is our code, not the kernel's xarray */
struct xarray {
	void **slot;
	unsigned long size;
};

static inline void *xa_load(const struct xarray *xa, unsigned long index)
{
	return index < xa->size ? xa->slot[index] : NULL;
}

struct rocev2_dev {
	union ib_gid		gid;	/* the only one */
	struct xarray		mrs;
	atomic64_t		mr_generation;
	struct rocev2_mr	*local_dma_mr;
};

/* the kernel's is a hash table: with one address its chain is as short */
static inline bool rocev2_gid_is_local(struct rocev2_dev *dev, const union ib_gid *gid)
{
	return !memcmp(&dev->gid, gid, sizeof(*gid));
}

struct rocev2_path {
	bool		ipv6;
	bool		vlan;
	u16		vlan_tci;
	union ib_gid	saddr;
	union ib_gid	daddr;
};

struct rocev2_sge {
	u64	addr;
	u32	length;
	u32	lkey;
};

struct rocev2_recv_wqe {
	u32			num_sge;
	struct rocev2_sge	sge[1];
};

struct rocev2_srq {
	struct ib_srq	ibsrq;
};

struct rocev2_qp {
	struct rocev2_counters	*counters;
	enum ib_qp_state	state;
	u64			serial;
	struct rocev2_path	path;
	struct {
		u32			epsn;
		bool			gap;
		bool			dead;
		u32			res_head;
		u32			res_due;
		struct rocev2_recv_wqe	wqe;
	} recv;
	struct rocev2_srq	*srq;
	struct rocev2_mr_cache	cache;
	struct rocev2_dev	*dev;
	struct ib_qp		*ibqp;
	u8			service;
	struct {
		u32	qkey;
	} attr;
};

static inline u32 rocev2_qp_state(const struct rocev2_qp *qp)
{
	return rocev2_qp_state_flags(READ_ONCE(qp->state));
}

static inline void rocev2_qp_count(const struct rocev2_qp *qp, enum rocev2_counter counter)
{
	READ_ONCE(qp->counters)->value[counter]++;
}

static inline void trace_rocev2_mr_check(u32 key, u64 addr, u64 len, int access, int status)
{
}

/* no region has mr->odp */
enum rocev2_fault_side {
	ROCEV2_FAULT_RESP,
	ROCEV2_FAULT_REQ,
};

static inline enum rocev2_mr_status rocev2_odp_begin(struct rocev2_mr *mr, u64 addr, u64 len,
						     bool write)
{
	return ROCEV2_MR_NO_PAGE;
}

static inline void rocev2_odp_end(struct rocev2_mr *mr)
{
}

static inline enum rocev2_mr_status
rocev2_fault_start(struct rocev2_qp *qp, enum rocev2_fault_side side, const struct rocev2_mr *mr,
		   u64 addr, u64 len, u64 want, bool write)
{
	return ROCEV2_MR_NO_PAGE;
}

#endif
