// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ib_umem_get() became ib_umem_get_va() */
#include <rdma/ib_umem.h>

struct ib_umem *probe(struct ib_device *ibdev)
{
	return ib_umem_get_va(ibdev, 0UL, 0, 0);
}
