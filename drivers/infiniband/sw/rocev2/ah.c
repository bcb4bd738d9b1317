// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles. The core owns the memory and the reference on the source GID;
 * dev->ahs knows those of applications by number. RC QPs do not use them.
 * Applications: process context; the kernel: any context.
 */
#include <rdma/ib_cache.h>
#include <rdma/rdma_user_rxe.h>

#include "ah.h"
#include "rocev2.h"

static int check_attr(const struct rdma_ah_attr *attr)
{
	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return -EINVAL;
	return 0;
}

/**
 * rocev2_create_ah() - ops.create_ah: for the kernel
 * @ibah: allocated by the core
 * @init: the address, resolved by the core
 * @udata: NULL
 *
 * Context: any, see RDMA_CREATE_AH_SLEEPABLE.
 *
 * Return: 0 or -EINVAL.
 */
int rocev2_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct rocev2_ah *ah = to_rocev2_ah(ibah);
	int ret;

	ret = check_attr(init->ah_attr);
	if (ret)
		return ret;
	ah->attr = *init->ah_attr;
	ah->num = 0;
	return 0;
}

/**
 * rocev2_create_user_ah() - ops.create_user_ah: for applications
 * @ibah: allocated by the core
 * @init: the address, resolved by the core
 * @udata: takes struct rxe_create_ah_resp
 *
 * Return: 0 or a negative errno.
 */
int rocev2_create_user_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init,
			  struct ib_udata *udata)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibah->device);
	struct rocev2_ah *ah = to_rocev2_ah(ibah);
	struct rxe_create_ah_resp resp = {};
	int ret;

	/* without the number applications would put whole addresses into work requests */
	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	ret = rocev2_create_ah(ibah, init, NULL);
	if (ret)
		return ret;
	ret = xa_alloc_cyclic(&dev->ahs, &ah->num, ah, XA_LIMIT(1, ROCEV2_MAX_AH),
			      &dev->next_ah, GFP_KERNEL);
	if (ret < 0)
		return ret == -EBUSY ? -ENOMEM : ret;

	resp.ah_num = ah->num;
	ret = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (ret)
		xa_erase(&dev->ahs, ah->num);
	return ret;
}

/**
 * rocev2_modify_ah() - ops.modify_ah
 * @ibah: the AH
 * @attr: the new address; the core has moved the GID reference
 *
 * Return: 0 or -EINVAL.
 */
int rocev2_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	int ret;

	ret = check_attr(attr);
	if (ret)
		return ret;
	to_rocev2_ah(ibah)->attr = *attr;
	return 0;
}

/**
 * rocev2_query_ah() - ops.query_ah
 * @ibah: the AH
 * @attr: takes the address
 *
 * Return: 0.
 */
int rocev2_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	*attr = to_rocev2_ah(ibah)->attr;
	return 0;
}

/**
 * rocev2_destroy_ah() - ops.destroy_ah
 * @ibah: the AH; the core frees it next
 * @flags: RDMA_DESTROY_AH_SLEEPABLE or not
 *
 * Return: 0.
 */
int rocev2_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct rocev2_ah *ah = to_rocev2_ah(ibah);

	if (ah->num)
		xa_erase(&to_rocev2_dev(ibah->device)->ahs, ah->num);
	return 0;
}
