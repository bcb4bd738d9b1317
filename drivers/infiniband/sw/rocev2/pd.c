// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Protection domains: an identity, nothing more. The core counts the QPs, MRs and
 * AHs in one and refuses to free it under them. Process context.
 */
#include "pd.h"
#include "rocev2.h"

/**
 * rocev2_alloc_pd() - ops.alloc_pd
 * @ibpd: allocated by the core
 * @udata: unused
 *
 * Return: 0 or -ENOMEM at the device's limit.
 */
int rocev2_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibpd->device);

	return atomic_add_unless(&dev->num_pds, 1, ROCEV2_MAX_PD) ? 0 : -ENOMEM;
}

/**
 * rocev2_dealloc_pd() - ops.dealloc_pd
 * @ibpd: the PD
 * @udata: unused
 *
 * Return: 0.
 */
int rocev2_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	atomic_dec(&to_rocev2_dev(ibpd->device)->num_pds);
	return 0;
}
