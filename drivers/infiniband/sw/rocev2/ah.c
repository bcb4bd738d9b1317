// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Address handles. The core owns the memory and the reference on the source GID.
 * Applications: process context; the kernel: any context.
 */
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/rdma_user_rxe.h>

#include "ah.h"
#include "rocev2.h"

static struct rocev2_av *make_av(struct ib_ah *ibah, const struct rdma_ah_attr *attr, gfp_t gfp)
{
	struct rocev2_av *av;
	int ret;

	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE)
		return ERR_PTR(-EINVAL);
	av = kzalloc_obj(*av, gfp);
	if (!av)
		return ERR_PTR(-ENOMEM);
	av->pd = ibah->pd;
	ret = rocev2_path_init(&av->path, to_rocev2_dev(ibah->device), attr, 0, 0);
	if (ret) {
		kfree(av);
		return ERR_PTR(ret);
	}
	return av;
}

/**
 * rocev2_create_ah() - ops.create_ah: for the kernel
 * @ibah: allocated by the core
 * @init: the address, resolved by the core
 * @udata: NULL
 *
 * Context: any, see RDMA_CREATE_AH_SLEEPABLE.
 *
 * Return: 0, -EINVAL (no RoCE address), -ENODEV (netdev gone), -ENOMEM.
 */
int rocev2_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	gfp_t gfp = init->flags & RDMA_CREATE_AH_SLEEPABLE ? GFP_KERNEL : GFP_ATOMIC;
	struct rocev2_dev *dev = to_rocev2_dev(ibah->device);
	struct rocev2_ah *ah = to_rocev2_ah(ibah);
	unsigned long flags;
	int ret;

	ah->av = make_av(ibah, init->ah_attr, gfp);
	if (IS_ERR(ah->av))
		return PTR_ERR(ah->av);
	ah->attr = *init->ah_attr;
	/* the lock is dropped to allocate only if @gfp may sleep, and then interrupts are on */
	xa_lock_irqsave(&dev->ahs, flags);
	ret = __xa_alloc_cyclic(&dev->ahs, &ah->num, ah->av, XA_LIMIT(1, ROCEV2_MAX_AH),
				&dev->next_ah, gfp);
	xa_unlock_irqrestore(&dev->ahs, flags);
	if (ret < 0) {
		kfree(ah->av);
		return ret == -EBUSY ? -ENOMEM : ret;
	}
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
	struct rxe_create_ah_resp resp = {};
	int ret;

	/* without the number applications would put whole addresses into work requests */
	if (udata->outlen < sizeof(resp))
		return -EINVAL;
	ret = rocev2_create_ah(ibah, init, NULL);
	if (ret)
		return ret;
	resp.ah_num = to_rocev2_ah(ibah)->num;
	ret = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (ret)
		rocev2_destroy_ah(ibah, RDMA_DESTROY_AH_SLEEPABLE);
	return ret;
}

/**
 * rocev2_modify_ah() - ops.modify_ah
 * @ibah: the AH
 * @attr: the new address; the core has moved the GID reference
 *
 * Context: process.
 *
 * Return: as rocev2_create_ah(); then the old address stays.
 */
int rocev2_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibah->device);
	struct rocev2_ah *ah = to_rocev2_ah(ibah);
	struct rocev2_av *av, *old = ah->av;
	unsigned long flags;

	av = make_av(ibah, attr, GFP_KERNEL);
	if (IS_ERR(av))
		return PTR_ERR(av);
	xa_lock_irqsave(&dev->ahs, flags);
	/* the entry exists: nothing to allocate */
	__xa_store(&dev->ahs, ah->num, av, GFP_ATOMIC);
	xa_unlock_irqrestore(&dev->ahs, flags);
	ah->av = av;
	ah->attr = *attr;
	kfree_rcu(old, rcu);
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
	/* ib_core holds the GID reference */
	attr->grh.sgid_attr = NULL;
	return 0;
}

/**
 * rocev2_destroy_ah() - ops.destroy_ah
 * @ibah: the AH; the core frees it next
 * @flags: RDMA_DESTROY_AH_SLEEPABLE or not
 *
 * Context: any, see @flags.
 *
 * Return: 0.
 */
int rocev2_destroy_ah(struct ib_ah *ibah, u32 flags)
{
	struct rocev2_dev *dev = to_rocev2_dev(ibah->device);
	struct rocev2_ah *ah = to_rocev2_ah(ibah);
	unsigned long irq;

	xa_lock_irqsave(&dev->ahs, irq);
	__xa_erase(&dev->ahs, ah->num);
	xa_unlock_irqrestore(&dev->ahs, irq);
	kfree_rcu(ah->av, rcu);
	return 0;
}
