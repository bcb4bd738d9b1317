// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The CRC engine for user space: bit by bit, so that there is nothing to get wrong. The module has
 * the kernel's fast one behind the same function.
 */
#include "icrc.h"

u32 rocev2_crc32(u32 crc, const void *data, size_t len)
{
	const u8 *p = data;
	int bit;

	while (len--) {
		crc ^= *p++;
		for (bit = 0; bit < 8; bit++)
			crc = crc & 1 ? (crc >> 1) ^ 0xedb88320u : crc >> 1;
	}
	return crc;
}
