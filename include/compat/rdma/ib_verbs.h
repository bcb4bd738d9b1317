/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_RDMA_IB_VERBS_H
#define _COMPAT_RDMA_IB_VERBS_H

#include_next <rdma/ib_verbs.h>

#ifndef HAVE_IB_MARK_NAME_ASSIGNED_BY_USER
/* udev renames devices of such kernels by its own rules */
static inline void ib_mark_name_assigned_by_user(struct ib_device *ibdev)
{
}
#endif

#ifndef HAVE_IB_ALLOC_DEVICE_WITH_NET
/* the namespace is first looked at in ib_register_device() */
#define ib_alloc_device_with_net(drv_struct, member, net)			\
({										\
	struct drv_struct *__drv = ib_alloc_device(drv_struct, member);		\
										\
	if (__drv)								\
		write_pnet(&__drv->member.coredev.rdma_net, net);		\
	__drv;									\
})
#endif

/*
 * Members of ib_device_ops whose name or prototype changed. RDMA_..._COMPAT(),
 * at file scope, makes wrappers of older prototypes around functions of the
 * newest; RDMA_..._OPS() are the initializers.
 */
#ifdef HAVE_CREATE_USER_CQ
#define RDMA_CREATE_CQ_COMPAT(create, create_user)
#define RDMA_CREATE_CQ_OPS(create, create_user)					\
	.create_cq = (create),							\
	.create_user_cq = (create_user),
#elif defined(HAVE_CREATE_CQ_ATTRS)
#define RDMA_CREATE_CQ_COMPAT(create, create_user)				\
static int create##_compat(struct ib_cq *cq, const struct ib_cq_init_attr *attr,\
			   struct uverbs_attr_bundle *attrs)			\
{										\
	return attrs ? create_user(cq, attr, attrs) : create(cq, attr, NULL);	\
}

#define RDMA_CREATE_CQ_OPS(create, create_user)					\
	.create_cq = create##_compat,
#else
#include <rdma/uverbs_ioctl.h>
#define RDMA_CREATE_CQ_COMPAT(create, create_user)				\
static int create##_compat(struct ib_cq *cq, const struct ib_cq_init_attr *attr,\
			   struct ib_udata *udata)				\
{										\
	return udata ? create_user(cq, attr,					\
				   rdma_udata_to_uverbs_attr_bundle(udata)) :	\
		       create(cq, attr, NULL);					\
}

#define RDMA_CREATE_CQ_OPS(create, create_user)					\
	.create_cq = create##_compat,
#endif

#ifdef HAVE_RESIZE_USER_CQ
#define RDMA_RESIZE_CQ_COMPAT(resize)
#define RDMA_RESIZE_CQ_OPS(resize) .resize_user_cq = (resize),
#else
#define RDMA_RESIZE_CQ_COMPAT(resize)						\
static int resize##_compat(struct ib_cq *cq, int cqe, struct ib_udata *udata)	\
{										\
	return cqe > 0 && udata ? resize(cq, cqe, udata) : -EINVAL;		\
}

#define RDMA_RESIZE_CQ_OPS(resize) .resize_cq = resize##_compat,
#endif

#ifdef HAVE_REG_USER_MR_DMAH
#define RDMA_REG_USER_MR_COMPAT(reg)
#define RDMA_REG_USER_MR_OPS(reg) .reg_user_mr = (reg),
#else
struct ib_dmah;
#define RDMA_REG_USER_MR_COMPAT(reg)						\
static struct ib_mr *reg##_compat(struct ib_pd *pd, u64 start, u64 length,	\
				  u64 virt_addr, int access,			\
				  struct ib_udata *udata)			\
{										\
	return reg(pd, start, length, virt_addr, access, NULL, udata);		\
}

#define RDMA_REG_USER_MR_OPS(reg) .reg_user_mr = reg##_compat,
#endif

#ifdef HAVE_REG_USER_MR_DMABUF_DMAH
#define RDMA_REG_USER_MR_DMABUF_COMPAT(reg)
#define RDMA_REG_USER_MR_DMABUF_OPS(reg) .reg_user_mr_dmabuf = (reg),
#else
#ifdef HAVE_REG_USER_MR_DMABUF_ATTRS
#define RDMA_REG_USER_MR_DMABUF_LAST	struct uverbs_attr_bundle *
#else
#define RDMA_REG_USER_MR_DMABUF_LAST	struct ib_udata *
#endif
#define RDMA_REG_USER_MR_DMABUF_COMPAT(reg)					\
static struct ib_mr *reg##_compat(struct ib_pd *pd, u64 offset, u64 length,	\
				  u64 virt_addr, int fd, int access,		\
				  RDMA_REG_USER_MR_DMABUF_LAST unused)		\
{										\
	return reg(pd, offset, length, virt_addr, fd, access, NULL, NULL);	\
}

#define RDMA_REG_USER_MR_DMABUF_OPS(reg) .reg_user_mr_dmabuf = reg##_compat,
#endif

/* an rdma_counter without anything of the driver's in it: older kernels allocate just that */
#ifdef HAVE_COUNTER_INIT
struct rdma_counter_only {
	struct rdma_counter counter;
};

#define RDMA_COUNTER_OBJ_COMPAT							\
static void counter_init_nop(struct rdma_counter *counter)			\
{										\
}

#define RDMA_COUNTER_OBJ_OPS							\
	.counter_init = counter_init_nop,					\
	INIT_RDMA_OBJ_SIZE(rdma_counter, rdma_counter_only, counter),
#else
#define RDMA_COUNTER_OBJ_COMPAT
#define RDMA_COUNTER_OBJ_OPS
#endif

#ifdef HAVE_COUNTER_BIND_PORT
#define RDMA_COUNTER_BIND_COMPAT(bind, unbind)
#define RDMA_COUNTER_BIND_OPS(bind, unbind)					\
	.counter_bind_qp = (bind),						\
	.counter_unbind_qp = (unbind),
#else
#define RDMA_COUNTER_BIND_COMPAT(bind, unbind)					\
static int bind##_compat(struct rdma_counter *counter, struct ib_qp *qp)	\
{										\
	return bind(counter, qp, counter->port);				\
}										\
										\
static int unbind##_compat(struct ib_qp *qp)					\
{										\
	return unbind(qp, qp->port);						\
}

#define RDMA_COUNTER_BIND_OPS(bind, unbind)					\
	.counter_bind_qp = bind##_compat,					\
	.counter_unbind_qp = unbind##_compat,
#endif

#ifdef HAVE_FILL_RES_SRQ_ENTRY
#define RDMA_FILL_RES_SRQ_OPS(fill) .fill_res_srq_entry = (fill),
#else
#define RDMA_FILL_RES_SRQ_OPS(fill)
#endif

#endif
