// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on flow counters: one, or a bulk of consecutive numbers. */
#include "command_call.hpp"

#include <algorithm>

namespace cx::commands {
namespace {

/** Lowest multiple of `count` from which `count` numbers are free; 0: none. */
std::uint32_t FreeRun(const Objects &objects, std::uint32_t count)
{
    std::uint32_t first = kCounterBulk;

    for (const auto &[start, size] : objects.counter_bulks) {
        if (start >= first && start - first >= count)
            return first;
        first = (start + size + count - 1) / count * count;
    }
    return (1U << kLogMaxFlowCounters) - first >= count ? first : 0;
}

} // namespace

bool AllocFlowCounter(Call &call)
{
    const std::uint32_t bulk = CX_IN(call, alloc_flow_counter_in, flow_counter_bulk);
    const std::uint32_t count = bulk == 0 ? 1 : kCounterBulk;

    if (bulk > 1)
        return call.Refuse(Status::kBadParameter, "flow_counter_bulk {:#x}", bulk);

    const std::uint32_t first = FreeRun(call.objects, count);

    if (first == 0)
        return call.Refuse(Status::kNoResources, "no flow counter is left");
    call.objects.counter_bulks[first] = count;
    for (std::uint32_t number = first; number < first + count; number++)
        call.objects.flow_counters[number] = {};
    CX_OUT(call, alloc_flow_counter_out, flow_counter_id, first);
    call.Say("{:#x} and {} more", first, count - 1);
    return true;
}

bool DeallocFlowCounter(Call &call)
{
    const std::uint32_t first = CX_IN(call, dealloc_flow_counter_in, flow_counter_id);
    const auto bulk = call.objects.counter_bulks.find(first);

    if (bulk == call.objects.counter_bulks.end())
        return call.Refuse(Status::kBadResource, "flow_counter_id {:#x}", first);

    const auto within = [&](std::uint32_t number) { return number >= first && number - first < bulk->second; };

    for (const auto &[table_id, table] : call.objects.tables)
        for (const auto &[index, entry] : table.entries)
            if (std::any_of(entry.counters.begin(), entry.counters.end(), within))
                return call.Refuse(Status::kBadResourceState, "flow {} of table {:#x} counts on {:#x}", index, table_id,
                                   first);
    for (std::uint32_t number = first; number < first + bulk->second; number++)
        call.objects.flow_counters.erase(number);
    call.objects.counter_bulks.erase(bulk);
    call.Say("{:#x}", first);
    return true;
}

bool QueryFlowCounter(Call &call)
{
    const std::uint32_t first = CX_IN(call, query_flow_counter_in, flow_counter_id);
    const std::uint32_t asked = CX_IN(call, query_flow_counter_in, num_of_counters);
    const std::uint32_t count = asked == 0 ? 1 : asked;
    constexpr std::size_t kList = CX_AT(query_flow_counter_out, flow_statistics);
    constexpr std::size_t kEach = CX_SIZE(traffic_counter);

    if (count > 1U << kLogMaxCounterQuery)
        return call.Refuse(Status::kLimit, "num_of_counters {}", count);
    if (call.out.size() < kList + count * kEach)
        return call.Refuse(Status::kBadOutputLength, "output of {} bytes for {} counters", call.out.size(), count);
    /* A range may begin before the first counter, which the driver rounds down to a multiple of 4. */
    const auto next = call.objects.flow_counters.lower_bound(first);

    if (next == call.objects.flow_counters.end() || next->first - first >= count)
        return call.Refuse(Status::kBadResource, "flow_counter_id {:#x}", first);
    for (std::uint32_t index = 0; index < count; index++) {
        FlowCounter *counter = Find(call.objects.flow_counters, first + index);
        const auto into = call.out.subspan(kList + index * kEach, kEach);

        if (counter == nullptr)
            continue; /* of a gap between bulks: zero */
        CX_SET(into, traffic_counter, packets, counter->packets);
        CX_SET(into, traffic_counter, octets, counter->bytes);
        if (CX_IN(call, query_flow_counter_in, clear) != 0)
            *counter = {};
    }
    call.Say("{:#x} and {} more", first, count - 1);
    return true;
}

} // namespace cx::commands
