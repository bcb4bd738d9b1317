/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The device: what every file of the module shares. Objects have headers of
 * their own (qp.h, cq.h, mr.h, ...).
 */
#ifndef ROCEV2_H
#define ROCEV2_H

#include <linux/idr.h>
#include <linux/jhash.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/rcupdate.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

#include "counters.h"

#define ROCEV2_MAX_SGE		32
#define ROCEV2_MAX_INLINE	512
#define ROCEV2_MAX_QP_WR	16384
#define ROCEV2_MAX_SRQ_WR	32767		/* as many as a ring of a power of two holds */
#define ROCEV2_MAX_CQE		1048576
#define ROCEV2_MAX_CQ_MODERATION_COUNT	ROCEV2_MAX_QP_WR
#define ROCEV2_MAX_CQ_MODERATION_PERIOD	32767	/* microseconds */
#define ROCEV2_MAX_RD_ATOMIC	128		/* per QP, as requester and as responder */
#define ROCEV2_MAX_MSG		2147483648u	/* IBA C9-26 */
/* of the ring layout in <rdma/rdma_user_rxe.h>, as rdma-core counts */
#define ROCEV2_UVERBS_ABI	2
#define ROCEV2_PORT		1
#define ROCEV2_GID_TABLE_LEN	1024
#define ROCEV2_MAX_QP		65536
#define ROCEV2_MAX_CQ		65536
#define ROCEV2_MAX_SRQ		65536
#define ROCEV2_MAX_MR		1048576
#define ROCEV2_MAX_MR_SIZE	BIT_ULL(40)
#define ROCEV2_MAX_MW		1048576
#define ROCEV2_MAX_FAST_PAGES	512		/* of one fast registration */
#define ROCEV2_MAX_PD		65536
#define ROCEV2_MAX_AH		65536
#define ROCEV2_MIN_QPN		16		/* 0 and 1 are SMI and GSI */
#define ROCEV2_MAX_COUNTER_SETS	65536

struct rocev2_mr;
struct rocev2_rxq;
struct rdma_link_ops;

/* one GID of ours, found by address in dev->gid_hash; @users entries of the GID table have it */
struct rocev2_gid {
	struct hlist_node	node;
	union ib_gid		gid;
	unsigned int		users;
	struct rcu_head		rcu;
};

#define ROCEV2_GID_HASH_BITS	6

/* of dev->gid_hash and dev->mcgs */
static inline u32 rocev2_gid_bucket(const union ib_gid *gid)
{
	return jhash2((const u32 *)gid->raw, sizeof(*gid) / sizeof(u32), 0) &
	       ((1 << ROCEV2_GID_HASH_BITS) - 1);
}

/* why a link is going away; for the log */
enum rocev2_gone {
	ROCEV2_GONE_UNKNOWN,	/* the core took it: see device.c */
	ROCEV2_GONE_DELLINK,
	ROCEV2_GONE_NETDEV,
	ROCEV2_GONE_MODULE,
	ROCEV2_GONE_ATTACH,	/* its native attach has let go */
	ROCEV2_GONE_FAILED,	/* it was never a link */
};

/**
 * struct rocev2_dev - one link: an ib_device on top of a netdev
 * @ibdev: must be first (ib_alloc_device)
 * @ndev: the netdev; NULL once it is unregistered. Readers under RCU
 * @ndev_tracker: the reference on @ndev
 * @nf_ops: ingress hook that takes RoCE v2 packets off @ndev
 * @links_node: in the list of links (RTNL); holds a reference on @ibdev
 * @reap_work: drops that reference when the core has let go of @ibdev
 * @gone: why the link is going away
 * @port_state: the state last told by an event (RTNL)
 * @port_cap_flags: what ib_modify_port() has set
 * @attach_lock: serializes what @attach_ops are told of addresses; inside the core's GID lock
 * @attach_ops: the native attach, see attach.h; NULL: none, or it knows that the link is gone
 * @attach: passed to them
 * @qps: QPN to struct rocev2_qp; readers under RCU
 * @next_qpn: where the cyclic QPN search goes on
 * @mrs: key index (key >> 8) to struct rocev2_mr, region or window; readers under RCU
 * @next_mr: where the cyclic search for a key index goes on
 * @mr_variant: low 8 bits of keys given out on this lap of @next_mr (@mrs lock)
 * @mr_generation: grows with every region or window that dies; makes translation caches flush
 * @local_dma_mr: what key 0 names to QPs of the kernel: all of its memory
 * @ahs: number to struct rocev2_av; readers under RCU
 * @next_ah: where the cyclic search for an AH number goes on
 * @srq_nums: numbers of SRQs, at most ROCEV2_MAX_SRQ
 * @num_qps: QPs alive, at most ROCEV2_MAX_QP
 * @num_cqs: CQs alive, at most ROCEV2_MAX_CQ
 * @num_mrs: MRs alive, at most ROCEV2_MAX_MR
 * @num_mws: memory windows alive, at most ROCEV2_MAX_MW
 * @num_pds: PDs alive, at most ROCEV2_MAX_PD
 * @gid_hash: destination addresses that are ours; readers under RCU
 * @gid_lock: serializes writers of @gid_hash
 * @mcgs: multicast groups, struct rocev2_mcg; readers under RCU, writers under RTNL
 * @num_mcgs: how many (RTNL)
 * @napi_dev: dummy netdev that carries the receive queues' NAPI contexts
 * @rxqs: one receive queue per possible CPU
 * @counters: per-CPU statistics of what is not counted in a counter set
 * @counter_sets: rdma_counter.id to struct rocev2_counter_set; its lock keeps one from going
 * @next_counter_set: where the cyclic search for an id goes on
 */
struct rocev2_dev {
	struct ib_device		ibdev;
	struct net_device __rcu		*ndev;
	netdevice_tracker		ndev_tracker;
	struct nf_hook_ops		nf_ops;
	struct list_head		links_node;
	struct work_struct		reap_work;
	enum rocev2_gone		gone;
	enum ib_port_state		port_state;
	u32				port_cap_flags;

	struct mutex			attach_lock;	/* what attach_ops are told */
	const struct rocev2_attach_ops	*attach_ops;
	void				*attach;

	struct xarray			qps;
	u32				next_qpn;
	struct xarray			mrs;
	u32				next_mr;
	u8				mr_variant;
	atomic64_t			mr_generation;
	struct rocev2_mr		*local_dma_mr;
	struct xarray			ahs;
	u32				next_ah;
	struct ida			srq_nums;
	atomic_t			num_qps;
	atomic_t			num_cqs;
	atomic_t			num_mrs;
	atomic_t			num_mws;
	atomic_t			num_pds;

	struct hlist_head		gid_hash[1 << ROCEV2_GID_HASH_BITS];
	spinlock_t			gid_lock;	/* writers of gid_hash */

	struct hlist_head		mcgs[1 << ROCEV2_GID_HASH_BITS];
	u32				num_mcgs;

	unsigned long			superpackets_from;	/* jiffies, tx_let_go() */
	bool				tx_lets_go;		/* of any packet, at once */

	struct net_device		*napi_dev;
	struct rocev2_rxq __percpu	*rxqs;
	struct rocev2_counters __percpu	*counters;
	struct xarray			counter_sets;
	u32				next_counter_set;
};

static inline struct rocev2_dev *to_rocev2_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct rocev2_dev, ibdev);
}

struct rocev2_ucontext {
	struct ib_ucontext	ibuc;
};

static inline void rocev2_count(struct rocev2_dev *dev, enum rocev2_counter counter)
{
	this_cpu_inc(dev->counters->value[counter]);
}

static inline void rocev2_count_add(struct rocev2_dev *dev, enum rocev2_counter counter, u64 n)
{
	this_cpu_add(dev->counters->value[counter], n);
}

/* main.c */
extern struct rdma_link_ops rocev2_link_ops;
extern unsigned int rocev2_mr_cache_entries;
extern bool rocev2_superpackets;

/* device.c */
int rocev2_device_add(const char *name, struct net_device *ndev);

/* netdev.c */
int rocev2_netdev_init(void);
void rocev2_netdev_exit(void);
int rocev2_netdev_attach(struct rocev2_dev *dev, struct net_device *ndev);
void rocev2_netdev_registered(struct rocev2_dev *dev);
void rocev2_netdev_detach(struct rocev2_dev *dev);
int rocev2_gid_add(struct rocev2_dev *dev, const union ib_gid *gid);
void rocev2_gid_del(struct rocev2_dev *dev, const union ib_gid *gid);
/* is this destination address (IPv4 as mapped GID) one of ours? Under RCU. */
bool rocev2_gid_is_local(struct rocev2_dev *dev, const union ib_gid *gid);
enum ib_mtu rocev2_netdev_mtu(unsigned int netdev_mtu);

#endif
