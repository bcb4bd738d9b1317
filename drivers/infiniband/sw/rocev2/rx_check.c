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

enum rocev2_rx_verdict rocev2_rx_check_icrc(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	u32 from = (u32)(rocev2_rx_hdr(buf, sizeof(struct rocev2_bth)) - buf->data);
	u32 end = buf->len - ROCEV2_ICRC_LEN;
	__le32 wire;
	u32 crc;

	crc = rocev2_icrc_headers(buf->data);
	crc = rocev2_rx_crc(buf, from, end - from, crc);
	rocev2_rx_copy(buf, end, &wire, sizeof(wire));
	if (wire != rocev2_icrc_final(crc))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_ICRC);
	return ROCEV2_RX_CONTINUE;
}

/*
 * A VLAN is a network of its own: the same addresses in another one are another peer.
 * Tag 0 is only a priority. Tags arrive out of line: the core strips inline ones.
 */
static bool same_vlan(const struct rocev2_path *path, const struct rocev2_rx_buf *buf)
{
	u16 want = path->vlan ? path->vlan_tci & VLAN_VID_MASK : 0;

	return want == (buf->vlan_tci & VLAN_VID_MASK);
}

/* the addresses must be those of the connection (annex A17.9.2: the QP's address vector) */
static bool same_path(const struct rocev2_path *path, const struct rocev2_rx_buf *buf)
{
	if (!same_vlan(path, buf))
		return false;
	if (buf->flags & ROCEV2_RX_IPV6) {
		const struct ipv6hdr *ip6h = buf->data;

		return path->ipv6 && !memcmp(&path->daddr, &ip6h->saddr, sizeof(path->daddr)) &&
		       !memcmp(&path->saddr, &ip6h->daddr, sizeof(path->saddr));
	} else {
		const struct iphdr *iph = buf->data;

		return !path->ipv6 && !memcmp(&path->daddr.raw[12], &iph->saddr, 4) &&
		       !memcmp(&path->saddr.raw[12], &iph->daddr, 4);
	}
}

enum rocev2_rx_verdict rocev2_rx_check_qp(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	bool response = rocev2_opcodes[buf->opcode].flags & ROCEV2_F_RESPONSE;

	if (!(rocev2_qp_state(qp) & (response ? ROCEV2_QPS_RX_RESPONSE : ROCEV2_QPS_RX_REQUEST)))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_STATE);
	/* a fatal NAK waits for READ responses before it: the QP is as good as in error */
	if (!response && qp->recv.dead)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_STATE);
	if ((buf->opcode & ROCEV2_SVC_MASK) != qp->service)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_SERVICE);
	if (qp->service == ROCEV2_SVC_UD) {
		const struct rocev2_deth *deth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));

		/* anybody may send who knows the Q_Key (10.2.5) */
		if (be32_to_cpu(deth->qkey) != qp->attr.qkey)
			return rocev2_rx_drop(buf, ROCEV2_CNT_RX_QKEY);
	} else if (!same_path(&qp->path, buf)) {
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_SOURCE);
	}
	return ROCEV2_RX_CONTINUE;
}
