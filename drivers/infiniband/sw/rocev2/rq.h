/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queue: the consumer's ring, and the private copy of the WQE in use.
 */
#ifndef ROCEV2_RQ_H
#define ROCEV2_RQ_H

#include <linux/types.h>

struct rocev2_qp;
struct rocev2_rq;

/* owner: take the next receive WQE into qp->recv.wqe; false when none is posted */
bool rocev2_rq_next(struct rocev2_qp *qp);
/* owner: receive WQEs posted and not taken */
u32 rocev2_rq_posted(const struct rocev2_rq *rq);
/* owner: forget what is posted */
void rocev2_rq_reset(struct rocev2_rq *rq);

#endif
