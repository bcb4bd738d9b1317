/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_LINUX_NETDEVICE_H
#define _COMPAT_LINUX_NETDEVICE_H

#include_next <linux/netdevice.h>

#ifndef HAVE_ALLOC_NETDEV_DUMMY
#include <linux/etherdevice.h>

/*
 * Not init_dummy_netdev(): it clears the whole structure, and free_netdev() would
 * not know it again. A netdev that is never registered serves as well: NAPI only
 * asks for the two state bits.
 */
static inline struct net_device *alloc_netdev_dummy(int sizeof_priv)
{
	struct net_device *dev = alloc_netdev(sizeof_priv, "dummy#", NET_NAME_UNKNOWN,
					      ether_setup);

	if (dev) {
		set_bit(__LINK_STATE_PRESENT, &dev->state);
		set_bit(__LINK_STATE_START, &dev->state);
	}
	return dev;
}
#endif

#endif
