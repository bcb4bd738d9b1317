/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a native attach is to a link: receive queues of a network card's own, beside the ingress
 * hook of its netdev. The hook stays, so what the card does not steer to those queues (multicast,
 * everything while they are made anew) still arrives, by the longer way.
 */
#ifndef ROCEV2_ATTACH_H
#define ROCEV2_ATTACH_H

#include <linux/types.h>

struct net_device;
struct rocev2_dev;
union ib_gid;

/**
 * struct rocev2_attach_ops - what a link tells its native attach
 * @gid_add: packets to this address are ours; may be told again. Process context, may sleep. A
 *	failure is the attach's to log: its packets come by the netdev
 * @gid_del: ... no longer
 * @gone: the link is going away, and all addresses with it; on return no packet is handed to it.
 *	@by_netdev: because its netdev was unregistered (it may come again). Process context; must
 *	not take a lock that is held around rocev2_attach_add() or rocev2_attach_del()
 */
struct rocev2_attach_ops {
	void (*gid_add)(void *attach, const union ib_gid *gid);
	void (*gid_del)(void *attach, const union ib_gid *gid);
	void (*gone)(void *attach, bool by_netdev);
};

struct rocev2_dev *rocev2_attach_add(struct net_device *ndev, int numa_node,
				     const struct rocev2_attach_ops *ops, void *attach);
void rocev2_attach_del(struct rocev2_dev *dev);

#endif
