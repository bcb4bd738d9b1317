// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * First stages of the receive path: is the packet RoCE v2 for one of our
 * addresses, and is it well-formed up to the BTH? Runs in the ingress hook,
 * bottom halves off. Nothing here trusts a length of the packet before it was
 * held against what was received.
 */
#include <linux/export.h>
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

/* UDP checksum; zero means none was made (annex A17.3.1.2 lets the sender choose) */
static bool udp_csum_ok(const struct rocev2_rx_buf *buf, const struct udphdr *uh)
{
	u32 ip_hdr = rocev2_rx_ip_len(buf->flags);
	u32 udp_len = buf->len - ip_hdr;
	__wsum body;
	__sum16 sum;

	if (!uh->check || buf->flags & ROCEV2_RX_CSUM_OK)
		return true;
	body = rocev2_rx_checksum(buf, ip_hdr, udp_len);
	if (buf->flags & ROCEV2_RX_IPV6) {
		const struct ipv6hdr *ip6h = buf->data;

		sum = csum_ipv6_magic(&ip6h->saddr, &ip6h->daddr, udp_len, IPPROTO_UDP, body);
	} else {
		const struct iphdr *iph = buf->data;

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
EXPORT_SYMBOL_GPL(rocev2_rx_is_ours);

/* the lengths are checked before anything behind them is read */
static enum rocev2_rx_verdict parse_ipv4(struct rocev2_rx_buf *buf, u32 *ip_len)
{
	const struct iphdr *iph = buf->data;
	u32 total;

	/* the ICRC of a packet with IP options is not defined (annex A17.3.3) */
	if (iph->ihl * 4 != sizeof(*iph))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_HEADER);
	if (iph->frag_off & htons(IP_MF | IP_OFFSET))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_FRAGMENT);
	if (ip_fast_csum(iph, iph->ihl))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_CHECKSUM);
	total = ntohs(iph->tot_len);
	if (total < sizeof(*iph) + sizeof(struct udphdr) || total > buf->len)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	if (ipv4_is_multicast(iph->daddr))
		buf->flags |= ROCEV2_RX_MCAST;
	*ip_len = total;
	return ROCEV2_RX_CONTINUE;
}

static enum rocev2_rx_verdict parse_ipv6(struct rocev2_rx_buf *buf, u32 *ip_len)
{
	const struct ipv6hdr *ip6h = buf->data;
	u32 total;

	if (ip6h->nexthdr != IPPROTO_UDP)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_FRAGMENT);
	total = sizeof(*ip6h) + ntohs(ip6h->payload_len);
	if (total < sizeof(*ip6h) + sizeof(struct udphdr) || total > buf->len)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	if (ipv6_addr_is_multicast(&ip6h->daddr))
		buf->flags |= ROCEV2_RX_MCAST;
	*ip_len = total;
	return ROCEV2_RX_CONTINUE;
}

/* BTH and the lengths that follow from it; of what the ICRC covers only the BTH is read */
enum rocev2_rx_verdict rocev2_rx_parse_bth(struct rocev2_rx_buf *buf, u32 len)
{
	const struct rocev2_bth *bth = rocev2_rx_hdr(buf, 0);
	const struct rocev2_opcode_info *info;
	u32 body;
	u8 pad;

	/* the last packet of a superpacket may be of any length */
	if (len < sizeof(*bth) + ROCEV2_ICRC_LEN)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
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
	buf->payload = (void *)bth - buf->data + info->hdr_len;
	buf->payload_len = body - pad;
	return ROCEV2_RX_CONTINUE;
}

static enum rocev2_rx_verdict parse_ip_udp(struct rocev2_rx_buf *buf, u32 *udp_len)
{
	enum rocev2_rx_verdict verdict;
	const struct udphdr *uh;
	u32 ip_len;

	/* IP and UDP header are there, as rocev2_rx_is_ours() has seen */
	if (buf->flags & ROCEV2_RX_IPV6)
		verdict = parse_ipv6(buf, &ip_len);
	else
		verdict = parse_ipv4(buf, &ip_len);
	if (verdict != ROCEV2_RX_CONTINUE)
		return verdict;

	uh = buf->data + rocev2_rx_ip_len(buf->flags);
	*udp_len = ntohs(uh->len);
	if (*udp_len != ip_len - rocev2_rx_ip_len(buf->flags) ||
	    *udp_len < sizeof(*uh) + sizeof(struct rocev2_bth) + ROCEV2_ICRC_LEN)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_LENGTH);
	/* Ethernet pads short frames behind the IP packet */
	buf->len = ip_len;
	return ROCEV2_RX_CONTINUE;
}

enum rocev2_rx_verdict rocev2_rx_parse(struct rocev2_rx_buf *buf)
{
	enum rocev2_rx_verdict verdict;
	u32 udp_len;

	verdict = parse_ip_udp(buf, &udp_len);
	if (verdict != ROCEV2_RX_CONTINUE)
		return verdict;
	if (!udp_csum_ok(buf, buf->data + rocev2_rx_ip_len(buf->flags)))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_CHECKSUM);
	return rocev2_rx_parse_bth(buf, udp_len - sizeof(struct udphdr));
}

enum rocev2_rx_verdict rocev2_rx_parse_super(struct rocev2_rx_buf *buf)
{
	const struct rocev2_bth *bth = rocev2_rx_hdr(buf, 0);
	enum rocev2_rx_verdict verdict;
	u32 udp_len;

	verdict = parse_ip_udp(buf, &udp_len);
	if (verdict != ROCEV2_RX_CONTINUE)
		return verdict;
	buf->opcode = bth->opcode;
	buf->psn = rocev2_bth_psn(bth);
	buf->qpn = rocev2_bth_qpn(bth);
	return ROCEV2_RX_CONTINUE;
}
