// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* See receive.h. The rest of what the stages call is here: none of it is on their way. */
#include <stdlib.h>

#include "receive.h"

#include <net/ip.h>
#include <net/ipv6.h>

#include "mem.h"
#include "opcode.h"
#include "resp.h"

#define BLOCK_SHIFT	12
#define BLOCKS		(RECEIVER_LENGTH >> BLOCK_SHIFT)
/* of the packet's IP header: as behind an Ethernet header, at the beginning of a cache line */
#define PACKET_AT	(64 + 14 + 2)
#define PACKET_MAX	9216

struct receiver {
	u8			packet[PACKET_AT + PACKET_MAX] __aligned(64);
	u8			memory[RECEIVER_LENGTH] __aligned(64);
	u8			cache[RECEIVER_CACHE * 32] __aligned(64);
	u32			len;
	u16			vlan_tci;
	__be16			protocol;
	u8			flags;
	struct rocev2_rx_buf	buf;
	struct rocev2_qp	qp;
	struct rocev2_dev	dev;
	struct rocev2_counters	counters;
	struct ib_pd		pd;
	struct ib_qp		ibqp;
	void			*table[BLOCKS];
	struct rocev2_mr	mr[RECEIVER_REGIONS];
	void			*slot[RECEIVER_REGIONS + 1];
};

/* index 0 is that of the key to all memory */
uint32_t receiver_key(unsigned int region)
{
	return (region + 1) << 8 | (region & 0xff);
}

static void set_addresses(struct receiver *r, const u8 *ip)
{
	struct rocev2_path *path = &r->qp.path;

	path->ipv6 = *ip >> 4 == 6;
	if (path->ipv6) {
		const struct ipv6hdr *ip6h = (const void *)ip;

		memcpy(&path->daddr, &ip6h->saddr, sizeof(path->daddr));
		memcpy(&path->saddr, &ip6h->daddr, sizeof(path->saddr));
	} else {
		const struct iphdr *iph = (const void *)ip;

		ipv6_addr_set_v4mapped(iph->saddr, (struct in6_addr *)&path->daddr);
		ipv6_addr_set_v4mapped(iph->daddr, (struct in6_addr *)&path->saddr);
	}
	path->vlan = r->vlan_tci;
	path->vlan_tci = r->vlan_tci;
	r->dev.gid = path->saddr;
	r->flags = path->ipv6 ? ROCEV2_RX_IPV6 : 0;
	r->protocol = htons(path->ipv6 ? ETH_P_IPV6 : ETH_P_IP);
}

static void set_regions(struct receiver *r)
{
	unsigned int i;

	for (i = 0; i < BLOCKS; i++)
		r->table[i] = r->memory + ((size_t)i << BLOCK_SHIFT);
	for (i = 0; i < RECEIVER_REGIONS; i++) {
		struct rocev2_mr *mr = &r->mr[i];

		mr->ibmr.pd = &r->pd;
		mr->key = receiver_key(i);
		mr->kind = ROCEV2_KEY_MR;
		mr->iova = RECEIVER_IOVA;
		mr->length = RECEIVER_LENGTH;
		mr->access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE;
		mr->block_shift = BLOCK_SHIFT;
		mr->table = r->table;
		refcount_set(&mr->users, 1);
		r->slot[i + 1] = mr;
	}
	r->dev.mrs = (struct xarray){ r->slot, ARRAY_SIZE(r->slot) };
}

struct receiver *receiver_new(const void *packet, size_t len, uint16_t vlan_tci)
{
	struct receiver *r;

	if (len > PACKET_MAX || rocev2_mr_cache_bytes(RECEIVER_CACHE) > sizeof(r->cache))
		return NULL;
	r = aligned_alloc(64, (sizeof(*r) + 63) / 64 * 64);
	if (!r)
		return NULL;
	memset(r, 0, sizeof(*r));
	memcpy(r->packet + PACKET_AT, packet, len);
	r->len = len;
	r->vlan_tci = vlan_tci;
	set_addresses(r, packet);
	set_regions(r);
	r->ibqp.pd = &r->pd;
	r->qp.ibqp = &r->ibqp;
	r->qp.dev = &r->dev;
	r->qp.counters = &r->counters;
	r->qp.state = IB_QPS_RTS;
	r->qp.service = ROCEV2_SVC_RC;
	rocev2_mr_cache_init(&r->qp.cache, r->cache, RECEIVER_CACHE);
	if (!receive_parse(r)) {
		free(r);
		return NULL;
	}
	r->qp.recv.epsn = r->buf.psn;
	return r;
}

void receiver_free(struct receiver *r)
{
	free(r);
}

bool receive_is_ours(struct receiver *r)
{
	return rocev2_rx_is_ours(&r->dev, r->protocol, r->packet + PACKET_AT,
				 min_t(u32, r->len, ROCEV2_RX_IP_UDP_MAX));
}

bool receive_parse(struct receiver *r)
{
	rocev2_rx_buf_init(&r->buf, NULL, r->packet + PACKET_AT, r->len, r->vlan_tci, r->flags);
	return rocev2_rx_parse(&r->buf) == ROCEV2_RX_CONTINUE;
}

bool receive_check_icrc(struct receiver *r)
{
	return rocev2_rx_check_icrc(&r->qp, &r->buf) == ROCEV2_RX_CONTINUE;
}

bool receive_check_qp(struct receiver *r)
{
	return rocev2_rx_check_qp(&r->qp, &r->buf) == ROCEV2_RX_CONTINUE;
}

bool receive_check_psn(struct receiver *r)
{
	return rocev2_rx_check_psn(&r->qp, &r->buf) == ROCEV2_RX_CONTINUE;
}

bool receive_write(struct receiver *r)
{
	const struct rocev2_reth *reth = rocev2_rx_hdr(&r->buf, sizeof(struct rocev2_bth));
	u32 len = be32_to_cpu(reth->len);

	if (!len)
		return true;
	return rocev2_mem_write(&r->qp, be32_to_cpu(reth->rkey), be64_to_cpu(reth->va),
				r->buf.payload_len, len, IB_ACCESS_REMOTE_WRITE,
				rocev2_payload(&r->buf)) == ROCEV2_MR_OK;
}

uint32_t receive_packet(struct receiver *r)
{
	if (!receive_is_ours(r) || !receive_parse(r) || !receive_check_icrc(r) ||
	    !receive_check_qp(r) || !receive_check_psn(r) || !receive_write(r))
		return 0;
	return r->buf.payload_len;
}

uint32_t receive_payload_len(const struct receiver *r)
{
	return r->buf.payload_len;
}

uint32_t receive_psn(const struct receiver *r)
{
	return r->buf.psn;
}

int receive_key(struct receiver *r, uint32_t key, uint64_t addr, uint64_t len)
{
	enum rocev2_mr_status status;
	struct rocev2_mr *mr;

	status = rocev2_mr_get(&r->qp, &r->pd, key, addr, len, IB_ACCESS_REMOTE_WRITE, &mr);
	if (status == ROCEV2_MR_OK)
		rocev2_mr_put(mr);
	return status;
}

const void *receive_memory(const struct receiver *r, size_t offset)
{
	return r->memory + offset;
}

uint64_t receive_cache_hits(const struct receiver *r)
{
	return r->qp.cache.hits;
}

uint64_t receive_cache_misses(const struct receiver *r)
{
	return r->qp.cache.misses;
}

/* --- where the packets of a receiver never come --- */

enum rocev2_rx_verdict rocev2_resp_duplicate(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	rocev2_qp_count(qp, ROCEV2_CNT_DUPLICATE_REQUEST);
	return ROCEV2_RX_DONE;
}

enum rocev2_rx_verdict rocev2_resp_gap(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	rocev2_qp_count(qp, ROCEV2_CNT_OUT_OF_SEQUENCE);
	return ROCEV2_RX_KEPT;
}

void rocev2_rx_copy_frags(const struct rocev2_rx_buf *buf, u32 off, void *dst, u32 len)
{
	abort();
}

u32 rocev2_rx_crc_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len, u32 crc)
{
	abort();
}

__wsum rocev2_rx_checksum_frags(const struct rocev2_rx_buf *buf, u32 off, u32 len)
{
	abort();
}
