// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// mr_cache: order of use, generation, counters and hit rate, and a plain model beside it.
#include <cstdint>
#include <gtest/gtest.h>
#include <list>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernel.hpp"

// opaque to the cache: a token is enough
struct rocev2_mr {
    std::uint32_t key;
};

namespace {

class Cache {
public:
    explicit Cache(std::uint32_t entries) : memory_(rocev2_mr_cache_bytes(entries))
    {
        rocev2_mr_cache_init(&cache_, memory_.data(), entries);
    }

    rocev2_mr* lookup(std::uint32_t key) { return rocev2_mr_cache_lookup(&cache_, key, generation); }
    void insert(std::uint32_t key, rocev2_mr* mr) { rocev2_mr_cache_insert(&cache_, key, mr); }

    /* as the data path does: look up, and on a miss fetch and insert */
    rocev2_mr* use(std::uint32_t key, rocev2_mr* mr)
    {
        if (auto* hit = lookup(key))
            return hit;
        insert(key, mr);
        return mr;
    }

    [[nodiscard]] std::uint64_t hits() const { return cache_.hits; }
    [[nodiscard]] std::uint64_t misses() const { return cache_.misses; }

    std::uint64_t generation = 0;

private:
    // exactly the size asked for, so that the sanitizer sees an overrun
    std::vector<std::uint8_t> memory_;
    rocev2_mr_cache cache_{};
};

TEST(MrCache, SizesThatAreAllowed)
{
    for (const std::uint32_t n : {0u, 1u, 2u, 256u, 4096u})
        EXPECT_TRUE(rocev2_mr_cache_entries_ok(n)) << n;
    for (const std::uint32_t n : {3u, 255u, 257u, 8192u, 0x80000000u})
        EXPECT_FALSE(rocev2_mr_cache_entries_ok(n)) << n;
    EXPECT_EQ(rocev2_mr_cache_bytes(0), 0u);
    EXPECT_LE(rocev2_mr_cache_bytes(256), 8192u) << "two pages a QP at the default";
}

TEST(MrCache, OffAlwaysMissesAndNeedsNoMemory)
{
    rocev2_mr mr{7};
    Cache off(0);
    EXPECT_EQ(off.lookup(7), nullptr);
    off.insert(7, &mr);
    EXPECT_EQ(off.lookup(7), nullptr);
    EXPECT_EQ(off.hits() + off.misses(), 0u);
}

TEST(MrCache, WholeKeyCounts)
{
    rocev2_mr a{0x00000100}, b{0x00000101};  // same index, another variant
    Cache cache(4);
    cache.insert(a.key, &a);
    EXPECT_EQ(cache.lookup(a.key), &a);
    EXPECT_EQ(cache.lookup(b.key), nullptr) << "a stale variant must not hit";
    cache.insert(b.key, &b);
    EXPECT_EQ(cache.lookup(a.key), &a);
    EXPECT_EQ(cache.lookup(b.key), &b);
    EXPECT_EQ(cache.hits(), 3u);
    EXPECT_EQ(cache.misses(), 1u);
}

TEST(MrCache, KeyZeroIsNotThereUnlessInserted)
{
    rocev2_mr zero{0};
    Cache cache(2);
    EXPECT_EQ(cache.lookup(0), nullptr);
    cache.insert(0, &zero);
    EXPECT_EQ(cache.lookup(0), &zero);
}

TEST(MrCache, OneEntry)
{
    rocev2_mr a{1}, b{2};
    Cache cache(1);
    EXPECT_EQ(cache.use(1, &a), &a);
    EXPECT_EQ(cache.lookup(1), &a);
    EXPECT_EQ(cache.use(2, &b), &b);
    EXPECT_EQ(cache.lookup(1), nullptr);
    EXPECT_EQ(cache.lookup(2), &b);
}

TEST(MrCache, LeastRecentlyUsedGoesFirst)
{
    std::vector<rocev2_mr> mr(6);
    Cache cache(4);
    for (std::uint32_t k = 0; k < 4; k++)
        cache.insert(k, &mr[k]);
    EXPECT_EQ(cache.lookup(0), &mr[0]);  // order of use is now 1 2 3 0
    cache.insert(4, &mr[4]);
    EXPECT_EQ(cache.lookup(1), nullptr);
    EXPECT_EQ(cache.lookup(2), &mr[2]);  // 3 0 4 2
    cache.insert(5, &mr[5]);
    EXPECT_EQ(cache.lookup(3), nullptr);
    for (const std::uint32_t k : {0u, 2u, 4u, 5u})
        EXPECT_EQ(cache.lookup(k), &mr[k]) << k;
}

TEST(MrCache, InsertOfAKnownKeyReplacesItsRegion)
{
    rocev2_mr old{1}, renewed{1}, other{2};
    Cache cache(2);
    cache.insert(1, &old);
    cache.insert(2, &other);
    cache.insert(1, &renewed);
    EXPECT_EQ(cache.lookup(1), &renewed);
    EXPECT_EQ(cache.lookup(2), &other) << "and takes no second entry";
}

TEST(MrCache, NewGenerationForgetsEverything)
{
    std::vector<rocev2_mr> mr(8);
    Cache cache(8);
    for (std::uint32_t k = 0; k < 8; k++)
        cache.insert(k, &mr[k]);
    EXPECT_EQ(cache.lookup(7), &mr[7]);
    cache.generation = 1;
    EXPECT_EQ(cache.lookup(7), nullptr) << "not even the one used last";
    for (std::uint32_t k = 0; k < 8; k++)
        EXPECT_EQ(cache.lookup(k), nullptr) << k;
    // and works on, from empty
    for (std::uint32_t k = 0; k < 16; k++)
        cache.use(k, &mr[k % 8]);
    for (std::uint32_t k = 8; k < 16; k++)
        EXPECT_EQ(cache.lookup(k), &mr[k % 8]);
    // a generation that wrapped or went back is just another one
    cache.generation = 0;
    EXPECT_EQ(cache.lookup(15), nullptr);
}

TEST(MrCache, RegionInsertedUnderAnOldGenerationDoesNotSurvive)
{
    // a region is deregistered between the miss and the insert
    rocev2_mr mr{9};
    Cache cache(4);
    cache.generation = 5;
    EXPECT_EQ(cache.lookup(9), nullptr);
    cache.insert(9, &mr);
    cache.generation = 6;
    EXPECT_EQ(cache.lookup(9), nullptr);
}

// 200 live regions, each used in turn or at random, must nearly always hit
TEST(MrCache, HitRateOver200RegionsIn256Entries)
{
    std::vector<rocev2_mr> mr(200);
    std::mt19937 random(7);
    for (std::uint32_t i = 0; i < mr.size(); i++)
        mr[i].key = (i * 3 + 17) << 8 | (random() & 0xff);

    Cache in_turn(256), at_random(256);
    for (int round = 0; round < 200; round++)
        for (auto& m : mr) {
            ASSERT_EQ(in_turn.use(m.key, &m), &m);
            auto& r = mr[random() % mr.size()];
            ASSERT_EQ(at_random.use(r.key, &r), &r);
        }
    for (const auto* c : {&in_turn, &at_random}) {
        EXPECT_EQ(c->misses(), 200u) << "one a region: to learn it";
        EXPECT_GE(static_cast<double>(c->hits()) / static_cast<double>(c->hits() + c->misses()),
                  0.99);
    }
}

TEST(MrCache, ScanOfMoreRegionsThanEntriesMissesButStaysRight)
{
    std::vector<rocev2_mr> mr(300);
    Cache cache(256);
    for (int round = 0; round < 3; round++)
        for (std::uint32_t i = 0; i < mr.size(); i++)
            ASSERT_EQ(cache.use(i << 8, &mr[i]), &mr[i]);
    EXPECT_EQ(cache.hits(), 0u) << "the worst case of LRU";
}

/* a textbook LRU map as the model */
TEST(MrCache, BehavesAsAPlainLruMap)
{
    for (const std::uint32_t entries : {1u, 2u, 8u, 64u, 4096u}) {
        Cache cache(entries);
        std::list<std::pair<std::uint32_t, rocev2_mr*>> order;  // newest first
        std::unordered_map<std::uint32_t, decltype(order)::iterator> index;
        std::vector<rocev2_mr> mr(entries * 2);
        std::mt19937 random(entries);

        for (int step = 0; step < 200'000; step++) {
            if (random() % 20'000 == 0) {
                cache.generation++;
                order.clear();
                index.clear();
            }
            const auto i = static_cast<std::uint32_t>(random() % mr.size());
            const std::uint32_t key = i << 8 | (i & 0xff);
            const auto known = index.find(key);
            auto* const got = cache.lookup(key);
            if (known == index.end()) {
                ASSERT_EQ(got, nullptr);
                if (order.size() == entries) {
                    index.erase(order.back().first);
                    order.pop_back();
                }
                order.emplace_front(key, &mr[i]);
                index[key] = order.begin();
                cache.insert(key, &mr[i]);
            } else {
                ASSERT_EQ(got, known->second->second);
                order.splice(order.begin(), order, known->second);
            }
        }
    }
}

TEST(MrCache, KeysThatAllShareLowBits)
{
    // indices in steps of 2^12: a hash of low bits alone would make one chain of them
    std::vector<rocev2_mr> mr(256);
    Cache cache(256);
    for (int round = 0; round < 2; round++)
        for (std::uint32_t i = 0; i < mr.size(); i++)
            ASSERT_EQ(cache.use(i << 20, &mr[i]), &mr[i]);
    EXPECT_EQ(cache.hits(), 256u);
}

}  // namespace
