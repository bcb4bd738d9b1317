// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The header part of the invariant CRC, once for each packet received and once for
 * each template or packet sent. Any context; no state.
 */
#include <linux/string.h>

#include "icrc.h"
#include "wire.h"

/* rocev2_crc32() of eight bytes of ones (the absent LRH) from a state of all ones */
#define CRC_AFTER_LRH	0xdebb20e3u

#define IPV4_LEN	20
#define IPV6_LEN	40
#define UDP_LEN		8

/* UDP checksum and the BTH's FECN, BECN and reserved bits: a router may change them */
static inline void mask_udp_bth(u8 *udp)
{
	udp[6] = 0xff;
	udp[7] = 0xff;
	udp[UDP_LEN + 4] = 0xff;
}

u32 rocev2_icrc_headers(const void *ip)
{
	u8 hdr[ROCEV2_ICRC_MAX_HDR] __aligned(8);
	const u8 *first = ip;

	/* one CRC call over a masked copy: accelerated engines pay per call, not per byte */
	if (*first >> 4 == 4) {
		memcpy(hdr, ip, IPV4_LEN + UDP_LEN + sizeof(struct rocev2_bth));
		hdr[1] = 0xff;		/* TOS: DSCP and ECN */
		hdr[8] = 0xff;		/* TTL */
		hdr[10] = 0xff;		/* header checksum */
		hdr[11] = 0xff;
		mask_udp_bth(hdr + IPV4_LEN);
		return rocev2_crc32(CRC_AFTER_LRH, hdr,
				    IPV4_LEN + UDP_LEN + sizeof(struct rocev2_bth));
	}

	memcpy(hdr, ip, IPV6_LEN + UDP_LEN + sizeof(struct rocev2_bth));
	hdr[0] |= 0x0f;			/* traffic class, flow label */
	hdr[1] = 0xff;
	hdr[2] = 0xff;
	hdr[3] = 0xff;
	hdr[7] = 0xff;			/* hop limit */
	mask_udp_bth(hdr + IPV6_LEN);
	return rocev2_crc32(CRC_AFTER_LRH, hdr, sizeof(hdr));
}
