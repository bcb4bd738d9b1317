// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The module: load, unload, and the rdma_link_ops behind
 * `rdma link add NAME type rocev2 netdev DEV`. Process context.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <rdma/rdma_netlink.h>

#include "crc.h"
#include "rocev2.h"
#include "mr_cache.h"
#include "odp.h"

unsigned int rocev2_mr_cache_entries = 256;

static int mr_cache_entries_set(const char *val, const struct kernel_param *kp)
{
	unsigned int entries;
	int ret;

	ret = kstrtouint(val, 0, &entries);
	if (ret)
		return ret;
	if (!rocev2_mr_cache_entries_ok(entries)) {
		pr_err("mr_cache_entries=%u: use a power of two up to %u, or 0 for no cache\n",
		       entries, ROCEV2_MR_CACHE_MAX);
		return -EINVAL;
	}
	*(unsigned int *)kp->arg = entries;
	return 0;
}

static const struct kernel_param_ops mr_cache_entries_ops = {
	.set = mr_cache_entries_set,
	.get = param_get_uint,
};

module_param_cb(mr_cache_entries, &mr_cache_entries_ops, &rocev2_mr_cache_entries, 0444);
__MODULE_PARM_TYPE(mr_cache_entries, "uint");
MODULE_PARM_DESC(mr_cache_entries,
		 "entries of the memory translation cache of a QP: a power of two, 0 for none (default 256)");

bool rocev2_superpackets = true;
module_param_named(superpackets, rocev2_superpackets, bool, 0644);
MODULE_PARM_DESC(superpackets,
		 "hand packets of equal length to the netdev as one if it can cut them (default Y)");

static int rocev2_newlink(const char *name, struct net_device *ndev)
{
	return rocev2_device_add(name, ndev);
}

/* the core unregisters the device right after; only note that it was asked for */
static int __maybe_unused rocev2_dellink(struct ib_device *ibdev)
{
	WRITE_ONCE(to_rocev2_dev(ibdev)->gone, ROCEV2_GONE_DELLINK);
	return 0;
}

struct rdma_link_ops rocev2_link_ops = {
	.type = "rocev2",
	.newlink = rocev2_newlink,
	RDMA_LINK_OP_DELLINK(rocev2_dellink)
};

static int __init rocev2_init(void)
{
	int ret;

	ret = rocev2_crc_init();
	if (ret)
		return ret;
	ret = rocev2_odp_init();
	if (ret)
		goto err_crc;
	ret = rocev2_netdev_init();
	if (ret)
		goto err_odp;
	rdma_link_register(&rocev2_link_ops);
	return 0;

err_odp:
	rocev2_odp_exit();
err_crc:
	rocev2_crc_exit();
	return ret;
}

static void __exit rocev2_exit(void)
{
	/* no newlink is running and none starts, once this returns */
	rdma_link_unregister(&rocev2_link_ops);
	rocev2_netdev_exit();
	rocev2_odp_exit();
	/* kfree_rcu() needs no code of ours, but call_rcu() of objects may */
	rcu_barrier();
	rocev2_crc_exit();
}

module_init(rocev2_init);
module_exit(rocev2_exit);

MODULE_DESCRIPTION("RoCE v2 in software, on any network interface");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_LINK("rocev2");
