// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on flow tables, groups and entries. */
#include "command_call.hpp"

#include <algorithm>

namespace cx::commands {
namespace {

/** enum fs_flow_table_type of linux/mlx5/fs.h, as the commands carry it. The only type this card has. */
constexpr std::uint32_t kNicReceive = 0x0;

enum MissAction : unsigned { kMissDefault = 0, kMissToTable = 1 };

/** modify_enable_mask of set_fte_in, bits. */
enum ModifyFlow : std::uint32_t { kModifyAction = 1, kModifyTag = 2, kModifyDestinations = 4, kModifyCounters = 8 };

/** modify_field_select of modify_flow_table_in: bit 0 is table_miss_id (with table_miss_action). */
constexpr std::uint32_t kModifyMiss = 1;

constexpr std::uint32_t kActions = ifc::MLX5_FLOW_CONTEXT_ACTION_ALLOW | ifc::MLX5_FLOW_CONTEXT_ACTION_DROP |
                                   ifc::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST | ifc::MLX5_FLOW_CONTEXT_ACTION_COUNT;
constexpr std::uint32_t kMatchSections = 0x1f; /* outer, misc, inner, misc 2, misc 3 */

static_assert(CX_SIZE(fte_match_param) <= kMatchBytes);

MatchBytes ReadMatch(std::span<const std::byte> from)
{
    MatchBytes match = {};

    for (std::size_t at = 0; at < match.size() && at < from.size(); at++)
        match[at] = std::to_integer<std::uint8_t>(from[at]);
    return match;
}

void WriteMatch(std::span<std::byte> into, const MatchBytes &match)
{
    for (std::size_t at = 0; at < match.size() && at < into.size(); at++)
        into[at] = std::byte{ match[at] };
}

/** The table that table_type and table_id name; nullptr: refused. */
FlowTable *FindTable(Call &call, std::uint32_t type, std::uint32_t id)
{
    FlowTable *table = Find(call.objects.tables, id);

    if (type != kNicReceive) {
        call.Refuse(Status::kBadParameter, "table_type {:#x}", type);
        return nullptr;
    }
    if (table == nullptr)
        call.Refuse(Status::kBadResource, "table_id {:#x}", id);
    return table;
}

/** Miss action of a table of level `level`: it may only lead to a higher level, or packets would go around for ever. */
bool ReadMiss(Call &call, std::span<const std::byte> context, unsigned level, unsigned &action, std::uint32_t &to)
{
    action = static_cast<unsigned>(CX_GET(context, flow_table_context, table_miss_action));
    to = static_cast<std::uint32_t>(CX_GET(context, flow_table_context, table_miss_id));
    if (action == kMissDefault) {
        to = 0;
        return true;
    }
    if (action != kMissToTable)
        return call.Refuse(Status::kBadParameter, "table_miss_action {}", action);

    const FlowTable *next = Find(call.objects.tables, to);

    if (next == nullptr)
        return call.Refuse(Status::kBadResource, "table_miss_id {:#x}", to);
    if (next->level <= level)
        return call.Refuse(Status::kBadParameter, "table_miss_id {:#x} of level {}, from level {}", to, next->level,
                           level);
    return true;
}

/** The lists at the end of flow_context. */
bool ReadDestinations(Call &call, const FlowTable &table, FlowEntry &entry)
{
    const auto context = CX_PART(call.in, set_fte_in, flow_context);
    const auto destinations = CX_GET(context, flow_context, destination_list_size);
    const auto counters = CX_GET(context, flow_context, flow_counter_list_size);
    constexpr std::size_t kList = CX_SIZE(set_fte_in);
    constexpr std::size_t kEach = CX_SIZE(dest_format_struct);
    static_assert(kEach == CX_SIZE(flow_counter_list));
    const std::size_t room = call.in.size() > kList ? (call.in.size() - kList) / kEach : 0;

    if (destinations > 1U << kLogMaxDestinations || counters > 1)
        return call.Refuse(Status::kLimit, "{} destinations, {} counters", destinations, counters);
    if (room < destinations + counters)
        return call.Refuse(Status::kBadInputLength, "input has room for {} of {} destinations and counters", room,
                           destinations + counters);
    for (std::size_t index = 0; index < destinations; index++) {
        const auto each = call.in.subspan(kList + index * kEach, kEach);
        const auto type = CX_GET(each, dest_format_struct, destination_type);
        const auto id = static_cast<std::uint32_t>(CX_GET(each, dest_format_struct, destination_id));

        if (type == ifc::MLX5_IFC_FLOW_DESTINATION_TYPE_TIR) {
            if (!call.objects.tirs.contains(id))
                return call.Refuse(Status::kBadResource, "destination TIR {:#x}", id);
            entry.destinations.push_back({ FlowDestination::Kind::kTir, id });
        } else if (type == ifc::MLX5_IFC_FLOW_DESTINATION_TYPE_FLOW_TABLE) {
            const FlowTable *next = Find(call.objects.tables, id);

            if (next == nullptr)
                return call.Refuse(Status::kBadResource, "destination table {:#x}", id);
            if (next->level <= table.level)
                return call.Refuse(Status::kBadParameter, "destination table {:#x} of level {}, from level {}", id,
                                   next->level, table.level);
            entry.destinations.push_back({ FlowDestination::Kind::kTable, id });
        } else {
            return call.Refuse(Status::kBadParameter, "destination_type {:#x}", type);
        }
    }
    for (std::size_t index = 0; index < counters; index++) {
        const auto each = call.in.subspan(kList + (destinations + index) * kEach, kEach);
        const auto id = static_cast<std::uint32_t>(CX_GET(each, flow_counter_list, flow_counter_id));

        if (!call.objects.flow_counters.contains(id))
            return call.Refuse(Status::kBadResource, "flow_counter_id {:#x}", id);
        entry.counters.push_back(id);
    }
    return true;
}

bool CheckAction(Call &call, const FlowEntry &entry)
{
    const bool forward = (entry.action & ifc::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST) != 0;
    const bool count = (entry.action & ifc::MLX5_FLOW_CONTEXT_ACTION_COUNT) != 0;
    const bool drop = (entry.action & ifc::MLX5_FLOW_CONTEXT_ACTION_DROP) != 0;

    if (entry.action == 0 || (entry.action & ~kActions) != 0)
        return call.Refuse(Status::kBadParameter, "action {:#x}", entry.action);
    if (forward == entry.destinations.empty())
        return call.Refuse(Status::kBadParameter, "action {:#x} with {} destinations", entry.action,
                           entry.destinations.size());
    if (count == entry.counters.empty())
        return call.Refuse(Status::kBadParameter, "action {:#x} with {} counters", entry.action,
                           entry.counters.size());
    if (drop && forward)
        return call.Refuse(Status::kBadParameter, "action {:#x} drops and forwards", entry.action);
    return true;
}

std::string DescribeFlow(const FlowEntry &entry)
{
    std::string text = fmt::format("action {:#x}", entry.action);

    for (const FlowDestination &to : entry.destinations)
        text += fmt::format(" {} {:#x}", to.kind == FlowDestination::Kind::kTir ? "TIR" : "table", to.id);
    return text;
}

} // namespace

bool CreateFlowTable(Call &call)
{
    const auto context = CX_PART(call.in, create_flow_table_in, flow_table_context);
    FlowTable table;

    table.type = CX_IN(call, create_flow_table_in, table_type);
    table.level = static_cast<unsigned>(CX_GET(context, flow_table_context, level));
    table.log_size = static_cast<unsigned>(CX_GET(context, flow_table_context, log_size));
    if (table.type != kNicReceive)
        return call.Refuse(Status::kBadParameter, "table_type {:#x} of a new table", table.type);
    if (table.level > kMaxTableLevel)
        return call.Refuse(Status::kLimit, "level {}", table.level);
    if (table.log_size > kLogMaxTableSize)
        return call.Refuse(Status::kLimit, "log_size {}", table.log_size);
    if (!ReadMiss(call, context, table.level, table.miss_action, table.miss_table))
        return false;
    table.number = FreeNumber(call.objects.tables, 1, 1U << kLogMaxTables);
    if (table.number == 0)
        return call.Refuse(Status::kNoResources, "no flow table is left");
    CX_OUT(call, create_flow_table_out, table_id, table.number);
    call.Say("{:#x} level {} entries {} miss to {:#x}", table.number, table.level, 1U << table.log_size,
             table.miss_table);
    call.objects.steering_generation++;
    call.objects.tables.emplace(table.number, std::move(table));
    return true;
}

bool QueryFlowTable(Call &call)
{
    const FlowTable *table = FindTable(call, CX_IN(call, query_flow_table_in, table_type),
                                       CX_IN(call, query_flow_table_in, table_id));

    if (table == nullptr)
        return false;

    const auto context = CX_PART(call.out, query_flow_table_out, flow_table_context);

    CX_SET(context, flow_table_context, level, table->level);
    CX_SET(context, flow_table_context, log_size, table->log_size);
    CX_SET(context, flow_table_context, table_miss_action, table->miss_action);
    CX_SET(context, flow_table_context, table_miss_id, table->miss_table);
    call.Say("{:#x}", table->number);
    return true;
}

bool ModifyFlowTable(Call &call)
{
    const std::uint32_t fields = CX_IN(call, modify_flow_table_in, modify_field_select);
    FlowTable *table = FindTable(call, CX_IN(call, modify_flow_table_in, table_type),
                                 CX_IN(call, modify_flow_table_in, table_id));

    if (table == nullptr)
        return false;
    if (fields != kModifyMiss)
        return call.Refuse(Status::kBadParameter, "modify_field_select {:#x}", fields);

    unsigned action = 0;
    std::uint32_t to = 0;

    if (!ReadMiss(call, CX_PART(call.in, modify_flow_table_in, flow_table_context), table->level, action, to))
        return false;
    call.objects.steering_generation++;
    table->miss_action = action;
    table->miss_table = to;
    call.Say("{:#x} miss to {:#x}", table->number, to);
    return true;
}

bool DestroyFlowTable(Call &call)
{
    const FlowTable *table = FindTable(call, CX_IN(call, destroy_flow_table_in, table_type),
                                       CX_IN(call, destroy_flow_table_in, table_id));

    if (table == nullptr)
        return false;

    const std::uint32_t id = table->number;

    if (!table->groups.empty())
        return call.Refuse(Status::kBadResourceState, "table {:#x} has {} groups", id, table->groups.size());
    for (const auto &[other, from] : call.objects.tables) {
        if (from.miss_action == kMissToTable && from.miss_table == id)
            return call.Refuse(Status::kBadResourceState, "what table {:#x} misses goes to table {:#x}", other, id);
        for (const auto &[index, entry] : from.entries)
            for (const FlowDestination &to : entry.destinations)
                if (to.kind == FlowDestination::Kind::kTable && to.id == id)
                    return call.Refuse(Status::kBadResourceState, "flow {} of table {:#x} leads to table {:#x}", index,
                                       other, id);
    }
    call.objects.steering_generation++;
    std::erase_if(call.objects.root_tables, [&](const auto &root) { return root.second == id; });
    call.objects.tables.erase(id);
    call.Say("{:#x}", id);
    return true;
}

bool SetFlowTableRoot(Call &call)
{
    constexpr std::uint16_t kSet = 0;
    constexpr std::uint16_t kDefault = 1;
    const std::uint32_t type = CX_IN(call, set_flow_table_root_in, table_type);

    if (call.op_mod == kDefault && type == kNicReceive) {
        call.objects.steering_generation++;
        call.objects.root_tables.erase(type);
        call.Say("none");
        return true;
    }
    if (call.op_mod != kSet)
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);

    const FlowTable *table = FindTable(call, type, CX_IN(call, set_flow_table_root_in, table_id));

    if (table == nullptr)
        return false;
    call.objects.steering_generation++;
    call.objects.root_tables[type] = table->number;
    call.Say("{:#x}", table->number);
    return true;
}

bool CreateFlowGroup(Call &call)
{
    FlowTable *table = FindTable(call, CX_IN(call, create_flow_group_in, table_type),
                                 CX_IN(call, create_flow_group_in, table_id));

    if (table == nullptr)
        return false;

    const std::uint32_t criteria = CX_IN(call, create_flow_group_in, match_criteria_enable);
    FlowGroup group;

    group.start = CX_IN(call, create_flow_group_in, start_flow_index);
    group.end = CX_IN(call, create_flow_group_in, end_flow_index);
    group.criteria = static_cast<std::uint8_t>(criteria);
    group.mask = ReadMatch(CX_PART(call.in, create_flow_group_in, match_criteria));
    if (group.start > group.end || group.end >= 1U << table->log_size)
        return call.Refuse(Status::kBadParameter, "flows {} to {} of a table of {}", group.start, group.end,
                           1U << table->log_size);
    if ((criteria & ~kMatchSections) != 0)
        return call.Refuse(Status::kBadParameter, "match_criteria_enable {:#x}", criteria);
    for (const auto &[number, other] : table->groups)
        if (group.start <= other.end && other.start <= group.end)
            return call.Refuse(Status::kBadParameter, "flows {} to {} overlap group {}", group.start, group.end,
                               number);
    for (std::size_t at = 0; at < group.mask.size(); at++)
        if ((group.mask[at] & ~SupportedMatch()[at]) != 0)
            return call.Refuse(Status::kBadParameter, "match_criteria byte {:#x} is {:#x}: no such match", at,
                               group.mask[at]);
    if ((criteria & 1) == 0)
        for (std::size_t at = 0; at < CX_FIELD(fte_match_param, misc_parameters).at / 8; at++)
            if (group.mask[at] != 0)
                return call.Refuse(Status::kBadParameter, "match_criteria byte {:#x} in a section not enabled", at);
    group.number = FreeNumber(table->groups, 1, 1U << table->log_size);
    if (group.number == 0)
        return call.Refuse(Status::kNoResources, "no flow group is left");
    CX_OUT(call, create_flow_group_out, group_id, group.number);
    call.Say("{:#x} in table {:#x} flows {} to {} criteria {:#x}", group.number, table->number, group.start,
             group.end, criteria);
    call.objects.steering_generation++;
    table->groups.emplace(group.number, group);
    return true;
}

bool QueryFlowGroup(Call &call)
{
    FlowTable *table = FindTable(call, CX_IN(call, query_flow_group_in, table_type),
                                 CX_IN(call, query_flow_group_in, table_id));

    if (table == nullptr)
        return false;

    const std::uint32_t number = CX_IN(call, query_flow_group_in, group_id);
    const FlowGroup *group = Find(table->groups, number);

    if (group == nullptr)
        return call.Refuse(Status::kBadResource, "group_id {:#x}", number);
    CX_OUT(call, query_flow_group_out, start_flow_index, group->start);
    CX_OUT(call, query_flow_group_out, end_flow_index, group->end);
    CX_OUT(call, query_flow_group_out, match_criteria_enable, group->criteria);
    WriteMatch(CX_PART(call.out, query_flow_group_out, match_criteria), group->mask);
    call.Say("{:#x} in table {:#x}", number, table->number);
    return true;
}

bool DestroyFlowGroup(Call &call)
{
    FlowTable *table = FindTable(call, CX_IN(call, destroy_flow_group_in, table_type),
                                 CX_IN(call, destroy_flow_group_in, table_id));

    if (table == nullptr)
        return false;

    const std::uint32_t number = CX_IN(call, destroy_flow_group_in, group_id);

    if (!table->groups.contains(number))
        return call.Refuse(Status::kBadResource, "group_id {:#x}", number);
    for (const auto &[index, entry] : table->entries)
        if (entry.group == number)
            return call.Refuse(Status::kBadResourceState, "flow {} is in group {:#x}", index, number);
    call.objects.steering_generation++;
    table->groups.erase(number);
    call.Say("{:#x} in table {:#x}", number, table->number);
    return true;
}

bool SetFlowEntry(Call &call)
{
    constexpr std::uint16_t kNew = 0;
    constexpr std::uint16_t kModify = 1;
    const auto context = CX_PART(call.in, set_fte_in, flow_context);
    const std::uint32_t index = CX_IN(call, set_fte_in, flow_index);
    const std::uint32_t fields = CX_IN(call, set_fte_in, modify_enable_mask);
    FlowTable *table = FindTable(call, CX_IN(call, set_fte_in, table_type), CX_IN(call, set_fte_in, table_id));

    if (table == nullptr)
        return false;

    FlowEntry *old = Find(table->entries, index);
    FlowEntry entry;

    if (call.op_mod > kModify)
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);
    if (call.op_mod == kNew && old != nullptr)
        return call.Refuse(Status::kBadResourceState, "flow {} of table {:#x} exists", index, table->number);
    if (call.op_mod == kModify && old == nullptr)
        return call.Refuse(Status::kBadResource, "flow {} of table {:#x} does not exist", index, table->number);
    if ((call.op_mod == kNew && fields != 0) ||
        (fields & ~(kModifyAction | kModifyTag | kModifyDestinations | kModifyCounters)) != 0)
        return call.Refuse(Status::kBadParameter, "modify_enable_mask {:#x} with op_mod {}", fields, call.op_mod);
    entry.index = index;
    entry.group = static_cast<std::uint32_t>(CX_GET(context, flow_context, group_id));
    entry.action = static_cast<std::uint32_t>(CX_GET(context, flow_context, action));
    entry.flow_tag = static_cast<std::uint32_t>(CX_GET(context, flow_context, flow_tag));
    entry.value = ReadMatch(CX_PART(context, flow_context, match_value));
    if (!ReadDestinations(call, *table, entry))
        return false;
    if (old != nullptr) {
        FlowEntry changed = *old;

        if ((fields & kModifyAction) != 0)
            changed.action = entry.action;
        if ((fields & kModifyTag) != 0)
            changed.flow_tag = entry.flow_tag;
        if ((fields & kModifyDestinations) != 0)
            changed.destinations = std::move(entry.destinations);
        if ((fields & kModifyCounters) != 0)
            changed.counters = std::move(entry.counters);
        entry = std::move(changed);
    }

    const FlowGroup *group = Find(table->groups, entry.group);

    if (group == nullptr)
        return call.Refuse(Status::kBadResource, "group_id {:#x}", entry.group);
    if (index < group->start || index > group->end)
        return call.Refuse(Status::kBadParameter, "flow_index {} in group {:#x} of {} to {}", index, entry.group,
                           group->start, group->end);
    if (!CheckAction(call, entry))
        return false;
    for (std::size_t at = 0; at < entry.value.size(); at++)
        entry.value[at] &= group->mask[at];
    call.Say("{} of table {:#x} group {:#x} {}{}", index, table->number, entry.group, DescribeFlow(entry),
             old != nullptr ? " (modified)" : "");
    call.objects.steering_generation++;
    table->entries.insert_or_assign(index, std::move(entry));
    return true;
}

bool QueryFlowEntry(Call &call)
{
    const FlowTable *table = FindTable(call, CX_IN(call, query_fte_in, table_type),
                                       CX_IN(call, query_fte_in, table_id));

    if (table == nullptr)
        return false;

    const std::uint32_t index = CX_IN(call, query_fte_in, flow_index);
    const FlowEntry *entry = Find(table->entries, index);

    if (entry == nullptr)
        return call.Refuse(Status::kBadResource, "flow_index {}", index);

    const auto context = CX_PART(call.out, query_fte_out, flow_context);

    CX_SET(context, flow_context, group_id, entry->group);
    CX_SET(context, flow_context, flow_tag, entry->flow_tag);
    CX_SET(context, flow_context, action, entry->action);
    CX_SET(context, flow_context, destination_list_size, entry->destinations.size());
    CX_SET(context, flow_context, flow_counter_list_size, entry->counters.size());
    WriteMatch(CX_PART(context, flow_context, match_value), entry->value);
    call.Say("{} of table {:#x}", index, table->number);
    return true;
}

bool DeleteFlowEntry(Call &call)
{
    FlowTable *table = FindTable(call, CX_IN(call, delete_fte_in, table_type), CX_IN(call, delete_fte_in, table_id));

    if (table == nullptr)
        return false;

    const std::uint32_t index = CX_IN(call, delete_fte_in, flow_index);

    if (table->entries.erase(index) == 0)
        return call.Refuse(Status::kBadResource, "flow_index {}", index);
    call.objects.steering_generation++;
    call.Say("{} of table {:#x}", index, table->number);
    return true;
}

} // namespace cx::commands
