// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The netdev below a link: the ingress hook that takes RoCE v2 packets off it
 * (softirq), the notifier that follows its state (RTNL), the list of links, and
 * the set of addresses that are ours.
 *
 * A link's struct rocev2_dev is in the list from rocev2_netdev_attach() to
 * rocev2_netdev_detach(), which ops.dealloc_driver calls. The list's reference on
 * the ib_device outlives that call: reap_work drops it when the core has finished
 * with the device, so module exit knows that no code of ours runs any more.
 *
 * The netdev's reference goes in the notifier, never later: users may keep the
 * ib_device for as long as they like.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/if_arp.h>
#include <linux/if_vlan.h>
#include <linux/ipv6.h>
#include <linux/netfilter_netdev.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <rdma/ib_addr.h>

#include "rocev2.h"
#include "rx.h"
#include "qp.h"
#include "wire.h"

/* under RTNL, which the notifier holds anyway */
static LIST_HEAD(links);
static struct workqueue_struct *reap_wq;

/* addresses */

static struct rocev2_gid *gid_find(struct rocev2_dev *dev, const union ib_gid *gid)
{
	struct rocev2_gid *entry;

	hlist_for_each_entry_rcu(entry, &dev->gid_hash[rocev2_gid_bucket(gid)], node,
				 lockdep_is_held(&dev->gid_lock)) {
		if (!memcmp(&entry->gid, gid, sizeof(*gid)))
			return entry;
	}
	return NULL;
}

/**
 * rocev2_gid_add() - an entry of the GID table has this address
 * @dev: the device
 * @gid: the address; the same one may be in several entries (upper netdevs)
 *
 * Context: process.
 *
 * Return: 0 or -ENOMEM.
 */
int rocev2_gid_add(struct rocev2_dev *dev, const union ib_gid *gid)
{
	struct rocev2_gid *entry, *new;

	new = kzalloc_obj(*new);
	if (!new)
		return -ENOMEM;
	new->gid = *gid;
	new->users = 1;

	spin_lock_bh(&dev->gid_lock);
	entry = gid_find(dev, gid);
	if (entry)
		entry->users++;
	else
		hlist_add_head_rcu(&new->node, &dev->gid_hash[rocev2_gid_bucket(gid)]);
	spin_unlock_bh(&dev->gid_lock);
	if (entry)
		kfree(new);
	return 0;
}

/**
 * rocev2_gid_del() - undo one rocev2_gid_add()
 * @dev: the device
 * @gid: the address
 *
 * Context: process.
 */
void rocev2_gid_del(struct rocev2_dev *dev, const union ib_gid *gid)
{
	struct rocev2_gid *entry;

	spin_lock_bh(&dev->gid_lock);
	entry = gid_find(dev, gid);
	if (entry && !--entry->users)
		hlist_del_rcu(&entry->node);
	else
		entry = NULL;
	spin_unlock_bh(&dev->gid_lock);
	if (entry)
		kfree_rcu(entry, rcu);
}

/**
 * rocev2_gid_is_local() - is this destination address ours?
 * @dev: the device
 * @gid: the address; IPv4 as mapped GID
 *
 * Context: under RCU.
 *
 * Return: true when an entry of the GID table has it.
 */
bool rocev2_gid_is_local(struct rocev2_dev *dev, const union ib_gid *gid)
{
	return gid_find(dev, gid);
}

/* ingress hook */

/* @skb may be shared, or a superpacket */
static bool skb_is_ours(struct rocev2_dev *dev, const struct sk_buff *skb)
{
	u8 copy[ROCEV2_RX_IP_UDP_MAX] __aligned(4);
	u32 len = min_t(u32, skb->len, sizeof(copy));
	const void *ip;

	/* promiscuous mode shows us packets for others */
	if (skb->pkt_type == PACKET_OTHERHOST)
		return false;
	ip = skb_header_pointer(skb, 0, len, copy);
	if (!ip || !rocev2_rx_is_ours(dev, skb->protocol, ip, len))
		return false;
	/* what is cut out of a fragment is no packet */
	return !skb_is_gso(skb) || skb->protocol != htons(ETH_P_IPV6) ||
	       ((struct ipv6hdr *)ip)->nexthdr == IPPROTO_UDP;
}

static unsigned int rocev2_ingress(void *priv, struct sk_buff *skb,
				   const struct nf_hook_state *state)
{
	struct rocev2_dev *dev = priv;
	struct sk_buff *ours = skb;

	if (!skb_is_ours(dev, skb))
		return NF_ACCEPT;

	/* a packet socket holds this skb: leave it alone and work on a clone */
	if (skb_shared(skb)) {
		ours = skb_clone(skb, GFP_ATOMIC);
		if (!ours) {
			rocev2_count(dev, ROCEV2_CNT_RX_NOMEM);
			return NF_DROP;
		}
	}

	if (ours != skb)
		consume_skb(skb);
	rocev2_rx_skb(dev, ours);
	return NF_STOLEN;
}

/* attach and detach */

/**
 * rocev2_netdev_mtu() - largest path MTU that a netdev carries
 * @netdev_mtu: bytes of an IP packet
 *
 * Return: at least IB_MTU_256, below which no path MTU exists.
 */
enum ib_mtu rocev2_netdev_mtu(unsigned int netdev_mtu)
{
	return iboe_get_mtu(netdev_mtu) ?: IB_MTU_256;
}

static enum ib_port_state port_state(const struct net_device *ndev)
{
	return netif_running(ndev) && netif_carrier_ok(ndev) ? IB_PORT_ACTIVE : IB_PORT_DOWN;
}

static struct rocev2_dev *link_find(const struct net_device *ndev)
{
	struct rocev2_dev *dev;

	ASSERT_RTNL();
	list_for_each_entry(dev, &links, links_node) {
		if (rcu_access_pointer(dev->ndev) == ndev)
			return dev;
	}
	return NULL;
}

static void reap(struct work_struct *work)
{
	struct rocev2_dev *dev = container_of(work, struct rocev2_dev, reap_work);

	/*
	 * The device is unregistered already; this waits for the thread that is
	 * still on its way out of our dealloc_driver.
	 */
	ib_unregister_device(&dev->ibdev);
	put_device(&dev->ibdev.dev);
}

/**
 * rocev2_netdev_attach() - put a link on a netdev
 * @dev: the device, not yet registered
 * @ndev: the netdev; one link each
 *
 * Context: process, without RTNL.
 *
 * Return: 0 or a negative errno.
 */
int rocev2_netdev_attach(struct rocev2_dev *dev, struct net_device *ndev)
{
	int ret;

	rtnl_lock();
	if (ndev->reg_state != NETREG_REGISTERED) {
		ret = -ENODEV;
		goto out;
	}
	if (ndev->type != ARPHRD_ETHER) {
		netdev_err(ndev, "rocev2: not an Ethernet device, RoCE v2 needs one\n");
		ret = -EOPNOTSUPP;
		goto out;
	}
	/* ib_core gives a VLAN's addresses to the RDMA device of the netdev below alone */
	if (is_vlan_dev(ndev)) {
		netdev_err(ndev, "rocev2: add the link to %s, its GIDs include this VLAN's\n",
			   vlan_dev_real_dev(ndev)->name);
		ret = -EOPNOTSUPP;
		goto out;
	}
	if (!iboe_get_mtu(ndev->mtu)) {
		netdev_err(ndev, "rocev2: MTU %u is too small for RoCE v2, set 352 or more\n",
			   ndev->mtu);
		ret = -EINVAL;
		goto out;
	}
	if (link_find(ndev)) {
		netdev_err(ndev, "rocev2: has a link already: see rdma link show\n");
		ret = -EEXIST;
		goto out;
	}

	dev->nf_ops = (struct nf_hook_ops) {
		.hook		= rocev2_ingress,
		.dev		= ndev,
		.priv		= dev,
		.pf		= NFPROTO_NETDEV,
		.hooknum	= NF_NETDEV_INGRESS,
		/* before every filter: our packets are not the stack's */
		.priority	= INT_MIN,
	};
	ret = nf_register_net_hook(dev_net(ndev), &dev->nf_ops);
	if (ret)
		goto out;

	netdev_hold(ndev, &dev->ndev_tracker, GFP_KERNEL);
	rcu_assign_pointer(dev->ndev, ndev);
	dev->port_state = port_state(ndev);
	get_device(&dev->ibdev.dev);
	INIT_WORK(&dev->reap_work, reap);
	list_add_tail(&dev->links_node, &links);
out:
	rtnl_unlock();
	return ret;
}

/**
 * rocev2_netdev_registered() - the core knows the device now
 * @dev: the device; the caller holds its memory
 *
 * Makes up for the unregistration of a netdev that went meanwhile.
 *
 * Context: process, without RTNL.
 */
void rocev2_netdev_registered(struct rocev2_dev *dev)
{
	rtnl_lock();
	if (!rcu_access_pointer(dev->ndev) && ib_device_try_get(&dev->ibdev)) {
		ib_unregister_device_queued(&dev->ibdev);
		ib_device_put(&dev->ibdev);
	}
	rtnl_unlock();
}

/* let go of the netdev; idempotent. RTNL */
static void release_netdev(struct rocev2_dev *dev)
{
	struct net_device *ndev = rtnl_dereference(dev->ndev);

	if (!ndev)
		return;
	nf_unregister_net_hook(dev_net(ndev), &dev->nf_ops);
	RCU_INIT_POINTER(dev->ndev, NULL);
	netdev_put(ndev, &dev->ndev_tracker);
}

/**
 * rocev2_netdev_detach() - take a link off its netdev, which may be gone already
 * @dev: the device, unregistered or never registered; not attached is fine
 *
 * On return nothing below the device calls into it any more.
 *
 * Context: process, without RTNL. Called by dealloc_driver.
 */
void rocev2_netdev_detach(struct rocev2_dev *dev)
{
	if (list_empty(&dev->links_node))
		return;
	rtnl_lock();
	release_netdev(dev);
	list_del_init(&dev->links_node);
	rtnl_unlock();
	/* the ingress hook may still be running on another CPU */
	synchronize_net();
	queue_work(reap_wq, &dev->reap_work);
}

/* notifier */

static void port_event(struct rocev2_dev *dev, enum ib_event_type type)
{
	struct ib_event event = {
		.device			= &dev->ibdev,
		.event			= type,
		.element.port_num	= ROCEV2_PORT,
	};

	ib_dispatch_event(&event);
}

static void port_state_changed(struct rocev2_dev *dev, const struct net_device *ndev)
{
	enum ib_port_state state = port_state(ndev);

	if (state == dev->port_state)
		return;
	dev->port_state = state;
	port_event(dev, state == IB_PORT_ACTIVE ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR);
}

/*
 * ib_device_try_get() keeps the device registered, so that events and the queued
 * unregistration find it alive. A link that is still being made fails it:
 * rocev2_device_add() looks at dev->ndev when it is done.
 */
static int netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct rocev2_dev *dev = link_find(ndev);

	if (!dev)
		return NOTIFY_DONE;

	if (event == NETDEV_UNREGISTER) {
		WRITE_ONCE(dev->gone, ROCEV2_GONE_NETDEV);
		release_netdev(dev);
	}
	if (!ib_device_try_get(&dev->ibdev))
		return NOTIFY_DONE;

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		port_state_changed(dev, ndev);
		break;
	case NETDEV_CHANGEMTU:
		/* query_port reads the MTU anew; the event tells users to ask */
		ibdev_dbg(&dev->ibdev, "MTU is %u now\n", ndev->mtu);
		if (dev->port_state == IB_PORT_ACTIVE)
			port_event(dev, IB_EVENT_PORT_ACTIVE);
		break;
	case NETDEV_CHANGEADDR:
		/*
		 * The core rebuilds the link-local GIDs and tells of it. The node
		 * GUID stays: it names the device for its life.
		 */
	case NETDEV_CHANGENAME:
		/* nothing keeps the name: get_netdev is asked each time */
		break;
	case NETDEV_UNREGISTER:
		if (dev->port_state == IB_PORT_ACTIVE)
			port_event(dev, IB_EVENT_PORT_ERR);
		dev->port_state = IB_PORT_DOWN;
		/* never wait for users here: they may wait for RTNL */
		ib_unregister_device_queued(&dev->ibdev);
		break;
	}
	ib_device_put(&dev->ibdev);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = {
	.notifier_call = netdev_event,
};

/**
 * rocev2_netdev_init() - start to follow netdevs
 *
 * Return: 0 or a negative errno.
 */
int rocev2_netdev_init(void)
{
	int ret;

	reap_wq = alloc_workqueue("rocev2_reap", WQ_UNBOUND, 0);
	if (!reap_wq)
		return -ENOMEM;
	ret = register_netdevice_notifier(&netdev_notifier);
	if (ret)
		destroy_workqueue(reap_wq);
	return ret;
}

/**
 * rocev2_netdev_exit() - remove all links and stop to follow netdevs
 *
 * No link can be added any more. ib_unregister_driver() would do it as well, but
 * takes down the devices of rdma_rxe too: they have the same driver id.
 */
void rocev2_netdev_exit(void)
{
	struct rocev2_dev *dev;

	for (;;) {
		rtnl_lock();
		dev = list_first_entry_or_null(&links, struct rocev2_dev, links_node);
		if (dev) {
			WRITE_ONCE(dev->gone, ROCEV2_GONE_MODULE);
			get_device(&dev->ibdev.dev);
		}
		rtnl_unlock();
		if (!dev)
			break;
		/* waits for whoever else unregisters it just now */
		ib_unregister_device(&dev->ibdev);
		put_device(&dev->ibdev.dev);
	}
	unregister_netdevice_notifier(&netdev_notifier);
	destroy_workqueue(reap_wq);
}
