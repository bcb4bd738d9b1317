/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_LINUX_SLAB_H
#define _COMPAT_LINUX_SLAB_H

#include_next <linux/slab.h>

#ifndef kzalloc_obj
/* allocation flags may follow; GFP_KERNEL if none do */
#define __second(first, second, ...) second
#define kzalloc_obj(obj, ...) kzalloc(sizeof(obj), __second(0, ##__VA_ARGS__, GFP_KERNEL))
#define kvzalloc_obj(obj, ...) kvzalloc(sizeof(obj), __second(0, ##__VA_ARGS__, GFP_KERNEL))
#endif

#endif
