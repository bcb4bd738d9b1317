// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Statistics of a port for `rdma statistic` and sysfs. Process context; the
 * counters themselves are per CPU and written in softirq.
 */
#include <rdma/ib_verbs.h>

#include "counters.h"
#include "rocev2.h"

static const struct rdma_stat_desc descs[] = {
#define ROCEV2_COUNTER_DESC(id, str) { .name = str },
	ROCEV2_COUNTERS(ROCEV2_COUNTER_DESC)
#undef ROCEV2_COUNTER_DESC
};

static_assert(ARRAY_SIZE(descs) == ROCEV2_CNT_MAX);

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
	struct rocev2_dev *dev = to_rocev2_dev(ibdev);
	int cpu, i;

	if (port != ROCEV2_PORT)
		return -EINVAL;
	for (i = 0; i < ROCEV2_CNT_MAX; i++)
		stats->value[i] = 0;
	for_each_possible_cpu(cpu) {
		const struct rocev2_counters *counters = per_cpu_ptr(dev->counters, cpu);

		for (i = 0; i < ROCEV2_CNT_MAX; i++)
			stats->value[i] += READ_ONCE(counters->value[i]);
	}
	return ROCEV2_CNT_MAX;
}
