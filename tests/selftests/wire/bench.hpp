// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What the cases of wire_drops share: the device and the cable, and per case a fresh QP whose far
// end is this program. wire_drops.cpp has the header fields one by one, responder.cpp the requests
// that reach the transport, requester.cpp the answers to what the device asks, path.cpp the headers below, superpacket.cpp
// several packets as one.
#pragma once

#include "common/memory.hpp"
#include "common/verbs.hpp"
#include "wire/peer.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

namespace rocev2::wire {

using namespace rocev2::test;
using std::chrono::milliseconds;

inline constexpr std::uint32_t peer_qpn = 0x654321;
inline constexpr std::uint32_t mtu = 1024;
inline constexpr std::uint8_t poison = 0xa5;
// both wrap within a case that moves a few packets
inline constexpr std::uint32_t request_psn = 0xfffffe;  // first the peer sends
inline constexpr std::uint32_t device_psn = 0xffffff;   // first the device sends
inline constexpr std::uint8_t min_rnr_timer = 12;

inline constexpr std::size_t buffer_size = 64 * 1024;
inline constexpr std::size_t window_at = 4096 + 64;
inline constexpr std::size_t window_size = 16 * 1024;

inline std::uint32_t psn_add(std::uint32_t psn, std::uint32_t n)
{
    return (psn + n) & 0xffffff;
}

inline Bytes pattern(std::size_t size, unsigned seed = 1)
{
    std::mt19937 random(seed);
    Bytes out(size);
    for (auto &b : out)
        b = static_cast<std::uint8_t>(random() | 1);
    return out;
}

using Moves = std::map<std::string, std::uint64_t>;

inline std::string text(const Moves &moves)
{
    std::string out;
    for (const auto &[name, by] : moves)
        out += fmt::format(" {}+{}", name, by);
    return out.empty() ? " none" : out;
}

// What all cases share: the device, the cable, and the addresses of a family.
struct Bed {
    Side side;
    std::unique_ptr<Peer> peer;
    std::unique_ptr<Counters> counters;
    Mac device_mac{};
    std::map<GidKind, Address> peer_address;
    std::map<GidKind, std::uint8_t> gid_index;
    std::map<GidKind, Address> device_address;
    std::optional<std::uint16_t> vlan; // of the addresses above

    // The same cable as a VLAN, which is IPv4 only.
    struct Vlan {
        std::uint16_t id;
        Address peer_address;
        Address device_address;
        std::uint8_t gid_index;
    };
    std::optional<Vlan> other_vlan;
};

struct Region {
    Buffer buffer{buffer_size};
    Mr mr;

    explicit Region(const Side &side, int access)
    {
        std::memset(buffer.data(), poison, buffer_size);
        mr = make_mr(side, window(), access);
    }
    std::span<std::byte> window() const { return buffer.span(window_at, window_size); }
    std::uint8_t *bytes() const { return reinterpret_cast<std::uint8_t *>(window().data()); }
    std::uint64_t va() const { return reinterpret_cast<std::uint64_t>(window().data()); }

    bool untouched() const
    {
        const auto *all = reinterpret_cast<const std::uint8_t *>(buffer.data());
        return std::all_of(all, all + buffer_size, [](std::uint8_t b) { return b == poison; });
    }
    bool holds(std::size_t at, const Bytes &data) const
    {
        return std::equal(data.begin(), data.end(), bytes() + at);
    }
};

struct Setup {
    ibv_qp_state state = IBV_QPS_RTS;
    int qp_access = all_access;
    std::uint8_t max_dest_rd_atomic = 4;
    std::uint8_t max_rd_atomic = 4;
    std::uint8_t timeout = 0; // off: nothing comes back unasked
    std::uint8_t retry_cnt = 7;
    std::uint8_t rnr_retry = 7;
    std::uint8_t traffic_class = 0;
    std::uint32_t flow_label = 0;
    std::uint8_t sl = 0;
    int recv_cq_entries = 128;
};

// A fresh QP, connected to the peer, and its memory.
class Bench {
public:
    Bench(Bed &bed, GidKind kind, const Setup &setup)
        : bed_(bed), kind_(kind), memory(bed.side, all_access), cq(make_cq(bed.side, 128)),
          recv_cq(make_cq(bed.side, setup.recv_cq_entries)),
          qp(make_qp(bed.side, cq.get(), recv_cq.get(), {.send_wr = 32, .recv_wr = 32, .send_sge = 2,
                                                         .recv_sge = 2, .inline_data = 64}))
    {
        Link link;
        link.mtu = IBV_MTU_1024;
        link.qp_access = setup.qp_access;
        link.timeout = setup.timeout;
        link.retry_cnt = setup.retry_cnt;
        link.rnr_retry = setup.rnr_retry;
        link.min_rnr_timer = min_rnr_timer;
        link.max_dest_rd_atomic = setup.max_dest_rd_atomic;
        link.max_rd_atomic = setup.max_rd_atomic;
        bed_.side.gid_index = bed_.gid_index.at(kind);
        if (setup.state >= IBV_QPS_INIT)
            must_modify(qp.get(), init_step(bed_.side, link), "to INIT");
        if (setup.state >= IBV_QPS_RTR) {
            ibv_gid gid;
            std::memcpy(gid.raw, bed_.peer_address.at(kind).data(), 16);
            Modify rtr = rtr_step(bed_.side, link, peer_qpn, gid, request_psn);
            rtr.attr.ah_attr.sl = setup.sl;
            rtr.attr.ah_attr.grh.traffic_class = setup.traffic_class;
            rtr.attr.ah_attr.grh.flow_label = setup.flow_label;
            must_modify(qp.get(), rtr, "to RTR");
        }
        if (setup.state >= IBV_QPS_RTS)
            must_modify(qp.get(), rts_step(link, device_psn), "to RTS");
        if (setup.state == IBV_QPS_ERR)
            must_modify(qp.get(), state_step(IBV_QPS_ERR), "to ERR");
        drain_events(bed_.side.context.get());
        before_ = bed_.counters->read();
        // an answer of the QP before, which was under way
        bed_.peer->drain();
    }

    // A packet to the QP with all that is right but opcode, headers and payload.
    Packet packet(std::uint8_t opcode, Bytes extended = {}, Bytes payload = {}) const
    {
        Packet p;
        p.dmac = bed_.device_mac;
        p.vlan = bed_.vlan;
        p.smac = bed_.peer->mac();
        p.ipv6 = kind_ != GidKind::ipv4;
        p.source = bed_.peer_address.at(kind_);
        p.destination = bed_.device_address.at(kind_);
        p.opcode = opcode;
        p.qpn = qp->qp_num;
        p.psn = expected;
        p.extended = std::move(extended);
        p.payload = std::move(payload);
        return p;
    }

    Packet write(std::size_t size = 64, std::size_t at = 0) const
    {
        return packet(write_only,
                      reth(memory.va() + at, memory.mr->rkey, static_cast<std::uint32_t>(size)),
                      pattern(size));
    }

    Packet ack(std::uint32_t psn, std::uint8_t syndrome = 0x1f, std::uint32_t msn = 1) const
    {
        Packet p = packet(acknowledge, aeth(syndrome, msn));
        p.psn = psn;
        p.ackreq = false;
        return p;
    }

    void send(const Packet &p) const { bed_.peer->send(p.frame()); }
    void send(const Bytes &frame) const { bed_.peer->send(frame); }

    std::optional<Decoded> maybe_receive(milliseconds limit = milliseconds(30)) const
    {
        auto got = bed_.peer->receive(bed_.device_mac, limit);
        if (got) {
            require(got->qpn == peer_qpn, "sent to the wrong QP: {}", got->text());
            require(got->pkey == 0xffff, "sent with the wrong P_Key: {}", got->text());
            require(got->source == bed_.device_address.at(kind_) &&
                        got->destination == bed_.peer_address.at(kind_) &&
                        got->dmac == bed_.peer->mac(),
                    "sent between the wrong addresses: {}", got->text());
        }
        return got;
    }

    Decoded receive(const char *what, milliseconds limit = milliseconds(2000)) const
    {
        auto got = maybe_receive(limit);
        require(got.has_value(), "no packet from the device, expected {}", what);
        return *got;
    }

    void expect_silence(const char *after, milliseconds limit = milliseconds(15)) const
    {
        const auto got = maybe_receive(limit);
        require(!got, "after {} the device sent {}", after, got ? got->text() : "");
    }

    // An acknowledge packet with this kind of syndrome; credits of an ACK are its own business.
    void expect_answer(std::uint8_t syndrome, std::uint32_t psn) const
    {
        const Decoded got = receive(fmt::format("syndrome {:#04x}", syndrome).c_str());
        require(got.opcode == acknowledge, "expected an acknowledge, not {}", got.text());
        const bool same = (syndrome & 0x60) ? got.syndrome() == syndrome : got.syndrome() < 0x20;
        require(same && got.psn == psn, "expected syndrome {:#04x} psn {:#x}, not {}", syndrome, psn,
                got.text());
    }
    void expect_ack(std::uint32_t psn) const { expect_answer(0, psn); }

    // A good WRITE must be taken: whatever came before left no trace.
    void expect_alive()
    {
        Packet p = write(64, 8192);
        send(p);
        expect_ack(expected);
        expected = psn_add(expected, 1);
        require(memory.holds(8192, p.payload), "a good WRITE was acknowledged but not placed");
        std::memset(memory.bytes() + 8192, poison, 64);
    }

    // Exactly these counters moved since the case began, or since the last call.
    void expect_counters(const Moves &wanted)
    {
        Moves got;
        std::map<std::string, std::uint64_t> now;
        // counted in the softirq of the frame; on another CPU that may take a moment
        wait_until(milliseconds(200), [&] {
            now = bed_.counters->read();
            got.clear();
            for (const auto &[name, value] : now)
                if (value != before_[name])
                    got[name] = value - before_[name];
            return got == wanted;
        });
        require(got == wanted, "counters:{}; expected:{}", text(got), text(wanted));
        before_ = now;
    }

    void expect_event(std::optional<ibv_event_type> type) const
    {
        const auto got = next_event(bed_.side.context.get(), milliseconds(type ? 1000 : 0));
        if (!type) {
            require(!got, "unexpected event \"{}\"", got ? ibv_event_type_str(got->type) : "");
            return;
        }
        require(got && got->type == *type, "event \"{}\", expected \"{}\"",
                got ? ibv_event_type_str(got->type) : "none", ibv_event_type_str(*type));
        require(got->element == qp.get(), "the event is for another object");
    }

    void expect_state(ibv_qp_state state) const
    {
        require(wait_until(milliseconds(500), [&] { return query_state(qp.get()) == state; }),
                "QP state is {}, expected {}", static_cast<int>(query_state(qp.get())),
                static_cast<int>(state));
    }

    void expect_wc(ibv_cq *from, ibv_wc_status status, std::uint64_t id) const
    {
        check_wc(must_poll(from, "completion", milliseconds(2000)), status, id, qp.get(),
                 "completion");
    }

    void post_receive(std::uint64_t id, std::size_t at, std::uint32_t size,
                      std::optional<std::uint32_t> lkey = {}) const
    {
        ibv_sge sge{memory.va() + at, size, lkey.value_or(memory.mr->lkey)};
        post_recv(qp.get(), id, {&sge, 1});
    }

    void post(std::uint64_t id, ibv_wr_opcode opcode, std::size_t at, std::uint32_t size,
              unsigned flags = IBV_SEND_SIGNALED) const
    {
        ibv_sge sge{memory.va() + at, size, memory.mr->lkey};
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = flags;
        wr.imm_data = htonl(0x01020304);
        if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
            wr.wr.atomic.remote_addr = 0x1000;
            wr.wr.atomic.rkey = 0x77;
            wr.wr.atomic.compare_add = 5;
            wr.wr.atomic.swap = 6;
        } else {
            wr.wr.rdma.remote_addr = 0x1000;
            wr.wr.rdma.rkey = 0x77;
        }
        post_send(qp.get(), wr);
    }

    Bed &bed() const { return bed_; }
    GidKind kind() const { return kind_; }

private:
    Bed &bed_;
    GidKind kind_;

public:
    Region memory;
    Cq cq;
    Cq recv_cq;
    Qp qp;
    // further memory of a case; goes away with it, regions before their PD
    Pd other_pd;
    std::vector<std::unique_ptr<Region>> other_regions;
    Mr other_mr;
    std::uint32_t expected = request_psn; // next request PSN the device expects

private:
    std::map<std::string, std::uint64_t> before_;
};

inline constexpr std::uint8_t nak_sequence = 0x60;
inline constexpr std::uint8_t nak_invalid = 0x61;
inline constexpr std::uint8_t nak_access = 0x62;
inline constexpr std::uint8_t nak_operational = 0x63;

// Adds cases that take a bed and a family, under names that begin with the family.
template <typename Run>
void add_case(Ktap &ktap, Bed &bed, GidKind kind, const std::string &name, Run run)
{
    ktap.add(fmt::format("{}:{}", to_string(kind), name),
             [&bed, kind, run] { run(bed, kind); });
}

void add_responder_cases(Ktap &ktap, Bed &bed, GidKind kind);
void add_requester_cases(Ktap &ktap, Bed &bed, GidKind kind);
void add_path_cases(Ktap &ktap, Bed &bed, GidKind kind);
void add_superpacket_cases(Ktap &ktap, Bed &bed, GidKind kind, std::uint64_t seed);
// that the stack lets through from a tap device only
void add_untrue_superpacket_cases(Ktap &ktap, Bed &bed, GidKind kind);

} // namespace rocev2::wire
