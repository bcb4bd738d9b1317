/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory windows: rights on part of a region that an application gives to a peer
 * and takes back without a system call. Types 1 and 2B.
 */
#ifndef ROCEV2_MW_H
#define ROCEV2_MW_H

#include <rdma/ib_verbs.h>

struct rocev2_mr;
struct rocev2_qp;
struct rocev2_send_wqe;

/**
 * struct rocev2_mw - what ib_core allocates; it frees it right after dealloc_mw
 * @ibmw: must be first
 * @mr: what the data path finds, with a life of its own
 */
struct rocev2_mw {
	struct ib_mw		ibmw;
	struct rocev2_mr	*mr;
};

/* ops of ib_device */
int rocev2_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int rocev2_dealloc_mw(struct ib_mw *ibmw);

/* the BIND_MW work request; the QP's owner, under RCU */
enum ib_wc_status rocev2_bind_mw(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe);

#endif
