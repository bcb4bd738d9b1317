/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: IPv4. */
#ifndef SHIM_NET_IP_H
#define SHIM_NET_IP_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <net/checksum.h>

/* flags and offset of a fragment */
#define IP_MF		0x2000
#define IP_OFFSET	0x1fff

static inline bool ipv4_is_multicast(__be32 addr)
{
	return (addr & htonl(0xf0000000)) == htonl(0xe0000000);
}

static inline __sum16 csum_tcpudp_magic(__be32 saddr, __be32 daddr, u32 len, u8 proto, __wsum sum)
{
	return shim_csum_fold((u64)sum + saddr + daddr + htonl(len) + htonl(proto));
}

#endif
