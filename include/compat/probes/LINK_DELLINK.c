// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* rdma_link_ops tells when a link is deleted */
#include <rdma/rdma_netlink.h>

static int dellink(struct ib_device *ibdev)
{
	return 0;
}

struct rdma_link_ops probe = { .dellink = dellink };
