/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The receive path: rx.c holds the list of stages, rx_parse.c, rx_check.c and
 * rx_psn.c the stages, resp.c and comp.c what comes of a good packet.
 */
#ifndef ROCEV2_RX_H
#define ROCEV2_RX_H

#include <linux/skbuff.h>

#include "counters.h"
#include "opcode.h"
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

enum rocev2_rx_flags {
	ROCEV2_RX_IPV6		= 1 << 0,
	ROCEV2_RX_ACKREQ	= 1 << 1,
	ROCEV2_RX_SOLICITED	= 1 << 2,
	ROCEV2_RX_MCAST		= 1 << 3,	/* sent to a group */
};

/**
 * struct rocev2_rx_buf - what is known of a received packet; lives in skb->cb
 * @va: RETH or AtomicETH virtual address
 * @length: RETH DMA length
 * @rkey: RETH, AtomicETH or IETH key
 * @psn: 24 bits
 * @bth: offset of the BTH in the skb, whose data begins at the IP header
 * @payload: offset of the payload
 * @payload_len: its bytes, pad not counted
 * @end: offset of the ICRC: end of payload and pad
 * @reason: counter of the drop
 * @opcode: BTH opcode
 * @flags: enum rocev2_rx_flags
 *
 * Values of the extended headers are read only after the ICRC was found good.
 */
struct rocev2_rx_buf {
	u64	va;
	u32	length;
	u32	rkey;
	u32	psn;
	u32	qpn;
	u16	bth;
	u16	payload;
	u16	payload_len;
	u16	end;
	u8	reason;
	u8	opcode;
	u8	flags;
};

static_assert(ROCEV2_CNT_MAX <= 256);

static inline struct rocev2_rx_buf *rocev2_rx_buf(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct rocev2_rx_buf) > sizeof(skb->cb));
	return (struct rocev2_rx_buf *)skb->cb;
}

static inline struct rocev2_bth *rocev2_rx_bth(struct sk_buff *skb)
{
	return (struct rocev2_bth *)(skb->data + rocev2_rx_buf(skb)->bth);
}

/* a transport header behind the BTH; all headers are linear after parsing */
static inline void *rocev2_rx_hdr(struct sk_buff *skb, u32 offset)
{
	return skb->data + rocev2_rx_buf(skb)->bth + offset;
}

static inline enum rocev2_rx_verdict rocev2_rx_drop(struct rocev2_rx_buf *buf,
						    enum rocev2_counter reason)
{
	buf->reason = reason;
	return ROCEV2_RX_DROP;
}

/**
 * rocev2_rx_skb() - a packet from the netdev's ingress hook, or looped back
 * @dev: the device
 * @skb: data at the IP header, not shared; RoCE v2 for one of our addresses; consumed
 *
 * Parses it, finds its QP and queues it there.
 *
 * Context: bottom halves off, RCU.
 */
void rocev2_rx_skb(struct rocev2_dev *dev, struct sk_buff *skb);

/* owner: all stages from the ICRC on; consumes the packet, or puts it back and sets recv.stalled */
void rocev2_rx_packet(struct rocev2_qp *qp, struct sk_buff *skb);

/**
 * rocev2_rx_keep() - keep a packet until its predecessors are here
 * @ahead: the list, in PSN order
 * @skb: the packet; its reason for waiting is counted already
 * @due: PSN whose turn it is
 *
 * Only what is within a window of @due is kept: packets farther ahead would keep out
 * those that are due first, time and again.
 *
 * Return: ROCEV2_RX_KEPT, or ROCEV2_RX_DONE: there already, or too far ahead.
 */
enum rocev2_rx_verdict rocev2_rx_keep(struct sk_buff_head *ahead, struct sk_buff *skb, u32 due);

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

/* rx_parse.c: lengths, fragments, checksums, BTH; fills rocev2_rx_buf() */
enum rocev2_rx_verdict rocev2_rx_parse(struct sk_buff *skb);

/* rx_check.c */
enum rocev2_rx_verdict rocev2_rx_check_icrc(struct rocev2_qp *qp, struct sk_buff *skb);
enum rocev2_rx_verdict rocev2_rx_check_qp(struct rocev2_qp *qp, struct sk_buff *skb);

/* rx_psn.c: requests only; duplicates and gaps are answered here */
enum rocev2_rx_verdict rocev2_rx_check_psn(struct rocev2_qp *qp, struct sk_buff *skb);

#endif
