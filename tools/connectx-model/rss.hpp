// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Receive side scaling: the hash that chooses among the queues of an indirect TIR. */
#pragma once

#include "objects.hpp"
#include "packet.hpp"

#include <cstdint>
#include <span>

namespace cx {

struct RssResult {
    std::uint32_t hash = 0;
    std::uint8_t type = 0; /* as the CQE's rss_hash_type: what was hashed */
};

/** Toeplitz hash of at most 36 bytes of input (the key has 40). */
std::uint32_t Toeplitz(std::span<const std::uint8_t, 40> key, std::span<const std::byte> input);

/** As the TIR says, over what the packet has of the fields that it selects. No field: hash 0 and type 0. */
RssResult RssHash(const Tir &tir, const Packet &packet);

} // namespace cx
