// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The receive path of a WRITE: its stages one by one, and all that a packet passes. */
#include "operations.hpp"
#include "packets.hpp"
#include "receive.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>

namespace micro {

namespace {

using rocev2::wire::Bytes;
using rocev2::wire::Packet;

/* where in its region the packets write */
constexpr std::size_t kOffset = 64;
constexpr std::uint16_t kVlan = 7;

/* A receiver and the packet that comes to it. */
struct Case {
    std::string name;
    Packet packet;
    std::shared_ptr<receiver> to;
};

Case MakeCase(const std::string &name, bool ipv6, std::uint16_t vlan, std::size_t payload)
{
    Case made{name, WritePacket(ipv6, payload, RECEIVER_IOVA + kOffset, receiver_key(5)), nullptr};

    if (vlan != 0)
        made.packet.vlan = vlan;
    const Bytes bytes = IpPacket(made.packet);
    /* the stack has taken the tag off */
    made.to.reset(receiver_new(bytes.data(), bytes.size(), vlan), receiver_free);
    if (!made.to)
        throw std::runtime_error(fmt::format("the packet of {} is not taken", name));
    return made;
}

void AddStagesOf(Operations &operations, const Case &c)
{
    const auto name = [&c](const char *stage) { return fmt::format("{}/{}", stage, c.name); };
    const std::size_t payload = c.packet.payload.size();

    operations.Add(
        name("is_ours"), [to = c.to] { return receive_is_ours(to.get()); }, Is(true));
    operations.Add(
        name("parse"), [to = c.to] { return receive_parse(to.get()); },
        [to = c.to, payload](bool taken) {
            return taken && receive_payload_len(to.get()) == payload && receive_psn(to.get()) == kPsn;
        });
    operations.Add(
        name("check_qp"), [to = c.to] { return receive_check_qp(to.get()); }, Is(true));
}

void AddPath(Operations &operations, const Case &c)
{
    const Bytes payload = c.packet.payload;

    operations.Add(
        fmt::format("receive/{}/{}", c.name, payload.size()), [to = c.to] { return receive_packet(to.get()); },
        [to = c.to, payload](std::uint32_t taken) {
            return taken == payload.size() &&
                   std::memcmp(receive_memory(to.get(), kOffset), payload.data(), payload.size()) == 0;
        },
        payload.size());
}

} // namespace

void AddStages(Operations &operations)
{
    const Case ipv4 = MakeCase("ipv4", false, 0, 64);

    AddStagesOf(operations, ipv4);
    AddStagesOf(operations, MakeCase("ipv6", true, 0, 64));
    AddStagesOf(operations, MakeCase("vlan", false, kVlan, 64));
    operations.Add(
        "check_psn", [to = ipv4.to] { return receive_check_psn(to.get()); }, Is(true));
    for (const std::size_t payload : {8U, 64U, 256U, 1024U, 4096U})
        AddPath(operations, MakeCase("ipv4", false, 0, payload));
    AddPath(operations, MakeCase("ipv6", true, 0, 4096));
    AddPath(operations, MakeCase("vlan", false, kVlan, 4096));
}

} // namespace micro
