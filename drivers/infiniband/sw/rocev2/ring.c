// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Memory of rings, and its mapping into applications. Process context.
 *
 * A kernel ring owns its memory. The memory of an application's ring belongs to the
 * mmap entry: the object that has the ring holds one reference, each mmap() in
 * progress another, and the last one frees. Pages that are mapped by then stay
 * until they are unmapped.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_verbs.h>

#include "ring.h"

struct mmap_entry {
	struct rdma_user_mmap_entry	rdma;
	void				*buf;
};

static struct mmap_entry *to_mmap_entry(struct rdma_user_mmap_entry *entry)
{
	return container_of(entry, struct mmap_entry, rdma);
}

static int map_for_user(struct rocev2_ring *ring, struct ib_ucontext *ucontext,
			struct mminfo *mi)
{
	struct mmap_entry *entry;
	int ret;

	entry = kzalloc_obj(*entry);
	if (!entry)
		return -ENOMEM;
	entry->buf = ring->buf;
	ret = rdma_user_mmap_entry_insert(ucontext, &entry->rdma, ring->size);
	if (ret) {
		kfree(entry);
		return ret;
	}
	ring->entry = &entry->rdma;
	mi->offset = rdma_user_mmap_get_offset(&entry->rdma);
	mi->size = ring->size;
	mi->pad = 0;
	return 0;
}

int rocev2_ring_alloc(struct rocev2_ring *ring, u32 slots, size_t elem_size,
		      struct ib_ucontext *ucontext, struct mminfo *mi)
{
	size_t bytes;
	u32 num;
	int ret;

	memset(ring, 0, sizeof(*ring));
	/* far above every limit of ours; keeps the roundings below from overflowing */
	if (!slots || slots >= 1u << 24 || !elem_size || elem_size > PAGE_SIZE)
		return -EINVAL;
	/* one slot stays empty */
	num = roundup_pow_of_two(slots + 1);
	elem_size = roundup_pow_of_two(elem_size);
	if (check_mul_overflow((size_t)num, elem_size, &bytes) ||
	    check_add_overflow(bytes, sizeof(*ring->buf), &bytes) ||
	    bytes > U32_MAX - PAGE_SIZE)
		return -EINVAL;

	ring->size = PAGE_ALIGN(bytes);
	ring->mask = num - 1;
	ring->elem_shift = ilog2(elem_size);
	/* whoever chooses the size pays: rings count against the application's memory cgroup */
	ring->buf = __vmalloc(ring->size, __GFP_ZERO | __GFP_NOWARN |
					  (ucontext ? GFP_KERNEL_ACCOUNT : GFP_KERNEL));
	if (!ring->buf)
		return -ENOMEM;
	ring->buf->log2_elem_size = ring->elem_shift;
	ring->buf->index_mask = ring->mask;

	if (ucontext) {
		ret = map_for_user(ring, ucontext, mi);
		if (ret) {
			vfree(ring->buf);
			memset(ring, 0, sizeof(*ring));
			return ret;
		}
	}
	return 0;
}

/**
 * rocev2_ring_free() - undo rocev2_ring_alloc()
 * @ring: the ring; a zeroed one is ignored
 */
void rocev2_ring_free(struct rocev2_ring *ring)
{
	if (ring->entry)
		rdma_user_mmap_entry_remove(ring->entry);
	else
		vfree(ring->buf);
	memset(ring, 0, sizeof(*ring));
}

/**
 * rocev2_mmap_free() - ops.mmap_free: the last reference on an entry is gone
 * @rdma: the entry
 */
void rocev2_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct mmap_entry *entry = to_mmap_entry(rdma);

	vfree(entry->buf);
	kfree(entry);
}

/**
 * rocev2_mmap() - ops.mmap: map the ring that a create call has announced
 * @ucontext: of the application
 * @vma: offset and size as in struct mminfo
 *
 * Return: 0 or a negative errno.
 */
int rocev2_mmap(struct ib_ucontext *ucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma;
	unsigned long off;
	int ret = 0;
	void *buf;

	/* a private mapping would be a copy that the kernel never sees */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	/* finds nothing unless offset and size are exactly the entry's */
	rdma = rdma_user_mmap_entry_get(ucontext, vma);
	if (!rdma)
		return -EINVAL;
	buf = to_mmap_entry(rdma)->buf;
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	for (off = 0; !ret && off < vma->vm_end - vma->vm_start; off += PAGE_SIZE)
		ret = vm_insert_page(vma, vma->vm_start + off, vmalloc_to_page(buf + off));
	rdma_user_mmap_entry_put(rdma);
	return ret;
}
