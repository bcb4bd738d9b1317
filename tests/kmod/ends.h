/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the kernel consumers for tests share: the two devices, named by module
 * parameters, and connected QPs on them. For one source file a module, which
 * registers ends_client in its init and finds both devices in ends[] then.
 */
#ifndef ROCEV2_KMOD_ENDS_H
#define ROCEV2_KMOD_ENDS_H

#include <linux/etherdevice.h>
#include <linux/module.h>
#include <net/ipv6.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

static char *dev_a = "";
module_param(dev_a, charp, 0444);
MODULE_PARM_DESC(dev_a, "device that asks");
static char *dev_b = "";
module_param(dev_b, charp, 0444);
MODULE_PARM_DESC(dev_b, "device that is asked");

#define A	0
#define B	1
#define PORT	1
#define QKEY	71
#define REMOTE	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)

/* one of the two devices */
struct end {
	struct ib_device	*dev;
	struct ib_pd		*pd;
	union ib_gid		gid;
	int			gid_index;
	u8			mac[ETH_ALEN];
};

static struct end ends[2];

/* does it hold? If not, say so */
#define ok(cond)								\
({										\
	bool __ok = (cond);							\
										\
	if (!__ok)								\
		pr_info("# %s:%d: %s\n", __func__, __LINE__, #cond);		\
	__ok;									\
})

/* the address handle of the other end */
static inline void end_ah_attr(struct rdma_ah_attr *attr, int from)
{
	const struct end *self = &ends[from], *peer = &ends[!from];

	memset(attr, 0, sizeof(*attr));
	attr->type = rdma_ah_find_type(self->dev, PORT);
	rdma_ah_set_port_num(attr, PORT);
	rdma_ah_set_grh(attr, NULL, 0, self->gid_index, 64, 0);
	rdma_ah_set_dgid_raw(attr, (void *)peer->gid.raw);
	ether_addr_copy(attr->roce.dmac, peer->mac);
}

static inline bool qp_to_init(struct ib_qp *qp)
{
	int mask = IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = REMOTE,
		.qkey = QKEY,
	};

	mask |= qp->qp_type == IB_QPT_UD ? IB_QP_QKEY : IB_QP_ACCESS_FLAGS;
	return ok(!ib_modify_qp(qp, &attr, mask));
}

static inline bool qp_to_rtr(struct ib_qp **pair, int from)
{
	int mask = IB_QP_STATE;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = pair[!from]->qp_num,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
	};

	end_ah_attr(&attr.ah_attr, from);
	if (pair[from]->qp_type != IB_QPT_UD)
		mask |= IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN;
	if (pair[from]->qp_type == IB_QPT_RC)
		mask |= IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER;
	return ok(!ib_modify_qp(pair[from], &attr, mask));
}

static inline bool qp_to_rts(struct ib_qp *qp)
{
	int mask = IB_QP_STATE | IB_QP_SQ_PSN;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 16,
	};

	if (qp->qp_type == IB_QPT_RC)
		mask |= IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC;
	return ok(!ib_modify_qp(qp, &attr, mask));
}

static inline bool qp_connect(struct ib_qp **pair, int from)
{
	return qp_to_init(pair[from]) && qp_to_rtr(pair, from) && qp_to_rts(pair[from]);
}

static inline bool qp_to_state(struct ib_qp *qp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ok(!ib_modify_qp(qp, &attr, IB_QP_STATE));
}

static bool end_init(struct end *end, struct ib_device *dev)
{
	const struct ib_gid_attr *attr;
	struct net_device *ndev;
	int i;

	for (i = 0; i < dev->port_data[PORT].immutable.gid_tbl_len && !end->dev; i++) {
		attr = rdma_get_gid_attr(dev, PORT, i);
		if (IS_ERR(attr))
			continue;
		rcu_read_lock();
		ndev = rdma_read_gid_attr_ndev_rcu(attr);
		if (!IS_ERR(ndev) && attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
		    ipv6_addr_v4mapped((struct in6_addr *)attr->gid.raw)) {
			end->dev = dev;
			end->gid = attr->gid;
			end->gid_index = i;
			ether_addr_copy(end->mac, ndev->dev_addr);
		}
		rcu_read_unlock();
		rdma_put_gid_attr(attr);
	}
	if (!end->dev)
		return false;
	end->pd = ib_alloc_pd(dev, 0);
	return !IS_ERR(end->pd);
}

static int ends_add_one(struct ib_device *dev)
{
	int i;

	for (i = 0; i < 2; i++)
		if (!strcmp(dev_name(&dev->dev), i == A ? dev_a : dev_b))
			return end_init(&ends[i], dev) ? 0 : -EINVAL;
	return -EOPNOTSUPP;
}

static void ends_remove_one(struct ib_device *dev, void *data)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (ends[i].dev != dev)
			continue;
		ib_dealloc_pd(ends[i].pd);
		ends[i].dev = NULL;
	}
}

static struct ib_client ends_client = {
	.name = KBUILD_MODNAME,
	.add = ends_add_one,
	.remove = ends_remove_one,
};

/* find the two devices; 0 or a negative errno */
static int ends_register(void)
{
	int ret = ib_register_client(&ends_client);

	if (ret)
		return ret;
	if (ends[A].dev && ends[B].dev)
		return 0;
	pr_err("no devices \"%s\" and \"%s\" with IPv4 GIDs: set dev_a and dev_b\n", dev_a, dev_b);
	ib_unregister_client(&ends_client);
	return -ENODEV;
}

#endif
