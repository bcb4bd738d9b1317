// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* From a key to its region: the translation cache alone, and with all checks, as each packet does it. */
#include "kernel.hpp"
#include "operations.hpp"
#include "packets.hpp"
#include "receive.h"

#include <array>
#include <stdexcept>

/* opaque to the cache */
struct rocev2_mr {
    std::uint32_t key;
};

namespace micro {

namespace {

constexpr std::uint32_t kEntries = RECEIVER_CACHE;

/* A cache that has as many regions as it can hold: those of keys 0x100, 0x200 and so on. */
class Cache {
public:
    Cache()
    {
        rocev2_mr_cache_init(&cache_, memory_.data(), kEntries);
        for (std::uint32_t i = 0; i < kEntries; i++) {
            regions_[i].key = (i + 1) << 8;
            Lookup(regions_[i].key);
            rocev2_mr_cache_insert(&cache_, regions_[i].key, &regions_[i]);
        }
    }
    Cache(const Cache &) = delete;
    Cache &operator=(const Cache &) = delete;

    rocev2_mr *Lookup(std::uint32_t key) { return rocev2_mr_cache_lookup(&cache_, key, kGeneration); }
    void Insert(std::uint32_t key, rocev2_mr *region) { rocev2_mr_cache_insert(&cache_, key, region); }

private:
    static constexpr std::uint64_t kGeneration = 1;

    alignas(64) std::array<std::uint8_t, kEntries * (sizeof(rocev2_mr_cache_entry) + 2 * sizeof(u16))> memory_{};
    std::array<rocev2_mr, kEntries> regions_{};
    rocev2_mr_cache cache_{};
};

void AddCache(Operations &operations)
{
    operations.Add(
        "mr_cache/last", [cache = std::make_shared<Cache>(), key = kEntries << 8] { return cache->Lookup(key)->key; },
        Is(kEntries << 8));
    /* each key in turn: never the one that was used last */
    operations.Add(
        "mr_cache/hit", [cache = std::make_shared<Cache>(), i = 0U]() mutable {
            const std::uint32_t key = (i++ % kEntries + 1) << 8;
            const rocev2_mr *region = cache->Lookup(key);

            return region && region->key == key;
        },
        Is(true));
    /* a key that is in none, then the region of it that was looked for longest ago goes */
    operations.Add(
        "mr_cache/miss", [cache = std::make_shared<Cache>(), other = std::make_shared<rocev2_mr>(), i = 0U]() mutable {
            const std::uint32_t key = (kEntries + i++ % (2 * kEntries) + 1) << 8;
            const bool missed = !cache->Lookup(key);

            cache->Insert(key, other.get());
            return missed;
        },
        Is(true));
}

} // namespace

void AddKeys(Operations &operations)
{
    AddCache(operations);

    const rocev2::wire::Bytes packet = IpPacket(WritePacket(false, 0, RECEIVER_IOVA, 0));
    const auto new_receiver = [&packet] {
        std::shared_ptr<struct receiver> made(receiver_new(packet.data(), packet.size(), 0), receiver_free);

        if (!made)
            throw std::runtime_error("a packet is not taken");
        return made;
    };
    constexpr std::uint64_t kBytes = 4096;


    const auto last = new_receiver();
    operations.Add(
        "key/last", [r = last, key = receiver_key(5)] { return receive_key(r.get(), key, RECEIVER_IOVA, kBytes); },
        [r = last](int status) { return status == ROCEV2_MR_OK && receive_cache_misses(r.get()) == 1; });
    /* as many regions as the cache holds */
    const auto cached = new_receiver();
    for (std::uint32_t i = 0; i < kEntries; i++)
        receive_key(cached.get(), receiver_key(i), RECEIVER_IOVA, kBytes);
    operations.Add(
        "key/cached", [r = cached, i = 0U]() mutable {
            return receive_key(r.get(), receiver_key(i++ % kEntries), RECEIVER_IOVA, kBytes);
        },
        [r = cached](int status) { return status == ROCEV2_MR_OK && receive_cache_misses(r.get()) == kEntries; });
    /* twice as many, each in turn: none is in the cache any more */
    const auto table = new_receiver();
    operations.Add(
        "key/table", [r = table, i = 0U]() mutable {
            return receive_key(r.get(), receiver_key(i++ % RECEIVER_REGIONS), RECEIVER_IOVA, kBytes);
        },
        [r = table](int status) { return status == ROCEV2_MR_OK && receive_cache_hits(r.get()) == 0; });
    operations.Add(
        "key/out_of_bounds", [r = new_receiver(), key = receiver_key(5)] {
            return receive_key(r.get(), key, RECEIVER_IOVA, RECEIVER_LENGTH + 1ULL);
        },
        Is<int>(ROCEV2_MR_OUT_OF_BOUNDS));
    /* another variant of a key that works */
    operations.Add(
        "key/stale", [r = new_receiver(), key = receiver_key(5) ^ 1] {
            return receive_key(r.get(), key, RECEIVER_IOVA, kBytes);
        },
        Is<int>(ROCEV2_MR_BAD_KEY));
}

} // namespace micro
