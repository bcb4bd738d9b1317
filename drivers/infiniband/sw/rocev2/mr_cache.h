/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Per-QP translation cache: key (the whole lkey or rkey) -> memory region, least
 * recently used entry out first.
 *
 * It spares the data path the shared key table. No lock: only the QP's owner touches
 * it. No reference on the region either: an entry is good as long as the generation,
 * which deregistration raises before it waits for readers, is the one it was filled
 * under. So read the generation once, inside rcu_read_lock(), before the lookup, and
 * use the region before rcu_read_unlock().
 *
 * Pure, tested in tests/unit.
 */
#ifndef ROCEV2_MR_CACHE_H
#define ROCEV2_MR_CACHE_H

#include <linux/types.h>
#include <linux/compiler.h>

#define ROCEV2_MR_CACHE_MAX	4096

struct rocev2_mr;

/**
 * struct rocev2_mr_cache_entry - one cached translation
 * @mr: the region
 * @key: its full key, variant included
 * @chain: next entry of the same bucket
 * @newer: neighbour that was used later
 * @older: neighbour that was used earlier
 */
struct rocev2_mr_cache_entry {
	struct rocev2_mr	*mr;
	u32			key;
	u16			chain;
	u16			newer;
	u16			older;
};

/**
 * struct rocev2_mr_cache - the cache of one QP
 * @last_mr: region of the entry used last, NULL when empty: the answer to most lookups
 * @last_key: its key
 * @generation: the generation all entries were filled under
 * @hits: lookups answered here
 * @misses: lookups that the caller had to take to the key table
 * @entry: storage of the entries, @size of them
 * @bucket: first entry of each hash chain, 2 * @size of them
 * @size: entries, a power of two; 0 when the cache is off
 * @used: entries taken so far, never given back but by a flush
 * @newest: entry used last
 * @oldest: entry to evict next
 * @hash_shift: takes a 32-bit hash to a bucket number
 */
struct rocev2_mr_cache {
	struct rocev2_mr		*last_mr;
	u32				last_key;
	u64				generation;
	u64				hits;
	u64				misses;
	struct rocev2_mr_cache_entry	*entry;
	u16				*bucket;
	u16				size;
	u16				used;
	u16				newest;
	u16				oldest;
	u8				hash_shift;
};

/* may the cache have this many entries? */
static inline bool rocev2_mr_cache_entries_ok(u32 entries)
{
	return entries <= ROCEV2_MR_CACHE_MAX && !(entries & (entries - 1));
}

size_t rocev2_mr_cache_bytes(u32 entries);
void rocev2_mr_cache_init(struct rocev2_mr_cache *c, void *mem, u32 entries);
void rocev2_mr_cache_flush(struct rocev2_mr_cache *c);
struct rocev2_mr *rocev2_mr_cache_find(struct rocev2_mr_cache *c, u32 key, u64 generation);
void rocev2_mr_cache_insert(struct rocev2_mr_cache *c, u32 key, struct rocev2_mr *mr);

/**
 * rocev2_mr_cache_lookup() - the region of @key
 * @c: the QP's cache
 * @key: full lkey or rkey, as it came from the wire or the WQE
 * @generation: of the device's key table, read before this call
 *
 * Return: the region, or NULL: look in the key table, and insert what is there.
 */
static inline struct rocev2_mr *
rocev2_mr_cache_lookup(struct rocev2_mr_cache *c, u32 key, u64 generation)
{
	/* the packets of a message, and mostly whole streams, use one key */
	if (likely(c->last_mr && c->last_key == key && c->generation == generation)) {
		c->hits++;
		return c->last_mr;
	}
	return rocev2_mr_cache_find(c, key, generation);
}

#endif
