/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* User-space stand-in: IPv6 addresses and the fragment header (RFC 8200). */
#ifndef SHIM_NET_IPV6_H
#define SHIM_NET_IPV6_H

#include <linux/ipv6.h>
#include <linux/types.h>

#define NEXTHDR_FRAGMENT	44

struct frag_hdr {
	u8	nexthdr;
	u8	reserved;
	__be16	frag_off;
	__be32	identification;
};

static inline bool ipv6_addr_is_multicast(const struct in6_addr *addr)
{
	return addr->s6_addr[0] == 0xff;
}

static inline void ipv6_addr_set_v4mapped(__be32 addr, struct in6_addr *mapped)
{
	mapped->s6_addr32[0] = 0;
	mapped->s6_addr32[1] = 0;
	mapped->s6_addr32[2] = htonl(0xffff);
	mapped->s6_addr32[3] = addr;
}

#endif
