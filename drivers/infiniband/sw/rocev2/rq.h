/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queue: the consumer's ring, and the private copy of the WQE in use. SRQs
 * (srq.c) have one too.
 */
#ifndef ROCEV2_RQ_H
#define ROCEV2_RQ_H

#include <linux/types.h>

struct ib_recv_wr;
struct ib_ucontext;
struct mminfo;
struct rocev2_qp;
struct rocev2_recv_wqe;
struct rocev2_rq;

/* owner: take the next receive WQE, of the SRQ if there is one, into qp->recv.wqe;
 * false when none is posted
 */
bool rocev2_rq_next(struct rocev2_qp *qp);
/* consumers: receive WQEs posted and not taken */
u32 rocev2_rq_posted(const struct rocev2_rq *rq);
/* owner: forget what is posted */
void rocev2_rq_reset(struct rocev2_rq *rq);

/* one consumer at a time: the next WQE into @wqe; false when none is posted */
bool rocev2_rq_take(struct rocev2_rq *rq, struct rocev2_recv_wqe *wqe);
/* kernel consumers: post a list */
int rocev2_rq_post(struct rocev2_rq *rq, const struct ib_recv_wr *wr,
		   const struct ib_recv_wr **bad_wr);

/**
 * rocev2_rq_create() - make the ring
 * @rq: filled on success; freed with rocev2_ring_free()
 * @max_wr: WQEs it must hold; set to what it can
 * @max_sge: SGEs of a WQE, at least one
 * @uc: whose application will map it; NULL for kernel consumers
 * @mi: filled with what the application passes to mmap(); NULL for kernel consumers
 *
 * Return: 0 or -ENOMEM.
 */
int rocev2_rq_create(struct rocev2_rq *rq, u32 *max_wr, u32 *max_sge, struct ib_ucontext *uc,
		     struct mminfo *mi);
/* bytes of a WQE in the ring */
size_t rocev2_rq_elem_size(const struct rocev2_rq *rq);

#endif
