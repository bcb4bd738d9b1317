// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The QP state table. Read by the QP's handlers and by the post verbs.
 */
#include <linux/types.h>

#include "qp_state.h"

static const u32 state_flags[IB_QPS_ERR + 1] = {
	[IB_QPS_RESET]	= 0,
	[IB_QPS_INIT]	= ROCEV2_QPS_POST_RECV,
	[IB_QPS_RTR]	= ROCEV2_QPS_POST_RECV | ROCEV2_QPS_RX_REQUEST,
	[IB_QPS_RTS]	= ROCEV2_QPS_POST_RECV | ROCEV2_QPS_POST_SEND | ROCEV2_QPS_RX_REQUEST |
			  ROCEV2_QPS_RX_RESPONSE | ROCEV2_QPS_TX | ROCEV2_QPS_TX_NEW,
	/* send queue drained or draining: outstanding messages end, no new one begins */
	[IB_QPS_SQD]	= ROCEV2_QPS_POST_RECV | ROCEV2_QPS_POST_SEND | ROCEV2_QPS_RX_REQUEST |
			  ROCEV2_QPS_RX_RESPONSE | ROCEV2_QPS_TX,
	/* send queue error: RC never enters it */
	[IB_QPS_SQE]	= ROCEV2_QPS_POST_RECV | ROCEV2_QPS_POST_SEND | ROCEV2_QPS_RX_REQUEST |
			  ROCEV2_QPS_FLUSH_SEND,
	[IB_QPS_ERR]	= ROCEV2_QPS_POST_RECV | ROCEV2_QPS_POST_SEND | ROCEV2_QPS_FLUSH_RECV |
			  ROCEV2_QPS_FLUSH_SEND,
};

u32 rocev2_qp_state_flags(enum ib_qp_state state)
{
	return (u32)state <= IB_QPS_ERR ? state_flags[state] : 0;
}
