/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_RDMA_IB_UMEM_ODP_H
#define _COMPAT_RDMA_IB_UMEM_ODP_H

#include <linux/hmm.h>
#include_next <rdma/ib_umem_odp.h>

/*
 * What HMM knows of page @idx, with umem_mutex held; and the access masks of
 * ib_umem_odp_map_dma_and_lock().
 */
#ifdef HAVE_UMEM_ODP_HMM_MAP
#define ib_umem_odp_pfn(umem_odp, idx)	((umem_odp)->map.pfn_list[idx])
#define IB_UMEM_ODP_READ		0
#define IB_UMEM_ODP_WRITE		HMM_PFN_WRITE
#else
#define ib_umem_odp_pfn(umem_odp, idx)	((umem_odp)->pfn_list[idx])
#define IB_UMEM_ODP_READ		ODP_READ_ALLOWED_BIT
#define IB_UMEM_ODP_WRITE		ODP_WRITE_ALLOWED_BIT
#endif

#endif
