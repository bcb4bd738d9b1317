/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Receive queues: the NAPI contexts in which QPs run.
 */
#ifndef ROCEV2_RXQ_H
#define ROCEV2_RXQ_H

#include <linux/llist.h>
#include <linux/netdevice.h>

struct rocev2_dev;
struct rocev2_qp;

/**
 * struct rocev2_rxq - one receive queue
 * @napi: its context; on the netdev attach there is one per CPU
 * @ready: QPs with work, newest first; any CPU adds
 * @local: QPs taken from @ready and not run yet, oldest first; the poll only
 */
struct rocev2_rxq {
	struct napi_struct	napi;
	struct llist_head	ready;
	struct llist_node	*local;
};

int rocev2_rxqs_init(struct rocev2_dev *dev);
void rocev2_rxqs_exit(struct rocev2_dev *dev);

/**
 * rocev2_rxq_schedule() - put a QP on this CPU's ready list
 * @qp: the QP, in state ROCEV2_QP_QUEUED, which carries a reference on qp->users
 *
 * Context: any.
 */
void rocev2_rxq_schedule(struct rocev2_qp *qp);

/* a receive queue's turn with a QP it took off its ready list; qp.c */
int rocev2_qp_poll(struct rocev2_qp *qp, int budget);

#endif
