// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Per-QP translation cache; see mr_cache.h for its rules. Hash chains and the order of
 * use are linked by 16-bit indices, so that 256 entries and their buckets take 7 KiB.
 * Lookup, insertion and eviction are O(1); a flush clears the bucket heads only.
 */
#include <linux/string.h>

#include "mr_cache.h"

#define NONE	0xffffu

static inline u32 bucket_of(const struct rocev2_mr_cache *c, u32 key)
{
	/*
	 * Keys differ in the index (upper 24 bits), mostly by small steps: a multiplication
	 * by 2^32 divided by the golden ratio spreads those evenly over the high bits.
	 */
	return (key * 0x9e3779b1u) >> c->hash_shift;
}

/**
 * rocev2_mr_cache_bytes() - storage that a cache needs
 * @entries: a number that rocev2_mr_cache_entries_ok() accepts
 *
 * Return: bytes for rocev2_mr_cache_init(); 0 when the cache is off.
 */
size_t rocev2_mr_cache_bytes(u32 entries)
{
	return (size_t)entries * (sizeof(struct rocev2_mr_cache_entry) + 2 * sizeof(u16));
}

/**
 * rocev2_mr_cache_init() - set up an empty cache
 * @c: the cache
 * @mem: rocev2_mr_cache_bytes(@entries) bytes, aligned for a pointer; stays the caller's
 * @entries: a number that rocev2_mr_cache_entries_ok() accepts
 */
void rocev2_mr_cache_init(struct rocev2_mr_cache *c, void *mem, u32 entries)
{
	u32 buckets = 2 * entries;

	memset(c, 0, sizeof(*c));
	if (!entries)
		return;
	c->entry = mem;
	c->bucket = (u16 *)(c->entry + entries);
	c->size = entries;
	c->hash_shift = 32;
	while (buckets >>= 1)
		c->hash_shift--;
	rocev2_mr_cache_flush(c);
}

/**
 * rocev2_mr_cache_flush() - forget all entries, keep the counters
 * @c: the cache
 */
void rocev2_mr_cache_flush(struct rocev2_mr_cache *c)
{
	c->last_mr = NULL;
	c->used = 0;
	c->newest = NONE;
	c->oldest = NONE;
	if (c->size)
		memset(c->bucket, 0xff, 2 * c->size * sizeof(u16));
}

static void unlink_use(struct rocev2_mr_cache *c, u16 i)
{
	struct rocev2_mr_cache_entry *e = &c->entry[i];

	if (e->newer == NONE)
		c->newest = e->older;
	else
		c->entry[e->newer].older = e->older;
	if (e->older == NONE)
		c->oldest = e->newer;
	else
		c->entry[e->older].newer = e->newer;
}

static void link_newest(struct rocev2_mr_cache *c, u16 i)
{
	struct rocev2_mr_cache_entry *e = &c->entry[i];

	e->newer = NONE;
	e->older = c->newest;
	if (c->newest == NONE)
		c->oldest = i;
	else
		c->entry[c->newest].newer = i;
	c->newest = i;
	c->last_key = e->key;
	c->last_mr = e->mr;
}

static u16 find_entry(const struct rocev2_mr_cache *c, u32 key)
{
	u16 i = c->bucket[bucket_of(c, key)];

	while (i != NONE && c->entry[i].key != key)
		i = c->entry[i].chain;
	return i;
}

static void unchain(struct rocev2_mr_cache *c, u16 i)
{
	u16 *link = &c->bucket[bucket_of(c, c->entry[i].key)];

	while (*link != i)
		link = &c->entry[*link].chain;
	*link = c->entry[i].chain;
}

/**
 * rocev2_mr_cache_find() - rocev2_mr_cache_lookup() for a key that was not used last
 * @c: the cache
 * @key: full key
 * @generation: of the device's key table; another one than before empties the cache
 *
 * Return: the region, or NULL on a miss. A cache that is off counts no misses.
 */
struct rocev2_mr *rocev2_mr_cache_find(struct rocev2_mr_cache *c, u32 key, u64 generation)
{
	u16 i;

	if (!c->size)
		return NULL;
	if (c->generation != generation) {
		rocev2_mr_cache_flush(c);
		c->generation = generation;
	}

	i = find_entry(c, key);
	if (i == NONE) {
		c->misses++;
		return NULL;
	}
	c->hits++;
	unlink_use(c, i);
	link_newest(c, i);
	return c->entry[i].mr;
}

/**
 * rocev2_mr_cache_insert() - remember a translation
 * @c: the cache
 * @key: full key
 * @mr: its region, found in the key table after a lookup with the current generation
 */
void rocev2_mr_cache_insert(struct rocev2_mr_cache *c, u32 key, struct rocev2_mr *mr)
{
	u32 b;
	u16 i;

	if (!c->size)
		return;

	i = find_entry(c, key);
	if (i != NONE) {
		unlink_use(c, i);
	} else {
		if (c->used < c->size) {
			i = c->used++;
		} else {
			i = c->oldest;
			unlink_use(c, i);
			unchain(c, i);
		}
		b = bucket_of(c, key);
		c->entry[i].key = key;
		c->entry[i].chain = c->bucket[b];
		c->bucket[b] = i;
	}
	c->entry[i].mr = mr;
	link_newest(c, i);
}
