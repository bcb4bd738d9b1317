// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Received packets that are skbs: from the netdev's ingress hook, or looped back. The
 * stages of the receive path know nothing of skbs; what they need of one is here. And copies
 * of packets that a QP keeps, of those that a receive ring wants back or that are part of a
 * superpacket.
 */
#include <linux/if_vlan.h>
#include <linux/indirect_call_wrapper.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/gso.h>

#include "rocev2.h"
#include "rx.h"
#include "rx_buf.h"

static struct rocev2_rx_buf *skb_buf(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct rocev2_rx_buf) > sizeof(skb->cb));
	return (struct rocev2_rx_buf *)skb->cb;
}

static struct sk_buff *buf_skb(const struct rocev2_rx_buf *buf)
{
	return container_of((void *)buf, struct sk_buff, cb);
}

static void skb_free(struct rocev2_rx_buf *buf, bool dropped)
{
	if (dropped)
		kfree_skb(buf_skb(buf));
	else
		consume_skb(buf_skb(buf));
}

static struct rocev2_rx_buf *skb_clone_buf(struct rocev2_rx_buf *buf)
{
	struct sk_buff *clone = skb_clone(buf_skb(buf), GFP_ATOMIC);

	return clone ? skb_buf(clone) : NULL;
}

static void skb_orphan_buf(struct rocev2_rx_buf *buf)
{
	skb_orphan(buf_skb(buf));
}

static const struct rocev2_rx_ops skb_ops = {
	.free	= skb_free,
	.clone	= skb_clone_buf,
	.orphan	= skb_orphan_buf,
};

void rocev2_rx_free(struct rocev2_rx_buf *buf, bool dropped)
{
	INDIRECT_CALL_1(buf->ops->free, skb_free, buf, dropped);
}

void rocev2_rx_orphan(struct rocev2_rx_buf *buf)
{
	if (buf->ops->orphan)
		INDIRECT_CALL_1(buf->ops->orphan, skb_orphan_buf, buf);
}

/* a copy that nobody but its QP has */
struct copied_buf {
	struct rocev2_rx_buf	buf;
	u8			packet[];
};

static void copy_free(struct rocev2_rx_buf *buf, bool dropped)
{
	kfree(container_of(buf, struct copied_buf, buf));
}

/* it is in its QP: nobody clones it any more */
static const struct rocev2_rx_ops copy_ops = {
	.free	= copy_free,
};

struct rocev2_rx_buf *rocev2_rx_detach(struct rocev2_rx_buf *buf)
{
	struct copied_buf *copy;

	if (!buf->ops->on_ring)
		return buf;
	/* reserves are for packets whose turn it is */
	copy = kmalloc(struct_size(copy, packet, buf->len), GFP_NOWAIT | __GFP_NOWARN);
	if (!copy)
		return NULL;
	copy->buf = *buf;
	copy->buf.ops = &copy_ops;
	copy->buf.data = copy->packet;
	copy->buf.flags &= ~(ROCEV2_RX_FRAGS | ROCEV2_RX_SEGMENT);
	rocev2_rx_copy(buf, 0, copy->packet, buf->len);
	rocev2_rx_free(buf, false);
	return &copy->buf;
}

void rocev2_rx_purge(struct list_head *packets)
{
	struct rocev2_rx_buf *buf, *next;

	list_for_each_entry_safe(buf, next, packets, node)
		rocev2_rx_free(buf, true);
	INIT_LIST_HEAD(packets);
}

/* bytes of an skb that are not all in its linear part */
static u32 skb_crc(const struct sk_buff *skb, u32 off, u32 len, u32 crc)
{
	u32 end = skb_headlen(skb);
	int i;

	if (off < end) {
		u32 n = min(len, end - off);

		crc = rocev2_crc32(crc, skb->data + off, n);
		off += n;
		len -= n;
	}
	/* page fragments of 64-bit kernels are mapped */
	for (i = 0; len && i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 start = end, n;

		end += skb_frag_size(frag);
		if (off >= end)
			continue;
		n = min(len, end - off);
		crc = rocev2_crc32(crc, skb_frag_address(frag) + (off - start), n);
		off += n;
		len -= n;
	}
	return crc;
}

/* IP and UDP headers are in @hdr only */
static void segment_copy(const struct rocev2_rx_segment *seg, u32 off, void *dst, u32 len)
{
	u32 net = rocev2_rx_net_len(&seg->buf);

	if (off < net) {
		u32 n = min(len, net - off);

		memcpy(dst, seg->hdr + off, n);
		off += n;
		dst += n;
		len -= n;
	}
	off -= net;
	if (likely(seg->body))
		memcpy(dst, seg->body + off, len);
	else
		WARN_ON_ONCE(skb_copy_bits(seg->skb, seg->off + off, dst, len));
}

void rocev2_rx_copy_frags(const struct rocev2_rx_buf *buf, u32 off, void *dst, u32 len)
{
	if (buf->flags & ROCEV2_RX_SEGMENT)
		segment_copy(container_of(buf, struct rocev2_rx_segment, buf), off, dst, len);
	else
		/* cannot fail: the parser held all lengths against those of the packet */
		WARN_ON_ONCE(skb_copy_bits(buf_skb(buf), off, dst, len));
}

u32 rocev2_rx_crc_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len, u32 crc)
{
	const struct rocev2_rx_segment *seg;

	if (!(buf->flags & ROCEV2_RX_SEGMENT))
		return skb_crc(buf_skb(buf), off, len, crc);
	seg = container_of(buf, struct rocev2_rx_segment, buf);
	off -= rocev2_rx_net_len(buf);
	if (likely(seg->body))
		return rocev2_crc32(crc, seg->body + off, len);
	return skb_crc(seg->skb, seg->off + off, len, crc);
}

__wsum rocev2_rx_checksum_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len)
{
	return skb_checksum(buf_skb(buf), off, len, 0);
}

/* --- superpackets --- */

u32 rocev2_rx_packets(const struct rocev2_rx_buf *buf)
{
	if (likely(!(buf->flags & ROCEV2_RX_SUPER)))
		return 1;
	return DIV_ROUND_UP(buf->len - rocev2_rx_net_len(buf), skb_shinfo(buf_skb(buf))->gso_size);
}

static void segment_free(struct rocev2_rx_buf *buf, bool dropped)
{
	struct rocev2_rx_segment *seg = container_of(buf, struct rocev2_rx_segment, buf);

	seg->dropped |= dropped;
}

/* gone with the superpacket */
static const struct rocev2_rx_ops segment_ops = {
	.free		= segment_free,
	.on_ring	= true,
};

/* @len bytes from @off on, if they are in one piece */
static void *skb_piece(const struct sk_buff *skb, u32 off, u32 len)
{
	u32 end = skb_headlen(skb);
	int i;

	if (off < end)
		return len <= end - off ? skb->data + off : NULL;
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++) {
		const skb_frag_t *frag = &skb_shinfo(skb)->frags[i];
		u32 start = end;

		end += skb_frag_size(frag);
		if (off < end)
			return len <= end - off ? skb_frag_address(frag) + (off - start) : NULL;
	}
	return NULL;
}

/* the packet at seg->off */
static bool segment_fill(struct rocev2_rx_segment *seg, struct rocev2_rx_buf *super)
{
	u32 net = rocev2_rx_net_len(super);
	u32 len, index;
	struct udphdr *uh;

	if (seg->off >= seg->end)
		return false;
	len = min(seg->seg_len, seg->end - seg->off);
	index = (seg->off - net) / seg->seg_len;
	seg->body = skb_piece(seg->skb, seg->off, len);
	rocev2_rx_buf_init(&seg->buf, &segment_ops, seg->hdr, net + len, super->vlan_tci,
			   (super->flags & ROCEV2_RX_IPV6) | ROCEV2_RX_FRAGS | ROCEV2_RX_SEGMENT);
	memcpy(seg->hdr, super->data, net);
	if (super->flags & ROCEV2_RX_IPV6) {
		struct ipv6hdr *ip6h = (void *)seg->hdr;

		ip6h->payload_len = htons(sizeof(*uh) + len);
		uh = (void *)(ip6h + 1);
	} else {
		struct iphdr *iph = (void *)seg->hdr;

		/* as whoever cuts it writes them; nobody looks at the header's checksum any more */
		iph->tot_len = htons(net + len);
		iph->id = htons(ntohs(iph->id) + index);
		uh = (void *)(iph + 1);
	}
	uh->len = htons(sizeof(*uh) + len);
	len = min_t(u32, len, sizeof(seg->hdr) - net);
	if (likely(seg->body))
		memcpy(seg->hdr + net, seg->body, len);
	else
		WARN_ON_ONCE(skb_copy_bits(seg->skb, seg->off, seg->hdr + net, len));
	return true;
}

bool rocev2_rx_segment_first(struct rocev2_rx_segment *seg, struct rocev2_rx_buf *super)
{
	seg->skb = buf_skb(super);
	seg->seg_len = skb_shinfo(seg->skb)->gso_size;
	seg->off = rocev2_rx_net_len(super) + super->payload_len * seg->seg_len;
	seg->end = super->len;
	seg->dropped = false;
	return segment_fill(seg, super);
}

bool rocev2_rx_segment_next(struct rocev2_rx_segment *seg, struct rocev2_rx_buf *super)
{
	super->payload_len++;
	seg->off += seg->seg_len;
	return segment_fill(seg, super);
}

/* --- from the netdev --- */

/* headers in one piece, and bytes in the skb's own pages; may move skb->data */
static bool skb_pull_headers(struct sk_buff *skb, u32 ip_len)
{
	/* lists of skbs come from reassembly only; make them one */
	if (skb_has_frag_list(skb) && skb_linearize(skb))
		return false;
	return pskb_may_pull(skb, min_t(u32, skb->len, ip_len + ROCEV2_RX_UDP_TO_ETH));
}

/*
 * Cut a superpacket into packets. Pages are shared, not copied, and checksums of a local
 * sender stay partial: nobody computes them.
 */
static void rx_cut(struct rocev2_dev *dev, struct sk_buff *skb)
{
	unsigned int mac_len = skb->data - skb_mac_header(skb);
	struct sk_buff *segs, *next;

	__skb_push(skb, mac_len);
	segs = __skb_gso_segment(skb, NETIF_F_SG | NETIF_F_HW_CSUM, false);
	if (IS_ERR_OR_NULL(segs)) {
		/* an error but this one: its headers are not those of its kind of GSO */
		rocev2_count(dev, segs == ERR_PTR(-ENOMEM) ? ROCEV2_CNT_RX_NOMEM :
							     ROCEV2_CNT_RX_HEADER);
		kfree_skb(skb);
		return;
	}
	consume_skb(skb);
	skb_list_walk_safe(segs, skb, next) {
		skb_mark_not_on_list(skb);
		__skb_pull(skb, mac_len);
		skb_reset_network_header(skb);
		rocev2_rx_skb(dev, skb);
	}
}

/* packets of a superpacket; UDP GSO makes no more */
#define RX_SEGS_MAX	128

/*
 * Only the layer above UDP GSO looks at what a tap device or a guest says of its superpacket, and
 * we are below. Nothing here is worth being cut that UDP GSO could not have made: 65,000 packets
 * of a byte, a checksum elsewhere than UDP has it, fragments of something larger.
 */
static bool rx_gso_is_sane(const struct sk_buff *skb, u32 net_len)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 size = shinfo->gso_size;

	if (!(shinfo->gso_type & SKB_GSO_UDP_L4))
		return false;
	if (size == GSO_BY_FRAGS)
		return skb_has_frag_list(skb);
	return size >= sizeof(struct rocev2_bth) + ROCEV2_ICRC_LEN && skb->len > net_len &&
	       DIV_ROUND_UP(skb->len - net_len, size) <= RX_SEGS_MAX &&
	       (skb->ip_summed != CHECKSUM_PARTIAL ||
		skb_checksum_start_offset(skb) == net_len - sizeof(struct udphdr));
}

/* may its packets stay together on their way to their QP? */
static bool rx_whole(const struct sk_buff *skb)
{
	const struct skb_shared_info *shinfo = skb_shinfo(skb);

	if ((shinfo->gso_type & ~SKB_GSO_DODGY) != SKB_GSO_UDP_L4 || !shinfo->gso_size ||
	    skb->len > U16_MAX || !skb_csum_unnecessary(skb))
		return false;
	/* a group has members that each take a packet */
	if (skb->protocol == htons(ETH_P_IPV6))
		return !ipv6_addr_is_multicast(&((struct ipv6hdr *)skb->data)->daddr);
	return !ipv4_is_multicast(((struct iphdr *)skb->data)->daddr);
}

void rocev2_rx_skb(struct rocev2_dev *dev, struct sk_buff *skb)
{
	struct rocev2_rx_buf *buf = skb_buf(skb);
	u8 flags = skb->protocol == htons(ETH_P_IPV6) ? ROCEV2_RX_IPV6 : 0;
	bool pulled;

	if (skb_is_gso(skb) &&
	    !rx_gso_is_sane(skb, rocev2_rx_ip_len(flags) + sizeof(struct udphdr))) {
		rocev2_rx_buf_init(buf, &skb_ops, skb->data, skb->len, 0, flags);
		rocev2_rx_refuse(dev, buf, ROCEV2_CNT_RX_HEADER);
		return;
	}
	/* a list of skbs is what it is cut into */
	if (skb_is_gso(skb) && skb_has_frag_list(skb)) {
		rx_cut(dev, skb);
		return;
	}
	pulled = skb_pull_headers(skb, rocev2_rx_ip_len(flags));
	if (skb_is_gso(skb)) {
		if (!pulled || !rx_whole(skb)) {
			rx_cut(dev, skb);
			return;
		}
		flags |= ROCEV2_RX_SUPER;
	}
	if (skb_is_nonlinear(skb))
		flags |= ROCEV2_RX_FRAGS;
	if (skb_csum_unnecessary(skb))
		flags |= ROCEV2_RX_CSUM_OK;
	rocev2_rx_buf_init(buf, &skb_ops, skb->data, skb->len,
			   skb_vlan_tag_present(skb) ? skb_vlan_tag_get(skb) : 0, flags);
	if (likely(pulled))
		rocev2_rx(dev, buf);
	else
		rocev2_rx_refuse(dev, buf, ROCEV2_CNT_RX_NOMEM);
}
