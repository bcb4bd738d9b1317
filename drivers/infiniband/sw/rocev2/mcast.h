/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Multicast groups: which UD QPs take the packets that are sent to a group.
 *
 * A group lives as long as a QP is attached to it; it makes its address one of
 * ours (gid_hash) and has the netdev take its frames. Groups change under RTNL, as
 * the netdev does; packets are delivered under RCU.
 */
#ifndef ROCEV2_MCAST_H
#define ROCEV2_MCAST_H

#include <linux/in.h>
#include <net/ipv6.h>
#include <rdma/ib_verbs.h>

struct rocev2_dev;
struct rocev2_qp;
struct rocev2_rx_buf;

/* what packets to a group have for a destination QP (9.2.5) */
#define ROCEV2_MCAST_QPN	0xffffffu

#define ROCEV2_MAX_MCAST_GRP	8192
#define ROCEV2_MAX_MCAST_QP	256	/* per group */

/* an IPv6 multicast address, or an IPv4 one as mapped GID */
static inline bool rocev2_gid_is_mcast(const union ib_gid *gid)
{
	const struct in6_addr *addr = (const struct in6_addr *)gid;

	return ipv6_addr_is_multicast(addr) ||
	       (ipv6_addr_v4mapped(addr) && ipv4_is_multicast(addr->s6_addr32[3]));
}

int rocev2_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int rocev2_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
/* process context: the QP leaves all its groups */
void rocev2_mcast_leave_all(struct rocev2_qp *qp);

/**
 * rocev2_mcast_deliver() - a parsed packet for a group
 * @dev: the device
 * @buf: the packet; stays the caller's
 * @queue: takes a clone for each QP
 *
 * Context: RCU, bottom halves off.
 * Return: false: nobody is attached.
 */
bool rocev2_mcast_deliver(struct rocev2_dev *dev, struct rocev2_rx_buf *buf,
			  void (*queue)(struct rocev2_qp *qp, struct rocev2_rx_buf *buf));

#endif
