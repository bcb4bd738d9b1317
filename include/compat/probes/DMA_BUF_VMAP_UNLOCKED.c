// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* dma_buf_vmap() wants the reservation lock held, and has a variant that takes it */
#include <linux/dma-buf.h>

int probe(struct dma_buf *dmabuf, struct iosys_map *map)
{
	return dma_buf_vmap_unlocked(dmabuf, map);
}
