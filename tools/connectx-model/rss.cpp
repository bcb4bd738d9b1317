// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "rss.hpp"

#include <algorithm>
#include <bit>

namespace cx {
namespace {

/* MLX5_HASH_FIELD_SEL_* */
constexpr std::uint32_t kSourceAddress = 1, kDestinationAddress = 2, kSourcePort = 4, kDestinationPort = 8;

/* CQE's rss_hash_type, two bits for each of the fields; the values of addresses and of ports */
constexpr unsigned kSourceAddressShift = 0, kDestinationAddressShift = 2, kSourcePortShift = 4,
                   kDestinationPortShift = 6;
constexpr unsigned kIpv4 = 1, kIpv6 = 2, kTcp = 1, kUdp = 2;

struct Input {
    std::array<std::byte, 36> bytes = {};
    std::size_t size = 0;
    unsigned type = 0;

    void Add(std::span<const std::byte> field, unsigned kind, unsigned shift)
    {
        std::copy(field.begin(), field.end(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
        size += field.size();
        type |= kind << shift;
    }
};

/* The same for both directions: of a pair of fields, the first becomes both ORed, the second both XORed. */
void MakeSymmetric(std::span<std::byte> pair)
{
    const std::size_t half = pair.size() / 2;

    for (std::size_t i = 0; i < half; ++i) {
        const std::byte first = pair[i], second = pair[half + i];

        pair[i] = first | second;
        pair[half + i] = first ^ second;
    }
}

/* Two fields next to each other, as far as they are selected. */
void AddPair(Input &input, std::span<const std::byte> pair, bool first, bool second, unsigned kind, unsigned shift,
             bool symmetric)
{
    const std::size_t half = pair.size() / 2, start = input.size;

    if (first)
        input.Add(pair.first(half), kind, shift);
    if (second)
        input.Add(pair.subspan(half), kind, shift + 2);
    if (symmetric && first && second)
        MakeSymmetric(std::span(input.bytes).subspan(start, pair.size()));
}

Input InputOf(const Tir &tir, const Packet &packet)
{
    static_assert(kDestinationAddressShift == kSourceAddressShift + 2 && kDestinationPortShift == kSourcePortShift + 2);
    const bool symmetric = tir.symmetric && tir.function == RssFunction::kToeplitz; /* XOR is so by itself */
    Input input;

    if (packet.ip_version != (tir.ipv6 ? 6U : 4U))
        return input;
    AddPair(input, packet.Addresses(), (tir.fields & kSourceAddress) != 0, (tir.fields & kDestinationAddress) != 0,
            tir.ipv6 ? kIpv6 : kIpv4, kSourceAddressShift, symmetric);
    if (tir.udp ? packet.Udp() : packet.Tcp())
        AddPair(input, packet.frame.subspan(packet.l4, 4), (tir.fields & kSourcePort) != 0,
                (tir.fields & kDestinationPort) != 0, tir.udp ? kUdp : kTcp, kSourcePortShift, symmetric);
    return input;
}

/* "Inverted": its lowest bit is the sum's highest. */
std::uint32_t InvertedXor8(std::span<const std::byte> input)
{
    unsigned sum = 0, inverted = 0;

    for (const std::byte byte : input)
        sum ^= std::to_integer<unsigned>(byte);
    for (unsigned bit = 0; bit < 8; ++bit)
        inverted |= (sum >> bit & 1) << (7 - bit);
    return inverted;
}

} // namespace

std::uint32_t Toeplitz(std::span<const std::uint8_t, 40> key, std::span<const std::byte> input)
{
    /* the key's 64 bits from the input's byte on: its upper 32 are those of that byte's first bit */
    std::uint64_t window = 0;
    std::uint32_t hash = 0;

    for (std::size_t i = 0; i < 8; ++i)
        window = window << 8 | key[i];
    for (std::size_t i = 0; i < input.size(); ++i) {
        const auto byte = std::to_integer<unsigned>(input[i]);

        for (unsigned bit = 0; bit < 8; ++bit)
            if ((byte >> (7 - bit) & 1) != 0)
                hash ^= static_cast<std::uint32_t>(window >> (32 - bit));
        window = window << 8 | (i + 8 < key.size() ? key[i + 8] : 0U);
    }
    return hash;
}

RssResult RssHash(const Tir &tir, const Packet &packet)
{
    const Input input = InputOf(tir, packet);
    const auto bytes = std::span(input.bytes).first(input.size);
    RssResult result;

    if (tir.function == RssFunction::kNone || input.size == 0)
        return result;
    result.hash = tir.function == RssFunction::kToeplitz ? Toeplitz(tir.toeplitz_key, bytes) : InvertedXor8(bytes);
    result.type = static_cast<std::uint8_t>(input.type);
    return result;
}

} // namespace cx
