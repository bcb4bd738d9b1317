/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: the Internet checksum (RFC 1071), plainly; kernels have it in assembly. */
#ifndef SHIM_NET_CHECKSUM_H
#define SHIM_NET_CHECKSUM_H

#include <string.h>

#include <asm/byteorder.h>
#include <linux/types.h>

static inline __sum16 shim_csum_fold(u64 sum)
{
	sum = (sum & 0xffffffffu) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__sum16)~sum;
}

/* the sum of @len bytes and of @sum, in 32 bits */
static inline __wsum csum_partial(const void *data, int len, __wsum sum)
{
	const u8 *p = data;
	u64 total = sum;
	u32 word;

	for (; len >= 4; p += 4, len -= 4) {
		memcpy(&word, p, 4);
		total += word;
	}
	word = 0;
	memcpy(&word, p, len);
	total += word;
	total = (total & 0xffffffffu) + (total >> 32);
	return (__wsum)((total & 0xffffffffu) + (total >> 32));
}

/* of an IPv4 header of @ihl words: 0 if its checksum is right */
static inline __sum16 ip_fast_csum(const void *iph, unsigned int ihl)
{
	const u32 *word = iph;
	u64 sum = 0;

	while (ihl--)
		sum += *word++;
	return shim_csum_fold(sum);
}

#endif
