// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the card can: capabilities, and the match fields of steering. */
#include "command_call.hpp"

namespace cx {
namespace {

struct Capability {
    Field field;
    std::uint64_t current;
    std::uint64_t maximum;
};

#define GENERAL(name, value) { CX_FIELD(cmd_hca_cap, name), value, value }
#define ETHERNET(name, value) { CX_FIELD(per_protocol_networking_offload_caps, name), value, value }
#define RECEIVE(name, value) { CX_FIELD(flow_table_nic_cap, flow_table_properties_nic_receive.name), value, value }
#define MATCH(name) \
    RECEIVE(ft_field_support.outer_##name, 1), RECEIVE(ft_field_bitmask_support.outer_##name, 1)

constexpr Capability kGeneral[] = {
    GENERAL(log_max_cq_sz, kLogMaxCqSize),
    GENERAL(log_max_cq, kLogMaxCq),
    GENERAL(log_max_eq_sz, kLogMaxEqSize),
    GENERAL(log_max_mkey, kLogMaxMkey),
    GENERAL(log_max_eq, 6),
    GENERAL(max_num_eqs, kMaxEqs),
    GENERAL(log_max_mrw_sz, 63),
    GENERAL(log_max_msg, 30),
    GENERAL(vport_counters, 1),
    GENERAL(nic_flow_table, 1),
    GENERAL(port_type, 1), /* Ethernet */
    GENERAL(num_ports, 1),
    GENERAL(native_port_num, 1),
    GENERAL(max_tc, 8),
    GENERAL(cqe_version, 1),
    GENERAL(striding_rq, 1),
    { CX_FIELD(cmd_hca_cap, cmdif_checksum), 0, 3 },
    GENERAL(eth_net_offloads, 1),
    GENERAL(cq_oi, 1),
    GENERAL(cq_moderation, 1),
    /* cq_period_mode_modify, the bit behind: newer headers alone name it, and newer drivers moderate only with it */
    { { CX_FIELD(cmd_hca_cap, cq_moderation).at + 1, 1 }, 1, 1 },
    GENERAL(cq_period_start_from_cqe, 1),
    GENERAL(modify_rq_counter_set_id, 1),
    GENERAL(uar_sz, 5), /* log2 of the BAR in MiB */
    GENERAL(log_pg_sz, 12),
    GENERAL(driver_version, 1),
    GENERAL(log_bf_reg_size, 9),
    GENERAL(num_of_uars_per_page, 1),
    GENERAL(max_wqe_sz_sq, 1024),
    GENERAL(max_wqe_sz_rq, 512),
    GENERAL(flow_counter_bulk_alloc, 1), /* of kCounterBulk */
    GENERAL(log_max_flow_counter_bulk, kLogMaxCounterQuery),
    GENERAL(max_flow_counter_15_0, (1U << kLogMaxFlowCounters) - 1),
    GENERAL(log_max_transport_domain, kLogMaxTransportDomain),
    GENERAL(log_max_pd, kLogMaxPd),
    GENERAL(nic_receive_steering_discard, 1),
    GENERAL(receive_discard_vport_down, 1),
    GENERAL(invalid_command_count, 1),
    GENERAL(log_max_rq, kLogMaxRq),
    GENERAL(log_max_sq, kLogMaxSq),
    GENERAL(log_max_tir, kLogMaxTir),
    GENERAL(log_max_tis, kLogMaxTis),
    GENERAL(log_max_rqt, kLogMaxRqt),
    GENERAL(log_max_rqt_size, kLogMaxRqtSize),
    GENERAL(log_max_stride_sz_rq, kLogMaxRqStride),
    GENERAL(log_min_stride_sz_rq, kLogMinRqStride),
    GENERAL(log_max_stride_sz_sq, kLogSqStride),
    GENERAL(log_min_stride_sz_sq, kLogSqStride),
    GENERAL(log_max_wq_sz, kLogMaxWqSize),
    GENERAL(disable_local_lb_uc, 1),
    GENERAL(disable_local_lb_mc, 1),
    GENERAL(log_max_vlan_list, kLogMaxVlanList),
    GENERAL(log_max_current_mc_list, kLogMaxAddressList),
    GENERAL(log_max_current_uc_list, kLogMaxAddressList),
    GENERAL(device_frequency_mhz, 1000), /* the internal timer counts nanoseconds */
    GENERAL(device_frequency_khz, 1000000),
};

constexpr Capability kEthernet[] = {
    ETHERNET(csum_cap, 1),
    ETHERNET(vlan_cap, 1),
    ETHERNET(self_lb_en_modifiable, 1),
    ETHERNET(max_lso_cap, 18),
    ETHERNET(wqe_inline_mode, 0), /* the L2 header is in the WQE */
    ETHERNET(rss_ind_tbl_cap, kLogMaxRqtSize),
};

constexpr Capability kFlowTable[] = {
    RECEIVE(ft_support, 1),
    RECEIVE(flow_counter, 1),
    RECEIVE(flow_modify_en, 1),
    RECEIVE(modify_root, 1),
    RECEIVE(identified_miss_table_mode, 1),
    RECEIVE(flow_table_modify, 1),
    RECEIVE(log_max_ft_size, kLogMaxTableSize),
    RECEIVE(max_ft_level, kMaxTableLevel),
    RECEIVE(log_max_ft_num, kLogMaxTables),
    RECEIVE(log_max_flow_counter, kLogMaxFlowCounters),
    RECEIVE(log_max_destination, kLogMaxDestinations),
    RECEIVE(log_max_flow, kLogMaxTableSize),
    MATCH(dmac),
    MATCH(smac),
    MATCH(ether_type),
    MATCH(ip_version),
    MATCH(first_prio),
    MATCH(first_cfi),
    MATCH(first_vid),
    MATCH(sip),
    MATCH(dip),
    MATCH(frag),
    MATCH(ip_protocol),
    MATCH(ip_ecn),
    MATCH(ip_dscp),
    MATCH(udp_sport),
    MATCH(udp_dport),
    MATCH(tcp_sport),
    MATCH(tcp_dport),
    MATCH(tcp_flags),
};

#define OUTER(name) CX_FIELD(fte_match_param, outer_headers.name)

/* The same fields, as groups and flows carry them. */
constexpr Field kMatchFields[] = {
    OUTER(smac_47_16), OUTER(smac_15_0),   OUTER(ethertype),          OUTER(dmac_47_16),         OUTER(dmac_15_0),
    OUTER(first_prio), OUTER(first_cfi),   OUTER(first_vid),          OUTER(ip_protocol),        OUTER(ip_dscp),
    OUTER(ip_ecn),     OUTER(cvlan_tag),   OUTER(svlan_tag),          OUTER(frag),               OUTER(ip_version),
    OUTER(tcp_flags),  OUTER(tcp_sport),   OUTER(tcp_dport),          OUTER(udp_sport),          OUTER(udp_dport),
    OUTER(src_ipv4_src_ipv6), OUTER(dst_ipv4_dst_ipv6),
};

void Fill(std::span<std::byte> page, std::span<const Capability> capabilities, bool maximum)
{
    for (const Capability &capability : capabilities)
        SetField(page, capability.field, maximum ? capability.maximum : capability.current);
}

} // namespace

bool FillCapabilities(std::span<std::byte> page, unsigned type, bool maximum, const Objects &objects)
{
    /* enum mlx5_cap_type of linux/mlx5/device.h */
    enum CapabilityType : unsigned { kTypeGeneral = 0, kTypeEthernet = 1, kTypeFlowTable = 7 };

    switch (type) {
    case kTypeGeneral:
        Fill(page, kGeneral, maximum);
        if (!maximum && objects.command_signatures)
            CX_SET(page, cmd_hca_cap, cmdif_checksum, 3);
        return true;
    case kTypeEthernet:
        Fill(page, kEthernet, maximum);
        return true;
    case kTypeFlowTable:
        Fill(page, kFlowTable, maximum);
        return true;
    default:
        return false;
    }
}

const MatchBytes &SupportedMatch()
{
    static const MatchBytes mask = [] {
        MatchBytes bytes = {};

        for (const Field &field : kMatchFields)
            for (std::size_t bit = field.at; bit < field.at + field.bits; bit++)
                bytes[bit / 8] = static_cast<std::uint8_t>(bytes[bit / 8] | 0x80U >> (bit % 8));
        return bytes;
    }();

    return mask;
}

} // namespace cx
