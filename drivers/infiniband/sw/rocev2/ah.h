/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Address handles. */
#ifndef ROCEV2_AH_H
#define ROCEV2_AH_H

#include <rdma/ib_verbs.h>

/**
 * struct rocev2_ah - an address handle
 * @ibah: must be first; its sgid_attr reference keeps the source address valid
 * @attr: the resolved address
 * @num: what applications name it by in their work requests; 0 for AHs of the kernel
 */
struct rocev2_ah {
	struct ib_ah		ibah;
	struct rdma_ah_attr	attr;
	u32			num;
};

static inline struct rocev2_ah *to_rocev2_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct rocev2_ah, ibah);
}

int rocev2_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int rocev2_create_user_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
			  struct ib_udata *udata);
int rocev2_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rocev2_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rocev2_destroy_ah(struct ib_ah *ibah, u32 flags);

#endif
