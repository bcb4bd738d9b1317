/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Work and completion rings in the layout of <rdma/rdma_user_rxe.h>, which
 * unmodified rdma-core maps. Kernel consumers use the same rings, unmapped.
 *
 * A ring that is mapped into an application is hostile memory: the kernel never
 * reads back what it wrote there, keeps its own index, mask and element size
 * here, and masks every index it reads. One slot stays empty: equal indices mean
 * an empty ring.
 */
#ifndef ROCEV2_RING_H
#define ROCEV2_RING_H

#include <linux/types.h>
#include <asm/barrier.h>
#include <rdma/rdma_user_rxe.h>

struct ib_udata;
struct ib_ucontext;
struct rdma_user_mmap_entry;
struct vm_area_struct;

/**
 * struct rocev2_ring - the kernel's side of one ring
 * @buf: the shared memory (vmalloc)
 * @size: bytes of @buf, a multiple of PAGE_SIZE
 * @mask: number of slots - 1
 * @elem_shift: log2 of an element's size in bytes
 * @index: the kernel's own index: consumer of SQ and RQ, producer of a CQ
 * @entry: mmap cookie; NULL for kernel rings
 */
struct rocev2_ring {
	struct rxe_queue_buf		*buf;
	u32				size;
	u32				mask;
	u32				elem_shift;
	u32				index;
	struct rdma_user_mmap_entry	*entry;
};

/* slots a ring can hold at once */
static inline u32 rocev2_ring_capacity(const struct rocev2_ring *ring)
{
	return ring->mask;
}

static inline void *rocev2_ring_slot(const struct rocev2_ring *ring, u32 index)
{
	return ring->buf->data + ((size_t)(index & ring->mask) << ring->elem_shift);
}

static inline u32 rocev2_ring_producer(const struct rocev2_ring *ring)
{
	/* acquire: the producer's store of the element comes before its store of the index */
	return smp_load_acquire(&ring->buf->producer_index) & ring->mask;
}

static inline u32 rocev2_ring_consumer(const struct rocev2_ring *ring)
{
	/* acquire: the consumer has finished reading the slots before it moves the index */
	return smp_load_acquire(&ring->buf->consumer_index) & ring->mask;
}

static inline void rocev2_ring_set_producer(struct rocev2_ring *ring, u32 index)
{
	/* release: our store of the element is visible before the index that publishes it */
	smp_store_release(&ring->buf->producer_index, index & ring->mask);
}

static inline void rocev2_ring_set_consumer(struct rocev2_ring *ring, u32 index)
{
	/* release: we are done with the slots before the producer may take them */
	smp_store_release(&ring->buf->consumer_index, index & ring->mask);
}

/**
 * rocev2_ring_alloc() - make a ring
 * @ring: filled on success
 * @slots: elements it must hold at once; rounded up to a power of two minus one
 * @elem_size: bytes an element needs; rounded up to a power of two
 * @ucontext: whose application will map it; NULL for a kernel ring
 * @mi: filled with what the application passes to mmap(); NULL for a kernel ring
 *
 * Return: 0, -ENOMEM or -EINVAL (too large).
 */
int rocev2_ring_alloc(struct rocev2_ring *ring, u32 slots, size_t elem_size,
		      struct ib_ucontext *ucontext, struct mminfo *mi);
/* mappings of the application keep the pages; zeroed rings are ignored */
void rocev2_ring_free(struct rocev2_ring *ring);

/* ops.mmap and ops.mmap_free: the application maps a ring */
int rocev2_mmap(struct ib_ucontext *ucontext, struct vm_area_struct *vma);
void rocev2_mmap_free(struct rdma_user_mmap_entry *entry);

#endif
