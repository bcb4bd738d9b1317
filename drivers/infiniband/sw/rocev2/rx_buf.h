/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A received packet, as all stages of the receive path see it, wherever it came from.
 * Only who brings packets in knows what they really are.
 */
#ifndef ROCEV2_RX_BUF_H
#define ROCEV2_RX_BUF_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <net/checksum.h>

#include "counters.h"
#include "icrc.h"
#include "wire.h"

struct rocev2_dev;

enum rocev2_rx_flags {
	ROCEV2_RX_IPV6		= 1 << 0,
	ROCEV2_RX_CSUM_OK	= 1 << 1,	/* the UDP checksum needs no look */
	ROCEV2_RX_FRAGS		= 1 << 2,	/* not all bytes are at @data */
	ROCEV2_RX_MCAST		= 1 << 3,	/* sent to a group */
	ROCEV2_RX_ACKREQ	= 1 << 4,
	ROCEV2_RX_SOLICITED	= 1 << 5,
};

/**
 * struct rocev2_rx_buf - one received packet; lives in skb->cb
 * @data: the IP header. All headers lie behind it in one piece
 * @len: bytes of the IP packet; until it is parsed, bytes that are there
 * @psn: PSN
 * @opcode: BTH opcode
 * @qpn: destination QP
 * @reason: enum rocev2_counter, why it is dropped
 * @payload_len: bytes of the payload, pad not counted
 * @vlan_tci: VLAN tag, stripped; 0: none
 * @payload: offset of the payload
 * @flags: enum rocev2_rx_flags
 *
 * Who brings the packet in sets @data, @len, @vlan_tci and the first three flags
 *, the parser the rest. Values of the extended headers are read
 * in the packet, rocev2_rx_hdr(), once the ICRC was found good.
 *
 * The ICRC is in the last four bytes of @len, pad bytes before it.
 */
struct rocev2_rx_buf {
	void	*data;
	u32	psn : 24;
	u32	opcode : 8;
	u32	qpn : 24;
	u32	reason : 8;
	u16	len;
	u16	payload_len;
	u16	vlan_tci;
	u8	payload;
	u8	flags;
};

static_assert(ROCEV2_CNT_MAX <= 256);

/* headers that must lie in one piece at @data, as far as there are bytes: IP to AtomicETH */
#define ROCEV2_RX_UDP_TO_ETH	(sizeof(struct udphdr) + sizeof(struct rocev2_bth) +	\
				 sizeof(struct rocev2_atomiceth))

static inline struct rocev2_rx_buf *rocev2_rx_buf(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct rocev2_rx_buf) > sizeof(skb->cb));
	return (struct rocev2_rx_buf *)skb->cb;
}

/* bytes of the IP header */
static inline u32 rocev2_rx_ip_len(u8 flags)
{
	return flags & ROCEV2_RX_IPV6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

/* a transport header, @offset bytes behind the beginning of the BTH */
static inline void *rocev2_rx_hdr(const struct rocev2_rx_buf *buf, u32 offset)
{
	return buf->data + rocev2_rx_ip_len(buf->flags) + sizeof(struct udphdr) + offset;
}

/* ROCEV2_RX_FRAGS: the same for bytes in pieces */
void rocev2_rx_copy_frags(const struct rocev2_rx_buf *buf, u32 off, void *dst, u32 len);
u32 rocev2_rx_crc_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len, u32 crc);
__wsum rocev2_rx_checksum_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len);

/**
 * rocev2_rx_copy() - bytes of a packet
 * @buf: the packet
 * @off: from here on
 * @dst: where to
 * @len: bytes; all of them were found within @buf->len
 */
static inline void rocev2_rx_copy(const struct rocev2_rx_buf *buf, u32 off, void *dst, u32 len)
{
	if (likely(!(buf->flags & ROCEV2_RX_FRAGS)))
		memcpy(dst, buf->data + off, len);
	else
		rocev2_rx_copy_frags(buf, off, dst, len);
}

/* continues a CRC, see rocev2_crc32(), over bytes of a packet */
static inline u32 rocev2_rx_crc(const struct rocev2_rx_buf *buf, u32 off, u32 len, u32 crc)
{
	if (likely(!(buf->flags & ROCEV2_RX_FRAGS)))
		return rocev2_crc32(crc, buf->data + off, len);
	return rocev2_rx_crc_frags(buf, off, len, crc);
}

/* Internet checksum of bytes of a packet, not folded */
static inline __wsum rocev2_rx_checksum(const struct rocev2_rx_buf *buf, u32 off, u32 len)
{
	if (likely(!(buf->flags & ROCEV2_RX_FRAGS)))
		return csum_partial(buf->data + off, len, 0);
	return rocev2_rx_checksum_frags(buf, off, len);
}

/**
 * rocev2_rx_skb() - a packet from the netdev's ingress hook, or looped back
 * @dev: the device
 * @skb: data at the IP header, not shared; RoCE v2 for one of our addresses; consumed
 *
 * Context: bottom halves off, RCU.
 */
void rocev2_rx_skb(struct rocev2_dev *dev, struct sk_buff *skb);

#endif
