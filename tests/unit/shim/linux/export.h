/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: a program has no modules. */
#ifndef SHIM_LINUX_EXPORT_H
#define SHIM_LINUX_EXPORT_H

#define EXPORT_SYMBOL_GPL(symbol)	extern int shim_export_##symbol

#endif
