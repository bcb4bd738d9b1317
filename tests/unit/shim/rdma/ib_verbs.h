/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The part of <rdma/ib_verbs.h> that the protocol files read. The numbers are verbs ABI. */
#ifndef SHIM_RDMA_IB_VERBS_H
#define SHIM_RDMA_IB_VERBS_H

#include <linux/types.h>

enum ib_qp_state {
	IB_QPS_RESET,
	IB_QPS_INIT,
	IB_QPS_RTR,
	IB_QPS_RTS,
	IB_QPS_SQD,
	IB_QPS_SQE,
	IB_QPS_ERR,
};

enum ib_access_flags {
	IB_ACCESS_LOCAL_WRITE = 1 << 0,
	IB_ACCESS_REMOTE_WRITE = 1 << 1,
	IB_ACCESS_REMOTE_READ = 1 << 2,
	IB_ACCESS_REMOTE_ATOMIC = 1 << 3,
	IB_ACCESS_MW_BIND = 1 << 4,
	IB_ZERO_BASED = 1 << 5,
	IB_ACCESS_ON_DEMAND = 1 << 6,
	IB_ACCESS_HUGETLB = 1 << 7,
	IB_ACCESS_OPTIONAL = 0x3ff00000,
};

enum ib_wc_status {
	IB_WC_SUCCESS,
};

enum ib_mr_type {
	IB_MR_TYPE_MEM_REG,
};

union ib_gid {
	u8 raw[16];
};

/* of the objects, what the receive path looks at */
struct ib_pd {
	void *uobject;
};

struct ib_mr {
	struct ib_pd *pd;
	u32 lkey;
	u32 rkey;
};

struct ib_qp {
	struct ib_pd *pd;
};

struct ib_srq {
	struct ib_pd *pd;
};

#endif
