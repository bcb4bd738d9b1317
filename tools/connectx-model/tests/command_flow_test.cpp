// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Flow tables, groups, entries and counters. */
#include "command_fixture.hpp"

namespace cx::driver {
namespace {

using In = std::span<std::byte>;
using Out = std::span<const std::byte>;

#define EXPECT_REFUSED(input, type, field, value, expected) \
    do { \
        Bytes spoiled = input; \
        CX_SET(In(spoiled), type, field, value); \
        EXPECT_TRUE(Refused(driver.Run(spoiled), expected)) << #field; \
    } while (false)

class FlowTest : public ObjectsTest {
protected:
    Bytes Root(std::uint32_t to)
    {
        Bytes input = CX_INPUT(SET_FLOW_TABLE_ROOT, set_flow_table_root);

        CX_SET(In(input), set_flow_table_root_in, table_id, to);
        return input;
    }
    Bytes MissInput(std::uint32_t from, std::uint32_t to)
    {
        Bytes input = CX_INPUT(MODIFY_FLOW_TABLE, modify_flow_table);

        CX_SET(In(input), modify_flow_table_in, modify_field_select, 1);
        CX_SET(In(input), modify_flow_table_in, table_id, from);
        CX_SET(In(input), modify_flow_table_in, flow_table_context.table_miss_action, to != 0);
        CX_SET(In(input), modify_flow_table_in, flow_table_context.table_miss_id, to);
        return input;
    }
    Reply QueryFlow(std::uint32_t index)
    {
        Bytes input = CX_INPUT(QUERY_FLOW_TABLE_ENTRY, query_fte);

        CX_SET(In(input), query_fte_in, table_id, table);
        CX_SET(In(input), query_fte_in, flow_index, index);
        return driver.Run(input, CX_SIZE(query_fte_out));
    }
};

TEST_F(FlowTest, Tables)
{
    const Bytes good = driver.TableInput(64);

    EXPECT_REFUSED(good, create_flow_table_in, flow_table_context.level, 129, Status::kLimit);
    EXPECT_REFUSED(good, create_flow_table_in, flow_table_context.log_size, 31, Status::kLimit);
    EXPECT_REFUSED(good, create_flow_table_in, table_type, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, create_flow_table_in, flow_table_context.table_miss_action, 2, Status::kBadParameter);
    EXPECT_REFUSED(good, create_flow_table_in, flow_table_context.decap_en, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, create_flow_table_in, other_vport, 1, Status::kBadParameter);

    Bytes query = CX_INPUT(QUERY_FLOW_TABLE, query_flow_table);

    CX_SET(In(query), query_flow_table_in, table_id, table);
    EXPECT_EQ(CX_GET(Out(driver.Run(query, CX_SIZE(query_flow_table_out)).out), query_flow_table_out,
                     flow_table_context.level), 3U);
    EXPECT_REFUSED(query, query_flow_table_in, table_id, 999, Status::kBadOutputLength);
    CX_SET(In(query), query_flow_table_in, table_id, 999);
    EXPECT_TRUE(Refused(driver.Run(query, CX_SIZE(query_flow_table_out)), Status::kBadResource));
}

TEST_F(FlowTest, MissLeadsUpward)
{
    const std::uint32_t higher = driver.Create(driver.TableInput(4));
    const std::uint32_t same = driver.Create(driver.TableInput(3));

    EXPECT_TRUE(driver.Run(MissInput(table, higher)).Ok());
    EXPECT_TRUE(Refused(driver.Run(MissInput(table, same)), Status::kBadParameter));
    EXPECT_TRUE(Refused(driver.Run(MissInput(higher, table)), Status::kBadParameter));
    EXPECT_TRUE(Refused(driver.Run(MissInput(table, 999)), Status::kBadResource));
    EXPECT_REFUSED(MissInput(table, higher), modify_flow_table_in, modify_field_select, 2, Status::kBadParameter);
    EXPECT_TRUE(Refused(driver.DestroyTable(higher), Status::kBadResourceState));
    EXPECT_TRUE(driver.Run(MissInput(table, 0)).Ok());
    EXPECT_TRUE(driver.DestroyTable(higher).Ok());
}

TEST_F(FlowTest, Root)
{
    EXPECT_TRUE(driver.Run(Root(table)).Ok());
    EXPECT_TRUE(Refused(driver.Run(Root(999)), Status::kBadResource));
    EXPECT_REFUSED(Root(table), set_flow_table_root_in, table_type, 2, Status::kBadParameter);
    EXPECT_REFUSED(Root(table), set_flow_table_root_in, op_mod, 7, Status::kBadParameter);
    EXPECT_REFUSED(Root(table), set_flow_table_root_in, underlay_qpn, 7, Status::kBadParameter);

    Bytes none = Root(0);

    CX_SET(In(none), set_flow_table_root_in, op_mod, 1);
    EXPECT_TRUE(driver.Run(none).Ok());
}

TEST_F(FlowTest, Groups)
{
    const Bytes good = driver.GroupInput(table, 8, 15);

    EXPECT_TRUE(Refused(driver.Run(driver.GroupInput(table, 7, 9)), Status::kBadParameter)) << "overlap";
    EXPECT_TRUE(Refused(driver.Run(driver.GroupInput(table, 9, 8)), Status::kBadParameter));
    EXPECT_TRUE(Refused(driver.Run(driver.GroupInput(table, 8, 16)), Status::kBadParameter)) << "past the table";
    EXPECT_TRUE(Refused(driver.Run(driver.GroupInput(999, 8, 9)), Status::kBadResource));
    EXPECT_REFUSED(good, create_flow_group_in, match_criteria_enable, 0x80, Status::kBadParameter);
    EXPECT_REFUSED(good, create_flow_group_in, match_criteria_enable, 0, Status::kBadParameter);
    EXPECT_REFUSED(good, create_flow_group_in, match_criteria.inner_headers.udp_dport, 1, Status::kBadParameter);

    const std::uint32_t made = driver.Create(good);
    Bytes query = CX_INPUT(QUERY_FLOW_GROUP, query_flow_group);

    CX_SET(In(query), query_flow_group_in, table_id, table);
    CX_SET(In(query), query_flow_group_in, group_id, made);

    const Reply reply = driver.Run(query, CX_SIZE(query_flow_group_out));

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), query_flow_group_out, start_flow_index), 8U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_flow_group_out, match_criteria.outer_headers.udp_dport), 0xffffU);
    EXPECT_TRUE(driver.DestroyGroup(table, made).Ok());
    EXPECT_TRUE(Refused(driver.DestroyGroup(table, made), Status::kBadResource));
}

TEST_F(FlowTest, Entries)
{
    const Bytes good = driver.FlowInput(table, group, 3, tir);
    constexpr auto kForward = ifc::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST;

    EXPECT_TRUE(Refused(driver.Run(driver.FlowInput(table, group, 2, tir)), Status::kBadResourceState)) << "exists";
    EXPECT_TRUE(Refused(driver.Run(driver.FlowInput(table, 9, 3, tir)), Status::kBadResource));
    EXPECT_TRUE(Refused(driver.Run(driver.FlowInput(table, group, 8, tir)), Status::kBadParameter));
    EXPECT_TRUE(Refused(driver.Run(driver.FlowInput(table, group, 3, 77)), Status::kBadResource));
    EXPECT_REFUSED(good, set_fte_in, flow_context.action, 0, Status::kBadParameter);
    EXPECT_REFUSED(good, set_fte_in, flow_context.action, kForward | ifc::MLX5_FLOW_CONTEXT_ACTION_MOD_HDR,
                   Status::kBadParameter);
    EXPECT_REFUSED(good, set_fte_in, flow_context.action, kForward | ifc::MLX5_FLOW_CONTEXT_ACTION_COUNT,
                   Status::kBadParameter);
    EXPECT_REFUSED(good, set_fte_in, flow_context.action, kForward | ifc::MLX5_FLOW_CONTEXT_ACTION_DROP,
                   Status::kBadParameter);
    EXPECT_REFUSED(good, set_fte_in, flow_context.destination_list_size, 2, Status::kBadInputLength);
    EXPECT_REFUSED(good, set_fte_in, flow_context.destination_list_size, 99, Status::kLimit);
    EXPECT_REFUSED(good, set_fte_in, op_mod, 2, Status::kBadParameter);
    EXPECT_REFUSED(good, set_fte_in, op_mod, 1, Status::kBadResource);
    EXPECT_REFUSED(good, set_fte_in, modify_enable_mask, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, set_fte_in, flow_context.modify_header_id, 1, Status::kBadParameter);

    Bytes odd = good;
    const In to = In(odd).subspan(CX_SIZE(set_fte_in));

    CX_SET(to, dest_format_struct, destination_type, 8);
    EXPECT_TRUE(Refused(driver.Run(odd), Status::kBadParameter));
    CX_SET(to, dest_format_struct, destination_type, ifc::MLX5_IFC_FLOW_DESTINATION_TYPE_FLOW_TABLE);
    CX_SET(to, dest_format_struct, destination_id, table);
    EXPECT_TRUE(Refused(driver.Run(odd), Status::kBadParameter)) << "to its own table";
    EXPECT_TRUE(driver.Run(good).Ok());
    EXPECT_TRUE(driver.DeleteFlow(table, 3).Ok());
    EXPECT_TRUE(Refused(driver.DeleteFlow(table, 3), Status::kBadResource));
}

TEST_F(FlowTest, EntryIsModified)
{
    Bytes change = driver.FlowInput(table, group, 2, direct_tir);

    CX_SET(In(change), set_fte_in, op_mod, 1);
    CX_SET(In(change), set_fte_in, modify_enable_mask, 4);
    CX_SET(In(change), set_fte_in, flow_context.match_value.outer_headers.udp_dport, 1);
    ASSERT_TRUE(driver.Run(change).Ok());
    EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DESTROY_TIR, tir).Ok()) << "the flow no longer leads there";

    const Reply reply = QueryFlow(2);

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), query_fte_out, flow_context.match_value.outer_headers.udp_dport), 4791U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_fte_out, flow_context.group_id), group);
    EXPECT_TRUE(Refused(QueryFlow(5), Status::kBadResource));
}

TEST_F(FlowTest, Counters)
{
    const std::uint32_t counter = driver.Create(CX_INPUT(ALLOC_FLOW_COUNTER, alloc_flow_counter));
    Bytes bulk = CX_INPUT(ALLOC_FLOW_COUNTER, alloc_flow_counter);

    CX_SET(In(bulk), alloc_flow_counter_in, flow_counter_bulk, 1);

    const std::uint32_t first = driver.Create(bulk);

    EXPECT_REFUSED(bulk, alloc_flow_counter_in, flow_counter_bulk, 2, Status::kBadParameter);
    ASSERT_TRUE(counter && first);

    Bytes flow = driver.FlowInput(table, group, 4, tir);

    flow.resize(flow.size() + CX_SIZE(flow_counter_list));
    CX_SET(In(flow), set_fte_in, flow_context.action,
           ifc::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST | ifc::MLX5_FLOW_CONTEXT_ACTION_COUNT);
    CX_SET(In(flow), set_fte_in, flow_context.flow_counter_list_size, 1);
    CX_SET(In(flow).subspan(CX_SIZE(set_fte_in) + CX_SIZE(dest_format_struct)), flow_counter_list, flow_counter_id,
           first + 9);
    ASSERT_TRUE(driver.Run(flow).Ok());
    EXPECT_TRUE(Refused(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_FLOW_COUNTER, first), Status::kBadResourceState));
    EXPECT_TRUE(Refused(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_FLOW_COUNTER, first + 9), Status::kBadResource));

    Bytes query = CX_INPUT(QUERY_FLOW_COUNTER, query_flow_counter);

    CX_SET(In(query), query_flow_counter_in, flow_counter_id, first);
    CX_SET(In(query), query_flow_counter_in, num_of_counters, 128);
    EXPECT_TRUE(driver.Run(query, CX_SIZE(query_flow_counter_out) + 128 * CX_SIZE(traffic_counter)).Ok());
    EXPECT_TRUE(Refused(driver.Run(query, CX_SIZE(query_flow_counter_out) + 16), Status::kBadOutputLength));
    CX_SET(In(query), query_flow_counter_in, num_of_counters, 0xffff);
    EXPECT_TRUE(Refused(driver.Run(query, 16), Status::kLimit));
    EXPECT_TRUE(driver.DeleteFlow(table, 4).Ok());
    EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_FLOW_COUNTER, first).Ok());
    EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_FLOW_COUNTER, counter).Ok());
    EXPECT_TRUE(Refused(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_FLOW_COUNTER, counter), Status::kBadResource));
}

} // namespace
} // namespace cx::driver
