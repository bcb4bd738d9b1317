// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* net_dim() takes the sample by pointer */
#include <linux/dim.h>

void probe(struct dim *dim, const struct dim_sample *sample)
{
	net_dim(dim, sample);
}
