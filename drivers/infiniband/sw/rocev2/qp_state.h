/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a QP does in each state (IBA 10.3.1): one row a state. Which transitions
 * and attributes modify_qp accepts is ib_core's table (ib_modify_qp_is_ok()).
 * Pure, tested in tests/unit.
 */
#ifndef ROCEV2_QP_STATE_H
#define ROCEV2_QP_STATE_H

#include <linux/types.h>
#include <rdma/ib_verbs.h>

enum rocev2_qp_state_flags {
	ROCEV2_QPS_POST_RECV	= 1 << 0,	/* receive WQEs may be posted */
	ROCEV2_QPS_POST_SEND	= 1 << 1,	/* send WQEs may be posted */
	ROCEV2_QPS_RX_REQUEST	= 1 << 2,	/* the responder takes requests */
	ROCEV2_QPS_RX_RESPONSE	= 1 << 3,	/* the completer takes responses */
	ROCEV2_QPS_TX		= 1 << 4,	/* the requester finishes what it began */
	ROCEV2_QPS_TX_NEW	= 1 << 5,	/* ... and begins new messages */
	ROCEV2_QPS_FLUSH_RECV	= 1 << 6,	/* receive WQEs complete with a flush error */
	ROCEV2_QPS_FLUSH_SEND	= 1 << 7,	/* send WQEs complete with a flush error */
};

/* flags of @state; 0 for a number that is no state */
u32 rocev2_qp_state_flags(enum ib_qp_state state);

#endif
