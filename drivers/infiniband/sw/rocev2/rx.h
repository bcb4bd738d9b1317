/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receive path: rx.c holds the list of stages, rx_parse.c, rx_check.c and
 * rx_psn.c the stages, resp.c and comp.c what comes of a good packet.
 */
#ifndef ROCEV2_RX_H
#define ROCEV2_RX_H

#include "counters.h"
#include "opcode.h"
#include "rx_buf.h"
#include "wire.h"

struct rocev2_dev;
struct rocev2_qp;

/* what a stage says of a packet */
enum rocev2_rx_verdict {
	ROCEV2_RX_CONTINUE,	/* on to the next stage */
	ROCEV2_RX_DROP,		/* dropped in silence; buf->reason says why and is counted */
	ROCEV2_RX_DONE,		/* answered or handled; nothing more to do */
	ROCEV2_RX_KEPT,		/* ahead of its turn: on a list until then */
	ROCEV2_RX_STALLED,	/* its memory is not there yet: it stays at the head of the queue */
};

static inline enum rocev2_rx_verdict rocev2_rx_drop(struct rocev2_rx_buf *buf,
						    enum rocev2_counter reason)
{
	buf->reason = reason;
	return ROCEV2_RX_DROP;
}

/**
 * rocev2_rx() - a received packet
 * @dev: the device
 * @buf: the packet, from rocev2_rx_buf_init(); consumed
 *
 * Parses it, finds its QP and queues it there.
 *
 * Context: bottom halves off, RCU.
 */
void rocev2_rx(struct rocev2_dev *dev, struct rocev2_rx_buf *buf);

/* the same, for a packet that cannot even be looked at */
void rocev2_rx_refuse(struct rocev2_dev *dev, struct rocev2_rx_buf *buf,
		      enum rocev2_counter reason);

/*
 * owner: all stages from the ICRC on; consumes the packet, or puts it back and sets
 * recv.stalled. How many packets it was
 */
int rocev2_rx_packet(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);

/**
 * rocev2_rx_stalled() - packets of a QP wait for memory, for nobody knows how long
 * @qp: the QP; its owner calls, once recv.stalled is set, and as long as packets come
 *
 * Rings get their buffers back. Without memory for copies packets are dropped.
 */
void rocev2_rx_stalled(struct rocev2_qp *qp);

/**
 * rocev2_rx_keep() - keep a packet until its predecessors are here
 * @qp: whose it is
 * @ahead: the list, in PSN order
 * @buf: the packet; its reason for waiting is counted already
 * @due: PSN whose turn it is
 *
 * Only what is within a window of @due is kept: packets farther ahead would keep out
 * those that are due first, time and again.
 *
 * Return: ROCEV2_RX_KEPT; ROCEV2_RX_DONE: there already, or too far ahead; ROCEV2_RX_DROP: no
 * memory.
 */
enum rocev2_rx_verdict rocev2_rx_keep(struct rocev2_qp *qp, struct list_head *ahead,
				      struct rocev2_rx_buf *buf, u32 due);

/* IPv4 with all options, and UDP: the most that rocev2_rx_is_ours() needs */
#define ROCEV2_RX_IP_UDP_MAX	(60 + 8)

/**
 * rocev2_rx_is_ours() - RoCE v2 for one of our addresses?
 * @dev: the device
 * @protocol: Ethernet type, big-endian
 * @ip: the packet, from the IP header on
 * @len: its bytes in one piece, ROCEV2_RX_IP_UDP_MAX or all there are
 *
 * Context: RCU. rx_parse.c.
 */
bool rocev2_rx_is_ours(struct rocev2_dev *dev, __be16 protocol, const void *ip, u32 len);

/* rx_parse.c: lengths, fragments, checksums, BTH; fills in the rest of @buf */
enum rocev2_rx_verdict rocev2_rx_parse(struct rocev2_rx_buf *buf);

/* the same of a superpacket: all that its packets share. The BTH is that of the first */
enum rocev2_rx_verdict rocev2_rx_parse_super(struct rocev2_rx_buf *buf);
/* and of one of its packets, whose transport headers and payload have @len bytes */
enum rocev2_rx_verdict rocev2_rx_parse_bth(struct rocev2_rx_buf *buf, u32 len);

/* rx_check.c */
enum rocev2_rx_verdict rocev2_rx_check_icrc(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);
enum rocev2_rx_verdict rocev2_rx_check_qp(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);

/* rx_psn.c: requests only; duplicates and gaps are answered here */
enum rocev2_rx_verdict rocev2_rx_check_psn(struct rocev2_qp *qp, struct rocev2_rx_buf *buf);

#endif
