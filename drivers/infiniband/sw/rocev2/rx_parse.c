// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * First stages of the receive path: is the packet RoCE v2 for one of our
 * addresses, and is it well-formed up to the BTH? Runs in the ingress hook,
 * bottom halves off. Nothing here trusts a length of the packet before it was
 * held against what was received.
 */
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>

#include "qp.h"
#include "rocev2.h"
#include "rx.h"

/* every transport header of an RC request or response fits */
#define RX_MAX_TRANSPORT	(sizeof(struct rocev2_bth) + sizeof(struct rocev2_atomiceth))

/* UDP checksum; zero means none was made (annex A17.3.1.2 lets the sender choose) */
static bool udp_csum_ok(struct sk_buff *skb, const struct udphdr *uh, u32 l3, u32 udp_len)
{
	__wsum body;
	__sum16 sum;

	if (!uh->check || skb_csum_unnecessary(skb))
		return true;
	body = skb_checksum(skb, l3, udp_len, 0);
	if (rocev2_rx_buf(skb)->flags & ROCEV2_RX_IPV6) {
		const struct ipv6hdr *ip6h = (struct ipv6hdr *)skb->data;

		sum = csum_ipv6_magic(&ip6h->saddr, &ip6h->daddr, udp_len, IPPROTO_UDP, body);
	} else {
		const struct iphdr *iph = (struct iphdr *)skb->data;

		sum = csum_tcpudp_magic(iph->saddr, iph->daddr, udp_len, IPPROTO_UDP, body);
	}
	return !sum;
}

/*
 * Nothing but UDP right behind the IP header is RoCE v2 (annex A17.3.1.1). First
 * fragments count: they are dropped with a reason. Fragments behind the first one
 * have no UDP header: they are the stack's.
 */
bool rocev2_rx_is_ours(struct rocev2_dev *dev, __be16 protocol, const void *ip, u32 len)
{
	const struct udphdr *uh;
	union ib_gid gid;
	u32 l4;

	if (protocol == htons(ETH_P_IP)) {
		const struct iphdr *iph = ip;

		if (len < sizeof(*iph) || iph->version != 4 || iph->ihl * 4 < sizeof(*iph) ||
		    iph->protocol != IPPROTO_UDP || iph->frag_off & htons(IP_OFFSET))
			return false;
		ipv6_addr_set_v4mapped(iph->daddr, (struct in6_addr *)&gid);
		l4 = iph->ihl * 4;
	} else if (protocol == htons(ETH_P_IPV6)) {
		const struct ipv6hdr *ip6h = ip;
		u8 nexthdr;

		if (len < sizeof(*ip6h) || ip6h->version != 6)
			return false;
		memcpy(&gid, &ip6h->daddr, sizeof(gid));
		nexthdr = ip6h->nexthdr;
		l4 = sizeof(*ip6h);
		if (nexthdr == NEXTHDR_FRAGMENT) {
			const struct frag_hdr *fh = ip + l4;

			if (len < l4 + sizeof(*fh) || fh->frag_off & htons(~0x7))
				return false;
			nexthdr = fh->nexthdr;
			l4 += sizeof(*fh);
		}
		if (nexthdr != IPPROTO_UDP)
			return false;
	} else {
		return false;
	}
	uh = ip + l4;
	return len >= l4 + sizeof(*uh) && uh->dest == htons(ROCEV2_UDP_DPORT) &&
	       rocev2_gid_is_local(dev, &gid);
}

/* the lengths are checked before anything behind them is read */
static enum rocev2_rx_verdict parse_ipv4(struct sk_buff *skb, u32 *l3, u32 *l4_len)
{
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	const struct iphdr *iph = (struct iphdr *)skb->data;
	u32 total;

	/* the ICRC of a packet with IP options is not defined (annex A17.3.3) */
	if (iph->ihl * 4 != sizeof(*iph))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_HEADER);
	if (iph->frag_off & htons(IP_MF | IP_OFFSET))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_FRAGMENT);
	if (ip_fast_csum(iph, iph->ihl))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_CHECKSUM);
	total = ntohs(iph->tot_len);
	if (total < sizeof(*iph) + sizeof(struct udphdr) || total > skb->len)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	if (ipv4_is_multicast(iph->daddr))
		buf->flags |= ROCEV2_RX_MCAST;
	*l3 = sizeof(*iph);
	*l4_len = total - sizeof(*iph);
	return ROCEV2_RX_CONTINUE;
}

static enum rocev2_rx_verdict parse_ipv6(struct sk_buff *skb, u32 *l3, u32 *l4_len)
{
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	const struct ipv6hdr *ip6h = (struct ipv6hdr *)skb->data;
	u32 total;

	buf->flags = ROCEV2_RX_IPV6;
	if (ip6h->nexthdr != IPPROTO_UDP)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_FRAGMENT);
	total = sizeof(*ip6h) + ntohs(ip6h->payload_len);
	if (total < sizeof(*ip6h) + sizeof(struct udphdr) || total > skb->len)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	if (ipv6_addr_is_multicast(&ip6h->daddr))
		buf->flags |= ROCEV2_RX_MCAST;
	*l3 = sizeof(*ip6h);
	*l4_len = total - sizeof(*ip6h);
	return ROCEV2_RX_CONTINUE;
}

/* BTH and the lengths that follow from it; of what the ICRC covers only the BTH is read */
static enum rocev2_rx_verdict parse_bth(struct sk_buff *skb, u32 bth_off, u32 len)
{
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	const struct rocev2_opcode_info *info;
	const struct rocev2_bth *bth;
	u32 body;
	u8 pad;

	bth = (struct rocev2_bth *)(skb->data + bth_off);
	buf->bth = bth_off;
	buf->opcode = bth->opcode;
	buf->psn = rocev2_bth_psn(bth);
	buf->qpn = rocev2_bth_qpn(bth);
	if (rocev2_bth_ackreq(bth))
		buf->flags |= ROCEV2_RX_ACKREQ;
	if (rocev2_bth_solicited(bth))
		buf->flags |= ROCEV2_RX_SOLICITED;

	info = &rocev2_opcodes[bth->opcode];
	if (rocev2_bth_tver(bth) || info->cls == ROCEV2_CLASS_NONE)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_HEADER);
	pad = rocev2_bth_pad(bth);
	if (len < info->hdr_len + pad + ROCEV2_ICRC_LEN)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	/* payload and pad together fill whole words (9.4.1) */
	body = len - info->hdr_len - ROCEV2_ICRC_LEN;
	if (body & 3 || (body && !(info->flags & ROCEV2_F_PAYLOAD)))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	/* full or limited member of the default partition (10.9.3) */
	if ((be16_to_cpu(bth->pkey) & 0x7fff) != (ROCEV2_DEFAULT_PKEY & 0x7fff))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_PKEY);
	buf->payload = bth_off + info->hdr_len;
	buf->payload_len = body - pad;
	buf->end = bth_off + len - ROCEV2_ICRC_LEN;
	return ROCEV2_RX_CONTINUE;
}

enum rocev2_rx_verdict rocev2_rx_parse(struct sk_buff *skb)
{
	bool ipv6 = skb->protocol == htons(ETH_P_IPV6);
	struct rocev2_rx_buf *buf = rocev2_rx_buf(skb);
	enum rocev2_rx_verdict verdict;
	const struct udphdr *uh;
	u32 l3, l4_len, udp_len;

	memset(buf, 0, sizeof(*buf));
	/* there are more bytes than that: rocev2_rx_is_ours() has seen a UDP header */
	if (!pskb_may_pull(skb, sizeof(*uh) +
			   (ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr))))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_NOMEM);
	verdict = ipv6 ? parse_ipv6(skb, &l3, &l4_len) : parse_ipv4(skb, &l3, &l4_len);
	if (verdict != ROCEV2_RX_CONTINUE)
		return verdict;

	uh = (struct udphdr *)(skb->data + l3);
	udp_len = ntohs(uh->len);
	if (udp_len != l4_len ||
	    udp_len < sizeof(*uh) + sizeof(struct rocev2_bth) + ROCEV2_ICRC_LEN)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	/* Ethernet pads short frames behind the IP packet */
	if (skb->len > l3 + udp_len && pskb_trim_rcsum(skb, l3 + udp_len))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_NOMEM);
	if (!pskb_may_pull(skb, min_t(u32, skb->len, l3 + sizeof(*uh) + RX_MAX_TRANSPORT)))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_NOMEM);
	uh = (struct udphdr *)(skb->data + l3);
	if (!udp_csum_ok(skb, uh, l3, udp_len))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_CHECKSUM);
	return parse_bth(skb, l3 + sizeof(*uh), udp_len - sizeof(*uh));
}
