// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The CRC engine: libdeflate's, which like the kernel's multiplies without carry where the CPU can.
 * It inverts before and after, the module's callers do so themselves.
 */
#include <libdeflate.h>

#include "icrc.h"

u32 rocev2_crc32(u32 crc, const void *data, size_t len)
{
	return ~libdeflate_crc32(~crc, data, len);
}
