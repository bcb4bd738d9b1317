/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Address handles, and the header templates that datagrams are sent with.
 *
 * Work requests name an AH by number. dev->ahs maps the number to the template,
 * which belongs to the AH and is freed by RCU: a work request that outlives its AH
 * finds no template, never a stale one.
 */
#ifndef ROCEV2_AH_H
#define ROCEV2_AH_H

#include <linux/rcupdate.h>
#include <rdma/ib_verbs.h>

#include "tx.h"

/**
 * struct rocev2_av - address vector: what sending to an AH needs
 * @rcu: frees it
 * @pd: only QPs of this PD may send with it
 * @path: header template; the UDP source port is set for each packet
 */
struct rocev2_av {
	struct rcu_head		rcu;
	struct ib_pd		*pd;
	struct rocev2_path	path;
};

/**
 * struct rocev2_ah - an address handle
 * @ibah: must be first; its sgid_attr reference keeps the source address valid
 * @attr: the resolved address
 * @av: its template
 * @num: what work requests name it by
 */
struct rocev2_ah {
	struct ib_ah		ibah;
	struct rdma_ah_attr	attr;
	struct rocev2_av	*av;
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
