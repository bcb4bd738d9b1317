// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The ib_device: its operations, attributes, birth and death. Process context.
 *
 * Life: rocev2_device_add() makes and registers it. It dies by `rdma link del`
 * (the core unregisters it), with its netdev (netdev.c queues it), with this
 * module (netdev.c), or when rdma_rxe is unloaded: that module takes down every
 * device of RDMA_DRIVER_RXE, the driver id that the user space library of our ring
 * layout is bound to. All ways end in dealloc_driver, after the core has closed all
 * users. ib_core frees the memory with the last reference.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/module.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>

#include "rocev2.h"
#include "ah.h"
#include "attach.h"
#include "cq.h"
#include "mcast.h"
#include "mr.h"
#include "mw.h"
#include "odp.h"
#include "pd.h"
#include "qp.h"
#include "restrack.h"
#include "rxq.h"
#include "ring.h"
#include "srq.h"
#include "uapi_new.h"
#include "wire.h"

/* 4.096 us * 2^n that an ACK may need on this host beyond the wire: 16 ms */
#define LOCAL_CA_ACK_DELAY	12

static struct net_device *get_netdev(struct rocev2_dev *dev)
{
	struct net_device *ndev;

	rcu_read_lock();
	ndev = rcu_dereference(dev->ndev);
	dev_hold(ndev);
	rcu_read_unlock();
	return ndev;
}

static struct net_device *rocev2_get_netdev(struct ib_device *ibdev, u32 port)
{
	return get_netdev(to_rocev2_dev(ibdev));
}

static int rocev2_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			       struct ib_udata *udata)
{
	/* ib_core asks without an application, when it registers us */
	if (udata && udata->inlen && !ib_is_udata_cleared(udata, 0, udata->inlen))
		return -EINVAL;

	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = ibdev->node_guid;
	attr->max_mr_size = ROCEV2_MAX_MR_SIZE;
	attr->page_size_cap = PAGE_MASK & U32_MAX;
	/* no assigned vendor */
	attr->vendor_id = 0xffffff;
	attr->max_qp = ROCEV2_MAX_QP;
	attr->max_qp_wr = ROCEV2_MAX_QP_WR;
	attr->device_cap_flags = IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_SRQ_RESIZE |
				 IB_DEVICE_MEM_WINDOW | IB_DEVICE_MEM_WINDOW_TYPE_2B |
				 IB_DEVICE_MEM_MGT_EXTENSIONS;
	/* kernels that do not know the access flag do not let it through either */
	if (IB_ACCESS_SUPPORTED & ROCEV2_ACCESS_FLUSH_GLOBAL)
		attr->device_cap_flags |= ROCEV2_DEVICE_FLUSH_GLOBAL | ROCEV2_DEVICE_ATOMIC_WRITE;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_LOCAL_DMA_LKEY;
	rocev2_odp_caps(attr);
	attr->max_send_sge = ROCEV2_MAX_SGE;
	attr->max_recv_sge = ROCEV2_MAX_SGE;
	attr->max_sge_rd = ROCEV2_MAX_SGE;
	attr->max_cq = ROCEV2_MAX_CQ;
	attr->max_cqe = ROCEV2_MAX_CQE;
	attr->cq_caps.max_cq_moderation_count = ROCEV2_MAX_CQ_MODERATION_COUNT;
	attr->cq_caps.max_cq_moderation_period = ROCEV2_MAX_CQ_MODERATION_PERIOD;
	attr->max_mr = ROCEV2_MAX_MR;
	attr->max_srq = ROCEV2_MAX_SRQ;
	attr->max_srq_wr = ROCEV2_MAX_SRQ_WR;
	attr->max_srq_sge = ROCEV2_MAX_SGE;
	attr->max_mw = ROCEV2_MAX_MW;
	attr->max_fast_reg_page_list_len = ROCEV2_MAX_FAST_PAGES;
	attr->max_pd = ROCEV2_MAX_PD;
	attr->max_ah = ROCEV2_MAX_AH;
	attr->max_mcast_grp = ROCEV2_MAX_MCAST_GRP;
	attr->max_mcast_qp_attach = ROCEV2_MAX_MCAST_QP;
	attr->max_total_mcast_qp_attach = ROCEV2_MAX_MCAST_GRP * ROCEV2_MAX_MCAST_QP;
	attr->max_qp_rd_atom = ROCEV2_MAX_RD_ATOMIC;
	attr->max_qp_init_rd_atom = ROCEV2_MAX_RD_ATOMIC;
	attr->max_res_rd_atom = ROCEV2_MAX_RD_ATOMIC * ROCEV2_MAX_QP;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = LOCAL_CA_ACK_DELAY;
	return 0;
}

/*
 * The netdev's speed in terms of InfiniBand links. Not ib_get_eth_speed(), which
 * logs for each netdev that does not tell its speed (dummy, tap, link down): any
 * user may ask any number of times.
 */
static void port_speed(struct net_device *ndev, struct ib_port_attr *attr)
{
	/* the slowest link that carries the speed, Mb/s */
	static const struct {
		u32	speed;
		u8	width;
		u16	lane;
	} links[] = {
		{ SPEED_2500,	IB_WIDTH_1X, IB_SPEED_SDR },
		{ SPEED_5000,	IB_WIDTH_1X, IB_SPEED_DDR },
		{ SPEED_10000,	IB_WIDTH_1X, IB_SPEED_FDR10 },
		{ SPEED_14000,	IB_WIDTH_1X, IB_SPEED_FDR },
		{ SPEED_20000,	IB_WIDTH_4X, IB_SPEED_DDR },
		{ SPEED_25000,	IB_WIDTH_1X, IB_SPEED_EDR },
		{ SPEED_40000,	IB_WIDTH_4X, IB_SPEED_FDR10 },
		{ SPEED_50000,	IB_WIDTH_1X, IB_SPEED_HDR },
		{ SPEED_100000,	IB_WIDTH_4X, IB_SPEED_EDR },
		{ SPEED_200000,	IB_WIDTH_4X, IB_SPEED_HDR },
		{ SPEED_400000,	IB_WIDTH_4X, IB_SPEED_NDR },
		{ 800000,	IB_WIDTH_8X, IB_SPEED_NDR },
	};
	struct ethtool_link_ksettings settings = {};
	u32 speed = 0;
	int i;

	rtnl_lock();
	if (ndev->reg_state == NETREG_REGISTERED && !__ethtool_get_link_ksettings(ndev, &settings))
		speed = settings.base.speed;
	rtnl_unlock();
	if (speed == (u32)SPEED_UNKNOWN)
		speed = 0;

	for (i = 0; i < ARRAY_SIZE(links) - 1 && links[i].speed < speed; i++)
		;
	attr->active_width = links[i].width;
	attr->active_speed = links[i].lane;
}

static int rocev2_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibdev);
	struct net_device *ndev = get_netdev(dev);

	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_256;
	attr->state = IB_PORT_DOWN;
	attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	attr->active_width = IB_WIDTH_1X;
	attr->active_speed = IB_SPEED_SDR;
	attr->gid_tbl_len = ROCEV2_GID_TABLE_LEN;
	attr->pkey_tbl_len = 1;
	attr->ip_gids = true;
	attr->port_cap_flags = READ_ONCE(dev->port_cap_flags);
	attr->max_msg_sz = ROCEV2_MAX_MSG;
	attr->max_vl_num = 1;
	if (!ndev)
		return 0;

	attr->active_mtu = rocev2_netdev_mtu(READ_ONCE(ndev->mtu));
	attr->phys_mtu = READ_ONCE(ndev->mtu);
	if (netif_running(ndev)) {
		attr->phys_state = IB_PORT_PHYS_STATE_POLLING;
		if (netif_carrier_ok(ndev)) {
			attr->state = IB_PORT_ACTIVE;
			attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
		}
	}
	port_speed(ndev, attr);
	dev_put(ndev);
	return 0;
}

static int rocev2_modify_port(struct ib_device *ibdev, u32 port, int mask,
			      struct ib_port_modify *modify)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibdev);
	u32 old, new;

	/* the counter of bad Q_Keys is not kept, so there is nothing to reset */
	if (mask & ~(IB_PORT_SHUTDOWN | IB_PORT_INIT_TYPE | IB_PORT_RESET_QKEY_CNTR))
		return -EOPNOTSUPP;
	/* the port's state is the netdev's: `ip link set DEV down` */
	if (mask & IB_PORT_SHUTDOWN)
		return -EOPNOTSUPP;
	old = READ_ONCE(dev->port_cap_flags);
	do {
		new = (old | modify->set_port_cap_mask) & ~modify->clr_port_cap_mask;
	} while (!try_cmpxchg(&dev->port_cap_flags, &old, new));
	return 0;
}

static int rocev2_port_immutable(struct ib_device *ibdev, u32 port,
				 struct ib_port_immutable *immutable)
{
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	immutable->gid_tbl_len = ROCEV2_GID_TABLE_LEN;
	immutable->pkey_tbl_len = 1;
	return 0;
}

static enum rdma_link_layer rocev2_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int rocev2_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = ROCEV2_DEFAULT_PKEY;
	return 0;
}

/* the GID table has gained or lost an entry with this address */
static void attach_gid_changed(struct rocev2_dev *dev, const union ib_gid *gid)
{
	bool local;

	mutex_lock(&dev->attach_lock);
	if (dev->attach_ops) {
		rcu_read_lock();
		local = rocev2_gid_is_local(dev, gid);
		rcu_read_unlock();
		if (local)
			dev->attach_ops->gid_add(dev->attach, gid);
		else
			dev->attach_ops->gid_del(dev->attach, gid);
	}
	mutex_unlock(&dev->attach_lock);
}

static int rocev2_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct rocev2_dev *dev = to_rocev2_dev(attr->device);
	int ret;

	ret = rocev2_gid_add(dev, &attr->gid);
	if (!ret)
		attach_gid_changed(dev, &attr->gid);
	return ret;
}

static int rocev2_del_gid(const struct ib_gid_attr *attr, void **context)
{
	struct rocev2_dev *dev = to_rocev2_dev(attr->device);

	rocev2_gid_del(dev, &attr->gid);
	attach_gid_changed(dev, &attr->gid);
	return 0;
}

/* where the core allocates QPs */
static int rocev2_get_numa_node(struct ib_device *ibdev)
{
	return dev_to_node(&ibdev->dev);
}

static void rocev2_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%s", "0.0.0");
}

static int rocev2_alloc_ucontext(struct ib_ucontext *ibuc, struct ib_udata *udata)
{
	return 0;
}

static void rocev2_dealloc_ucontext(struct ib_ucontext *ibuc)
{
}

/* mappings are memory of our own, not of a device: they may outlive the link */
static void rocev2_disassociate_ucontext(struct ib_ucontext *ibuc)
{
}

/* the core may let go of GIDs later still: nobody is told then */
static void attach_gone(struct rocev2_dev *dev)
{
	const struct rocev2_attach_ops *ops;

	mutex_lock(&dev->attach_lock);
	ops = dev->attach_ops;
	dev->attach_ops = NULL;
	mutex_unlock(&dev->attach_lock);
	if (ops)
		ops->gone(dev->attach, READ_ONCE(dev->gone) == ROCEV2_GONE_NETDEV);
}

static void rocev2_dealloc_driver(struct ib_device *ibdev)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibdev);

	switch (READ_ONCE(dev->gone)) {
	case ROCEV2_GONE_FAILED:
		break;
	case ROCEV2_GONE_DELLINK:
		ibdev_notice(ibdev, "link deleted\n");
		break;
	case ROCEV2_GONE_NETDEV:
		ibdev_notice(ibdev, "link removed: its netdev is gone\n");
		break;
	case ROCEV2_GONE_MODULE:
		ibdev_notice(ibdev, "link removed: rocev2 is unloaded\n");
		break;
	case ROCEV2_GONE_ATTACH:
		ibdev_notice(ibdev, "link removed: its card was unbound or reset\n");
		break;
	case ROCEV2_GONE_UNKNOWN:
		ibdev_notice(ibdev,
			     "link removed (by `rdma link del`, or because rdma_rxe was unloaded, which takes all devices of its driver id)\n");
		break;
	}

	attach_gone(dev);
	rocev2_netdev_detach(dev);
	if (dev->rxqs)
		rocev2_rxqs_exit(dev);
	rocev2_mrs_exit(dev);
	WARN_ON(!xa_empty(&dev->qps));
	WARN_ON(!xa_empty(&dev->ahs));
	WARN_ON(!ida_is_empty(&dev->srq_nums));
	WARN_ON(!xa_empty(&dev->counter_sets));
	xa_destroy(&dev->qps);
	xa_destroy(&dev->ahs);
	ida_destroy(&dev->srq_nums);
	xa_destroy(&dev->counter_sets);
	free_percpu(dev->counters);
}

RDMA_CREATE_CQ_COMPAT(rocev2_create_cq, rocev2_create_user_cq)
RDMA_RESIZE_CQ_COMPAT(rocev2_resize_user_cq)
RDMA_REG_USER_MR_COMPAT(rocev2_reg_user_mr)
RDMA_REG_USER_MR_DMABUF_COMPAT(rocev2_reg_user_mr_dmabuf)
RDMA_COUNTER_OBJ_COMPAT
RDMA_COUNTER_BIND_COMPAT(rocev2_counter_bind_qp, rocev2_counter_unbind_qp)

static const struct ib_device_ops rocev2_ops = {
	.owner			= THIS_MODULE,
	.driver_id		= RDMA_DRIVER_RXE,
	.uverbs_abi_ver		= ROCEV2_UVERBS_ABI,

	.query_device		= rocev2_query_device,
	.query_port		= rocev2_query_port,
	.modify_port		= rocev2_modify_port,
	.get_port_immutable	= rocev2_port_immutable,
	.get_link_layer		= rocev2_get_link_layer,
	/* and never ib_device_set_netdev(): rdma_rxe would take our device for its own */
	.get_netdev		= rocev2_get_netdev,
	.get_dev_fw_str		= rocev2_get_dev_fw_str,
	.get_numa_node		= rocev2_get_numa_node,
	.query_pkey		= rocev2_query_pkey,
	.add_gid		= rocev2_add_gid,
	.del_gid		= rocev2_del_gid,
	.dealloc_driver		= rocev2_dealloc_driver,

	.alloc_ucontext		= rocev2_alloc_ucontext,
	.dealloc_ucontext	= rocev2_dealloc_ucontext,
	.disassociate_ucontext	= rocev2_disassociate_ucontext,
	.mmap			= rocev2_mmap,
	.mmap_free		= rocev2_mmap_free,

	.alloc_pd		= rocev2_alloc_pd,
	.dealloc_pd		= rocev2_dealloc_pd,

	.create_ah		= rocev2_create_ah,
	.create_user_ah		= rocev2_create_user_ah,
	.modify_ah		= rocev2_modify_ah,
	.query_ah		= rocev2_query_ah,
	.destroy_ah		= rocev2_destroy_ah,

	RDMA_CREATE_CQ_OPS(rocev2_create_cq, rocev2_create_user_cq)
	RDMA_RESIZE_CQ_OPS(rocev2_resize_user_cq)
	.modify_cq		= rocev2_modify_cq,
	.destroy_cq		= rocev2_destroy_cq,
	.poll_cq		= rocev2_poll_cq,
	.peek_cq		= rocev2_peek_cq,
	.req_notify_cq		= rocev2_req_notify_cq,

	.get_dma_mr		= rocev2_get_dma_mr,
	RDMA_REG_USER_MR_OPS(rocev2_reg_user_mr)
	RDMA_REG_USER_MR_DMABUF_OPS(rocev2_reg_user_mr_dmabuf)
	.rereg_user_mr		= rocev2_rereg_user_mr,
	.advise_mr		= rocev2_advise_mr,
	.dereg_mr		= rocev2_dereg_mr,
	.alloc_mr		= rocev2_alloc_mr,
	.map_mr_sg		= rocev2_map_mr_sg,
	.alloc_mw		= rocev2_alloc_mw,
	.dealloc_mw		= rocev2_dealloc_mw,

	.attach_mcast		= rocev2_attach_mcast,
	.detach_mcast		= rocev2_detach_mcast,

	.create_qp		= rocev2_create_qp,
	.modify_qp		= rocev2_modify_qp,
	.query_qp		= rocev2_query_qp,
	.destroy_qp		= rocev2_destroy_qp,
	.post_send		= rocev2_post_send,
	.post_recv		= rocev2_post_recv,

	.create_srq		= rocev2_create_srq,
	.modify_srq		= rocev2_modify_srq,
	.query_srq		= rocev2_query_srq,
	.destroy_srq		= rocev2_destroy_srq,
	.post_srq_recv		= rocev2_post_srq_recv,

	.alloc_hw_port_stats	= rocev2_alloc_hw_port_stats,
	.get_hw_stats		= rocev2_get_hw_stats,
	RDMA_COUNTER_BIND_OPS(rocev2_counter_bind_qp, rocev2_counter_unbind_qp)
	.counter_dealloc	= rocev2_counter_dealloc,
	.counter_alloc_stats	= rocev2_counter_alloc_stats,
	.counter_update_stats	= rocev2_counter_update_stats,
	RDMA_COUNTER_OBJ_OPS

	.fill_res_cq_entry	= rocev2_fill_res_cq_entry,
	.fill_res_mr_entry	= rocev2_fill_res_mr_entry,
	.fill_res_qp_entry	= rocev2_fill_res_qp_entry,
	RDMA_FILL_RES_SRQ_OPS(rocev2_fill_res_srq_entry)

	INIT_RDMA_OBJ_SIZE(ib_ah, rocev2_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_cq, rocev2_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, rocev2_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, rocev2_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, rocev2_ib_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, rocev2_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, rocev2_ucontext, ibuc),
};

static struct rocev2_dev *link_alloc(struct net_device *ndev)
{
	struct rocev2_dev *dev;
	struct ib_device *ibdev;
	int ret;

	dev = ib_alloc_device_with_net(rocev2_dev, ibdev, dev_net(ndev));
	if (!dev)
		return ERR_PTR(-ENOMEM);
	ibdev = &dev->ibdev;

	INIT_LIST_HEAD(&dev->links_node);
	mutex_init(&dev->attach_lock);
	spin_lock_init(&dev->gid_lock);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC1);
	xa_init_flags(&dev->ahs, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	ida_init(&dev->srq_nums);
	dev->superpackets_from = jiffies;
	xa_init_flags(&dev->counter_sets, XA_FLAGS_ALLOC1);
	ibdev->node_type = RDMA_NODE_IB_CA;
	ibdev->phys_port_cnt = 1;
	ibdev->num_comp_vectors = num_possible_cpus();
	/* ib_alloc_cq() moderates by load; `rdma dev set DEV adaptive-moderation off` */
	ibdev->use_cq_dim = true;
	ibdev->link_ops = &rocev2_link_ops;
	ibdev->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				  BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	strscpy(ibdev->node_desc, "rocev2", sizeof(ibdev->node_desc));
	addrconf_addr_eui48((u8 *)&ibdev->node_guid, ndev->dev_addr);
	ib_set_device_ops(ibdev, &rocev2_ops);

	ret = rocev2_mrs_init(dev);
	if (ret)
		goto err_dealloc;
	dev->counters = alloc_percpu(struct rocev2_counters);
	if (!dev->counters) {
		ret = -ENOMEM;
		goto err_dealloc;
	}
	ret = rocev2_rxqs_init(dev);
	if (ret)
		goto err_dealloc;
	return dev;

err_dealloc:
	WRITE_ONCE(dev->gone, ROCEV2_GONE_FAILED);
	ib_dealloc_device(ibdev);
	return ERR_PTR(ret);
}

/* @dev is consumed on failure */
static int link_register(struct rocev2_dev *dev, const char *name, struct net_device *ndev)
{
	struct ib_device *ibdev = &dev->ibdev;
	int ret;

	ret = rocev2_netdev_attach(dev, ndev);
	if (ret)
		goto err_dealloc;

	/* once registered, anyone may unregister it: keep the memory until we are done */
	get_device(&ibdev->dev);
	/* NULL: no DMA device, the core hands us kernel addresses */
	ret = ib_register_device(ibdev, name, NULL);
	if (ret)
		goto err_put;

	/* the netdev may have gone while the core could not yet be told */
	rocev2_netdev_registered(dev);
	put_device(&ibdev->dev);
	return 0;

err_put:
	put_device(&ibdev->dev);
err_dealloc:
	WRITE_ONCE(dev->gone, ROCEV2_GONE_FAILED);
	ib_dealloc_device(ibdev);
	return ret;
}

/**
 * rocev2_device_add() - make a link: `rdma link add NAME type rocev2 netdev NDEV`
 * @name: of the ib_device
 * @ndev: the netdev, held by the caller
 *
 * The device belongs to the network namespace of @ndev, in both modes of
 * `rdma system set netns`.
 *
 * Context: process, without RTNL.
 *
 * Return: 0 or a negative errno.
 */
int rocev2_device_add(const char *name, struct net_device *ndev)
{
	struct rocev2_dev *dev;

	dev = link_alloc(ndev);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	ib_mark_name_assigned_by_user(&dev->ibdev);
	return link_register(dev, name, ndev);
}

/**
 * rocev2_attach_add() - make a link that has receive queues of its own
 * @ndev: the netdev, held by the caller
 * @numa_node: of the card. Not by the ib_device's parent, which some of its users (SMC) take
 *	for a PCI function without asking; and a PCI function would make user space load another
 *	provider
 * @ops: what it tells @attach
 * @attach: passed to @ops; the addresses are told before this returns
 *
 * The link gets the next free name rocev2_N. Packets are handed to it by rocev2_rx(), from
 * when this returns until @ops->gone is called.
 *
 * Context: process, without RTNL.
 *
 * Return: the link, with its memory held until rocev2_attach_del(), or an ERR_PTR().
 */
struct rocev2_dev *rocev2_attach_add(struct net_device *ndev, int numa_node,
				     const struct rocev2_attach_ops *ops, void *attach)
{
	struct rocev2_dev *dev;
	int ret;

	dev = link_alloc(ndev);
	if (IS_ERR(dev))
		return dev;
	set_dev_node(&dev->ibdev.dev, numa_node);
	dev->attach_ops = ops;
	dev->attach = attach;
	get_device(&dev->ibdev.dev);
	ret = link_register(dev, "rocev2_%d", ndev);
	if (ret) {
		put_device(&dev->ibdev.dev);
		return ERR_PTR(ret);
	}
	return dev;
}
EXPORT_SYMBOL_GPL(rocev2_attach_add);

/**
 * rocev2_attach_del() - remove a link of rocev2_attach_add(), if it is still there
 * @dev: the link; its memory is no longer held
 *
 * On return @ops->gone has been called and has returned.
 *
 * Context: process, without RTNL.
 */
void rocev2_attach_del(struct rocev2_dev *dev)
{
	cmpxchg(&dev->gone, ROCEV2_GONE_UNKNOWN, ROCEV2_GONE_ATTACH);
	/* waits for whoever else unregisters it just now */
	ib_unregister_device(&dev->ibdev);
	put_device(&dev->ibdev.dev);
}
EXPORT_SYMBOL_GPL(rocev2_attach_del);
