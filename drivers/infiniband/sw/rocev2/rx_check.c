// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receive stages of the QP's owner before any header is acted on: the ICRC, and
 * whether this QP takes this packet from this sender.
 */
#include <linux/if_vlan.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include "icrc.h"
#include "qp.h"
#include "rx.h"

/* CRC over skb bytes that need not be linear; page fragments of 64-bit kernels are mapped */
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

enum rocev2_rx_verdict rocev2_rx_check_icrc(struct rocev2_qp *qp, struct sk_buff *skb)
{
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	u32 from = buf->bth + sizeof(struct rocev2_bth);
	__le32 wire;
	u32 crc;

	/* lists of skbs come from reassembly only; make them one */
	if (skb_has_frag_list(skb) && skb_linearize(skb))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_NOMEM);
	crc = rocev2_icrc_headers(skb->data);
	crc = skb_crc(skb, from, buf->end - from, crc);
	if (skb_copy_bits(skb, buf->end, &wire, sizeof(wire)) || wire != rocev2_icrc_final(crc))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_ICRC);
	return ROCEV2_RX_CONTINUE;
}

/*
 * A VLAN is a network of its own: the same addresses in another one are another peer.
 * Tag 0 is only a priority. Tags arrive out of line: the core strips inline ones.
 */
static bool same_vlan(const struct rocev2_path *path, const struct sk_buff *skb)
{
	u16 want = path->vlan ? path->vlan_tci & VLAN_VID_MASK : 0;
	u16 got = skb_vlan_tag_present(skb) ? skb_vlan_tag_get_id(skb) : 0;

	return want == got;
}

/* the addresses must be those of the connection (annex A17.9.2: the QP's address vector) */
static bool same_path(const struct rocev2_path *path, const struct sk_buff *skb)
{
	if (!same_vlan(path, skb))
		return false;
	if (rocev2_rx_buf((struct sk_buff *)skb)->flags & ROCEV2_RX_IPV6) {
		const struct ipv6hdr *ip6h = (struct ipv6hdr *)skb->data;

		return path->ipv6 && !memcmp(&path->daddr, &ip6h->saddr, sizeof(path->daddr)) &&
		       !memcmp(&path->saddr, &ip6h->daddr, sizeof(path->saddr));
	} else {
		const struct iphdr *iph = (struct iphdr *)skb->data;

		return !path->ipv6 && !memcmp(&path->daddr.raw[12], &iph->saddr, 4) &&
		       !memcmp(&path->saddr.raw[12], &iph->daddr, 4);
	}
}

enum rocev2_rx_verdict rocev2_rx_check_qp(struct rocev2_qp *qp, struct sk_buff *skb)
{
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	bool response = rocev2_opcodes[buf->opcode].flags & ROCEV2_F_RESPONSE;

	if (!(rocev2_qp_state(qp) & (response ? ROCEV2_QPS_RX_RESPONSE : ROCEV2_QPS_RX_REQUEST)))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_STATE);
	/* a fatal NAK waits for READ responses before it: the QP is as good as in error */
	if (!response && qp->recv.dead)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_STATE);
	if ((buf->opcode & ROCEV2_SVC_MASK) != qp->service)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_SERVICE);
	if (qp->service == ROCEV2_SVC_UD) {
		const struct rocev2_deth *deth = rocev2_rx_hdr(skb, sizeof(struct rocev2_bth));

		/* anybody may send who knows the Q_Key (10.2.5) */
		if (be32_to_cpu(deth->qkey) != qp->attr.qkey)
			return rocev2_rx_drop(buf, ROCEV2_CNT_RX_QKEY);
	} else if (!same_path(&qp->path, skb)) {
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_SOURCE);
	}
	return ROCEV2_RX_CONTINUE;
}
