/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_LINUX_MM_H
#define _COMPAT_LINUX_MM_H

#include_next <linux/mm.h>

#ifndef HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}
#endif

#endif
