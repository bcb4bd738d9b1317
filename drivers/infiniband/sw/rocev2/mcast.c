// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Multicast groups; see mcast.h. */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/rculist.h>
#include <linux/rtnetlink.h>
#include <linux/slab.h>
#include <net/if_inet6.h>
#include <net/ip.h>

#include "mcast.h"
#include "qp.h"
#include "rocev2.h"
#include "rx.h"

struct mcast_member {
	struct hlist_node	node;
	struct rocev2_qp	*qp;
	struct rcu_head		rcu;
};

/**
 * struct rocev2_mcg - a multicast group
 * @node: in dev->mcgs
 * @gid: its address
 * @members: struct mcast_member
 * @count: how many (RTNL)
 * @rcu: frees it
 */
struct rocev2_mcg {
	struct hlist_node	node;
	union ib_gid		gid;
	struct hlist_head	members;
	u32			count;
	struct rcu_head		rcu;
};

static struct rocev2_mcg *mcg_find(struct rocev2_dev *dev, const union ib_gid *gid)
{
	struct rocev2_mcg *mcg;

	hlist_for_each_entry_rcu(mcg, &dev->mcgs[rocev2_gid_bucket(gid)], node,
				 lockdep_rtnl_is_held()) {
		if (!memcmp(&mcg->gid, gid, sizeof(*gid)))
			return mcg;
	}
	return NULL;
}

/* RFC 1112 and RFC 2464: the Ethernet address of an IP multicast group */
static void mcast_mac(const union ib_gid *gid, u8 *mac)
{
	const struct in6_addr *addr = (const struct in6_addr *)gid;

	if (ipv6_addr_is_multicast(addr))
		ipv6_eth_mc_map(addr, mac);
	else
		ip_eth_mc_map(addr->s6_addr32[3], mac);
}

static int mcg_create(struct rocev2_dev *dev, const union ib_gid *gid, struct rocev2_mcg **made)
{
	struct net_device *ndev = rtnl_dereference(dev->ndev);
	struct rocev2_mcg *mcg;
	u8 mac[ETH_ALEN];
	int err;

	if (!ndev)
		return -ENODEV;
	if (dev->num_mcgs >= ROCEV2_MAX_MCAST_GRP)
		return -ENOMEM;
	mcg = kzalloc_obj(*mcg);
	if (!mcg)
		return -ENOMEM;
	mcg->gid = *gid;
	err = rocev2_gid_add(dev, gid);
	if (err)
		goto err_free;
	mcast_mac(gid, mac);
	err = dev_mc_add(ndev, mac);
	if (err)
		goto err_gid;
	hlist_add_head_rcu(&mcg->node, &dev->mcgs[rocev2_gid_bucket(gid)]);
	dev->num_mcgs++;
	*made = mcg;
	return 0;

err_gid:
	rocev2_gid_del(dev, gid);
err_free:
	kfree(mcg);
	return err;
}

static void mcg_destroy(struct rocev2_dev *dev, struct rocev2_mcg *mcg)
{
	/* a netdev that is gone has dropped its list */
	struct net_device *ndev = rtnl_dereference(dev->ndev);
	u8 mac[ETH_ALEN];

	hlist_del_rcu(&mcg->node);
	dev->num_mcgs--;
	rocev2_gid_del(dev, &mcg->gid);
	mcast_mac(&mcg->gid, mac);
	if (ndev)
		dev_mc_del(ndev, mac);
	kfree_rcu(mcg, rcu);
}

static struct mcast_member *member_find(struct rocev2_mcg *mcg, const struct rocev2_qp *qp)
{
	struct mcast_member *member;

	hlist_for_each_entry(member, &mcg->members, node) {
		if (member->qp == qp)
			return member;
	}
	return NULL;
}

static void member_del(struct rocev2_dev *dev, struct rocev2_mcg *mcg,
		       struct mcast_member *member)
{
	hlist_del_rcu(&member->node);
	member->qp->num_mcgs--;
	kfree_rcu(member, rcu);
	if (!--mcg->count)
		mcg_destroy(dev, mcg);
}

static int attach(struct rocev2_dev *dev, struct rocev2_qp *qp, const union ib_gid *gid,
		  struct mcast_member *member)
{
	struct rocev2_mcg *mcg = mcg_find(dev, gid);
	int err;

	if (!mcg) {
		err = mcg_create(dev, gid, &mcg);
		if (err)
			return err;
	} else if (member_find(mcg, qp)) {
		return -EEXIST;
	} else if (mcg->count >= ROCEV2_MAX_MCAST_QP) {
		return -ENOMEM;
	}
	member->qp = qp;
	hlist_add_head_rcu(&member->node, &mcg->members);
	mcg->count++;
	qp->num_mcgs++;
	return 0;
}

/**
 * rocev2_attach_mcast() - ops.attach_mcast: a QP joins a group
 * @ibqp: a UD QP, says the core
 * @gid: the group's address
 * @lid: unused on Ethernet
 *
 * Telling the network (IGMP, MLD) is the business of rdma_cm or the application.
 *
 * Return: 0, -EEXIST (it is attached; ib_uverbs does not ask then), -EINVAL (not a
 * multicast address), -ENOMEM (memory, or a limit of query_device), -ENODEV (netdev gone).
 */
int rocev2_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibqp->device);
	struct mcast_member *member;
	int err;

	if (!rocev2_gid_is_mcast(gid))
		return -EINVAL;
	member = kzalloc_obj(*member);
	if (!member)
		return -ENOMEM;
	rtnl_lock();
	err = attach(dev, to_rocev2_qp(ibqp), gid, member);
	rtnl_unlock();
	if (err)
		kfree(member);
	return err;
}

/**
 * rocev2_detach_mcast() - ops.detach_mcast: a QP leaves a group
 * @ibqp: the QP
 * @gid: the group's address
 * @lid: unused on Ethernet
 *
 * Return: 0 or -EINVAL (not attached).
 */
int rocev2_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibqp->device);
	struct mcast_member *member = NULL;
	struct rocev2_mcg *mcg;

	rtnl_lock();
	mcg = mcg_find(dev, gid);
	if (mcg)
		member = member_find(mcg, to_rocev2_qp(ibqp));
	if (member)
		member_del(dev, mcg, member);
	rtnl_unlock();
	return member ? 0 : -EINVAL;
}

void rocev2_mcast_leave_all(struct rocev2_qp *qp)
{
	struct mcast_member *member;
	struct rocev2_mcg *mcg;
	struct hlist_node *next;
	int i;

	/* only attach changes it from 0, and the core allows none any more */
	if (!qp->num_mcgs)
		return;
	rtnl_lock();
	for (i = 0; i < ARRAY_SIZE(qp->dev->mcgs) && qp->num_mcgs; i++) {
		hlist_for_each_entry_safe(mcg, next, &qp->dev->mcgs[i], node) {
			member = member_find(mcg, qp);
			if (member)
				member_del(qp->dev, mcg, member);
		}
	}
	rtnl_unlock();
}

bool rocev2_mcast_deliver(struct rocev2_dev *dev, struct rocev2_rx_buf *buf,
			  void (*queue)(struct rocev2_qp *qp, struct rocev2_rx_buf *buf))
{
	struct mcast_member *member;
	struct rocev2_rx_buf *copy;
	struct rocev2_mcg *mcg;
	union ib_gid gid;

	if (buf->flags & ROCEV2_RX_IPV6)
		memcpy(&gid, &((struct ipv6hdr *)buf->data)->daddr, sizeof(gid));
	else
		ipv6_addr_set_v4mapped(((struct iphdr *)buf->data)->daddr, (struct in6_addr *)&gid);
	mcg = mcg_find(dev, &gid);
	if (!mcg)
		return false;
	hlist_for_each_entry_rcu(member, &mcg->members, node) {
		/* the copies share the bytes, which the receive path never changes */
		copy = buf->ops->clone(buf);
		if (copy)
			queue(member->qp, copy);
		else
			rocev2_count(dev, ROCEV2_CNT_RX_NOMEM);
	}
	return true;
}
