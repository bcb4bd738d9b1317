/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains. */
#ifndef ROCEV2_PD_H
#define ROCEV2_PD_H

#include <rdma/ib_verbs.h>

/**
 * struct rocev2_pd - a protection domain
 * @ibpd: must be first. QPs and MRs are compared by its address
 */
struct rocev2_pd {
	struct ib_pd	ibpd;
};

int rocev2_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int rocev2_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

#endif
