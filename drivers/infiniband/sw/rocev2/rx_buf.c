// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Received packets that are skbs: from the netdev's ingress hook, or looped back. The
 * stages of the receive path know nothing of skbs; what they need of one is here. And copies
 * of packets that a QP keeps and a receive ring wants back.
 */
#include <linux/if_vlan.h>
#include <linux/indirect_call_wrapper.h>
#include <linux/skbuff.h>
#include <linux/slab.h>

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

void rocev2_rx_copy_frags(const struct rocev2_rx_buf *buf, u32 off, void *dst, u32 len)
{
	/* cannot fail: the parser held all lengths against those of the packet */
	WARN_ON_ONCE(skb_copy_bits(buf_skb(buf), off, dst, len));
}

/* page fragments of 64-bit kernels are mapped */
u32 rocev2_rx_crc_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len, u32 crc)
{
	const struct sk_buff *skb = buf_skb(buf);
	u32 end = skb_headlen(skb);
	int i;

	if (off < end) {
		u32 n = min(len, end - off);

		crc = rocev2_crc32(crc, skb->data + off, n);
		off += n;
		len -= n;
	}
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

__wsum rocev2_rx_checksum_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len)
{
	return skb_checksum(buf_skb(buf), off, len, 0);
}

/* headers in one piece, and bytes in the skb's own pages; may move skb->data */
static bool skb_pull_headers(struct sk_buff *skb, u32 ip_len)
{
	/* lists of skbs come from reassembly only; make them one */
	if (skb_has_frag_list(skb) && skb_linearize(skb))
		return false;
	return pskb_may_pull(skb, min_t(u32, skb->len, ip_len + ROCEV2_RX_UDP_TO_ETH));
}

void rocev2_rx_skb(struct rocev2_dev *dev, struct sk_buff *skb)
{
	struct rocev2_rx_buf *buf = skb_buf(skb);
	u8 flags = 0;
	bool pulled;

	if (skb->protocol == htons(ETH_P_IPV6))
		flags |= ROCEV2_RX_IPV6;
	pulled = skb_pull_headers(skb, rocev2_rx_ip_len(flags));
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
