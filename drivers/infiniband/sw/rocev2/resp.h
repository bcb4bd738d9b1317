/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Responder. Everything here runs in the QP's owner unless said.
 *
 * Answers leave in the order of their PSNs: an acknowledgment or NAK waits until
 * all READ responses before it are sent, since to the requester it acknowledges
 * everything before its PSN (9.7.5.1.2).
 */
#ifndef ROCEV2_RESP_H
#define ROCEV2_RESP_H

#include "rx.h"

struct ib_wc;
struct rocev2_mr;
struct rocev2_qp;
struct rocev2_resp_res;

/* a request with the expected PSN */
enum rocev2_rx_verdict rocev2_resp_request(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);
/* a request to a UC QP, whatever its PSN */
enum rocev2_rx_verdict rocev2_resp_unreliable(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);
/* a request seen before */
enum rocev2_rx_verdict rocev2_resp_duplicate(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);
/* a request ahead of the expected PSN */
enum rocev2_rx_verdict rocev2_resp_gap(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);

/**
 * rocev2_resp_post() - the receive WQE in recv.wqe is done
 * @qp: the QP
 * @wc: its completion; wr_id, QP and port are filled in here
 * @solicited: wake up who waits for solicited completions only; errors always do
 *
 * Takes the QP down on an error, unless it is RC, whose peer must be refused first.
 *
 * Return: true when the CQ was full, for the first time.
 */
bool rocev2_resp_post(struct rocev2_qp *qp, struct ib_wc *wc, bool solicited);

/* send the batch's acknowledgment or NAK; in the error state flush receive WQEs */
void rocev2_resp_flush(struct rocev2_qp *qp);
/* the QP enters the error state: no more answers */
void rocev2_resp_stop(struct rocev2_qp *qp);
/* the QP enters RESET, or is new */
void rocev2_resp_reset(struct rocev2_qp *qp);

/**
 * rocev2_resp_nak() - refuse a request
 * @qp: the QP
 * @psn: PSN of the request
 * @syndrome: AETH syndrome
 * @event: async event of a fatal NAK, or ROCEV2_NO_EVENT
 *
 * All NAKs but sequence error and RNR are fatal: the QP enters the error state
 * once the NAK has left.
 */
void rocev2_resp_nak(struct rocev2_qp *qp, u32 psn, u8 syndrome, s8 event);

/* a page of the memory is not there yet; the request does not take effect now */
void rocev2_resp_fault(struct rocev2_qp *qp, u32 psn);

/* refuse with NAK remote access error (R_Key, bounds, permission) */
void rocev2_resp_nak_access(struct rocev2_qp *qp, u32 psn);
/* refuse with NAK invalid request */
void rocev2_resp_nak_invalid(struct rocev2_qp *qp, u32 psn);

/* syndrome of a positive acknowledgment, with the credits there are */
u8 rocev2_resp_ack_syndrome(const struct rocev2_qp *qp);

/* resp_read.c: READs, and the ring of responder resources that atomics share */
struct rocev2_resp_res *rocev2_resp_res_alloc(struct rocev2_qp *qp, u32 packets);
struct rocev2_resp_res *rocev2_resp_res_find(struct rocev2_qp *qp, u32 psn);
void rocev2_resp_res_due(struct rocev2_qp *qp, struct rocev2_resp_res *res, u32 psn);
void rocev2_resp_read(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);
void rocev2_resp_read_again(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);
/* send responses that are due; returns packets sent */
int rocev2_resp_read_run(struct rocev2_qp *qp, int budget);

static inline bool rocev2_resp_reads_due(const struct rocev2_qp *qp)
{
	return qp->recv.res_due != qp->recv.res_head;
}

/* resp_placement.c */
void rocev2_resp_atomic_write(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);
void rocev2_resp_flush_memory(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);
void rocev2_resp_placement_again(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);

/* resp_atomic.c */
u64 *rocev2_resp_get_u64(struct rocev2_qp *qp, u64 va, u32 rkey, int access,
			 struct rocev2_mr **mr);
void rocev2_resp_atomic(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);
void rocev2_resp_atomic_again(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf);

#endif
