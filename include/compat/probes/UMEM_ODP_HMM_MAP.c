// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* the page list of an ODP umem is a struct hmm_dma_map, its access mask HMM's */
#include <rdma/ib_umem_odp.h>

unsigned long probe(struct ib_umem_odp *umem_odp)
{
	return umem_odp->map.pfn_list[0];
}
