/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Unreliable datagrams (UD and the GSI), both ends. Runs in the QP's owner. */
#ifndef ROCEV2_UD_H
#define ROCEV2_UD_H

#include "rx.h"

struct rocev2_qp;
struct rocev2_send_wqe;

/* what the network header takes at the head of every receive buffer (11.4.1.2) */
#define ROCEV2_GRH_BYTES	40

/**
 * rocev2_ud_send() - one datagram, at req.psn
 * @qp: the QP
 * @wqe: the send WQE
 *
 * Return: IB_WC_SUCCESS when it has left or was lost on the way (counted), else the
 * status that the WQE fails with.
 */
enum ib_wc_status rocev2_ud_send(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe);

/* a datagram for this QP */
enum rocev2_rx_verdict rocev2_ud_receive(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);

#endif
