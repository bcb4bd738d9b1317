// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on the function's vport: its context, state and counters. */
#include "command_call.hpp"

namespace cx::commands {
namespace {

/** nic_vport_context.allowed_list_type. */
enum ListType : unsigned { kUnicast = 0, kMulticast = 1, kVlan = 2 };

constexpr unsigned kMinMtu = 68;
constexpr unsigned kMaxMtu = 9978;
/* states of a vport, as the commands have them */
enum VportState : unsigned { kDown = 0, kUp = 1, kAuto = 2 }; /* automatic: as the port is */

constexpr Field kListEntry = { 0, 64 };

std::uint64_t ToNumber(const std::array<std::uint8_t, 6> &mac)
{
    std::uint64_t number = 0;

    for (const std::uint8_t byte : mac)
        number = number << 8 | byte;
    return number;
}

std::array<std::uint8_t, 6> ToMac(std::uint64_t number)
{
    std::array<std::uint8_t, 6> mac = {};

    for (std::size_t at = mac.size(); at-- != 0; number >>= 8)
        mac[at] = static_cast<std::uint8_t>(number);
    return mac;
}

/** EUI-64 of the MAC address. */
std::uint64_t ToGuid(const std::array<std::uint8_t, 6> &mac)
{
    const std::uint64_t number = ToNumber(mac);

    return (number >> 24) << 40 | 0xfffeULL << 24 | (number & 0xffffff);
}

/** The list at the end of the vport's context. */
bool ReadList(Call &call, std::span<const std::byte> context, Vport &vport)
{
    const auto type = CX_GET(context, nic_vport_context, allowed_list_type);
    const auto size = CX_GET(context, nic_vport_context, allowed_list_size);
    constexpr std::size_t kList = CX_AT(nic_vport_context, current_uc_mac_address);

    if (type > kVlan)
        return call.Refuse(Status::kBadParameter, "allowed_list_type {}", type);
    if (size > 1U << (type == kVlan ? kLogMaxVlanList : kLogMaxAddressList))
        return call.Refuse(Status::kLimit, "allowed_list_size {}", size);
    if (context.size() < kList + size * 8)
        return call.Refuse(Status::kBadInputLength, "input ends before entry {} of the list", size - 1);

    std::vector<std::array<std::uint8_t, 6>> addresses;
    std::vector<std::uint16_t> vlans;

    for (std::size_t index = 0; index < size; index++) {
        const auto entry = context.subspan(kList + index * 8, 8);

        if (type == kVlan)
            vlans.push_back(static_cast<std::uint16_t>(CX_GET(entry, vlan_layout, vlan)));
        else
            addresses.push_back(ToMac(GetField(entry, kListEntry)));
    }
    if (type == kVlan)
        vport.vlans = std::move(vlans);
    else
        (type == kUnicast ? vport.unicast : vport.multicast) = std::move(addresses);
    return true;
}

std::size_t ListSize(const Vport &vport, unsigned type)
{
    return type == kVlan ? vport.vlans.size() : type == kUnicast ? vport.unicast.size() : vport.multicast.size();
}

} // namespace

bool QueryVportState(Call &call)
{
    if (call.op_mod != ifc::MLX5_VPORT_STATE_OP_MOD_VNIC_VPORT && call.op_mod != ifc::MLX5_VPORT_STATE_OP_MOD_UPLINK)
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);
    CX_OUT(call, query_vport_state_out, admin_state, call.objects.admin_up ? kUp : kDown);
    CX_OUT(call, query_vport_state_out, state, call.objects.link_up && call.objects.admin_up ? kUp : kDown);
    call.Say("{}", call.objects.link_up && call.objects.admin_up ? "up" : "down");
    return true;
}

bool QueryNicVportContext(Call &call)
{
    const Vport &vport = call.objects.vport;
    const std::uint32_t type = CX_IN(call, query_nic_vport_context_in, allowed_list_type);
    const auto context = Rest(call.out, CX_FIELD(query_nic_vport_context_out, nic_vport_context));
    constexpr std::size_t kList = CX_AT(nic_vport_context, current_uc_mac_address);

    if (type > kVlan)
        return call.Refuse(Status::kBadParameter, "allowed_list_type {}", type);

    const std::size_t size = ListSize(vport, type);
    const std::size_t room = context.size() > kList ? (context.size() - kList) / 8 : 0;
    const std::uint64_t mac = ToNumber(vport.permanent_mac);

    CX_SET(context, nic_vport_context, disable_mc_local_lb, vport.disable_local_multicast);
    CX_SET(context, nic_vport_context, disable_uc_local_lb, vport.disable_local_unicast);
    CX_SET(context, nic_vport_context, roce_en, vport.roce_enabled);
    CX_SET(context, nic_vport_context, mtu, vport.mtu);
    CX_SET(context, nic_vport_context, system_image_guid, ToGuid(vport.permanent_mac));
    CX_SET(context, nic_vport_context, port_guid, ToGuid(vport.permanent_mac));
    CX_SET(context, nic_vport_context, node_guid, ToGuid(vport.permanent_mac));
    CX_SET(context, nic_vport_context, promisc_uc, vport.promiscuous_unicast);
    CX_SET(context, nic_vport_context, promisc_mc, vport.promiscuous_multicast);
    CX_SET(context, nic_vport_context, promisc_all, vport.promiscuous_all);
    CX_SET(context, nic_vport_context, allowed_list_type, type);
    CX_SET(context, nic_vport_context, allowed_list_size, size < room ? size : room);
    CX_SET(context, nic_vport_context, permanent_address.mac_addr_47_32, mac >> 32);
    CX_SET(context, nic_vport_context, permanent_address.mac_addr_31_0, mac & 0xffffffff);
    for (std::size_t index = 0; index < size && index < room; index++) {
        const auto entry = context.subspan(kList + index * 8, 8);

        if (type == kVlan)
            CX_SET(entry, vlan_layout, vlan, vport.vlans[index]);
        else
            SetField(entry, kListEntry, ToNumber((type == kUnicast ? vport.unicast : vport.multicast)[index]));
    }
    call.Say("list {}", type);
    return true;
}

bool ModifyNicVportContext(Call &call)
{
    const auto context = Rest(call.in, CX_FIELD(modify_nic_vport_context_in, nic_vport_context));
    Vport vport = call.objects.vport;
    const auto selected = [&](Field field) { return GetField(call.in, field) != 0; };

    if (selected(CX_FIELD(modify_nic_vport_context_in, field_select.disable_uc_local_lb)))
        vport.disable_local_unicast = CX_GET(context, nic_vport_context, disable_uc_local_lb) != 0;
    if (selected(CX_FIELD(modify_nic_vport_context_in, field_select.disable_mc_local_lb)))
        vport.disable_local_multicast = CX_GET(context, nic_vport_context, disable_mc_local_lb) != 0;
    if (selected(CX_FIELD(modify_nic_vport_context_in, field_select.mtu))) {
        vport.mtu = static_cast<unsigned>(CX_GET(context, nic_vport_context, mtu));
        if (vport.mtu < kMinMtu || vport.mtu > kMaxMtu)
            return call.Refuse(Status::kBadParameter, "mtu {}", vport.mtu);
    }
    if (selected(CX_FIELD(modify_nic_vport_context_in, field_select.promisc))) {
        vport.promiscuous_unicast = CX_GET(context, nic_vport_context, promisc_uc) != 0;
        vport.promiscuous_multicast = CX_GET(context, nic_vport_context, promisc_mc) != 0;
        vport.promiscuous_all = CX_GET(context, nic_vport_context, promisc_all) != 0;
    }
    if (selected(CX_FIELD(modify_nic_vport_context_in, field_select.permanent_address)))
        vport.permanent_mac =
                ToMac(CX_GET(context, nic_vport_context, permanent_address.mac_addr_47_32) << 32 |
                      CX_GET(context, nic_vport_context, permanent_address.mac_addr_31_0));
    if (selected(CX_FIELD(modify_nic_vport_context_in, field_select.roce_en))) {
        if (CX_GET(context, nic_vport_context, roce_en) != 0)
            return call.Refuse(Status::kBadParameter, "roce_en, but the card has no RoCE");
        vport.roce_enabled = false;
    }
    if (selected(CX_FIELD(modify_nic_vport_context_in, field_select.addresses_list)) &&
        !ReadList(call, context, vport))
        return false;
    call.objects.vport = std::move(vport);
    call.Say("fields {:#x}", GetField(call.in, CX_FIELD(modify_nic_vport_context_in, field_select)));
    return true;
}

/** Octets are not kept by class of address: those of unicast have all. */
bool QueryVportCounter(Call &call)
{
    PortCounters &port = call.objects.port;
    const auto unicast = [](std::uint64_t all, std::uint64_t multicast, std::uint64_t broadcast) {
        return all - multicast - broadcast;
    };

    CX_OUT(call, query_vport_counter_out, received_eth_unicast.packets,
           unicast(port.rx_packets, port.rx_multicast, port.rx_broadcast));
    CX_OUT(call, query_vport_counter_out, received_eth_unicast.octets, port.rx_bytes);
    CX_OUT(call, query_vport_counter_out, received_eth_multicast.packets, port.rx_multicast);
    CX_OUT(call, query_vport_counter_out, received_eth_broadcast.packets, port.rx_broadcast);
    CX_OUT(call, query_vport_counter_out, transmitted_eth_unicast.packets,
           unicast(port.tx_packets, port.tx_multicast, port.tx_broadcast));
    CX_OUT(call, query_vport_counter_out, transmitted_eth_unicast.octets, port.tx_bytes);
    CX_OUT(call, query_vport_counter_out, transmitted_eth_multicast.packets, port.tx_multicast);
    CX_OUT(call, query_vport_counter_out, transmitted_eth_broadcast.packets, port.tx_broadcast);
    if (CX_IN(call, query_vport_counter_in, clear) != 0)
        port = {};
    return true;
}

bool QueryVnicEnv(Call &call)
{
    if (call.op_mod != ifc::MLX5_QUERY_VNIC_ENV_IN_OP_MOD_VPORT_DIAG_STATISTICS)
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);
    CX_OUT(call, query_vnic_env_out, vport_env.nic_receive_steering_discard, call.objects.port.rx_steering_drops);
    CX_OUT(call, query_vnic_env_out, vport_env.receive_discard_vport_down, call.objects.port.rx_link_down);
    CX_OUT(call, query_vnic_env_out, vport_env.invalid_command, call.trace.complaints());
    return true;
}

bool ModifyVportState(Call &call)
{
    const std::uint32_t state = CX_IN(call, modify_vport_state_in, admin_state);
    const bool up = state != kDown;

    if (call.op_mod != ifc::MLX5_VPORT_STATE_OP_MOD_VNIC_VPORT && call.op_mod != ifc::MLX5_VPORT_STATE_OP_MOD_UPLINK)
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);
    if (state > kAuto)
        return call.Refuse(Status::kBadParameter, "admin_state {}", state);
    if (up != call.objects.admin_up) {
        call.objects.admin_up = up;
        if (call.objects.link_up)
            call.data_path.PostPortEvent(up);
    }
    call.Say("{}", up ? "up" : "down");
    return true;
}

} // namespace cx::commands
