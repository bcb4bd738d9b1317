// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Statistics of a port for `rdma statistic` and sysfs, and of the QPs bound to an
 * rdma_counter. Process context; the counters themselves are per CPU and written
 * in softirq.
 *
 * A QP counts in one place, qp->counters: the port's set, or that of the
 * rdma_counter it is bound to. So binding costs the data path nothing, and ib_core
 * finds what it expects: it shows the port's own plus those of all rdma_counters,
 * running ones and those that are gone.
 */
#include <linux/slab.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#include "counters.h"
#include "qp.h"
#include "rocev2.h"

/**
 * struct rocev2_counter_set - what belongs to an rdma_counter
 * @counters: per-CPU statistics of the QPs bound to it
 */
struct rocev2_counter_set {
	struct rocev2_counters __percpu	*counters;
};

static const struct rdma_stat_desc descs[] = {
#define ROCEV2_COUNTER_DESC(id, str) { .name = str },
	ROCEV2_COUNTERS(ROCEV2_COUNTER_DESC)
#undef ROCEV2_COUNTER_DESC
};

static_assert(ARRAY_SIZE(descs) == ROCEV2_CNT_MAX);

static void sum_up(struct rdma_hw_stats *stats, const struct rocev2_counters __percpu *counters)
{
	int cpu, i;

	for (i = 0; i < ROCEV2_CNT_MAX; i++)
		stats->value[i] = 0;
	for_each_possible_cpu(cpu) {
		const struct rocev2_counters *c = per_cpu_ptr(counters, cpu);

		for (i = 0; i < ROCEV2_CNT_MAX; i++)
			stats->value[i] += READ_ONCE(c->value[i]);
	}
}

/**
 * rocev2_alloc_hw_port_stats() - ops.alloc_hw_port_stats
 * @ibdev: the device
 * @port: the port
 *
 * Return: the description of all counters, or NULL.
 */
struct rdma_hw_stats *rocev2_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	/* lifespan 0: reading is cheap, and tests read twice within a moment */
	return rdma_alloc_hw_stats_struct(descs, ARRAY_SIZE(descs), 0);
}

/**
 * rocev2_get_hw_stats() - ops.get_hw_stats
 * @ibdev: the device
 * @stats: takes the values
 * @port: the port; 0 asks for counters of the device, which has none
 * @index: ignored, all are read
 *
 * Return: number of values or -EINVAL.
 */
int rocev2_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index)
{
	if (port != ROCEV2_PORT)
		return -EINVAL;
	sum_up(stats, to_rocev2_dev(ibdev)->counters);
	return ROCEV2_CNT_MAX;
}

/* counters of QPs */

static int set_create(struct rocev2_dev *dev, struct rdma_counter *counter)
{
	struct rocev2_counter_set *set;
	int err;

	set = kzalloc_obj(*set);
	if (!set)
		return -ENOMEM;
	set->counters = alloc_percpu(struct rocev2_counters);
	err = set->counters ? 0 : -ENOMEM;
	/* cyclic: older kernels forget an id only after they gave it back to us */
	if (!err)
		err = xa_alloc_cyclic(&dev->counter_sets, &counter->id, set,
				      XA_LIMIT(1, ROCEV2_MAX_COUNTER_SETS),
				      &dev->next_counter_set, GFP_KERNEL);
	if (err < 0) {
		counter->id = 0;
		free_percpu(set->counters);
		kfree(set);
		return err;
	}
	return 0;
}

/**
 * rocev2_counter_bind_qp() - ops.counter_bind_qp
 * @counter: from now on the QP counts here; with id 0 it is new, and gets one
 * @ibqp: a QP that is bound to none
 * @port: the port
 *
 * Context: under counter->lock.
 *
 * Return: 0, -ENOMEM, -EINVAL: it is bound already, or -ENOENT: QP or counter is being
 * destroyed.
 */
int rocev2_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibqp->device);
	struct rocev2_counter_set *set;
	struct rocev2_qp *qp;
	int err = 0;

	qp = rocev2_qp_lock(ibqp);
	if (!qp)
		err = -ENOENT;
	/* ib_core looked before, but under the lock of one counter: another may have been faster */
	else if (ibqp->counter)
		err = -EINVAL;
	else if (!counter->id)
		err = set_create(dev, counter);
	if (err)
		goto out;
	/* ib_core holds the rdma_counter, and we are the ones to erase its set */
	set = xa_load(&dev->counter_sets, counter->id);
	if (!set) {
		err = -ENOENT;
		goto out;
	}
	/* release: the set is zeroed before the data path finds it */
	smp_store_release(&qp->counters, set->counters);
	ibqp->counter = counter;
out:
	rocev2_qp_unlock(ibqp);
	return err;
}

/**
 * rocev2_counter_unbind_qp() - ops.counter_unbind_qp
 * @ibqp: the QP; counts at its port again
 * @port: the port
 *
 * When it returns the counter has all that the QP did while it was bound: ib_core
 * reads it for the last time right after.
 *
 * Context: under counter->lock of its counter.
 *
 * Return: 0.
 */
int rocev2_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibqp->device);
	struct rocev2_qp *qp = rocev2_qp_lock(ibqp);

	if (qp)
		WRITE_ONCE(qp->counters, dev->counters);
	ibqp->counter = NULL;
	rocev2_qp_unlock(ibqp);
	/* data path that still has the old pointer; expedited: it happens to every QP with auto */
	synchronize_rcu_expedited();
	return 0;
}

/**
 * rocev2_counter_dealloc() - ops.counter_dealloc
 * @counter: no QP is bound to it
 *
 * Return: 0.
 */
int rocev2_counter_dealloc(struct rdma_counter *counter)
{
	struct rocev2_dev *dev = to_rocev2_dev(counter->device);
	struct rocev2_counter_set *set = xa_erase(&dev->counter_sets, counter->id);

	free_percpu(set->counters);
	kfree(set);
	return 0;
}

/**
 * rocev2_counter_alloc_stats() - ops.counter_alloc_stats
 * @counter: a new one
 *
 * Return: the description of all counters, or NULL.
 */
struct rdma_hw_stats *rocev2_counter_alloc_stats(struct rdma_counter *counter)
{
	return rocev2_alloc_hw_port_stats(counter->device, counter->port);
}

/**
 * rocev2_counter_update_stats() - ops.counter_update_stats
 * @counter: its stats take the values
 *
 * Context: under counter->lock.
 *
 * Return: 0 or -ENOENT: it is going away.
 */
int rocev2_counter_update_stats(struct rdma_counter *counter)
{
	struct rocev2_dev *dev = to_rocev2_dev(counter->device);
	struct rocev2_counter_set *set;

	/* the lock keeps the set: netlink requests run beside dealloc */
	xa_lock(&dev->counter_sets);
	set = xa_load(&dev->counter_sets, counter->id);
	if (set)
		sum_up(counter->stats, set->counters);
	xa_unlock(&dev->counter_sets);
	return set ? 0 : -ENOENT;
}
