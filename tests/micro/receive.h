/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The stages of the module's receive path, for callers in C++: one QP, to which the same packet
 * comes again and again. What a stage needs of the kernel is stand_in.h's.
 */
#ifndef MICRO_RECEIVE_H
#define MICRO_RECEIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* regions of a receiver, all with the same pages behind them, and entries of its QP's cache */
#define RECEIVER_REGIONS	512
#define RECEIVER_CACHE		256
/* first address and bytes of each region */
#define RECEIVER_IOVA		0x7f0000001000ull
#define RECEIVER_LENGTH		16384u

struct receiver;

/**
 * receiver_new() - a QP that expects this packet
 * @packet: RC WRITE Only, from the IP header to the ICRC; copied
 * @len: its bytes
 * @vlan_tci: its VLAN tag, 0: none
 *
 * Source, destination and PSN are those that it expects.
 *
 * Return: the receiver; NULL: no memory.
 */
struct receiver *receiver_new(const void *packet, size_t len, uint16_t vlan_tci);
void receiver_free(struct receiver *r);

/* the R_Key of region @region, which is below RECEIVER_REGIONS */
uint32_t receiver_key(unsigned int region);

/*
 * The stages, in the order in which a packet passes them; each but the first needs the second to have
 * been there once. True: the packet goes on to the next.
 */
bool receive_is_ours(struct receiver *r);
bool receive_parse(struct receiver *r);
bool receive_check_icrc(struct receiver *r);
bool receive_check_qp(struct receiver *r);
bool receive_check_psn(struct receiver *r);
bool receive_write(struct receiver *r);

/* all of them; the payload's bytes, or 0: a stage has dropped it */
uint32_t receive_packet(struct receiver *r);

/* bytes and BTH that receive_parse() has found */
uint32_t receive_payload_len(const struct receiver *r);
uint32_t receive_psn(const struct receiver *r);

/* find the key for a WRITE of @len bytes, hold and let go of its region: enum rocev2_mr_status */
int receive_key(struct receiver *r, uint32_t key, uint64_t addr, uint64_t len);

/* what WRITEs have left at @offset of the regions */
const void *receive_memory(const struct receiver *r, size_t offset);

/* lookups that the cache has answered, and others */
uint64_t receive_cache_hits(const struct receiver *r);
uint64_t receive_cache_misses(const struct receiver *r);

#ifdef __cplusplus
}
#endif

#endif
