/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: the checksum over IPv6's pseudo-header (RFC 8200, 8.1). */
#ifndef SHIM_NET_IP6_CHECKSUM_H
#define SHIM_NET_IP6_CHECKSUM_H

#include <linux/ipv6.h>
#include <net/checksum.h>

static inline __sum16 csum_ipv6_magic(const struct in6_addr *saddr, const struct in6_addr *daddr,
				      u32 len, u8 proto, __wsum sum)
{
	u64 total = (u64)sum + htonl(len) + htonl(proto);
	int i;

	for (i = 0; i < 4; i++)
		total += (u64)saddr->s6_addr32[i] + daddr->s6_addr32[i];
	return shim_csum_fold(total);
}

#endif
