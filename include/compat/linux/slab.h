/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_LINUX_SLAB_H
#define _COMPAT_LINUX_SLAB_H

#include_next <linux/slab.h>

#ifndef kzalloc_obj
/* the newest takes allocation flags too, GFP_KERNEL by default; nobody here passes them */
#define kzalloc_obj(obj) kzalloc(sizeof(obj), GFP_KERNEL)
#endif

#endif
