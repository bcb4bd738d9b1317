// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* drivers tell the size of their rdma_counter, and initialize it */
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

struct probe {
	struct rdma_counter counter;
};

static void init(struct rdma_counter *counter)
{
}

const struct ib_device_ops probe = {
	.counter_init = init,
	INIT_RDMA_OBJ_SIZE(rdma_counter, probe, counter),
};
