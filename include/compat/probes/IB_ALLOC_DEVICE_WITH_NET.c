// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ib devices can be made in a network namespace */
#include <rdma/ib_verbs.h>

struct probe {
	struct ib_device ibdev;
};

struct probe *probe(struct net *net)
{
	return ib_alloc_device_with_net(probe, ibdev, net);
}
