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

/* packets of one superpacket; GSO counts on, and tx_destructor() has six bits for it */
#define ROCEV2_TX_SEGS_MAX	64

/**
 * struct rocev2_tx - what a QP has built and not handed over yet
 * @skb: a packet, or a superpacket that grows: NULL: nothing
 * @path: where to
 * @pkt: the packet begun: its BTH
 * @pkt_len: its bytes, from the BTH to the ICRC
 * @seg_len: @pkt_len of the first packet; others have as many, only the last may have fewer
 * @segs: packets that are finished
 * @max_segs: that @skb may have
 * @charge: @skb counts among the packets in flight
 * @room: where the next packet goes
 * @room_left: bytes there
 * @room_used: a packet lies in this fragment, which is the skb's
 * @handing: the skb that is being handed to the device, until it is let go
 *
 * Packets of equal length leave as one skb, which the receiver at the other end of a veth
 * takes whole, and which other devices cut (UDP GSO). The first one is the linear part,
 * those behind it lie in page fragments. Empty between turns of the owner.
 */
struct rocev2_tx {
	struct sk_buff			*skb;
	const struct rocev2_path	*path;
	void				*pkt;
	u32				pkt_len;
	u32				seg_len;
	u32				segs;
	u32				max_segs;
	bool				charge;
	void				*room;
	u32				room_left;
	bool				room_used;
	const struct sk_buff		*handing;
};

/**
 * rocev2_tx_begin() - a packet
 * @qp: the sender
 * @path: where to: &qp->path, or that of an AH
 * @hdr_len: transport header bytes, BTH included
 * @payload: payload bytes
 * @join: it may leave with others of its kind as one. Not what is sent again: whatever
 *	keeps superpackets from arriving must not keep it from doing so
 *
 * rocev2_tx_commit() or rocev2_tx_cancel() must follow, before anything else is sent.
 *
 * Return: the BTH, not aligned, with room for all that is behind it. Pad bytes are zeroed.
 * NULL: no memory, counted.
 */
struct rocev2_bth *rocev2_tx_begin(struct rocev2_qp *qp, const struct rocev2_path *path,
				   u32 hdr_len, u32 payload, bool join);

/* all bytes are written: make the ICRC. It leaves with rocev2_tx_flush() at the latest */
void rocev2_tx_commit(struct rocev2_qp *qp);
/* it is not to be sent */
void rocev2_tx_cancel(struct rocev2_qp *qp);
/* hand over what there is */
void rocev2_tx_flush(struct rocev2_qp *qp);

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
