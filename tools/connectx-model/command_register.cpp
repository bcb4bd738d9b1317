// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ACCESS_REG: registers of the port. */
#include "command_call.hpp"

namespace cx::commands {
namespace {

/* MLX5_REG_* of linux/mlx5/driver.h. */
enum Register : std::uint32_t {
    kPmlp = 0x5002,
    kPmtu = 0x5003,
    kPtys = 0x5004,
    kPaos = 0x5006,
    kPfcc = 0x5007,
    kPpcnt = 0x5008,
    kHostEndianness = 0x7004,
};

constexpr unsigned kAdminUp = 1; /* paos_reg.admin_status and oper_status: up, down by configuration */
constexpr unsigned kAdminDown = 2;
constexpr unsigned kEthernet = 4;              /* ptys_reg.proto_mask */
constexpr std::uint32_t k100GBaseCr4 = 1U << 20; /* eth_proto_*: MLX5E_100GBASE_CR4 of linux/mlx5/port.h */
constexpr unsigned kPort = 1;
/* Largest frame with header and FCS. */
constexpr unsigned kMaxPortMtu = 10000;

/** One access: what the driver gave, and what it gets. */
struct Access {
    Call &call;
    std::span<const std::byte> in;
    std::span<std::byte> out;
    bool write;
};

#define REG_IN(type, field) static_cast<std::uint32_t>(CX_GET(access.in, type, field))
#define REG_OUT(type, field, value) CX_SET(access.out, type, field, value)

bool CheckPort(Access &access, std::uint32_t port)
{
    if (port != kPort)
        return access.call.Refuse(Status::kBadParameter, "local_port {}", port);
    return true;
}

bool Paos(Access &access)
{
    Objects &objects = access.call.objects;

    if (!CheckPort(access, REG_IN(paos_reg, local_port)))
        return false;
    if (access.write && REG_IN(paos_reg, ase) != 0) {
        const std::uint32_t status = REG_IN(paos_reg, admin_status);
        const bool up = status == kAdminUp;

        if (status != kAdminUp && status != kAdminDown)
            return access.call.Refuse(Status::kBadParameter, "PAOS admin_status {}", status);
        if (up != objects.admin_up) {
            objects.admin_up = up;
            if (objects.link_up)
                access.call.data_path.PostPortEvent(up);
        }
    }
    REG_OUT(paos_reg, local_port, kPort);
    REG_OUT(paos_reg, admin_status, objects.admin_up ? kAdminUp : kAdminDown);
    REG_OUT(paos_reg, oper_status, objects.admin_up && objects.link_up ? kAdminUp : kAdminDown);
    return true;
}

bool Pmtu(Access &access)
{
    Objects &objects = access.call.objects;

    if (!CheckPort(access, REG_IN(pmtu_reg, local_port)))
        return false;
    if (access.write) {
        const std::uint32_t mtu = REG_IN(pmtu_reg, admin_mtu);

        if (mtu == 0 || mtu > kMaxPortMtu)
            return access.call.Refuse(Status::kBadParameter, "PMTU admin_mtu {}", mtu);
        objects.port_mtu = mtu;
    }
    REG_OUT(pmtu_reg, local_port, kPort);
    REG_OUT(pmtu_reg, max_mtu, kMaxPortMtu);
    REG_OUT(pmtu_reg, admin_mtu, objects.port_mtu);
    REG_OUT(pmtu_reg, oper_mtu, objects.port_mtu);
    return true;
}

bool Ptys(Access &access)
{
    const Objects &objects = access.call.objects;

    if (!CheckPort(access, REG_IN(ptys_reg, local_port)))
        return false;
    REG_OUT(ptys_reg, local_port, kPort);
    REG_OUT(ptys_reg, proto_mask, REG_IN(ptys_reg, proto_mask));
    if ((REG_IN(ptys_reg, proto_mask) & kEthernet) == 0)
        return true; /* of other protocols there is nothing */
    if (access.write && REG_IN(ptys_reg, eth_proto_admin) != k100GBaseCr4)
        return access.call.Refuse(Status::kBadParameter, "PTYS eth_proto_admin {:#x}",
                                  REG_IN(ptys_reg, eth_proto_admin));
    REG_OUT(ptys_reg, eth_proto_capability, k100GBaseCr4);
    REG_OUT(ptys_reg, eth_proto_admin, k100GBaseCr4);
    REG_OUT(ptys_reg, eth_proto_oper, objects.link_up && objects.admin_up ? k100GBaseCr4 : 0);
    return true;
}

/** Counters of 64 bits are pairs of <name>_high and <name>_low, one after the other. */
void SetCounter(std::span<std::byte> into, Field high, std::uint64_t value)
{
    SetField(into, { high.at, 64 }, value);
}

#define COUNTER(layout, name, value) SetCounter(set, CX_FIELD(eth_##layout##_cntrs_grp_data_layout, name##_high), value)

/** Groups of counters other than those the card counts in are all zero. */
bool Ppcnt(Access &access)
{
    enum Group : std::uint32_t { kIeee8023 = 0x0, kRfc2863 = 0x1, kRfc2819 = 0x2 };
    PortCounters &port = access.call.objects.port;
    const std::uint32_t group = REG_IN(ppcnt_reg, grp);
    const auto set = CX_PART(access.out, ppcnt_reg, counter_set);

    if (!CheckPort(access, REG_IN(ppcnt_reg, local_port)))
        return false;
    REG_OUT(ppcnt_reg, local_port, kPort);
    REG_OUT(ppcnt_reg, grp, group);
    REG_OUT(ppcnt_reg, prio_tc, REG_IN(ppcnt_reg, prio_tc));
    if (group == kIeee8023) {
        COUNTER(802_3, a_frames_transmitted_ok, port.tx_packets);
        COUNTER(802_3, a_frames_received_ok, port.rx_packets);
        COUNTER(802_3, a_octets_transmitted_ok, port.tx_bytes);
        COUNTER(802_3, a_octets_received_ok, port.rx_bytes);
        COUNTER(802_3, a_multicast_frames_xmitted_ok, port.tx_multicast);
        COUNTER(802_3, a_broadcast_frames_xmitted_ok, port.tx_broadcast);
        COUNTER(802_3, a_multicast_frames_received_ok, port.rx_multicast);
        COUNTER(802_3, a_broadcast_frames_received_ok, port.rx_broadcast);
        COUNTER(802_3, a_frame_too_long_errors, port.rx_oversize);
    } else if (group == kRfc2863) {
        COUNTER(2863, if_in_octets, port.rx_bytes);
        COUNTER(2863, if_in_ucast_pkts, port.rx_packets - port.rx_multicast - port.rx_broadcast);
        COUNTER(2863, if_in_discards, port.rx_steering_drops);
        COUNTER(2863, if_in_multicast_pkts, port.rx_multicast);
        COUNTER(2863, if_in_broadcast_pkts, port.rx_broadcast);
        COUNTER(2863, if_out_octets, port.tx_bytes);
        COUNTER(2863, if_out_ucast_pkts, port.tx_packets - port.tx_multicast - port.tx_broadcast);
        COUNTER(2863, if_out_multicast_pkts, port.tx_multicast);
        COUNTER(2863, if_out_broadcast_pkts, port.tx_broadcast);
    } else if (group == kRfc2819) {
        COUNTER(2819, ether_stats_octets, port.rx_bytes);
        COUNTER(2819, ether_stats_pkts, port.rx_packets);
        COUNTER(2819, ether_stats_broadcast_pkts, port.rx_broadcast);
        COUNTER(2819, ether_stats_multicast_pkts, port.rx_multicast);
        COUNTER(2819, ether_stats_oversize_pkts, port.rx_oversize);
    }
    if (REG_IN(ppcnt_reg, clr) != 0)
        port = {};
    return true;
}

/** No cage: the port's four lanes are on module 0. */
bool Pmlp(Access &access)
{
    constexpr unsigned kLanes = 4;

    if (!CheckPort(access, REG_IN(pmlp_reg, local_port)))
        return false;
    if (access.write)
        return access.call.Refuse(Status::kBadParameter, "PMLP is written");
    REG_OUT(pmlp_reg, local_port, kPort);
    REG_OUT(pmlp_reg, width, kLanes);
    return true;
}

/** Flow control is off, and stays off. */
bool Pfcc(Access &access)
{
    if (!CheckPort(access, REG_IN(pfcc_reg, local_port)))
        return false;
    if (access.write && (REG_IN(pfcc_reg, pptx) != 0 || REG_IN(pfcc_reg, pprx) != 0))
        return access.call.Refuse(Status::kBadParameter, "PFCC: the card sends no pause frames");
    REG_OUT(pfcc_reg, local_port, kPort);
    return true;
}

/**
 * 0: little-endian host, 0x80: big-endian, in the first byte; the rest is reserved. Registers are big-endian in any
 * case.
 */
bool HostEndianness(Access &access)
{
    const std::uint64_t value = GetField(access.in, { 0, 8 });

    if (access.write && value != 0 && value != 0x80)
        return access.call.Refuse(Status::kBadParameter, "HOST_ENDIANNESS {:#x}", value);
    return true;
}

struct RegisterRow {
    std::uint32_t number;
    std::string_view name;
    std::size_t size;
    bool (*handler)(Access &access);
};

constexpr RegisterRow kRegisters[] = {
    { kPmlp, "PMLP", CX_SIZE(pmlp_reg), Pmlp },
    { kPmtu, "PMTU", CX_SIZE(pmtu_reg), Pmtu },
    { kPtys, "PTYS", CX_SIZE(ptys_reg), Ptys },
    { kPaos, "PAOS", CX_SIZE(paos_reg), Paos },
    { kPfcc, "PFCC", CX_SIZE(pfcc_reg), Pfcc },
    { kPpcnt, "PPCNT", CX_SIZE(ppcnt_reg), Ppcnt },
    { kHostEndianness, "HOST_ENDIANNESS", 16, HostEndianness },
};

} // namespace

bool AccessRegister(Call &call)
{
    const std::uint32_t number = CX_IN(call, access_register_in, register_id);

    if (call.op_mod != ifc::MLX5_ACCESS_REGISTER_IN_OP_MOD_WRITE &&
        call.op_mod != ifc::MLX5_ACCESS_REGISTER_IN_OP_MOD_READ)
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);
    for (const RegisterRow &row : kRegisters) {
        if (row.number != number)
            continue;

        Access access = { call, call.in.subspan(CX_AT(access_register_in, register_data)),
                          call.out.subspan(CX_AT(access_register_out, register_data)),
                          call.op_mod == ifc::MLX5_ACCESS_REGISTER_IN_OP_MOD_WRITE };

        if (access.in.size() < row.size)
            return call.Refuse(Status::kBadInputLength, "register {} has {} bytes, the input {}", row.name, row.size,
                               access.in.size());
        if (access.out.size() < row.size)
            return call.Refuse(Status::kBadOutputLength, "register {} has {} bytes, the output {}", row.name, row.size,
                               access.out.size());
        call.Say("{} {}", row.name, access.write ? "write" : "read");
        return row.handler(access);
    }
    return call.Refuse(Status::kBadParameter, "register {:#x}", number);
}

} // namespace cx::commands
