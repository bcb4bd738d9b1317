// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The native attach to ConnectX: an auxiliary driver on mlx5_core.rdma, the device that mlx5_core
 * makes of each function for its RDMA driver. Bound to one, it makes a link on the function's own
 * netdev whose packets come through receive queues of our own.
 *
 * Nothing loads this module by itself: where mlx5_ib drives the card, it goes on doing so until
 * someone unbinds it (Documentation/connectx.md).
 *
 * Life: probe makes the card's objects; the link is made when the function's netdev is there, dies
 * with it, and is made again when it comes back. remove() is also what the function's reset, its
 * health recovery and its disappearance come to: mlx5_core takes the auxiliary device away, and
 * answers the commands that destroy objects by itself when the card does not. Order of teardown:
 * no more netdev events, the link (QPs, GIDs, and with them all rules), steering, queues, the
 * function's other objects.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/auxiliary_bus.h>
#include <linux/if_vlan.h>
#include <linux/mlx5/transobj.h>
#include <linux/mlx5/vport.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "attach.h"
#include "mlx5.h"
#include "wire.h"

/* a card that fails again and again is not asked more often than that */
#define REBUILD_DELAY	msecs_to_jiffies(100)
/* when the queues could not be made */
#define RETRY_DELAY	(5 * HZ)
/* of looks for lost interrupts */
#define WATCH_PERIOD	HZ

/* Ethernet and a VLAN tag that was not stripped; payload, the longest headers, and the tail */
#define FRAME_OVERHEAD	(ETH_HLEN + VLAN_HLEN)
#define MAX_ROCE_PACKET	(4096 + 256)

#define MAX_QUEUES	64U

static unsigned int queues;
module_param(queues, uint, 0444);
MODULE_PARM_DESC(queues, "receive queues per function, at most 64; 0: one per online CPU (default)");

static unsigned int ring_size = 1024;
module_param(ring_size, uint, 0444);
MODULE_PARM_DESC(ring_size, "packets a receive queue holds: a power of two, 64 to 8192 (default 1024)");

/* the netdev */

/* frames as large as the netdev takes, and never less than the largest of RoCE v2 */
static u32 frame_len_for(const struct net_device *ndev)
{
	return max_t(u32, READ_ONCE(ndev->mtu), MAX_ROCE_PACKET) + FRAME_OVERHEAD;
}

/* all functions that are bound; RTNL */
static LIST_HEAD(attaches);

static struct rocev2_mlx5 *attach_of(const struct net_device *ndev)
{
	struct rocev2_mlx5 *attach;

	ASSERT_RTNL();
	list_for_each_entry(attach, &attaches, node) {
		if (ndev->dev.parent == attach->mdev->device)
			return attach;
	}
	return NULL;
}

/* RTNL; a function has one, representors of others come later */
static void take_netdev(struct rocev2_mlx5 *attach, struct net_device *ndev)
{
	if (attach->ndev)
		return;
	netdev_hold(ndev, &attach->ndev_tracker, GFP_KERNEL);
	attach->ndev = ndev;
	schedule_work(&attach->link_work);
}

/* RTNL */
static void drop_netdev(struct rocev2_mlx5 *attach)
{
	struct net_device *ndev = attach->ndev;

	attach->ndev = NULL;
	if (ndev)
		netdev_put(ndev, &attach->ndev_tracker);
}

/* from here on the netdev's events are seen; it may be there already */
static void follow_netdev(struct rocev2_mlx5 *attach)
{
	struct net_device *ndev;
	struct net *net;

	rtnl_lock();
	list_add_tail(&attach->node, &attaches);
	down_read(&net_rwsem);
	for_each_net(net) {
		for_each_netdev(net, ndev) {
			if (ndev->dev.parent == attach->mdev->device)
				take_netdev(attach, ndev);
		}
	}
	up_read(&net_rwsem);
	rtnl_unlock();
}

static void unfollow_netdev(struct rocev2_mlx5 *attach)
{
	rtnl_lock();
	list_del(&attach->node);
	drop_netdev(attach);
	rtnl_unlock();
}

/*
 * RTNL. One notifier for all functions: remove() can run while a network namespace is taken down,
 * where registering and unregistering one would wait for itself.
 */
static int netdev_event(struct notifier_block *nb, unsigned long event, void *ptr)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(ptr);
	struct rocev2_mlx5 *attach = attach_of(ndev);

	if (!attach)
		return NOTIFY_DONE;
	switch (event) {
	case NETDEV_REGISTER:
		take_netdev(attach, ndev);
		break;
	case NETDEV_UNREGISTER:
		if (attach->ndev == ndev)
			drop_netdev(attach);
		break;
	case NETDEV_CHANGEADDR:
		if (attach->ndev == ndev)
			rocev2_mlx5_rebuild(attach);
		break;
	case NETDEV_CHANGEMTU:
		if (attach->ndev == ndev && frame_len_for(ndev) > READ_ONCE(attach->frame_len))
			rocev2_mlx5_rebuild(attach);
		break;
	}
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = {
	.notifier_call = netdev_event,
};

/* the function's netdev, held; NULL when it is not there */
static struct net_device *get_netdev(struct rocev2_mlx5 *attach)
{
	struct net_device *ndev;

	rtnl_lock();
	ndev = attach->ndev;
	dev_hold(ndev);
	rtnl_unlock();
	return ndev;
}

/* queues and steering */

/* hw_lock */
static void hw_stop(struct rocev2_mlx5 *attach)
{
	if (!attach->started)
		return;
	rocev2_mlx5_steering_close(attach);
	rocev2_mlx5_rxqs_close(attach);
}

/* hw_lock */
static int hw_start(struct rocev2_mlx5 *attach)
{
	int ret;

	attach->order = get_order(ROCEV2_MLX5_HEADROOM + attach->frame_len);
	ret = rocev2_mlx5_rxqs_open(attach);
	if (ret)
		return ret;
	ret = rocev2_mlx5_steering_open(attach);
	if (ret)
		rocev2_mlx5_rxqs_close(attach);
	return ret;
}

/* hw_lock */
static void hw_restart(struct rocev2_mlx5 *attach)
{
	int ret;

	attach->rebuilds++;
	WRITE_ONCE(attach->last_rebuild, jiffies);
	hw_stop(attach);
	ret = hw_start(attach);
	if (!ret)
		return;
	dev_err_ratelimited(attach->dev,
			    "rocev2: cannot make the receive queues again (error %d): packets come through the netdev\n",
			    ret);
	schedule_delayed_work(&attach->rebuild_work, RETRY_DELAY);
}

/* hw_lock; true: the queues must be made again. Rules made from here on have the MAC address */
static bool hw_adapt(struct rocev2_mlx5 *attach, const struct net_device *ndev)
{
	u32 frame_len = frame_len_for(ndev);

	ether_addr_copy(attach->mac, ndev->dev_addr);
	if (frame_len <= attach->frame_len)
		return false;
	WRITE_ONCE(attach->frame_len, frame_len);
	return true;
}

static void rebuild_work(struct work_struct *work)
{
	struct rocev2_mlx5 *attach =
		container_of(to_delayed_work(work), struct rocev2_mlx5, rebuild_work);
	struct net_device *ndev = get_netdev(attach);

	mutex_lock(&attach->hw_lock);
	if (ndev)
		hw_adapt(attach, ndev);
	if (!attach->removing)
		hw_restart(attach);
	mutex_unlock(&attach->hw_lock);
	dev_put(ndev);
}

void rocev2_mlx5_rebuild(struct rocev2_mlx5 *attach)
{
	unsigned long next = READ_ONCE(attach->last_rebuild) + REBUILD_DELAY;

	/* queued already: nothing to add */
	schedule_delayed_work(&attach->rebuild_work,
			      time_before(jiffies, next) ? REBUILD_DELAY : 0);
}

static void watch_work(struct work_struct *work)
{
	struct rocev2_mlx5 *attach =
		container_of(to_delayed_work(work), struct rocev2_mlx5, watch_work);

	mutex_lock(&attach->hw_lock);
	rocev2_mlx5_rxqs_watch(attach);
	mutex_unlock(&attach->hw_lock);
	schedule_delayed_work(&attach->watch_work, round_jiffies_relative(WATCH_PERIOD));
}

/* the link */

/* link_lock; nobody has it any more */
static void forget_link(struct rocev2_mlx5 *attach)
{
	if (!attach->held)
		return;
	rocev2_attach_del(attach->held);
	attach->held = NULL;
}

static void link_gone(void *priv, bool by_netdev)
{
	struct rocev2_mlx5 *attach = priv;

	mutex_lock(&attach->hw_lock);
	attach->link_gone = true;
	RCU_INIT_POINTER(attach->link, NULL);
	rocev2_mlx5_rules_forget(attach);
	mutex_unlock(&attach->hw_lock);
	synchronize_net();
	/* moved to another namespace, it is there again already */
	if (by_netdev && !READ_ONCE(attach->removing))
		schedule_work(&attach->link_work);
}

static const struct rocev2_attach_ops attach_ops = {
	.gid_add = rocev2_mlx5_gid_add,
	.gid_del = rocev2_mlx5_gid_del,
	.gone = link_gone,
};

static void link_work(struct work_struct *work)
{
	struct rocev2_mlx5 *attach = container_of(work, struct rocev2_mlx5, link_work);
	struct net_device *ndev = get_netdev(attach);
	struct rocev2_dev *link;

	if (!ndev)
		return;
	mutex_lock(&attach->link_lock);
	if (rcu_access_pointer(attach->link))
		goto out;
	forget_link(attach);
	mutex_lock(&attach->hw_lock);
	attach->link_gone = false;
	if (hw_adapt(attach, ndev))
		hw_restart(attach);
	mutex_unlock(&attach->hw_lock);
	link = rocev2_attach_add(ndev, attach->mdev->priv.numa_node, &attach_ops, attach);
	if (IS_ERR(link)) {
		dev_err(attach->dev, "rocev2: no link on %s: error %pe\n", netdev_name(ndev), link);
		goto out;
	}
	attach->held = link;
	mutex_lock(&attach->hw_lock);
	/* it may have died already */
	if (!attach->link_gone) {
		rcu_assign_pointer(attach->link, link);
		rocev2_mlx5_rules_steer(attach);
	}
	mutex_unlock(&attach->hw_lock);
out:
	mutex_unlock(&attach->link_lock);
	dev_put(ndev);
}

/* what the queues and the steering are made of */

static int mkey_create(struct rocev2_mlx5 *attach)
{
	int inlen = MLX5_ST_SZ_BYTES(create_mkey_in);
	void *in, *mkc;
	int ret;

	in = kvzalloc(inlen, GFP_KERNEL);
	if (!in)
		return -ENOMEM;
	mkc = MLX5_ADDR_OF(create_mkey_in, in, memory_key_mkey_entry);
	MLX5_SET(mkc, mkc, access_mode_1_0, MLX5_MKC_ACCESS_MODE_PA);
	MLX5_SET(mkc, mkc, lw, 1);
	MLX5_SET(mkc, mkc, lr, 1);
	MLX5_SET(mkc, mkc, pd, attach->pdn);
	MLX5_SET(mkc, mkc, length64, 1);
	MLX5_SET(mkc, mkc, qpn, 0xffffff);
	ret = mlx5_core_create_mkey(attach->mdev, &attach->mkey, in, inlen);
	kvfree(in);
	return ret;
}

static int resources_create(struct rocev2_mlx5 *attach)
{
	struct mlx5_core_dev *mdev = attach->mdev;
	int ret;

	attach->uar = mlx5_get_uars_page(mdev);
	if (IS_ERR(attach->uar))
		return PTR_ERR(attach->uar);
	ret = mlx5_core_alloc_pd(mdev, &attach->pdn);
	if (ret)
		goto err_uar;
	ret = mlx5_core_alloc_transport_domain(mdev, &attach->tdn);
	if (ret)
		goto err_pd;
	ret = mkey_create(attach);
	if (ret)
		goto err_td;
	return 0;

err_td:
	mlx5_core_dealloc_transport_domain(mdev, attach->tdn);
err_pd:
	mlx5_core_dealloc_pd(mdev, attach->pdn);
err_uar:
	mlx5_put_uars_page(mdev, attach->uar);
	return ret;
}

static void resources_destroy(struct rocev2_mlx5 *attach)
{
	struct mlx5_core_dev *mdev = attach->mdev;

	mlx5_core_destroy_mkey(mdev, attach->mkey);
	mlx5_core_dealloc_transport_domain(mdev, attach->tdn);
	mlx5_core_dealloc_pd(mdev, attach->pdn);
	mlx5_put_uars_page(mdev, attach->uar);
}

/*
 * With RoCE enabled in the port's context the card takes UDP port 4791 for itself. mlx5_ib enables
 * it when it binds, and disables it when it lets go.
 */
static int check_roce_is_off(struct rocev2_mlx5 *attach)
{
	u32 in[MLX5_ST_SZ_DW(query_nic_vport_context_in)] = {};
	int outlen = MLX5_ST_SZ_BYTES(query_nic_vport_context_out);
	bool enabled;
	void *out;
	int ret;

	out = kvzalloc(outlen, GFP_KERNEL);
	if (!out)
		return -ENOMEM;
	MLX5_SET(query_nic_vport_context_in, in, opcode, MLX5_CMD_OP_QUERY_NIC_VPORT_CONTEXT);
	ret = mlx5_cmd_exec(attach->mdev, in, sizeof(in), out, outlen);
	enabled = MLX5_GET(query_nic_vport_context_out, out, nic_vport_context.roce_en);
	kvfree(out);
	if (ret)
		return ret;
	if (enabled) {
		dev_err(attach->dev,
			"rocev2: RoCE is enabled in the card, which then keeps UDP port 4791 to itself; disable it: devlink dev param set pci/%s name enable_roce value false cmode driverinit && devlink dev reload pci/%s\n",
			dev_name(attach->mdev->device), dev_name(attach->mdev->device));
		return -EBUSY;
	}
	return 0;
}

/* a queue whose interrupt runs on another node pays for every packet */
static void check_affinity(struct rocev2_mlx5 *attach)
{
	int node = attach->mdev->priv.numa_node;
	u32 i, far = 0;

	if (node == NUMA_NO_NODE)
		return;
	for (i = 0; i < attach->num_rxqs; i++) {
		int cpu = mlx5_comp_vector_get_cpu(attach->mdev, i % attach->num_vectors);

		if (cpu >= 0 && cpu_to_node(cpu) != node)
			far++;
	}
	if (far)
		dev_warn(attach->dev,
			 "rocev2: %u of %u receive queues interrupt CPUs that are not on the card's NUMA node %d; load rocev2_mlx5 with queues=%u, or set the affinity of the card's interrupts in /proc/irq\n",
			 far, attach->num_rxqs, node, max(attach->num_rxqs - far, 1u));
}

/* by default no more than interrupt on their own; more, if somebody wants them, share vectors */
static u32 queues_wanted(const struct rocev2_mlx5 *attach)
{
	return queues ? min(queues, MAX_QUEUES) : min(num_online_cpus(), attach->num_vectors);
}

static int rxqs_alloc(struct rocev2_mlx5 *attach)
{
	u32 i;

	attach->num_vectors = max(mlx5_comp_vectors_max(attach->mdev), 1u);
	attach->num_rxqs = queues_wanted(attach);
	attach->rxqs = kvcalloc(attach->num_rxqs, sizeof(*attach->rxqs), GFP_KERNEL);
	if (!attach->rxqs)
		return -ENOMEM;
	attach->napi_dev = alloc_netdev_dummy(0);
	if (!attach->napi_dev) {
		kvfree(attach->rxqs);
		return -ENOMEM;
	}
	for (i = 0; i < attach->num_rxqs; i++) {
		attach->rxqs[i].attach = attach;
		attach->rxqs[i].index = i;
	}
	return 0;
}

static void rxqs_free(struct rocev2_mlx5 *attach)
{
	free_netdev(attach->napi_dev);
	kvfree(attach->rxqs);
}

static int rocev2_mlx5_probe(struct auxiliary_device *adev, const struct auxiliary_device_id *id)
{
	struct mlx5_core_dev *mdev = container_of(adev, struct mlx5_adev, adev)->mdev;
	struct rocev2_mlx5 *attach;
	int ret;

	attach = kzalloc_obj(*attach);
	if (!attach)
		return -ENOMEM;
	attach->mdev = mdev;
	attach->dev = &adev->dev;
	attach->ring_size = ring_size;
	attach->frame_len = MAX_ROCE_PACKET + FRAME_OVERHEAD;
	mutex_init(&attach->link_lock);
	mutex_init(&attach->hw_lock);
	INIT_WORK(&attach->link_work, link_work);
	INIT_DELAYED_WORK(&attach->rebuild_work, rebuild_work);
	INIT_DELAYED_WORK(&attach->watch_work, watch_work);
	INIT_LIST_HEAD(&attach->rules);
	attach->last_rebuild = jiffies - REBUILD_DELAY;
	get_random_bytes(attach->rss_key, sizeof(attach->rss_key));

	ret = check_roce_is_off(attach);
	if (ret)
		goto err_free;
	ret = rxqs_alloc(attach);
	if (ret)
		goto err_free;
	ret = resources_create(attach);
	if (ret)
		goto err_rxqs;
	mutex_lock(&attach->hw_lock);
	ret = hw_start(attach);
	mutex_unlock(&attach->hw_lock);
	if (ret)
		goto err_resources;
	check_affinity(attach);
	auxiliary_set_drvdata(adev, attach);
	rocev2_mlx5_debugfs_add(attach);
	schedule_delayed_work(&attach->watch_work, WATCH_PERIOD);
	follow_netdev(attach);
	return 0;

err_resources:
	/* a queue that was there for a moment may have asked for it */
	mutex_lock(&attach->hw_lock);
	attach->removing = true;
	mutex_unlock(&attach->hw_lock);
	cancel_delayed_work_sync(&attach->rebuild_work);
	resources_destroy(attach);
err_rxqs:
	rxqs_free(attach);
err_free:
	if (ret != -EBUSY)
		dev_err(attach->dev, "rocev2: cannot attach: error %d\n", ret);
	kfree(attach);
	return ret;
}

static void rocev2_mlx5_remove(struct auxiliary_device *adev)
{
	struct rocev2_mlx5 *attach = auxiliary_get_drvdata(adev);

	mutex_lock(&attach->hw_lock);
	WRITE_ONCE(attach->removing, true);
	mutex_unlock(&attach->hw_lock);
	unfollow_netdev(attach);
	cancel_work_sync(&attach->link_work);
	mutex_lock(&attach->link_lock);
	forget_link(attach);
	mutex_unlock(&attach->link_lock);
	/* the link may have gone by its netdev just before */
	cancel_work_sync(&attach->link_work);

	rocev2_mlx5_debugfs_del(attach);
	cancel_delayed_work_sync(&attach->watch_work);
	cancel_delayed_work_sync(&attach->rebuild_work);
	mutex_lock(&attach->hw_lock);
	hw_stop(attach);
	mutex_unlock(&attach->hw_lock);
	/* the polls ask for it until they have ended */
	cancel_delayed_work_sync(&attach->rebuild_work);
	resources_destroy(attach);
	rxqs_free(attach);
	mutex_destroy(&attach->hw_lock);
	mutex_destroy(&attach->link_lock);
	kfree(attach);
}

static const struct auxiliary_device_id rocev2_mlx5_ids[] = {
	{ .name = "mlx5_core.rdma" },
	{}
};

/* no MODULE_DEVICE_TABLE(): it would take cards from mlx5_ib */

static struct auxiliary_driver rocev2_mlx5_driver = {
	.name = "rdma",
	.probe = rocev2_mlx5_probe,
	.remove = rocev2_mlx5_remove,
	.id_table = rocev2_mlx5_ids,
	.driver.dev_groups = rocev2_mlx5_groups,
};

static int __init rocev2_mlx5_init(void)
{
	int ret;

	if (ring_size < 64 || ring_size > 8192 || !is_power_of_2(ring_size)) {
		pr_err("ring_size=%u: use a power of two from 64 to 8192\n", ring_size);
		return -EINVAL;
	}
	ret = register_netdevice_notifier(&netdev_notifier);
	if (ret)
		return ret;
	rocev2_mlx5_debugfs_init();
	ret = auxiliary_driver_register(&rocev2_mlx5_driver);
	if (ret) {
		rocev2_mlx5_debugfs_exit();
		unregister_netdevice_notifier(&netdev_notifier);
	}
	return ret;
}

static void __exit rocev2_mlx5_exit(void)
{
	auxiliary_driver_unregister(&rocev2_mlx5_driver);
	rocev2_mlx5_debugfs_exit();
	unregister_netdevice_notifier(&netdev_notifier);
}

module_init(rocev2_mlx5_init);
module_exit(rocev2_mlx5_exit);

MODULE_DESCRIPTION("RoCE v2 in software, on receive queues of ConnectX");
MODULE_LICENSE("Dual BSD/GPL");
