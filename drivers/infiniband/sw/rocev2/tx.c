// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Transmit: header templates, packets, and the hand-over to the device. Runs in
 * the QP's owner, but for the skb destructor, which runs wherever the device (or
 * the local receiver) lets go of a packet.
 *
 * A packet in the hands of a device holds the sender's memory and this module,
 * never its verbs object: destroying a QP or a link waits for no packet. rmmod says
 * "in use" while a device sits on one. Acknowledgments hold nothing.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>

#include "icrc.h"
#include "mcast.h"
#include "psn.h"
#include "qp.h"
#include "rocev2.h"
#include "rx.h"
#include "trace.h"
#include "tx.h"

/* in front of the Ethernet header: for devices that push headers of their own */
#define TX_HEADROOM	(64 + NET_IP_ALIGN)

static void path_fill_ipv4(struct rocev2_path *path, const struct ib_global_route *grh)
{
	struct iphdr *iph = (struct iphdr *)(path->bytes + ETH_HLEN);

	iph->version = 4;
	iph->ihl = sizeof(*iph) / 4;
	iph->tos = grh->traffic_class;
	iph->frag_off = htons(IP_DF);
	iph->ttl = grh->hop_limit;
	iph->protocol = IPPROTO_UDP;
	memcpy(&iph->saddr, &path->saddr.raw[12], sizeof(iph->saddr));
	memcpy(&iph->daddr, &path->daddr.raw[12], sizeof(iph->daddr));
}

static void path_fill_ipv6(struct rocev2_path *path, const struct ib_global_route *grh)
{
	struct ipv6hdr *ip6h = (struct ipv6hdr *)(path->bytes + ETH_HLEN);

	ip6_flow_hdr(ip6h, grh->traffic_class, htonl(grh->flow_label & 0xfffff));
	ip6h->nexthdr = IPPROTO_UDP;
	ip6h->hop_limit = grh->hop_limit;
	memcpy(&ip6h->saddr, &path->saddr, sizeof(ip6h->saddr));
	memcpy(&ip6h->daddr, &path->daddr, sizeof(ip6h->daddr));
}

/* frames of a GID on a VLAN above our netdev are tagged; a VLAN netdev tags its own */
static int path_fill_ethernet(struct rocev2_path *path, struct rocev2_dev *dev,
			      const struct rdma_ah_attr *attr)
{
	const struct ib_gid_attr *sgid = attr->grh.sgid_attr;
	struct ethhdr *eth = (struct ethhdr *)path->bytes;
	u16 vlan = VLAN_N_VID;
	int err;

	err = rdma_read_gid_l2_fields(sgid, &vlan, eth->h_source);
	if (err)
		return err;
	ether_addr_copy(eth->h_dest, attr->roce.dmac);
	eth->h_proto = htons(path->ipv6 ? ETH_P_IPV6 : ETH_P_IP);
	if (vlan < VLAN_N_VID && rcu_access_pointer(sgid->ndev) != rcu_access_pointer(dev->ndev)) {
		path->vlan = true;
		path->vlan_tci = vlan | (rdma_ah_get_sl(attr) & 7) << VLAN_PRIO_SHIFT;
	}
	return 0;
}

int rocev2_path_init(struct rocev2_path *path, struct rocev2_dev *dev,
		     const struct rdma_ah_attr *attr, u32 lqpn, u32 rqpn)
{
	const struct ib_global_route *grh = &attr->grh;
	struct udphdr *uh;
	int err;

	if (!(rdma_ah_get_ah_flags(attr) & IB_AH_GRH) || !grh->sgid_attr)
		return -EINVAL;
	memset(path, 0, sizeof(*path));
	path->saddr = grh->sgid_attr->gid;
	path->daddr = grh->dgid;
	path->ipv6 = rdma_gid_attr_network_type(grh->sgid_attr) == RDMA_NETWORK_IPV6;
	if (path->ipv6 == !!ipv6_addr_v4mapped((struct in6_addr *)&path->daddr))
		return -EINVAL;
	err = path_fill_ethernet(path, dev, attr);
	if (err)
		return err;
	if (path->ipv6)
		path_fill_ipv6(path, grh);
	else
		path_fill_ipv4(path, grh);
	path->len = ETH_HLEN + sizeof(*uh) +
		    (path->ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	path->flow_label = grh->flow_label;
	path->priority = rt_tos2priority(grh->traffic_class);

	/* the source port gives switches entropy (annex A17.3.1.2); no UDP checksum */
	uh = (struct udphdr *)(path->bytes + path->len - sizeof(*uh));
	uh->source = htons(rdma_get_udp_sport(grh->flow_label, lqpn, rqpn));
	uh->dest = htons(ROCEV2_UDP_DPORT);

	rcu_read_lock();
	path->mcast = rocev2_gid_is_mcast(&path->daddr);
	path->loopback = !path->mcast && rocev2_gid_is_local(dev, &path->daddr);
	rcu_read_unlock();
	return 0;
}

struct sk_buff *rocev2_tx_alloc(struct rocev2_qp *qp, const struct rocev2_path *path,
				u32 hdr_len, u32 payload)
{
	u32 pad = -payload & 3;
	struct sk_buff *skb;

	skb = alloc_skb(TX_HEADROOM + path->len + hdr_len + payload + pad + ROCEV2_ICRC_LEN,
			GFP_ATOMIC | __GFP_NOWARN);
	if (unlikely(!skb)) {
		rocev2_qp_count(qp, ROCEV2_CNT_TX_DROPPED);
		return NULL;
	}
	skb_reserve(skb, TX_HEADROOM);
	skb_put_data(skb, path->bytes, path->len);
	skb_put(skb, hdr_len + payload);
	skb_put_zero(skb, pad);
	skb_put(skb, ROCEV2_ICRC_LEN);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, path->len - sizeof(struct udphdr));
	return skb;
}

static void tx_destructor(struct sk_buff *skb)
{
	struct rocev2_qp *qp = skb_shinfo(skb)->destructor_arg;
	int left;

	/* once @left is out, another CPU's destructor may drop the last memory reference */
	rcu_read_lock();
	left = atomic_dec_return(&qp->inflight);
	if (left <= ROCEV2_MAX_INFLIGHT / 2 &&
	    test_and_clear_bit(ROCEV2_QP_TX_STOPPED, &qp->flags))
		rocev2_qp_kick(qp);
	if (!left) {
		rocev2_qp_mem_put(qp);
		module_put(THIS_MODULE);
	}
	rcu_read_unlock();
}

static void tx_charge(struct rocev2_qp *qp, struct sk_buff *skb)
{
	if (atomic_inc_return(&qp->inflight) == 1) {
		kref_get(&qp->mem);
		__module_get(THIS_MODULE);
	}
	skb_shinfo(skb)->destructor_arg = qp;
	skb->destructor = tx_destructor;
}

/*
 * A device has queues by CPU, whether it is XPS that chooses one or the backlog behind a
 * veth: a packet sent from another CPU than those before it may overtake them. The QP
 * sends from another one when nothing is left to overtake.
 */
static bool tx_keeps_order(const struct rocev2_qp *qp, int inflight)
{
	return !inflight || qp->tx_cpu == smp_processor_id();
}

bool rocev2_tx_may_send(struct rocev2_qp *qp, int limit)
{
	int inflight = atomic_read(&qp->inflight);

	if (unlikely(inflight >= limit || !tx_keeps_order(qp, inflight))) {
		set_bit(ROCEV2_QP_TX_STOPPED, &qp->flags);
		/* the flag is out before inflight is read again; pairs with atomic_dec_return() */
		smp_mb__after_atomic();
		inflight = atomic_read(&qp->inflight);
		if (inflight > ROCEV2_MAX_INFLIGHT / 2 || !tx_keeps_order(qp, inflight))
			return false;
		clear_bit(ROCEV2_QP_TX_STOPPED, &qp->flags);
	}
	qp->tx_cpu = smp_processor_id();
	return true;
}

static void finish_headers(struct rocev2_qp *qp, const struct rocev2_path *path,
			   struct sk_buff *skb)
{
	u32 udp_len = skb->len - skb_transport_offset(skb);

	if (path->ipv6) {
		ipv6_hdr(skb)->payload_len = htons(udp_len);
	} else {
		struct iphdr *iph = ip_hdr(skb);

		iph->tot_len = htons(skb->len - ETH_HLEN);
		iph->id = htons(qp->ip_id++);
		iph->check = 0;
		iph->check = ip_fast_csum(iph, iph->ihl);
	}
	udp_hdr(skb)->len = htons(udp_len);
}

static void finish_icrc(struct sk_buff *skb)
{
	const void *body = (void *)rocev2_tx_bth(skb) + sizeof(struct rocev2_bth);
	void *end = skb_tail_pointer(skb) - ROCEV2_ICRC_LEN;
	u32 crc = rocev2_icrc_headers(skb_network_header(skb));
	__le32 icrc;

	crc = rocev2_crc32(crc, body, end - body);
	icrc = rocev2_icrc_final(crc);
	memcpy(end, &icrc, sizeof(icrc));
}

/* to a QP of this device: the receive path takes it as if it had come from the wire */
static void send_loopback(struct rocev2_qp *qp, const struct rocev2_path *path,
			  struct sk_buff *skb, struct net_device *ndev)
{
	/* the address has been removed since the path was made */
	if (!rocev2_gid_is_local(qp->dev, &path->daddr)) {
		rocev2_qp_count(qp, ROCEV2_CNT_TX_DROPPED);
		kfree_skb(skb);
		return;
	}
	skb->dev = ndev;
	skb->pkt_type = PACKET_HOST;
	if (path->vlan)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), path->vlan_tci);
	skb_pull(skb, ETH_HLEN);
	rocev2_rx_skb(qp->dev, skb);
}

/* members of this device, the sender's QP among them, get a copy (10.5.2.2) */
static void send_members(struct rocev2_qp *qp, const struct rocev2_path *path,
			 const struct sk_buff *skb, struct net_device *ndev)
{
	struct sk_buff *copy;

	if (!rocev2_gid_is_local(qp->dev, &path->daddr))
		return;
	copy = skb_copy(skb, GFP_ATOMIC | __GFP_NOWARN);
	if (copy)
		send_loopback(qp, path, copy, ndev);
	else
		rocev2_qp_count(qp, ROCEV2_CNT_TX_DROPPED);
}

static void send_device(struct rocev2_qp *qp, const struct rocev2_path *path,
			struct sk_buff *skb, struct net_device *ndev,
			bool charge)
{
	int err;

	/* the netdev's MTU may have shrunk below the QP's */
	if (unlikely(skb->len - ETH_HLEN > READ_ONCE(ndev->mtu))) {
		rocev2_qp_count(qp, ROCEV2_CNT_TX_DROPPED);
		kfree_skb(skb);
		return;
	}
	skb->dev = ndev;
	skb->priority = path->priority;
	if (path->vlan)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), path->vlan_tci);
	if (charge)
		tx_charge(qp, skb);
	err = dev_queue_xmit(skb);
	if (unlikely(net_xmit_eval(err)))
		rocev2_qp_count(qp, ROCEV2_CNT_TX_DROPPED);
}

static void tx_send(struct rocev2_qp *qp, const struct rocev2_path *path, struct sk_buff *skb,
		    bool charge)
{
	struct net_device *ndev = rcu_dereference(qp->dev->ndev);
	const struct rocev2_bth *bth = rocev2_tx_bth(skb);

	if (unlikely(!ndev)) {
		rocev2_qp_count(qp, ROCEV2_CNT_TX_DROPPED);
		kfree_skb(skb);
		return;
	}
	finish_headers(qp, path, skb);
	finish_icrc(skb);
	skb->protocol = path->ipv6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
	rocev2_qp_count(qp, ROCEV2_CNT_TX_PACKETS);
	rocev2_qp_count_add(qp, ROCEV2_CNT_TX_BYTES, skb->len - ETH_HLEN);
	trace_rocev2_tx(qp->qpn, rocev2_bth_psn(bth), bth->opcode,
			skb->len - path->len);
	if (path->mcast)
		send_members(qp, path, skb, ndev);
	if (path->loopback)
		send_loopback(qp, path, skb, ndev);
	else
		send_device(qp, path, skb, ndev, charge);
}

void rocev2_tx_send(struct rocev2_qp *qp, const struct rocev2_path *path, struct sk_buff *skb)
{
	tx_send(qp, path, skb, true);
}

void rocev2_tx_ack(struct rocev2_qp *qp, u32 psn, u8 syndrome, u32 msn)
{
	struct rocev2_bth *bth;
	struct sk_buff *skb;

	skb = rocev2_tx_alloc(qp, &qp->path, sizeof(*bth) + sizeof(struct rocev2_aeth), 0);
	if (!skb)
		return;
	bth = rocev2_tx_bth(skb);
	rocev2_bth_fill(bth, ROCEV2_OP_ACK, 0, false, false, qp->dest_qpn, psn);
	rocev2_aeth_fill((void *)(bth + 1), syndrome, msn);
	/*
	 * They may overtake others, from whatever CPU they come. Were they counted, a QP that
	 * receives without end would always have some out, and could not send from another.
	 */
	tx_send(qp, &qp->path, skb, false);
}
