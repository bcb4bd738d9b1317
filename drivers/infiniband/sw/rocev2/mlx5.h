/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The native attach to a ConnectX function: rocev2_mlx5.ko.
 */
#ifndef ROCEV2_MLX5_H
#define ROCEV2_MLX5_H

#include <linux/dim.h>
#include <linux/hrtimer.h>
#include <linux/if_ether.h>
#include <linux/list.h>
#include <linux/mlx5/cq.h>
#include <linux/mlx5/device.h>
#include <linux/mlx5/driver.h>
#include <linux/mlx5/fs.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

struct dentry;
struct page_pool;
struct rocev2_dev;
struct rocev2_mlx5;

/* before the frame in a buffer; keeps the IP header aligned */
#define ROCEV2_MLX5_HEADROOM	(128 + 2)

/* how a receive queue is told of packets; see mlx5_moderation.c */
enum rocev2_mlx5_mode {
	ROCEV2_MLX5_DIM,	/* interrupts moderated by load */
	ROCEV2_MLX5_FIXED,	/* after so many packets, or so many microseconds */
	ROCEV2_MLX5_POLL,	/* the queue is polled, for a share of a CPU's time */
};

/**
 * struct rocev2_mlx5_moderation - mode of all receive queues of a function
 * @mode: see enum rocev2_mlx5_mode
 * @usecs: ROCEV2_MLX5_FIXED: an interrupt no later than that after the first packet
 * @packets: ROCEV2_MLX5_FIXED: ... or after so many
 * @percent: ROCEV2_MLX5_POLL: share of the CPU's time
 */
struct rocev2_mlx5_moderation {
	enum rocev2_mlx5_mode	mode;
	u16			usecs;
	u16			packets;
	u8			percent;
};

/* of one receive queue; written by its poll alone but for those with a context */
struct rocev2_mlx5_stats {
	u64	packets;
	u64	bytes;
	u64	polls;
	u64	interrupts;		/* hard interrupt */
	u64	buffers;		/* taken from the page pool */
	u64	no_buffer;		/* it had none: the ring ran lower */
	u64	drop_not_ours;		/* no RoCE v2 for an address of a link */
	u64	drop_error;		/* a completion in error */
	u64	cq_errors;		/* it overran, or could not be written; any context */
	u64	lost_interrupts;	/* entries are there, and no interrupt; work queue */
	u64	profile_changes;	/* of DIM, work queue */
};

/**
 * struct rocev2_mlx5_rxq - a hardware receive queue, its completion queue and its NAPI context
 * @napi: polls the completion queue
 * @mcq: the completion queue, as mlx5_core knows it
 * @cq_buf: its memory
 * @cq_fbc: ... and how to find an entry
 * @cq_db: its doorbell record
 * @rq_buf: memory of the receive queue
 * @rq_fbc: ... and how to find an entry
 * @rq_db: its doorbell record
 * @pages: what each entry of the receive queue points to
 * @pool: where they come from
 * @head: receive entries posted. Runs free, as @tail
 * @tail: receive entries consumed
 * @rqn: number of the receive queue
 * @frame_len: bytes of the largest frame the buffers take
 * @broken: it has failed and is about to be made anew; the poll only
 * @unseen: @mcq.cons_index when rocev2_mlx5_rxqs_watch() last saw an entry that no poll was
 *	about to take; otherwise -1. hw_lock
 * @dim: load seen by DIM
 * @period_start: ROCEV2_MLX5_POLL: when the current period began
 * @poll_timer: ROCEV2_MLX5_POLL: begins the next period
 * @stats: see struct rocev2_mlx5_stats
 * @attach: whose it is
 * @index: place in attach->rxqs
 */
struct rocev2_mlx5_rxq {
	struct napi_struct		napi;
	struct mlx5_core_cq		mcq;
	struct mlx5_frag_buf		cq_buf;
	struct mlx5_frag_buf_ctrl	cq_fbc;
	struct mlx5_db			cq_db;
	struct mlx5_frag_buf		rq_buf;
	struct mlx5_frag_buf_ctrl	rq_fbc;
	struct mlx5_db			rq_db;
	struct page			**pages;
	struct page_pool		*pool;
	u32				head;
	u32				tail;
	u32				rqn;
	u32				frame_len;
	bool				broken;
	s64				unseen;
	struct dim			dim;
	ktime_t				period_start;
	struct hrtimer			poll_timer;
	struct rocev2_mlx5_stats	stats;
	struct rocev2_mlx5		*attach;
	u32				index;
};

/* an address of ours, and the rule that steers its packets to our queues */
struct rocev2_mlx5_rule {
	struct list_head	node;
	union ib_gid		gid;
	struct mlx5_flow_handle	*handle;	/* NULL: not steered now */
};

enum rocev2_mlx5_tir {
	ROCEV2_MLX5_TIR_IPV4,
	ROCEV2_MLX5_TIR_IPV6,
	ROCEV2_MLX5_TIRS,
};

/**
 * struct rocev2_mlx5 - one ConnectX function that is bound
 * @mdev: the function
 * @dev: its auxiliary device, for the log
 * @link: where packets go. The polls read it under RCU
 * @held: the link that was made last, by memory reference (@link_lock)
 * @link_lock: makes one link at a time. Outside everything that ib_core locks
 * @link_work: makes the link when the netdev is there
 * @node: in the list of all (RTNL)
 * @ndev: the netdev while it is registered (RTNL)
 * @ndev_tracker: the reference on it
 * @removing: no link and no queue is made any more; set under @hw_lock
 * @link_gone: the link that is being made, or was made last, is dead (@hw_lock)
 * @hw_lock: everything below; inside ib_core's GID table lock. Process context
 * @rebuild_work: takes the queues down and makes them again, after an error or for larger buffers
 * @watch_work: looks for queues whose interrupts get lost
 * @started: queues and steering are there
 * @rebuilds: how often they were made again
 * @last_rebuild: when, in jiffies
 * @pdn: protection domain
 * @tdn: transport domain
 * @mkey: key of all memory, by DMA address
 * @uar: doorbell page
 * @rqtn: RSS indirection table
 * @tirn: receive transport objects, one for IPv4 and one for IPv6
 * @table: flow table of @rules
 * @rules: addresses of ours
 * @rss_key: of the Toeplitz hash
 * @mac: of the netdev; frames to other stations are not ours
 * @napi_dev: dummy netdev that carries the NAPI contexts
 * @rxqs: receive queues
 * @num_rxqs: how many
 * @num_vectors: completion vectors of the card, for interrupts
 * @ring_size: entries of each, a power of two
 * @frame_len: bytes of the largest frame the buffers take
 * @order: page order of a buffer
 * @moderation: mode of the queues
 * @debugfs: directory of the function
 */
struct rocev2_mlx5 {
	struct mlx5_core_dev		*mdev;
	struct device			*dev;

	struct rocev2_dev __rcu		*link;
	struct rocev2_dev		*held;
	struct mutex			link_lock;	/* makes one link at a time */
	struct work_struct		link_work;
	struct list_head		node;
	struct net_device		*ndev;
	netdevice_tracker		ndev_tracker;
	bool				removing;
	bool				link_gone;

	struct mutex			hw_lock;	/* queues, steering, rules */
	struct delayed_work		rebuild_work;
	struct delayed_work		watch_work;
	bool				started;
	u32				rebuilds;
	unsigned long			last_rebuild;
	u32				pdn;
	u32				tdn;
	u32				mkey;
	struct mlx5_uars_page		*uar;
	u32				rqtn;
	u32				tirn[ROCEV2_MLX5_TIRS];
	struct mlx5_flow_table		*table;
	struct list_head		rules;
	u8				rss_key[40];
	u8				mac[ETH_ALEN];

	struct net_device		*napi_dev;
	struct rocev2_mlx5_rxq		*rxqs;
	u32				num_rxqs;
	u32				num_vectors;
	u32				ring_size;
	u32				frame_len;
	u32				order;
	struct rocev2_mlx5_moderation	moderation;
	struct dentry			*debugfs;
};

/* mlx5_rq.c; process context, hw_lock */
int rocev2_mlx5_rxqs_open(struct rocev2_mlx5 *attach);
void rocev2_mlx5_rxqs_close(struct rocev2_mlx5 *attach);
void rocev2_mlx5_rxqs_watch(struct rocev2_mlx5 *attach);

/* mlx5_steering.c; process context, hw_lock */
int rocev2_mlx5_steering_open(struct rocev2_mlx5 *attach);
void rocev2_mlx5_steering_close(struct rocev2_mlx5 *attach);
void rocev2_mlx5_rules_steer(struct rocev2_mlx5 *attach);
void rocev2_mlx5_rules_forget(struct rocev2_mlx5 *attach);
/* process context; takes hw_lock */
void rocev2_mlx5_gid_add(void *attach, const union ib_gid *gid);
void rocev2_mlx5_gid_del(void *attach, const union ib_gid *gid);

/* mlx5_moderation.c */
void rocev2_mlx5_moderation_init(struct rocev2_mlx5_rxq *rxq);
void rocev2_mlx5_moderation_exit(struct rocev2_mlx5_rxq *rxq);
/* the moderation that a completion queue is made with */
void rocev2_mlx5_moderation_first(const struct rocev2_mlx5 *attach, u16 *usecs, u16 *packets);
/* NAPI has completed: one more sample for DIM */
void rocev2_mlx5_moderation_sample(struct rocev2_mlx5_rxq *rxq);
/* the queue is empty: shall the poll go on without an interrupt? */
bool rocev2_mlx5_poll_on(struct rocev2_mlx5_rxq *rxq);
extern const struct attribute_group *rocev2_mlx5_groups[];

/* mlx5_debugfs.c */
void rocev2_mlx5_debugfs_init(void);
void rocev2_mlx5_debugfs_exit(void);
void rocev2_mlx5_debugfs_add(struct rocev2_mlx5 *attach);
void rocev2_mlx5_debugfs_del(struct rocev2_mlx5 *attach);

/* mlx5_main.c; any context: the queues are broken, make them again */
void rocev2_mlx5_rebuild(struct rocev2_mlx5 *attach);

#endif
