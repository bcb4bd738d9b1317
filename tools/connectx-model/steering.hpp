// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Which flow table entry a packet matches. */
#pragma once

#include "objects.hpp"
#include "packet.hpp"

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cx {

/** fte_match_param.outer_headers as words in memory's order, for masks to be put on quickly. */
using OuterHeaders = std::array<std::uint64_t, 8>;

/** What of outer_headers a packet has; what it has not is zero, as are inner headers and other parameters. */
OuterHeaders MatchOf(const Packet &packet);

/** The entries of every table by what they match, made anew when Objects::steering_generation has changed. */
class SteeringIndex {
public:
    /** Of the entries that match, the one with the lowest flow index; nullptr: none. */
    const FlowEntry *Find(const Objects &objects, const FlowTable &table, const OuterHeaders &packet);

private:
    struct Hash {
        std::size_t operator()(const OuterHeaders &headers) const;
    };
    struct Group {
        std::uint32_t start = 0;
        OuterHeaders mask = {};
        std::unordered_map<OuterHeaders, std::uint32_t, Hash> entries; /* flow index by masked value */
    };

    static std::vector<Group> Build(const FlowTable &table);

    std::uint64_t generation_ = 0;
    std::unordered_map<std::uint32_t, std::vector<Group>> tables_; /* groups in the order of their flow indexes */
};

} // namespace cx
