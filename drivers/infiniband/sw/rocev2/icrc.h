/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Invariant CRC of RoCE v2 (annex A17.3.3): CRC-32 of the Ethernet polynomial
 * over the packet from the IP header to the last pad byte, with the fields that
 * a router may change read as ones. Pure but for the CRC engine; tested in
 * tests/unit.
 */
#ifndef ROCEV2_ICRC_H
#define ROCEV2_ICRC_H

#include <linux/types.h>
#include <asm/byteorder.h>

/*
 * The CRC engine: continues @crc over @len bytes, no inversion before or after
 * (as crc32_le() does). crc.c gives the kernel's fastest; tests/unit a plain one.
 */
u32 rocev2_crc32(u32 crc, const void *data, size_t len);

/* longest header block the ICRC masks: IPv6 + UDP + BTH */
#define ROCEV2_ICRC_MAX_HDR	(40 + 8 + 12)

/**
 * rocev2_icrc_headers() - CRC state after the masked IP, UDP and BTH headers
 * @ip: the IP header, version 4 (IHL 5) or 6, with UDP and BTH right behind it
 *
 * Covers 64 bits of ones (the LRH that RoCE does not have), then IP, UDP and BTH with
 * the variant fields as ones: IPv4 TOS, TTL and checksum, IPv6 traffic class,
 * flow label and hop limit, UDP checksum, BTH byte 4 (FECN, BECN, resv6).
 *
 * Return: state to continue with rocev2_crc32() over all that follows the BTH.
 */
u32 rocev2_icrc_headers(const void *ip);

/* the four bytes that go on the wire for the CRC state after the last byte */
static inline __le32 rocev2_icrc_final(u32 crc)
{
	return cpu_to_le32(~crc);
}

#endif
