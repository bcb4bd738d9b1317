// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The table of commands. For each, the fields that its input may have; a field that the header has but that is not
 * listed belongs to a capability that the card does not offer.
 */
#include "command_call.hpp"

#include <algorithm>
#include <limits>

namespace cx {
namespace {

constexpr std::size_t kToTheEnd = std::numeric_limits<std::size_t>::max() / 2;

#define IN(type, field) CX_FIELD(type##_in, field)
/** A list that goes on to the end of the input. */
#define LIST(type, field) (Field{ CX_AT(type##_in, field) * 8, kToTheEnd })

/* Of a work queue at `path`. */
#define WQ(type, path) \
    IN(type, path.wq_type), IN(type, path.end_padding_mode), IN(type, path.cd_slave), IN(type, path.page_offset), \
    IN(type, path.lwm), IN(type, path.pd), IN(type, path.uar_page), IN(type, path.dbr_addr), \
    IN(type, path.log_wq_stride), IN(type, path.log_wq_pg_sz), IN(type, path.log_wq_sz), \
    IN(type, path.log_wqe_num_of_strides), IN(type, path.two_byte_shift_en), IN(type, path.log_wqe_stride_size)

constexpr Field kManagePages[] = { IN(manage_pages, input_num_entries), LIST(manage_pages, pas) };
constexpr Field kSetIssi[] = { IN(set_issi, current_issi) };
constexpr Field kSetHcaCap[] = { IN(set_hca_cap, capability) };
constexpr Field kInitHca[] = { IN(init_hca, sw_owner_id) };
constexpr Field kTeardownHca[] = { IN(teardown_hca, profile) };
constexpr Field kSetDriverVersion[] = { IN(set_driver_version, driver_version) };
constexpr Field kAccessRegister[] = { IN(access_register, register_id), IN(access_register, argument),
                                      LIST(access_register, register_data) };

constexpr Field kDeallocUar[] = { IN(dealloc_uar, uar) };
constexpr Field kDeallocPd[] = { IN(dealloc_pd, pd) };
constexpr Field kDeallocDomain[] = { IN(dealloc_transport_domain, transport_domain) };
constexpr Field kCreateMkey[] = {
    IN(create_mkey, pg_access),
    IN(create_mkey, memory_key_mkey_entry.free),
    IN(create_mkey, memory_key_mkey_entry.access_mode_4_2),
    IN(create_mkey, memory_key_mkey_entry.umr_en),
    IN(create_mkey, memory_key_mkey_entry.lw),
    IN(create_mkey, memory_key_mkey_entry.lr),
    IN(create_mkey, memory_key_mkey_entry.access_mode_1_0),
    IN(create_mkey, memory_key_mkey_entry.qpn),
    IN(create_mkey, memory_key_mkey_entry.mkey_7_0),
    IN(create_mkey, memory_key_mkey_entry.length64),
    IN(create_mkey, memory_key_mkey_entry.pd),
    IN(create_mkey, memory_key_mkey_entry.start_addr),
    IN(create_mkey, memory_key_mkey_entry.len),
    IN(create_mkey, memory_key_mkey_entry.translations_octword_size),
    IN(create_mkey, memory_key_mkey_entry.log_page_size),
    IN(create_mkey, translations_octword_actual_size),
    LIST(create_mkey, klm_pas_mtt),
};
constexpr Field kQueryMkey[] = { IN(query_mkey, mkey_index) };
constexpr Field kDestroyMkey[] = { IN(destroy_mkey, mkey_index) };
constexpr Field kDeallocQCounter[] = { IN(dealloc_q_counter, counter_set_id) };
constexpr Field kQueryQCounter[] = { IN(query_q_counter, clear), IN(query_q_counter, counter_set_id) };

constexpr Field kCreateEq[] = {
    IN(create_eq, eq_context_entry.oi),          IN(create_eq, eq_context_entry.page_offset),
    IN(create_eq, eq_context_entry.log_eq_size), IN(create_eq, eq_context_entry.uar_page),
    IN(create_eq, eq_context_entry.intr),        IN(create_eq, eq_context_entry.log_page_size),
    IN(create_eq, event_bitmask),                LIST(create_eq, pas),
};
constexpr Field kQueryEq[] = { IN(query_eq, eq_number) };
constexpr Field kDestroyEq[] = { IN(destroy_eq, eq_number) };
constexpr Field kCreateCq[] = {
    IN(create_cq, cq_context.cqe_sz),        IN(create_cq, cq_context.oi),
    IN(create_cq, cq_context.cq_period_mode), IN(create_cq, cq_context.page_offset),
    IN(create_cq, cq_context.log_cq_size),   IN(create_cq, cq_context.uar_page),
    IN(create_cq, cq_context.cq_period),     IN(create_cq, cq_context.cq_max_count),
    IN(create_cq, cq_context.c_eqn_or_apu_element), IN(create_cq, cq_context.log_page_size),
    IN(create_cq, cq_context.dbr_addr),      LIST(create_cq, pas),
};
constexpr Field kQueryCq[] = { IN(query_cq, cqn) };
constexpr Field kModifyCq[] = {
    IN(modify_cq, cqn),
    IN(modify_cq, modify_field_select_resize_field_select),
    IN(modify_cq, cq_context.oi),
    IN(modify_cq, cq_context.cq_period_mode),
    IN(modify_cq, cq_context.cq_period),
    IN(modify_cq, cq_context.cq_max_count),
};
constexpr Field kDestroyCq[] = { IN(destroy_cq, cqn) };

constexpr Field kCreateRq[] = {
    IN(create_rq, ctx.rlky),       IN(create_rq, ctx.vsd), IN(create_rq, ctx.mem_rq_type),
    IN(create_rq, ctx.state),      IN(create_rq, ctx.flush_in_error_en), IN(create_rq, ctx.user_index),
    IN(create_rq, ctx.cqn),        IN(create_rq, ctx.counter_set_id), WQ(create_rq, ctx.wq),
    LIST(create_rq, ctx.wq.pas),
};
constexpr Field kQueryRq[] = { IN(query_rq, rqn) };
constexpr Field kModifyRq[] = {
    IN(modify_rq, rq_state), IN(modify_rq, rqn), IN(modify_rq, modify_bitmask), IN(modify_rq, ctx.vsd),
    IN(modify_rq, ctx.state), IN(modify_rq, ctx.counter_set_id),
};
constexpr Field kDestroyRq[] = { IN(destroy_rq, rqn) };
constexpr Field kCreateSq[] = {
    IN(create_sq, ctx.rlky),  IN(create_sq, ctx.flush_in_error_en), IN(create_sq, ctx.min_wqe_inline_mode),
    IN(create_sq, ctx.state), IN(create_sq, ctx.user_index),        IN(create_sq, ctx.cqn),
    IN(create_sq, ctx.tis_lst_sz), IN(create_sq, ctx.tis_num_0),    WQ(create_sq, ctx.wq),
    LIST(create_sq, ctx.wq.pas),
};
constexpr Field kQuerySq[] = { IN(query_sq, sqn) };
constexpr Field kModifySq[] = { IN(modify_sq, sq_state), IN(modify_sq, sqn), IN(modify_sq, modify_bitmask),
                                IN(modify_sq, ctx.state) };
constexpr Field kDestroySq[] = { IN(destroy_sq, sqn) };

constexpr Field kCreateTis[] = { IN(create_tis, ctx.prio), IN(create_tis, ctx.transport_domain),
                                 IN(create_tis, ctx.pd) };
constexpr Field kQueryTis[] = { IN(query_tis, tisn) };
constexpr Field kModifyTis[] = { IN(modify_tis, tisn), IN(modify_tis, bitmask.prio), IN(modify_tis, ctx.prio) };
constexpr Field kDestroyTis[] = { IN(destroy_tis, tisn) };
constexpr Field kCreateRqt[] = { IN(create_rqt, rqt_context.rqt_max_size), IN(create_rqt, rqt_context.rqt_actual_size),
                                 LIST(create_rqt, rqt_context.rq_num) };
constexpr Field kQueryRqt[] = { IN(query_rqt, rqtn) };
constexpr Field kModifyRqt[] = { IN(modify_rqt, rqtn), IN(modify_rqt, bitmask.rqn_list),
                                 IN(modify_rqt, ctx.rqt_max_size), IN(modify_rqt, ctx.rqt_actual_size),
                                 LIST(modify_rqt, ctx.rq_num) };
constexpr Field kDestroyRqt[] = { IN(destroy_rqt, rqtn) };
#define TIR_HASH(type) \
    IN(type, ctx.rx_hash_symmetric), IN(type, ctx.rx_hash_fn), IN(type, ctx.self_lb_block), \
    IN(type, ctx.rx_hash_toeplitz_key), IN(type, ctx.rx_hash_field_selector_outer)
constexpr Field kCreateTir[] = { IN(create_tir, ctx.disp_type), IN(create_tir, ctx.inline_rqn),
                                 IN(create_tir, ctx.indirect_table), IN(create_tir, ctx.transport_domain),
                                 TIR_HASH(create_tir) };
constexpr Field kQueryTir[] = { IN(query_tir, tirn) };
constexpr Field kModifyTir[] = { IN(modify_tir, tirn), IN(modify_tir, bitmask.self_lb_en),
                                 IN(modify_tir, bitmask.hash), IN(modify_tir, bitmask.packet_merge),
                                 TIR_HASH(modify_tir) };
constexpr Field kDestroyTir[] = { IN(destroy_tir, tirn) };

constexpr Field kCreateFlowTable[] = {
    IN(create_flow_table, table_type),
    IN(create_flow_table, flow_table_context.table_miss_action),
    IN(create_flow_table, flow_table_context.level),
    IN(create_flow_table, flow_table_context.log_size),
    IN(create_flow_table, flow_table_context.table_miss_id),
};
constexpr Field kQueryFlowTable[] = { IN(query_flow_table, table_type), IN(query_flow_table, table_id) };
constexpr Field kModifyFlowTable[] = {
    IN(modify_flow_table, modify_field_select),
    IN(modify_flow_table, table_type),
    IN(modify_flow_table, table_id),
    IN(modify_flow_table, flow_table_context.table_miss_action),
    IN(modify_flow_table, flow_table_context.table_miss_id),
};
constexpr Field kDestroyFlowTable[] = { IN(destroy_flow_table, table_type), IN(destroy_flow_table, table_id) };
constexpr Field kSetFlowTableRoot[] = { IN(set_flow_table_root, table_type), IN(set_flow_table_root, table_id) };
constexpr Field kCreateFlowGroup[] = {
    IN(create_flow_group, table_type),       IN(create_flow_group, table_id),
    IN(create_flow_group, start_flow_index), IN(create_flow_group, end_flow_index),
    IN(create_flow_group, match_criteria_enable), IN(create_flow_group, match_criteria),
};
constexpr Field kQueryFlowGroup[] = { IN(query_flow_group, table_type), IN(query_flow_group, table_id),
                                      IN(query_flow_group, group_id) };
constexpr Field kDestroyFlowGroup[] = { IN(destroy_flow_group, table_type), IN(destroy_flow_group, table_id),
                                        IN(destroy_flow_group, group_id) };
constexpr Field kSetFlowEntry[] = {
    IN(set_fte, table_type),
    IN(set_fte, table_id),
    IN(set_fte, modify_enable_mask),
    IN(set_fte, flow_index),
    IN(set_fte, flow_context.group_id),
    IN(set_fte, flow_context.flow_tag),
    IN(set_fte, flow_context.action),
    IN(set_fte, flow_context.destination_list_size),
    IN(set_fte, flow_context.flow_counter_list_size),
    IN(set_fte, flow_context.match_value),
    LIST(set_fte, flow_context.destination),
};
constexpr Field kQueryFlowEntry[] = { IN(query_fte, table_type), IN(query_fte, table_id), IN(query_fte, flow_index) };
constexpr Field kDeleteFlowEntry[] = { IN(delete_fte, table_type), IN(delete_fte, table_id),
                                       IN(delete_fte, flow_index) };
constexpr Field kAllocFlowCounter[] = { IN(alloc_flow_counter, flow_counter_bulk) };
constexpr Field kDeallocFlowCounter[] = { IN(dealloc_flow_counter, flow_counter_id) };
constexpr Field kQueryFlowCounter[] = { IN(query_flow_counter, clear), IN(query_flow_counter, num_of_counters),
                                        IN(query_flow_counter, flow_counter_id) };

constexpr Field kModifyVportState[] = { IN(modify_vport_state, admin_state) };
constexpr Field kQueryVportContext[] = { IN(query_nic_vport_context, allowed_list_type) };
constexpr Field kModifyVportContext[] = {
    IN(modify_nic_vport_context, field_select.disable_uc_local_lb),
    IN(modify_nic_vport_context, field_select.disable_mc_local_lb),
    IN(modify_nic_vport_context, field_select.mtu),
    IN(modify_nic_vport_context, field_select.promisc),
    IN(modify_nic_vport_context, field_select.permanent_address),
    IN(modify_nic_vport_context, field_select.addresses_list),
    IN(modify_nic_vport_context, field_select.roce_en),
    IN(modify_nic_vport_context, nic_vport_context.disable_mc_local_lb),
    IN(modify_nic_vport_context, nic_vport_context.disable_uc_local_lb),
    IN(modify_nic_vport_context, nic_vport_context.roce_en),
    IN(modify_nic_vport_context, nic_vport_context.mtu),
    IN(modify_nic_vport_context, nic_vport_context.promisc_uc),
    IN(modify_nic_vport_context, nic_vport_context.promisc_mc),
    IN(modify_nic_vport_context, nic_vport_context.promisc_all),
    IN(modify_nic_vport_context, nic_vport_context.allowed_list_type),
    IN(modify_nic_vport_context, nic_vport_context.allowed_list_size),
    IN(modify_nic_vport_context, nic_vport_context.permanent_address),
    LIST(modify_nic_vport_context, nic_vport_context.current_uc_mac_address),
};
constexpr Field kQueryVportCounter[] = { IN(query_vport_counter, clear) };

constexpr unsigned kAlways = kInDisabled | kInEnabled | kInInitialized;
constexpr unsigned kUp = kInEnabled | kInInitialized;

#define ROW(opcode, type, states, handler, ...) \
    { ifc::MLX5_CMD_OP_##opcode, #opcode, CX_SIZE(type##_in), CX_SIZE(type##_out), states, commands::handler, \
      std::span<const Field>{ __VA_ARGS__ } }

/* By opcode. */
const CommandRow kCommands[] = {
    ROW(QUERY_HCA_CAP, query_hca_cap, kUp, QueryHcaCap),
    ROW(QUERY_ADAPTER, query_adapter, kUp, QueryAdapter),
    ROW(INIT_HCA, init_hca, kInEnabled, InitHca, kInitHca),
    ROW(TEARDOWN_HCA, teardown_hca, kInInitialized, TeardownHca, kTeardownHca),
    ROW(ENABLE_HCA, enable_hca, kInDisabled, EnableHca),
    ROW(DISABLE_HCA, disable_hca, kInEnabled, DisableHca),
    ROW(QUERY_PAGES, query_pages, kUp, QueryPages),
    ROW(MANAGE_PAGES, manage_pages, kUp, ManagePages, kManagePages),
    ROW(SET_HCA_CAP, set_hca_cap, kInEnabled, SetHcaCap, kSetHcaCap),
    ROW(QUERY_ISSI, query_issi, kUp, QueryIssi),
    ROW(SET_ISSI, set_issi, kInEnabled, SetIssi, kSetIssi),
    ROW(SET_DRIVER_VERSION, set_driver_version, kUp, SetDriverVersion, kSetDriverVersion),
    ROW(CREATE_MKEY, create_mkey, kInInitialized, CreateMkey, kCreateMkey),
    ROW(QUERY_MKEY, query_mkey, kInInitialized, QueryMkey, kQueryMkey),
    ROW(DESTROY_MKEY, destroy_mkey, kInInitialized, DestroyMkey, kDestroyMkey),
    ROW(CREATE_EQ, create_eq, kInInitialized, CreateEq, kCreateEq),
    ROW(DESTROY_EQ, destroy_eq, kInInitialized, DestroyEq, kDestroyEq),
    ROW(QUERY_EQ, query_eq, kInInitialized, QueryEq, kQueryEq),
    ROW(CREATE_CQ, create_cq, kInInitialized, CreateCq, kCreateCq),
    ROW(DESTROY_CQ, destroy_cq, kInInitialized, DestroyCq, kDestroyCq),
    ROW(QUERY_CQ, query_cq, kInInitialized, QueryCq, kQueryCq),
    ROW(MODIFY_CQ, modify_cq, kInInitialized, ModifyCq, kModifyCq),
    ROW(QUERY_VPORT_STATE, query_vport_state, kInInitialized, QueryVportState),
    ROW(MODIFY_VPORT_STATE, modify_vport_state, kInInitialized, ModifyVportState, kModifyVportState),
    ROW(QUERY_NIC_VPORT_CONTEXT, query_nic_vport_context, kInInitialized, QueryNicVportContext, kQueryVportContext),
    ROW(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context, kInInitialized, ModifyNicVportContext,
        kModifyVportContext),
    ROW(QUERY_VNIC_ENV, query_vnic_env, kInInitialized, QueryVnicEnv),
    ROW(QUERY_VPORT_COUNTER, query_vport_counter, kInInitialized, QueryVportCounter, kQueryVportCounter),
    ROW(ALLOC_Q_COUNTER, alloc_q_counter, kInInitialized, AllocQCounter),
    ROW(DEALLOC_Q_COUNTER, dealloc_q_counter, kInInitialized, DeallocQCounter, kDeallocQCounter),
    ROW(QUERY_Q_COUNTER, query_q_counter, kInInitialized, QueryQCounter, kQueryQCounter),
    ROW(ALLOC_PD, alloc_pd, kInInitialized, AllocPd),
    ROW(DEALLOC_PD, dealloc_pd, kInInitialized, DeallocPd, kDeallocPd),
    ROW(ALLOC_UAR, alloc_uar, kInInitialized, AllocUar),
    ROW(DEALLOC_UAR, dealloc_uar, kInInitialized, DeallocUar, kDeallocUar),
    ROW(ACCESS_REG, access_register, kUp, AccessRegister, kAccessRegister),
    ROW(NOP, nop, kAlways, Nop),
    ROW(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain, kInInitialized, AllocTransportDomain),
    ROW(DEALLOC_TRANSPORT_DOMAIN, dealloc_transport_domain, kInInitialized, DeallocTransportDomain, kDeallocDomain),
    ROW(CREATE_TIR, create_tir, kInInitialized, CreateTir, kCreateTir),
    ROW(MODIFY_TIR, modify_tir, kInInitialized, ModifyTir, kModifyTir),
    ROW(DESTROY_TIR, destroy_tir, kInInitialized, DestroyTir, kDestroyTir),
    ROW(QUERY_TIR, query_tir, kInInitialized, QueryTir, kQueryTir),
    ROW(CREATE_SQ, create_sq, kInInitialized, CreateSq, kCreateSq),
    ROW(MODIFY_SQ, modify_sq, kInInitialized, ModifySq, kModifySq),
    ROW(DESTROY_SQ, destroy_sq, kInInitialized, DestroySq, kDestroySq),
    ROW(QUERY_SQ, query_sq, kInInitialized, QuerySq, kQuerySq),
    ROW(CREATE_RQ, create_rq, kInInitialized, CreateRq, kCreateRq),
    ROW(MODIFY_RQ, modify_rq, kInInitialized, ModifyRq, kModifyRq),
    ROW(DESTROY_RQ, destroy_rq, kInInitialized, DestroyRq, kDestroyRq),
    ROW(QUERY_RQ, query_rq, kInInitialized, QueryRq, kQueryRq),
    ROW(CREATE_TIS, create_tis, kInInitialized, CreateTis, kCreateTis),
    ROW(MODIFY_TIS, modify_tis, kInInitialized, ModifyTis, kModifyTis),
    ROW(DESTROY_TIS, destroy_tis, kInInitialized, DestroyTis, kDestroyTis),
    ROW(QUERY_TIS, query_tis, kInInitialized, QueryTis, kQueryTis),
    ROW(CREATE_RQT, create_rqt, kInInitialized, CreateRqt, kCreateRqt),
    ROW(MODIFY_RQT, modify_rqt, kInInitialized, ModifyRqt, kModifyRqt),
    ROW(DESTROY_RQT, destroy_rqt, kInInitialized, DestroyRqt, kDestroyRqt),
    ROW(QUERY_RQT, query_rqt, kInInitialized, QueryRqt, kQueryRqt),
    ROW(SET_FLOW_TABLE_ROOT, set_flow_table_root, kInInitialized, SetFlowTableRoot, kSetFlowTableRoot),
    ROW(CREATE_FLOW_TABLE, create_flow_table, kInInitialized, CreateFlowTable, kCreateFlowTable),
    ROW(DESTROY_FLOW_TABLE, destroy_flow_table, kInInitialized, DestroyFlowTable, kDestroyFlowTable),
    ROW(QUERY_FLOW_TABLE, query_flow_table, kInInitialized, QueryFlowTable, kQueryFlowTable),
    ROW(CREATE_FLOW_GROUP, create_flow_group, kInInitialized, CreateFlowGroup, kCreateFlowGroup),
    ROW(DESTROY_FLOW_GROUP, destroy_flow_group, kInInitialized, DestroyFlowGroup, kDestroyFlowGroup),
    ROW(QUERY_FLOW_GROUP, query_flow_group, kInInitialized, QueryFlowGroup, kQueryFlowGroup),
    ROW(SET_FLOW_TABLE_ENTRY, set_fte, kInInitialized, SetFlowEntry, kSetFlowEntry),
    ROW(QUERY_FLOW_TABLE_ENTRY, query_fte, kInInitialized, QueryFlowEntry, kQueryFlowEntry),
    ROW(DELETE_FLOW_TABLE_ENTRY, delete_fte, kInInitialized, DeleteFlowEntry, kDeleteFlowEntry),
    ROW(ALLOC_FLOW_COUNTER, alloc_flow_counter, kInInitialized, AllocFlowCounter, kAllocFlowCounter),
    ROW(DEALLOC_FLOW_COUNTER, dealloc_flow_counter, kInInitialized, DeallocFlowCounter, kDeallocFlowCounter),
    ROW(QUERY_FLOW_COUNTER, query_flow_counter, kInInitialized, QueryFlowCounter, kQueryFlowCounter),
    ROW(MODIFY_FLOW_TABLE, modify_flow_table, kInInitialized, ModifyFlowTable, kModifyFlowTable),
};

} // namespace

const CommandRow *FindCommand(std::uint16_t opcode)
{
    const auto *row = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [&](const CommandRow &each) { return each.opcode == opcode; });

    return row == std::end(kCommands) ? nullptr : row;
}

} // namespace cx
