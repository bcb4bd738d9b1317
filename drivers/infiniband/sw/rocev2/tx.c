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
#include <net/ip6_checksum.h>
#include <net/ipv6.h>
#include <net/udp.h>
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

/* how long a device whose stack cuts superpackets is sent none */
#define SUPERPACKETS_REST	(10 * HZ)

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

/*
 * The sender and how many packets it is, in one word: whoever handles a superpacket may
 * change what skb_shinfo() says of it.
 */
static void *tx_tag(struct rocev2_qp *qp, u32 segs)
{
	BUILD_BUG_ON(__alignof__(struct rocev2_qp) < ROCEV2_TX_SEGS_MAX);
	return (void *)((unsigned long)qp + segs - 1);
}

static void tx_destructor(struct sk_buff *skb)
{
	unsigned long tag = (unsigned long)skb_shinfo(skb)->destructor_arg;
	struct rocev2_qp *qp = (void *)(tag & -ROCEV2_TX_SEGS_MAX);
	int left;

	/* within dev_queue_xmit() of the QP's owner, who has this CPU */
	if (READ_ONCE(qp->tx.handing) == skb && READ_ONCE(qp->tx_cpu) == raw_smp_processor_id())
		WRITE_ONCE(qp->tx.handing, NULL);
	/* once @left is out, another CPU's destructor may drop the last memory reference */
	rcu_read_lock();
	left = atomic_sub_return((tag & (ROCEV2_TX_SEGS_MAX - 1)) + 1, &qp->inflight);
	if (left <= ROCEV2_MAX_INFLIGHT / 2 &&
	    test_and_clear_bit(ROCEV2_QP_TX_STOPPED, &qp->flags))
		rocev2_qp_kick(qp);
	if (!left) {
		rocev2_qp_mem_put(qp);
		module_put(THIS_MODULE);
	}
	rcu_read_unlock();
}

static void tx_charge(struct rocev2_qp *qp, struct sk_buff *skb, u32 segs)
{
	if (atomic_add_return(segs, &qp->inflight) == segs) {
		kref_get(&qp->mem);
		__module_get(THIS_MODULE);
	}
	skb_shinfo(skb)->destructor_arg = tx_tag(qp, segs);
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
	int pending = qp->tx.skb ? qp->tx.segs : 0;
	int inflight = atomic_read(&qp->inflight);

	if (unlikely(inflight + pending >= limit || !tx_keeps_order(qp, inflight))) {
		set_bit(ROCEV2_QP_TX_STOPPED, &qp->flags);
		/* the flag is out before inflight is read again; pairs with atomic_sub_return() */
		smp_mb__after_atomic();
		inflight = atomic_read(&qp->inflight);
		/* what is pending is handed over, and its destructor sees the flag too */
		if (inflight + pending > ROCEV2_MAX_INFLIGHT / 2 || !tx_keeps_order(qp, inflight))
			return false;
		clear_bit(ROCEV2_QP_TX_STOPPED, &qp->flags);
	}
	WRITE_ONCE(qp->tx_cpu, smp_processor_id());
	return true;
}

/* --- building --- */

/* the lengths of a packet whose UDP datagram has @udp_len bytes, and its IPv4 id */
static void set_lengths(const struct rocev2_path *path, void *ip, u32 udp_len, u16 id)
{
	struct udphdr *uh;

	if (path->ipv6) {
		struct ipv6hdr *ip6h = ip;

		ip6h->payload_len = htons(udp_len);
		uh = (void *)(ip6h + 1);
	} else {
		struct iphdr *iph = ip;

		iph->tot_len = htons(sizeof(*iph) + udp_len);
		iph->id = htons(id);
		uh = (void *)(iph + 1);
	}
	uh->len = htons(udp_len);
}

static void set_ip_checksum(const struct rocev2_path *path, struct sk_buff *skb)
{
	if (!path->ipv6) {
		struct iphdr *iph = ip_hdr(skb);

		iph->check = 0;
		iph->check = ip_fast_csum(iph, iph->ihl);
	}
}

/* @ip: its IP, UDP and BTH headers in one piece */
static void set_icrc(const void *ip, void *bth, u32 len)
{
	u32 crc = rocev2_icrc_headers(ip);
	__le32 icrc;

	len -= ROCEV2_ICRC_LEN;
	crc = rocev2_crc32(crc, bth + sizeof(struct rocev2_bth), len - sizeof(struct rocev2_bth));
	icrc = rocev2_icrc_final(crc);
	memcpy(bth + len, &icrc, sizeof(icrc));
}

/*
 * How many packets a superpacket may have. The device's word counts, though the stack would
 * cut as well: it would have to make UDP checksums, which we need not have, and what it has
 * cut we do not see leave. So not on devices above others, whose word is not their own.
 */
static u32 max_segs(struct rocev2_qp *qp, const struct rocev2_path *path, u32 len)
{
	const struct rocev2_dev *dev = qp->dev;
	const struct net_device *ndev = rcu_dereference(dev->ndev);
	u32 segs = ROCEV2_TX_SEGS_MAX, bytes = U16_MAX;

	if (!rocev2_superpackets || path->mcast || !ndev)
		return 1;
	if (!path->loopback) {
		netdev_features_t csum = path->ipv6 ? NETIF_F_IPV6_CSUM : NETIF_F_IP_CSUM;
		netdev_features_t features = ndev->features & ~ndev->gso_partial_features;

		if (path->vlan)
			features &= ndev->vlan_features;
		if (!(features & NETIF_F_GSO_UDP_L4) || !(features & NETIF_F_SG) ||
		    !(features & (csum | NETIF_F_HW_CSUM)) || !list_empty(&ndev->adj_list.lower) ||
		    time_before(jiffies, READ_ONCE(dev->superpackets_from)))
			return 1;
		segs = min(segs, READ_ONCE(ndev->gso_max_segs));
		bytes = min(bytes, READ_ONCE(ndev->gso_max_size));
	}
	if (bytes <= TX_HEADROOM + path->len)
		return 1;
	bytes -= TX_HEADROOM + path->len;
	return clamp(bytes / len, 1u, segs);
}

static void *tx_start(struct rocev2_qp *qp, const struct rocev2_path *path, u32 len, bool join)
{
	struct rocev2_tx *tx = &qp->tx;
	struct sk_buff *skb;

	skb = alloc_skb(TX_HEADROOM + path->len + len, GFP_ATOMIC | __GFP_NOWARN);
	if (unlikely(!skb))
		return NULL;
	skb_reserve(skb, TX_HEADROOM);
	skb_put_data(skb, path->bytes, path->len);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb_set_transport_header(skb, path->len - sizeof(struct udphdr));
	tx->skb = skb;
	tx->path = path;
	tx->seg_len = len;
	tx->segs = 0;
	tx->charge = true;
	tx->max_segs = join ? max_segs(qp, path, len) : 1;
	tx->room = NULL;
	tx->room_left = 0;
	return skb_put(skb, len);
}

/* a page fragment more, for about as many packets as there are */
static bool tx_add_room(struct rocev2_tx *tx)
{
	u32 size = min(tx->segs + 1, tx->max_segs - tx->segs) * tx->seg_len;

	if (skb_shinfo(tx->skb)->nr_frags >= MAX_SKB_FRAGS)
		return false;
	if (size <= PAGE_SIZE) {
		tx->room = netdev_alloc_frag(size);
	} else {
		/* larger ones must be made, and the allocator keeps no larger ones at hand */
		u32 order = min(get_order(size), PAGE_ALLOC_COSTLY_ORDER);
		struct page *page;

		page = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY, order);
		tx->room = page ? page_address(page) : NULL;
		size = PAGE_SIZE << order;
	}
	tx->room_used = false;
	tx->room_left = tx->room ? size : 0;
	return tx->room_left >= tx->seg_len;
}

/* room for a packet behind those that are there; NULL: it must begin anew */
static void *tx_join(struct rocev2_tx *tx, const struct rocev2_path *path, u32 len, bool join)
{
	if (!join || tx->segs >= tx->max_segs || tx->path != path || len > tx->seg_len)
		return NULL;
	/* a shorter one ends it */
	if (tx->pkt_len != tx->seg_len)
		return NULL;
	if (tx->room_left < len && !tx_add_room(tx))
		return NULL;
	return tx->room;
}

struct rocev2_bth *rocev2_tx_begin(struct rocev2_qp *qp, const struct rocev2_path *path,
				   u32 hdr_len, u32 payload, bool join)
{
	u32 pad = -payload & 3, len = hdr_len + payload + pad + ROCEV2_ICRC_LEN;
	struct rocev2_tx *tx = &qp->tx;
	void *pkt = NULL;

	if (tx->skb) {
		pkt = tx_join(tx, path, len, join);
		if (!pkt)
			rocev2_tx_flush(qp);
	}
	if (!pkt)
		pkt = tx_start(qp, path, len, join);
	if (unlikely(!pkt)) {
		rocev2_qp_count(qp, ROCEV2_CNT_TX_DROPPED);
		return NULL;
	}
	memset(pkt + hdr_len + payload, 0, pad);
	tx->pkt = pkt;
	tx->pkt_len = len;
	return pkt;
}

void rocev2_tx_cancel(struct rocev2_qp *qp)
{
	struct rocev2_tx *tx = &qp->tx;

	if (tx->segs) {
		/* the next one must not be taken for a shorter one's successor */
		tx->pkt_len = tx->seg_len;
		return;
	}
	kfree_skb(tx->skb);
	tx->skb = NULL;
}

/* the packet begun lies in tx->room: make it part of the skb */
static void tx_append(struct rocev2_tx *tx)
{
	struct sk_buff *skb = tx->skb;
	int i = skb_shinfo(skb)->nr_frags;

	if (tx->room_used) {
		skb_frag_size_add(&skb_shinfo(skb)->frags[i - 1], tx->pkt_len);
	} else {
		struct page *page = virt_to_head_page(tx->room);

		/* the fragment's reference on the page is the skb's now */
		skb_fill_page_desc(skb, i, page, tx->room - page_address(page), tx->pkt_len);
		skb->truesize += tx->room_left;
		tx->room_used = true;
	}
	skb->len += tx->pkt_len;
	skb->data_len += tx->pkt_len;
	tx->room += tx->pkt_len;
	tx->room_left -= tx->pkt_len;
}

void rocev2_tx_commit(struct rocev2_qp *qp)
{
	struct rocev2_tx *tx = &qp->tx;
	struct rocev2_bth *bth = tx->pkt;
	u32 udp_len = sizeof(struct udphdr) + tx->pkt_len;
	u32 net_len = tx->path->len - ETH_HLEN;

	if (!tx->segs) {
		void *ip = skb_network_header(tx->skb);

		set_lengths(tx->path, ip, udp_len, qp->ip_id++);
		set_ip_checksum(tx->path, tx->skb);
		set_icrc(ip, bth, tx->pkt_len);
	} else {
		u8 hdr[ROCEV2_ICRC_MAX_HDR] __aligned(8);

		/* as whoever cuts the superpacket will write them: ids count up */
		memcpy(hdr, skb_network_header(tx->skb), net_len);
		set_lengths(tx->path, hdr, udp_len, qp->ip_id++);
		memcpy(hdr + net_len, bth, sizeof(*bth));
		set_icrc(hdr, bth, tx->pkt_len);
		tx_append(tx);
	}
	tx->segs++;
	rocev2_qp_count(qp, ROCEV2_CNT_TX_PACKETS);
	rocev2_qp_count_add(qp, ROCEV2_CNT_TX_BYTES, net_len + tx->pkt_len);
	trace_rocev2_tx(qp->qpn, rocev2_bth_psn(bth), bth->opcode, tx->pkt_len);
}

/* UDP GSO wants a checksum to be made of each packet: of the pseudo header it is here */
static void finish_superpacket(const struct rocev2_tx *tx)
{
	struct sk_buff *skb = tx->skb;
	struct skb_shared_info *shinfo = skb_shinfo(skb);
	u32 udp_len = skb->len - skb_transport_offset(skb);
	struct udphdr *uh = udp_hdr(skb);

	if (tx->path->ipv6) {
		struct ipv6hdr *ip6h = ipv6_hdr(skb);

		set_lengths(tx->path, ip6h, udp_len, 0);
		uh->check = ~udp_v6_check(udp_len, &ip6h->saddr, &ip6h->daddr, 0);
	} else {
		struct iphdr *iph = ip_hdr(skb);

		set_lengths(tx->path, iph, udp_len, ntohs(iph->id));
		set_ip_checksum(tx->path, skb);
		uh->check = ~udp_v4_check(udp_len, iph->saddr, iph->daddr, 0);
	}
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
	shinfo->gso_size = tx->seg_len;
	shinfo->gso_segs = tx->segs;
	shinfo->gso_type = SKB_GSO_UDP_L4;
}

/* --- handing over --- */

static void tx_drop(struct rocev2_qp *qp, struct sk_buff *skb)
{
	rocev2_qp_count_add(qp, ROCEV2_CNT_TX_DROPPED, qp->tx.segs);
	kfree_skb(skb);
}

/* to a QP of this device: the receive path takes it as if it had come from the wire */
static void send_loopback(struct rocev2_qp *qp, const struct rocev2_path *path,
			  struct sk_buff *skb, struct net_device *ndev)
{
	/* the address has been removed since the path was made */
	if (!rocev2_gid_is_local(qp->dev, &path->daddr)) {
		tx_drop(qp, skb);
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

/*
 * What of the stack cuts superpackets, a shaper such as tbf, does so as it takes them, and we do
 * not see the pieces leave: they no longer count as in flight, and those sent next from another
 * CPU may overtake them (tx_keeps_order()). Then this device has none for a while. A device that
 * lets go of any packet at once, as tun does, looks the same, but with it there is no order to
 * keep.
 */
static void tx_let_go(struct rocev2_qp *qp, u32 segs, bool at_once)
{
	struct rocev2_dev *dev = qp->dev;

	if (segs == 1) {
		if (READ_ONCE(dev->tx_lets_go) != at_once)
			WRITE_ONCE(dev->tx_lets_go, at_once);
	} else if (unlikely(at_once) && !READ_ONCE(dev->tx_lets_go)) {
		WRITE_ONCE(dev->superpackets_from, jiffies + SUPERPACKETS_REST);
		rocev2_qp_count(qp, ROCEV2_CNT_TX_SUPER_CUT);
	}
}

static void send_device(struct rocev2_qp *qp, const struct rocev2_path *path,
			struct sk_buff *skb, struct net_device *ndev)
{
	bool charged = qp->tx.charge;
	u32 segs = qp->tx.segs;
	int err;

	/* the netdev's MTU may have shrunk below the QP's */
	if (unlikely(path->len - ETH_HLEN + qp->tx.seg_len > READ_ONCE(ndev->mtu))) {
		tx_drop(qp, skb);
		return;
	}
	skb->dev = ndev;
	skb->priority = path->priority;
	if (path->vlan)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), path->vlan_tci);
	if (charged)
		tx_charge(qp, skb, segs);
	WRITE_ONCE(qp->tx.handing, skb);
	err = dev_queue_xmit(skb);
	if (unlikely(net_xmit_eval(err)))
		rocev2_qp_count_add(qp, ROCEV2_CNT_TX_DROPPED, segs);
	else if (charged)
		tx_let_go(qp, segs, !READ_ONCE(qp->tx.handing));
	WRITE_ONCE(qp->tx.handing, NULL);
}

void rocev2_tx_flush(struct rocev2_qp *qp)
{
	struct net_device *ndev = rcu_dereference(qp->dev->ndev);
	struct rocev2_tx *tx = &qp->tx;
	const struct rocev2_path *path = tx->path;
	struct sk_buff *skb = tx->skb;

	if (!skb)
		return;
	if (tx->room && !tx->room_used)
		skb_free_frag(tx->room);
	skb->protocol = path->ipv6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
	if (tx->segs > 1)
		finish_superpacket(tx);
	tx->skb = NULL;
	if (unlikely(!ndev)) {
		tx_drop(qp, skb);
		return;
	}
	if (tx->segs > 1)
		rocev2_qp_count(qp, ROCEV2_CNT_TX_SUPER);
	if (path->mcast)
		send_members(qp, path, skb, ndev);
	if (path->loopback)
		send_loopback(qp, path, skb, ndev);
	else
		send_device(qp, path, skb, ndev);
}

void rocev2_tx_ack(struct rocev2_qp *qp, u32 psn, u8 syndrome, u32 msn)
{
	struct rocev2_bth *bth;

	bth = rocev2_tx_begin(qp, &qp->path, sizeof(*bth) + sizeof(struct rocev2_aeth), 0, false);
	if (!bth)
		return;
	rocev2_bth_fill(bth, ROCEV2_OP_ACK, 0, false, false, qp->dest_qpn, psn);
	rocev2_aeth_fill((void *)(bth + 1), syndrome, msn);
	/*
	 * They may overtake others, from whatever CPU they come. Were they counted, a QP that
	 * receives without end would always have some out, and could not send from another.
	 */
	qp->tx.charge = false;
	rocev2_tx_commit(qp);
}
