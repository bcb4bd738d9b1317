/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Completer: acknowledgments, NAKs, READ and atomic responses, time-outs; what
 * becomes of send WQEs. Runs in the QP's owner.
 */
#ifndef ROCEV2_COMP_H
#define ROCEV2_COMP_H

#include <linux/ktime.h>
#include <rdma/ib_verbs.h>

#include "rx.h"
#include "uapi_new.h"

struct rocev2_qp;
struct rocev2_send_wqe;

/* a response packet */
enum rocev2_rx_verdict rocev2_comp_response(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);

/* the oldest send WQE is done */
void rocev2_comp_complete(struct rocev2_qp *qp, enum ib_wc_status status);
/* work requests that send nothing complete once those before them have */
void rocev2_comp_local(struct rocev2_qp *qp);
/* the oldest send WQE has failed, and the QP with it */
void rocev2_comp_fail(struct rocev2_qp *qp, enum ib_wc_status status);

/* the timer has fired: RNR wait over? acknowledgment overdue? */
void rocev2_comp_timers(struct rocev2_qp *qp);
/* end of a turn: when does the oldest unacknowledged packet count as lost? */
void rocev2_comp_update_deadline(struct rocev2_qp *qp);
/* when the timer must fire next; 0: never */
ktime_t rocev2_comp_next_deadline(const struct rocev2_qp *qp);

/* annex A19: answered by an empty READ response */
static inline bool rocev2_comp_is_placement(u8 opcode)
{
	return opcode == ROCEV2_WR_FLUSH || opcode == ROCEV2_WR_ATOMIC_WRITE;
}

/* a request whose response carries more than an acknowledgment; limited by max_rd_atomic */
static inline bool rocev2_comp_is_rd(u8 opcode)
{
	return opcode == IB_WR_RDMA_READ || opcode == IB_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IB_WR_ATOMIC_FETCH_AND_ADD || rocev2_comp_is_placement(opcode);
}

/* executed by the requester itself: no packets, no PSNs */
static inline bool rocev2_comp_is_local(u8 opcode)
{
	return opcode == IB_WR_BIND_MW || opcode == IB_WR_LOCAL_INV || opcode == IB_WR_REG_MR;
}

#endif
