/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_NET_PAGE_POOL_HELPERS_H
#define _COMPAT_NET_PAGE_POOL_HELPERS_H

#ifdef HAVE_PAGE_POOL_HELPERS_H
#include_next <net/page_pool/helpers.h>
#else
#include <net/page_pool.h>
#endif

#endif
