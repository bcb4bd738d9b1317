// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Flow tables: which entry a packet matches, and where that leads. */
#include "steering.hpp"

#include "datapath.hpp"

#include <algorithm>

namespace cx {
namespace {

constexpr unsigned kNicReceive = 0; /* table type */
constexpr std::uint8_t kMatchOuterHeaders = 1; /* MLX5_MATCH_OUTER_HEADERS of match_criteria_enable */
constexpr std::uint32_t kActionDrop = 2, kActionForward = 4; /* MLX5_FLOW_CONTEXT_ACTION_* */
constexpr unsigned kMissToTable = 1; /* flow_table_context.table_miss_action */
/* Of one packet: a chain may be as long as there are levels; what goes round is dropped. */
constexpr std::size_t kMaxVisits = 128, kMaxCopies = 64;

/*
 * fte_match_param: 64 bytes for each set of criteria, the outer headers first. They are all that can be matched here:
 * commands refuse a group that looks at anything else.
 */
constexpr std::size_t kSetBytes = 64;
static_assert(sizeof(OuterHeaders) == kSetBytes);

/* Bytes of fte_match_set_lyr_2_4. */
constexpr std::size_t kSourceMac = 0, kEthertype = 6, kDestinationMac = 8, kTci = 14, kProtocol = 16, kTos = 17;
constexpr std::size_t kFlags = 18, kTcpPorts = 20, kIhl = 26, kTtl = 27, kUdpPorts = 28, kSource = 32,
                      kDestination = 48;
/* Bits of the 16 at kFlags. */
constexpr unsigned kCvlanTag = 1U << 15, kSvlanTag = 1U << 14, kFragment = 1U << 13, kIpVersionShift = 9;

void CopyAddresses(const Packet &packet, std::span<std::byte> set)
{
    const auto addresses = packet.Addresses();
    const std::size_t size = addresses.size() / 2;

    /* IPv4's lies in the last four of 16 bytes */
    std::memcpy(set.subspan(kSource + 16 - size, size).data(), addresses.data(), size);
    std::memcpy(set.subspan(kDestination + 16 - size, size).data(), addresses.data() + size, size);
}

OuterHeaders Masked(OuterHeaders headers, const OuterHeaders &mask)
{
    for (std::size_t i = 0; i < headers.size(); ++i)
        headers[i] &= mask[i];
    return headers;
}

} // namespace

OuterHeaders MatchOf(const Packet &packet)
{
    OuterHeaders headers = {};
    const auto set = std::as_writable_bytes(std::span(headers));
    unsigned flags = 0;

    std::memcpy(set.subspan(kDestinationMac, 6).data(), packet.frame.data(), 6);
    std::memcpy(set.subspan(kSourceMac, 6).data(), packet.frame.data() + 6, 6);
    Store16(set, kEthertype, packet.ethertype);
    if (packet.tags != 0) {
        flags |= packet.tpid == kEthertypeServiceVlan ? kSvlanTag : kCvlanTag;
        Store16(set, kTci, packet.tci);
    }
    if (packet.ip_version != 0) {
        const auto ip = packet.frame.subspan(packet.l3);

        flags |= packet.ip_version << kIpVersionShift;
        if (packet.fragment)
            flags |= kFragment;
        Store8(set, kProtocol, packet.protocol);
        CopyAddresses(packet, set);
        if (packet.ip_version == 4) {
            Store8(set, kTos, Load8(ip, 1));
            Store8(set, kTtl, Load8(ip, 8));
            Store8(set, kIhl, static_cast<std::uint8_t>(Load8(ip, 0) << 4));
        } else {
            Store8(set, kTos, static_cast<std::uint8_t>(Load16(ip, 0) >> 4));
            Store8(set, kTtl, Load8(ip, 7));
        }
    }
    if (packet.l4 != 0)
        std::memcpy(set.subspan(packet.Tcp() ? kTcpPorts : kUdpPorts, 4).data(), packet.frame.data() + packet.l4, 4);
    if (packet.Tcp())
        flags |= Load16(packet.frame, packet.l4 + 12) & 0x1ffU;
    Store16(set, kFlags, static_cast<std::uint16_t>(flags));
    return headers;
}

std::size_t SteeringIndex::Hash::operator()(const OuterHeaders &headers) const
{
    std::uint64_t hash = 0;

    for (const std::uint64_t word : headers) {
        hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
        hash ^= hash >> 32;
    }
    return hash;
}

std::vector<SteeringIndex::Group> SteeringIndex::Build(const FlowTable &table)
{
    std::map<std::uint32_t, Group> groups; /* by number */

    for (const auto &[number, from] : table.groups) {
        Group &group = groups[number];

        group.start = from.start;
        if ((from.criteria & kMatchOuterHeaders) != 0)
            std::memcpy(group.mask.data(), from.mask.data(), kSetBytes);
    }
    for (const auto &[index, entry] : table.entries) {
        const auto found = groups.find(entry.group);
        OuterHeaders value = {};

        if (found == groups.end())
            continue;
        std::memcpy(value.data(), entry.value.data(), kSetBytes);
        found->second.entries.try_emplace(Masked(value, found->second.mask), index); /* the lowest index stays */
    }
    std::vector<Group> in_order;
    in_order.reserve(groups.size());
    for (auto &[number, group] : groups)
        in_order.push_back(std::move(group));
    std::sort(in_order.begin(), in_order.end(), [](const Group &a, const Group &b) { return a.start < b.start; });
    return in_order;
}

const FlowEntry *SteeringIndex::Find(const Objects &objects, const FlowTable &table, const OuterHeaders &packet)
{
    if (generation_ != objects.steering_generation) {
        tables_.clear();
        generation_ = objects.steering_generation;
    }
    const auto [groups, fresh] = tables_.try_emplace(table.number);
    if (fresh)
        groups->second = Build(table);
    for (const Group &group : groups->second) {
        const auto match = group.entries.find(Masked(packet, group.mask));

        if (match == group.entries.end())
            continue;
        const auto entry = table.entries.find(match->second);
        if (entry != table.entries.end())
            return &entry->second;
    }
    return nullptr;
}

void DataPath::Steer(const Packet &packet)
{
    struct Visit {
        std::uint32_t table;
        std::uint32_t flow_tag;
    };
    const auto root = objects_.root_tables.find(kNicReceive);
    const OuterHeaders headers = MatchOf(packet);
    std::array<Visit, kMaxVisits> visits = {};
    std::size_t known = 0, copies = 0;
    bool dropped = false;

    const auto go_to = [&](std::uint32_t table, std::uint32_t flow_tag) {
        if (known < kMaxVisits)
            visits[known++] = {table, flow_tag};
        else
            trace_.Complain("flow table {}: the packet goes round and is dropped", table);
    };
    if (root != objects_.root_tables.end())
        go_to(root->second, 0);
    for (std::size_t i = 0; i < known; ++i) {
        const Visit visit = visits[i];
        const auto found = objects_.tables.find(visit.table);

        if (found == objects_.tables.end())
            continue;
        const FlowTable &table = found->second;
        const FlowEntry *entry = steering_.Find(objects_, table, headers);
        if (entry == nullptr) {
            if (table.miss_action == kMissToTable)
                go_to(table.miss_table, visit.flow_tag);
            continue;
        }
        for (const std::uint32_t number : entry->counters)
            if (const auto counter = objects_.flow_counters.find(number); counter != objects_.flow_counters.end()) {
                ++counter->second.packets;
                counter->second.bytes += packet.frame.size();
            }
        if ((entry->action & kActionDrop) != 0) {
            dropped = true;
            continue;
        }
        if ((entry->action & kActionForward) == 0)
            continue;
        const std::uint32_t tag = entry->flow_tag != 0 ? entry->flow_tag : visit.flow_tag;
        for (const FlowDestination &destination : entry->destinations) {
            if (destination.kind == FlowDestination::Kind::kTable) {
                go_to(destination.id, tag);
            } else if (destination.kind == FlowDestination::Kind::kTir && copies < kMaxCopies) {
                ++copies;
                Deliver(packet, destination.id, tag);
            }
        }
    }
    if (copies == 0 && !dropped)
        ++objects_.port.rx_steering_drops;
}

} // namespace cx
