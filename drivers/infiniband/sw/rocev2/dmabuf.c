// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Regions of a dma-buf: memory that another driver exports. Process context.
 *
 * The transport copies by CPU, so it imports as a CPU does, by a mapping into kernel
 * addresses, not by an attachment of a DMA device (there is none). An exporter keeps
 * a mapped buffer where it is until it is unmapped: nothing moves under a copy, and
 * there is no move_notify. CPU access begins with the region and ends with it; that
 * is sound where DMA and CPU caches are coherent, as RDMA takes for granted elsewhere.
 *
 * Refused: buffers that cannot be mapped, and those in I/O memory, which an ordinary
 * copy must not touch.
 */
#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_verbs.h>

#include "mr.h"
#include "rocev2.h"

MODULE_IMPORT_NS("DMA_BUF");

/**
 * struct rocev2_dmabuf - what a region holds of a dma-buf
 * @buf: the buffer, referenced, in CPU access
 * @map: its mapping
 * @base: mr->table: one block, all of the mapping
 */
struct rocev2_dmabuf {
	struct dma_buf		*buf;
	struct iosys_map	map;
	void			*base;
};

static int dmabuf_map(struct rocev2_dmabuf *d)
{
	int ret;

	if (!d->buf->ops->vmap)
		return -EOPNOTSUPP;
	ret = dma_buf_begin_cpu_access(d->buf, DMA_BIDIRECTIONAL);
	if (ret)
		return ret;
	ret = dma_buf_vmap_unlocked(d->buf, &d->map);
	if (ret)
		goto err_end;
	if (d->map.is_iomem) {
		ret = -EOPNOTSUPP;
		goto err_unmap;
	}
	d->base = d->map.vaddr;
	return 0;

err_unmap:
	dma_buf_vunmap_unlocked(d->buf, &d->map);
err_end:
	dma_buf_end_cpu_access(d->buf, DMA_BIDIRECTIONAL);
	return ret;
}

void rocev2_dmabuf_free(struct rocev2_dmabuf *d)
{
	dma_buf_vunmap_unlocked(d->buf, &d->map);
	dma_buf_end_cpu_access(d->buf, DMA_BIDIRECTIONAL);
	dma_buf_put(d->buf);
	kfree(d);
}

/* may a region of this buffer have these rights? */
bool rocev2_dmabuf_allows(const struct rocev2_dmabuf *d, int access)
{
	return !(access & IB_ACCESS_ON_DEMAND) &&
	       (d->buf->file->f_mode & FMODE_WRITE || !ib_access_writable(access));
}

static int dmabuf_get(struct rocev2_mr *mr, u64 offset, int fd)
{
	struct rocev2_dmabuf *d;
	int ret;

	d = kzalloc_obj(*d);
	if (!d)
		return -ENOMEM;
	d->buf = dma_buf_get(fd);
	if (IS_ERR(d->buf)) {
		ret = PTR_ERR(d->buf);
		goto err_free;
	}
	ret = -EINVAL;
	if (offset > d->buf->size || mr->length > d->buf->size - offset)
		goto err_put;
	ret = -EACCES;
	if (!rocev2_dmabuf_allows(d, mr->access))
		goto err_put;
	ret = dmabuf_map(d);
	if (ret)
		goto err_put;
	/* a block that is larger than anything in it */
	mr->block_shift = order_base_2(d->buf->size);
	mr->block_offset = offset;
	mr->table = &d->base;
	mr->dmabuf = d;
	return 0;

err_put:
	dma_buf_put(d->buf);
err_free:
	kfree(d);
	return ret;
}

/**
 * rocev2_reg_user_mr_dmabuf() - ops.reg_user_mr_dmabuf: register memory of another driver
 * @ibpd: the PD
 * @offset: where the region begins in the buffer
 * @length: bytes, > 0
 * @iova: its address in work requests and on the wire
 * @fd: the buffer, of this process
 * @access: enum ib_access_flags
 * @dmah: must be NULL: there is no DMA to give hints for
 * @attrs: unused
 *
 * Return: the MR, or an ERR_PTR: -EINVAL (range, or not a dma-buf), -EBADF, -EACCES
 * (opened for reading only), -EOPNOTSUPP (the CPU cannot reach it), or the exporter's.
 */
struct ib_mr *rocev2_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
					int fd, int access, struct ib_dmah *dmah,
					struct uverbs_attr_bundle *attrs)
{
	struct rocev2_mr *mr;
	int ret;

	if (dmah || access & ~ROCEV2_ACCESS_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length || length > ROCEV2_MAX_MR_SIZE || iova > U64_MAX - (length - 1))
		return ERR_PTR(-EINVAL);
	mr = rocev2_mr_alloc(ibpd, ROCEV2_KEY_MR, access);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->iova = iova;
	mr->length = length;
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	ret = dmabuf_get(mr, offset, fd);
	if (ret) {
		rocev2_mr_free(mr);
		return ERR_PTR(ret);
	}
	rocev2_mr_publish(mr, mr->ibmr.lkey);
	return &mr->ibmr;
}
