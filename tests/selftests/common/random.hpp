// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Random numbers and payload patterns that depend on a printed seed alone,
// so that a failing run can be repeated on any machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace rocev2::test {

constexpr uint64_t mix64(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

constexpr uint64_t hash_name(uint64_t seed, std::string_view name)
{
    for (const char c : name)
        seed = mix64(seed ^ static_cast<unsigned char>(c));
    return seed;
}

class Rng {
public:
    explicit Rng(uint64_t seed) : state_(mix64(seed)) {}

    uint64_t next() { return mix64(state_++); }
    uint32_t next32() { return static_cast<uint32_t>(next() >> 32); }

    // Uniform in [low, high].
    template <typename T>
    T between(T low, T high)
    {
        const uint64_t span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
        return static_cast<T>(static_cast<uint64_t>(low) + (span ? next() % span : next()));
    }

    // True once in @n calls on average.
    bool one_in(uint32_t n) { return next() % n == 0; }

private:
    uint64_t state_;
};

// The payload of a message is a function of its seed and the byte position.
inline void fill_pattern(std::span<std::byte> target, uint64_t seed, uint64_t position = 0)
{
    size_t i = 0;
    while (i < target.size()) {
        const uint64_t at = position + i;
        const uint64_t word = mix64(seed ^ (at / 8 * 0xd6e8feb86659fd93));
        const size_t skip = at % 8;
        const size_t n = std::min<size_t>(8 - skip, target.size() - i);
        if (n == 8)
            std::memcpy(target.data() + i, &word, 8);
        else
            std::memcpy(target.data() + i, reinterpret_cast<const char *>(&word) + skip, n);
        i += n;
    }
}

} // namespace rocev2::test
