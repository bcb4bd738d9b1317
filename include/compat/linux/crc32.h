/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#ifndef _COMPAT_LINUX_CRC32_H
#define _COMPAT_LINUX_CRC32_H

#include_next <linux/crc32.h>

/* crc32_le() uses the processor's carry-less multiplication; before, only the crypto API did */
#ifdef HAVE_CRC32_OPTIMIZATIONS
#define ROCEV2_CRC32_LIB 1
#endif

#endif
