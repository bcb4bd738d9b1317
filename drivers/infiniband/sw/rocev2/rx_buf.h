/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A received packet, as all stages of the receive path see it, wherever it came from.
 * Only who brings packets in knows what they really are.
 */
#ifndef ROCEV2_RX_BUF_H
#define ROCEV2_RX_BUF_H

#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/udp.h>
#include <net/checksum.h>

#include "counters.h"
#include "icrc.h"
#include "wire.h"

struct rocev2_dev;
struct rocev2_rx_buf;
struct sk_buff;

enum rocev2_rx_flags {
	ROCEV2_RX_IPV6		= 1 << 0,
	ROCEV2_RX_CSUM_OK	= 1 << 1,	/* the UDP checksum needs no look */
	ROCEV2_RX_FRAGS		= 1 << 2,	/* the bytes are not all at @data */
	ROCEV2_RX_MCAST		= 1 << 3,	/* sent to a group */
	ROCEV2_RX_ACKREQ	= 1 << 4,
	ROCEV2_RX_SOLICITED	= 1 << 5,
	ROCEV2_RX_SUPER		= 1 << 6,	/* an skb that is a superpacket */
	ROCEV2_RX_SEGMENT	= 1 << 7,	/* a packet of one: struct rocev2_rx_segment */
};

/**
 * struct rocev2_rx_ops - what a packet is to who brought it in
 * @free: nobody needs it any more. @dropped: it did not get where it should; for who
 *	looks for lost packets
 * @clone: another descriptor, as far filled in, of the same bytes, which nobody changes;
 *	NULL: no memory
 * @orphan: it is here, and its sender may send more; NULL where no sender waits for that
 * @on_ring: it is not there for long: its bytes are in a buffer of a receive ring, which
 *	must have it back soon, or part of a superpacket
 *
 * A QP keeps packets that are ahead of their turn, or wait for memory, for as long as it
 * lives: maybe longer than there is a ring or a netdev that they came from. Of those that
 * are @on_ring it keeps a copy, see rocev2_rx_detach().
 *
 * Context: bottom halves off, any CPU.
 */
struct rocev2_rx_ops {
	void (*free)(struct rocev2_rx_buf *buf, bool dropped);
	struct rocev2_rx_buf *(*clone)(struct rocev2_rx_buf *buf);
	void (*orphan)(struct rocev2_rx_buf *buf);
	bool on_ring;
};

/**
 * struct rocev2_rx_buf - one received packet
 * @node: place in a queue or a list of its QP
 * @ops: what brought it in
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
 * Who brings the packet in calls rocev2_rx_buf_init(), the parser fills in the rest. Values
 * of the extended headers are read in the packet, rocev2_rx_hdr(), once the ICRC was found
 * good: so the R_Key and the remote address of a request are not here.
 *
 * The ICRC is the last four bytes of @len; pad bytes are before it.
 *
 * A superpacket (ROCEV2_RX_SUPER) has @psn, @opcode and @qpn of its first packet; @payload_len
 * is the number of those that have been handled.
 *
 * An skb has it in skb->cb, a page in front of the packet, maybe within something larger
 * that keeps its DMA address. Its bytes may be others' too: nobody writes to them.
 */
struct rocev2_rx_buf {
	struct list_head		node;
	const struct rocev2_rx_ops	*ops;
	void				*data;
	u32				psn : 24;
	u32				opcode : 8;
	u32				qpn : 24;
	u32				reason : 8;
	u16				len;
	u16				payload_len;
	u16				vlan_tci;
	u8				payload;
	u8				flags;
};

static_assert(ROCEV2_CNT_MAX <= 256);

/* headers that must lie in one piece at @data, as far as there are bytes: IP to AtomicETH */
#define ROCEV2_RX_UDP_TO_ETH	(sizeof(struct udphdr) + sizeof(struct rocev2_bth) +	\
				 sizeof(struct rocev2_atomiceth))

/* bytes of the IP header */
static inline u32 rocev2_rx_ip_len(u8 flags)
{
	return flags & ROCEV2_RX_IPV6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

/* bytes in front of the BTH: of the IP and the UDP header */
static inline u32 rocev2_rx_net_len(const struct rocev2_rx_buf *buf)
{
	return rocev2_rx_ip_len(buf->flags) + sizeof(struct udphdr);
}

/* a transport header, @offset bytes behind the beginning of the BTH */
static inline void *rocev2_rx_hdr(const struct rocev2_rx_buf *buf, u32 offset)
{
	return buf->data + rocev2_rx_net_len(buf) + offset;
}

/**
 * rocev2_rx_buf_init() - describe a packet, before rocev2_rx()
 * @buf: filled
 * @ops: whose it is
 * @data: the IP header, and the ROCEV2_RX_UDP_TO_ETH bytes behind it in one piece,
 *	or all there are
 * @len: bytes from there on; Ethernet padding may be among them
 * @vlan_tci: VLAN tag, stripped; 0: none
 * @flags: ROCEV2_RX_IPV6, ROCEV2_RX_CSUM_OK, ROCEV2_RX_FRAGS, ROCEV2_RX_SUPER,
 *	ROCEV2_RX_SEGMENT
 */
static inline void rocev2_rx_buf_init(struct rocev2_rx_buf *buf, const struct rocev2_rx_ops *ops,
				      void *data, u32 len, u16 vlan_tci, u8 flags)
{
	*buf = (struct rocev2_rx_buf) {
		.ops = ops,
		.data = data,
		/* nobody looks at what is behind the IP packet */
		.len = min_t(u32, len, U16_MAX),
		.vlan_tci = vlan_tci,
		.flags = flags,
	};
}

/* give a packet back to who brought it in */
void rocev2_rx_free(struct rocev2_rx_buf *buf, bool dropped);
/* it is here: its sender may send more, as far as somebody waits for that */
void rocev2_rx_orphan(struct rocev2_rx_buf *buf);
/**
 * rocev2_rx_detach() - have a packet that can be kept for long
 * @buf: a packet, parsed; consumed unless NULL is returned
 *
 * Context: bottom halves off.
 *
 * Return: @buf, or a copy of it if it is @on_ring; NULL: no memory.
 */
struct rocev2_rx_buf *rocev2_rx_detach(struct rocev2_rx_buf *buf);
/* drop all packets of a list */
void rocev2_rx_purge(struct list_head *packets);

/* ROCEV2_RX_FRAGS: the same for bytes in pieces. Neither is for ROCEV2_RX_SUPER */
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
 * struct rocev2_rx_segment - a packet of a superpacket
 * @buf: the packet; @data is @hdr. As long as the superpacket is there
 * @skb: the superpacket
 * @body: from the BTH on, if that is in one piece, else NULL
 * @off: where that is in @skb
 * @end: bytes of @skb
 * @seg_len: of each packet from the BTH on, but maybe the last
 * @dropped: one of the packets was
 * @hdr: IP and UDP header as the packet would have them alone, and the transport headers
 */
struct rocev2_rx_segment {
	struct rocev2_rx_buf	buf;
	struct sk_buff		*skb;
	void			*body;
	u32			off;
	u32			end;
	u32			seg_len;
	bool			dropped;
	u8			hdr[sizeof(struct ipv6hdr) + ROCEV2_RX_UDP_TO_ETH] __aligned(8);
};

/* how many packets it is */
u32 rocev2_rx_packets(const struct rocev2_rx_buf *buf);

/**
 * rocev2_rx_segment_first() - walk a superpacket
 * @seg: the packet that is next, not parsed
 * @super: the superpacket, which stays the caller's
 *
 * Return: false: none is left.
 */
bool rocev2_rx_segment_first(struct rocev2_rx_segment *seg, struct rocev2_rx_buf *super);
bool rocev2_rx_segment_next(struct rocev2_rx_segment *seg, struct rocev2_rx_buf *super);

/* the payload, if it is in one piece, else NULL */
static inline const void *rocev2_rx_payload(const struct rocev2_rx_buf *buf)
{
	const struct rocev2_rx_segment *seg;

	if (likely(!(buf->flags & ROCEV2_RX_FRAGS)))
		return buf->data + buf->payload;
	if (!(buf->flags & ROCEV2_RX_SEGMENT))
		return NULL;
	seg = container_of(buf, struct rocev2_rx_segment, buf);
	return seg->body ? seg->body + buf->payload - rocev2_rx_net_len(buf) : NULL;
}

/**
 * struct rocev2_rx_queue - packets that anyone appends and one takes
 * @lock: all of it
 * @packets: struct rocev2_rx_buf
 * @len: how many packets, those of superpackets too; may be read without the lock
 * @detached: @len when rocev2_rx_stalled() had last looked at all of them
 * @closed: nothing is appended any more: the QP dies, and lookups from before find it still
 *
 * Context: bottom halves off.
 */
struct rocev2_rx_queue {
	spinlock_t		lock;	/* all of it */
	struct list_head	packets;
	u32			len;
	u32			detached;
	bool			closed;
};

static inline void rocev2_rx_queue_init(struct rocev2_rx_queue *queue)
{
	spin_lock_init(&queue->lock);
	INIT_LIST_HEAD(&queue->packets);
	queue->len = 0;
	queue->detached = 0;
	queue->closed = false;
}

static inline bool rocev2_rx_queue_empty(const struct rocev2_rx_queue *queue)
{
	return list_empty(&queue->packets);
}

/* @packets: how many it is. false: the queue is closed */
static inline bool rocev2_rx_queue_add(struct rocev2_rx_queue *queue, struct rocev2_rx_buf *buf,
				       u32 packets)
{
	bool closed;

	spin_lock(&queue->lock);
	closed = queue->closed;
	if (likely(!closed)) {
		list_add_tail(&buf->node, &queue->packets);
		WRITE_ONCE(queue->len, queue->len + packets);
	}
	spin_unlock(&queue->lock);
	return !closed;
}

static inline void rocev2_rx_queue_close(struct rocev2_rx_queue *queue)
{
	spin_lock(&queue->lock);
	queue->closed = true;
	spin_unlock(&queue->lock);
}

/* move them all to the end of @to */
static inline void rocev2_rx_queue_take(struct rocev2_rx_queue *queue, struct list_head *to)
{
	if (rocev2_rx_queue_empty(queue))
		return;
	spin_lock(&queue->lock);
	list_splice_tail_init(&queue->packets, to);
	WRITE_ONCE(queue->len, 0);
	queue->detached = 0;
	spin_unlock(&queue->lock);
}

/*
 * The same to look at them: they count on, so that no more come than may be there. Those that
 * have come meanwhile are behind them when they are put back.
 */
static inline void rocev2_rx_queue_borrow(struct rocev2_rx_queue *queue, struct list_head *to)
{
	spin_lock(&queue->lock);
	list_splice_init(&queue->packets, to);
	queue->detached = queue->len;
	spin_unlock(&queue->lock);
}

/* what was borrowed, but for @dropped packets */
static inline void rocev2_rx_queue_put_back(struct rocev2_rx_queue *queue, struct list_head *from,
					    u32 dropped)
{
	spin_lock(&queue->lock);
	list_splice_init(from, &queue->packets);
	WRITE_ONCE(queue->len, queue->len - dropped);
	queue->detached -= dropped;
	spin_unlock(&queue->lock);
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
