// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* compiles everywhere: if not, a failed probe would not mean "feature missing" */
#include <linux/hrtimer.h>
#include <linux/netdevice.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

int probe(struct ib_device *ibdev)
{
	return ibdev->index;
}
