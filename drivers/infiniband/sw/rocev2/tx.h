/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Transmit: the Ethernet/IP/UDP header template of a path, made once when the QP
 * learns its address (as hardware does), and the packets built on it.
 */
#ifndef ROCEV2_TX_H
#define ROCEV2_TX_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <linux/udp.h>
#include <rdma/ib_verbs.h>

#include "wire.h"

struct rocev2_dev;
struct rocev2_qp;

/**
 * struct rocev2_path - header template of one path
 * @ipv6: the network header is IPv6
 * @loopback: the destination is a GID of this device: packets stay inside
 * @mcast: the destination is a multicast group: members of this device take it too
 * @vlan: tag packets with @vlan_tci
 * @vlan_tci: VLAN id and priority
 * @priority: skb->priority, from the traffic class
 * @len: bytes of the template: Ethernet + IP + UDP
 * @flow_label: of the address; 0: the UDP source port follows from the QPNs
 * @saddr: our address as a GID, what the peer sends to
 * @daddr: the peer's address as a GID, what it sends from
 * @pad: puts the IP header on a 4-byte border
 * @bytes: the template; lengths, IPv4 id and checksum are filled per packet
 */
struct rocev2_path {
	bool		ipv6;
	bool		loopback;
	bool		mcast;
	bool		vlan;
	u16		vlan_tci;
	u32		priority;
	u16		len;
	u32		flow_label;
	union ib_gid	saddr;
	union ib_gid	daddr;
	u8		pad[2];
	u8		bytes[ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct udphdr)];
} __aligned(8);

/**
 * rocev2_path_init() - make the header template of an address
 * @path: filled
 * @dev: the device
 * @attr: the resolved address (GRH, sgid_attr, dmac)
 * @lqpn: our QPN, for the UDP source port
 * @rqpn: the peer's QPN, for the UDP source port; both 0 for AHs, whose users set
 *	the port for each packet
 *
 * Return: 0, -EINVAL (no GRH, address families differ), -ENODEV (netdev gone).
 */
int rocev2_path_init(struct rocev2_path *path, struct rocev2_dev *dev,
		     const struct rdma_ah_attr *attr, u32 lqpn, u32 rqpn);

/**
 * rocev2_tx_alloc() - an skb with the path's template and room for the rest
 * @qp: the sender
 * @path: where to: &qp->path, or that of an AH
 * @hdr_len: transport header bytes, BTH included
 * @payload: payload bytes
 *
 * The BTH begins at skb_transport_header() + 8 (rocev2_tx_bth()); payload follows the
 * transport headers (rocev2_tx_payload()). Pad bytes are zeroed.
 *
 * Return: the skb, or NULL.
 */
struct sk_buff *rocev2_tx_alloc(struct rocev2_qp *qp, const struct rocev2_path *path,
				u32 hdr_len, u32 payload);

static inline struct rocev2_bth *rocev2_tx_bth(const struct sk_buff *skb)
{
	return (struct rocev2_bth *)(skb_transport_header(skb) + sizeof(struct udphdr));
}

/**
 * rocev2_tx_send() - finish lengths, checksum and ICRC, and transmit
 * @qp: the sender
 * @path: as given to rocev2_tx_alloc()
 * @skb: from rocev2_tx_alloc(), all bytes written; consumed
 */
void rocev2_tx_send(struct rocev2_qp *qp, const struct rocev2_path *path, struct sk_buff *skb);

/**
 * rocev2_tx_may_send() - room for another packet of this QP in the device's queues, in order?
 * @qp: the sender
 * @limit: packets the device may hold: ROCEV2_MAX_INFLIGHT for responses, more for
 *	requests, which a stream of READ responses must not shut out
 *
 * Context: the QP's owner, which stays on this CPU until the packet is sent.
 *
 * Return: false: not now; the QP is kicked as its packets leave the device.
 */
bool rocev2_tx_may_send(struct rocev2_qp *qp, int limit);

/* an acknowledge packet: ACK, NAK or RNR NAK */
void rocev2_tx_ack(struct rocev2_qp *qp, u32 psn, u8 syndrome, u32 msn);

#endif
