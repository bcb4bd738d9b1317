/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The part of <rdma/ib_verbs.h> that the protocol files read. The numbers are verbs ABI. */
#ifndef SHIM_RDMA_IB_VERBS_H
#define SHIM_RDMA_IB_VERBS_H

enum ib_qp_state {
	IB_QPS_RESET,
	IB_QPS_INIT,
	IB_QPS_RTR,
	IB_QPS_RTS,
	IB_QPS_SQD,
	IB_QPS_SQE,
	IB_QPS_ERR,
};

#endif
