// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Counters of each receive queue of a ConnectX function:
 * /sys/kernel/debug/rocev2_mlx5/mlx5_core.rdma.N/rxqs, one line a queue, names in the first.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <net/page_pool/helpers.h>

#include "mlx5.h"

static struct dentry *root;

struct queue_stat {
	const char	*name;
	size_t		offset;
};

#define STAT(field)	{ #field, offsetof(struct rocev2_mlx5_stats, field) }

static const struct queue_stat stats[] = {
	STAT(packets),
	STAT(bytes),
	STAT(polls),
	STAT(interrupts),
	STAT(profile_changes),
	STAT(buffers),
	STAT(no_buffer),
	STAT(drop_not_ours),
	STAT(drop_error),
	STAT(cq_errors),
	STAT(lost_interrupts),
};

static int rxqs_show(struct seq_file *m, void *unused)
{
	struct rocev2_mlx5 *attach = m->private;
	u32 q;
	int i;

	seq_puts(m, "queue");
	for (i = 0; i < ARRAY_SIZE(stats); i++)
		seq_printf(m, " %s", stats[i].name);
	/* pages that the pool had to ask the system for: what it did not recycle */
	seq_puts(m, " pages profile\n");

	mutex_lock(&attach->hw_lock);
	for (q = 0; q < attach->num_rxqs; q++) {
		struct rocev2_mlx5_rxq *rxq = &attach->rxqs[q];

		seq_printf(m, "%u", q);
		for (i = 0; i < ARRAY_SIZE(stats); i++)
			seq_printf(m, " %llu", *(u64 *)((void *)&rxq->stats + stats[i].offset));
		seq_printf(m, " %u %u\n",
			   attach->started ? READ_ONCE(rxq->pool->pages_state_hold_cnt) : 0,
			   rxq->dim.profile_ix);
	}
	seq_printf(m, "rebuilds %u\n", attach->rebuilds);
	mutex_unlock(&attach->hw_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(rxqs);

void rocev2_mlx5_debugfs_add(struct rocev2_mlx5 *attach)
{
	attach->debugfs = debugfs_create_dir(dev_name(attach->dev), root);
	debugfs_create_file("rxqs", 0400, attach->debugfs, attach, &rxqs_fops);
}

void rocev2_mlx5_debugfs_del(struct rocev2_mlx5 *attach)
{
	debugfs_remove_recursive(attach->debugfs);
}

void rocev2_mlx5_debugfs_init(void)
{
	root = debugfs_create_dir(KBUILD_MODNAME, NULL);
}

void rocev2_mlx5_debugfs_exit(void)
{
	debugfs_remove_recursive(root);
}
