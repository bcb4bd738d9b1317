/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Requester: send WQEs to packets. Runs in the QP's owner.
 */
#ifndef ROCEV2_REQ_H
#define ROCEV2_REQ_H

#include <linux/types.h>

#include "mr_bounds.h"

struct rocev2_qp;
struct rocev2_send_wqe;

/* send what the window allows; returns packets sent, @budget when there is more */
int rocev2_req_run(struct rocev2_qp *qp, int budget);
/* send from @psn on again */
void rocev2_req_go_back(struct rocev2_qp *qp, u32 psn);
void rocev2_req_fault_done(struct rocev2_qp *qp);
/* complete all send WQEs with a flush error */
void rocev2_req_flush(struct rocev2_qp *qp);
/* bytes of a SEND or WRITE, from its SGEs or inline */
enum rocev2_mr_status rocev2_req_gather(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe,
					u32 from, u32 len, void *dst);
/* the QP enters RESET, or is new */
void rocev2_req_reset(struct rocev2_qp *qp);

#endif
