// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// UD and UC: datagrams with their network header, Q_Keys, address handles, multicast;
// messages that arrive whole or not at all.  What is dropped must be counted where it
// says, and nothing that arrives may harm the QP.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/unreliable.hpp"
#include "common/verbs.hpp"

#include <endian.h>

#include <cerrno>
#include <cstring>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

// "the one of the QP": any with the high bit
constexpr uint32_t qkey_of_qp = 0x80000000;

// One more than before, in time, and no more than one.
void counts_once(const Side &side, const std::string &name, uint64_t before)
{
    wait_until(milliseconds(2000), [&] { return hw_counter(side, name) != before; });
    require(hw_counter(side, name) == before + 1, "{} went from {} to {}, expected one more", name,
            before, hw_counter(side, name));
}

// The datagram ends, a buffer each, and the handle from A to B.
struct UdBed {
    Endpoint a;
    Endpoint b;
    Buffer memory_a{4 * page_size};
    Buffer memory_b{4 * page_size};
    Mr mr_a;
    Mr mr_b;
    Ah to_b;
    uint64_t next_id = 1;

    explicit UdBed(const Sides &sides)
        : a(make_ud(sides.a)), b(make_ud(sides.b)),
          mr_a(make_mr(sides.a, memory_a.span(), all_access)),
          mr_b(make_mr(sides.b, memory_b.span(), all_access)), to_b(make_ah(sides.a, sides.b.gid))
    {
    }

    ibv_send_wr wr(std::span<ibv_sge> sges) const
    {
        ibv_send_wr wr{};
        wr.wr_id = next_id;
        wr.sg_list = sges.data();
        wr.num_sge = static_cast<int>(sges.size());
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.ud.ah = to_b.get();
        wr.wr.ud.remote_qpn = b.qp->qp_num;
        wr.wr.ud.remote_qkey = qkey;
        return wr;
    }

    // Sends and takes the send completion.
    void send(ibv_send_wr &wr, ibv_wc_status status = IBV_WC_SUCCESS)
    {
        post_send(a.qp.get(), wr);
        check_wc(must_poll(a.send_cq.get(), "datagram"), status, wr.wr_id, a.qp.get(), "datagram");
        next_id++;
    }

    void send_bytes(size_t length)
    {
        std::array sges{sge_of(memory_a.span(0, length), mr_a.get())};
        ibv_send_wr one = wr(sges);
        send(one);
    }

    void receive(size_t length)
    {
        std::array sges{sge_of(memory_b.span(0, length), mr_b.get())};
        post_recv(b.qp.get(), next_id, sges);
    }

    // Proves that the receiver still works, in order.
    void must_work()
    {
        const size_t length = 77;
        fill_pattern(memory_a.span(0, length), next_id);
        receive(grh_bytes + length);
        const uint64_t id = next_id;
        send_bytes(length);
        const ibv_wc wc = must_poll(b.recv_cq.get(), "datagram received");
        require(wc.status == IBV_WC_SUCCESS, "received with status {}", ibv_wc_status_str(wc.status));
        require(wc.byte_len == grh_bytes + length, "byte_len {}", wc.byte_len);
        require(wc.wr_id <= id, "wr_id {}", wc.wr_id);
        require(!std::memcmp(memory_a.data(), memory_b.data() + grh_bytes, length),
                "datagram has wrong bytes");
    }
};

void check_grh(const std::byte *grh, const Side &from, const Side &to, uint32_t length, bool imm)
{
    const auto byte = [grh](size_t i) { return std::to_integer<unsigned>(grh[i]); };
    if (kind_of(from.gid) == GidKind::ipv4) {
        for (size_t i = 0; i < 20; i++)
            require(byte(i) == 0, "byte {} before the IPv4 header is {:#x}", i, byte(i));
        require(byte(20) == 0x45, "IPv4 version and header length {:#x}", byte(20));
        require(byte(21) == 0x28, "TOS {:#x}, expected the traffic class 0x28", byte(21));
        require(byte(28) != 0, "TTL 0");
        // IP + UDP + BTH + DETH + ImmDt + payload with pad + ICRC
        require(byte(22) * 256 + byte(23) ==
                    20 + 8 + 12 + 8 + (imm ? 4 : 0) + ((length + 3) & ~3u) + 4,
                "total length {}", byte(22) * 256 + byte(23));
        require(!std::memcmp(grh + 32, from.gid.raw + 12, 4), "wrong source address");
        require(!std::memcmp(grh + 36, to.gid.raw + 12, 4), "wrong destination address");
    } else {
        require(byte(0) == 0x62 && byte(1) == 0x80, "version and traffic class {:#x} {:#x}",
                byte(0), byte(1));
        require(byte(7) != 0, "hop limit 0");
        require(!std::memcmp(grh + 8, from.gid.raw, 16), "wrong source address");
        require(!std::memcmp(grh + 24, to.gid.raw, 16), "wrong destination address");
    }
}

// Every length around what matters, gathered and scattered at random, with the network
// header in front.
void ud_data(const Sides &sides, uint64_t seed, bool plain_qkeys)
{
    UdBed bed(sides);
    Rng rng(seed);
    const uint32_t mtu = mtu_bytes(common_mtu(sides));
    for (int i = 0; i < 200; i++) {
        const std::array<uint32_t, 6> edges{0, 1, 3, 4, mtu - 1, mtu};
        const uint32_t length = i < 12 ? edges[static_cast<size_t>(i) % 6] : rng.between(0u, mtu);
        const bool imm = rng.one_in(2);
        const bool inlined = length <= 128 && rng.one_in(2);
        note(fmt::format("{} bytes{}", length, inlined ? " inline" : ""));
        fill_pattern(bed.memory_a.span(), seed + static_cast<uint64_t>(i));
        std::memset(bed.memory_b.data(), 0x5a, bed.memory_b.size());

        const uint32_t cut = rng.between(0u, length);
        std::array sges{sge_of(bed.memory_a.span(0, cut), bed.mr_a.get()),
                        sge_of(bed.memory_a.span(cut, length - cut), bed.mr_a.get())};
        const uint32_t room = grh_bytes + length + rng.between(0u, 8u);
        const uint32_t place = rng.between(0u, 5u);
        // also within the network header
        const uint32_t split = rng.between(1u, room);
        std::array targets{sge_of(bed.memory_b.span(place, split), bed.mr_b.get()),
                           sge_of(bed.memory_b.span(place + split, room - split), bed.mr_b.get())};
        const uint64_t id = bed.next_id;
        post_recv(bed.b.qp.get(), id, targets);
        ibv_send_wr wr = bed.wr(sges);
        wr.opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        wr.imm_data = htobe32(0xc0ffee00u + static_cast<uint32_t>(i));
        wr.send_flags |= flag_if(inlined, IBV_SEND_INLINE);
        if (rng.one_in(2) && !plain_qkeys)
            wr.wr.ud.remote_qkey = qkey_of_qp;
        bed.send(wr);

        const ibv_wc wc = must_poll(bed.b.recv_cq.get(), "datagram received");
        check_wc(wc, IBV_WC_SUCCESS, id, bed.b.qp.get(), "datagram received");
        require(wc.byte_len == grh_bytes + length, "byte_len {} of {} bytes", wc.byte_len, length);
        require(wc.wc_flags == (IBV_WC_GRH | flag_if(imm, IBV_WC_WITH_IMM)), "wc_flags {:#x}",
                wc.wc_flags);
        require(wc.src_qp == bed.a.qp->qp_num, "src_qp {:#x}", wc.src_qp);
        require(!imm || wc.imm_data == wr.imm_data, "wrong immediate data");
        check_grh(bed.memory_b.data() + place, sides.a, sides.b, length, imm);
        require(!std::memcmp(bed.memory_b.data() + place + grh_bytes, bed.memory_a.data(), length),
                "wrong bytes");
        for (size_t j = 0; j < bed.memory_b.size(); j++)
            require((j >= place && j < place + grh_bytes + length) ||
                        bed.memory_b.data()[j] == std::byte{0x5a},
                    "byte {} was written, outside of the datagram", j);
    }
}

// The completion tells which network header there is, as that of a ConnectX does: in the SL.
void ud_network_type(const Sides &sides)
{
    UdBed bed(sides);
    constexpr uint8_t udp = 8;
    bed.receive(grh_bytes + 8);
    bed.send_bytes(8);
    const ibv_wc wc = must_poll(bed.b.recv_cq.get(), "datagram received");
    const unsigned type = kind_of(sides.b.gid) == GidKind::ipv4 ? 2 : 1;
    require(wc.sl == (udp | type), "sl is {:#x}", wc.sl);
}

// What must be dropped is, is counted there, and harms nobody.
void ud_drops(const Sides &sides)
{
    UdBed bed(sides);
    const auto dropped = [&](const char *counter, auto &&what) {
        note(counter);
        const uint64_t before = hw_counter(sides.b, counter);
        what();
        counts_once(sides.b, counter, before);
        must_be_empty(bed.b.recv_cq.get(), counter);
        bed.must_work();
    };
    std::array sges{sge_of(bed.memory_a.span(0, 64), bed.mr_a.get())};
    dropped("rx_drop_qkey", [&] {
        ibv_send_wr wr = bed.wr(sges);
        wr.wr.ud.remote_qkey = qkey + 1;
        bed.send(wr);
    });
    dropped("rx_drop_qpn", [&] {
        ibv_send_wr wr = bed.wr(sges);
        wr.wr.ud.remote_qpn = 0xfffff0;
        bed.send(wr);
    });
    dropped("rx_drop_no_recv_wqe", [&] {
        ibv_send_wr wr = bed.wr(sges);
        bed.send(wr);
    });
    dropped("rx_drop_service", [&] {
        const Endpoint rc = make_endpoint(sides.b);
        to_init(sides.b, rc.qp.get(), Link{});
        Link link;
        must_modify(rc.qp.get(), rtr_step(sides.b, link, 5, sides.a.gid, 0), "RTR");
        ibv_send_wr wr = bed.wr(sges);
        wr.wr.ud.remote_qpn = rc.qp->qp_num;
        bed.send(wr);
        // the QP must still be there when the datagram arrives
        std::this_thread::sleep_for(milliseconds(100));
    });
    // One byte too many: the WQE stays for the next datagram, which fits.
    bed.receive(grh_bytes + 63);
    note("rx_drop_recv_too_short");
    const uint64_t before = hw_counter(sides.b, "rx_drop_recv_too_short");
    bed.send_bytes(64);
    bed.send_bytes(63);
    const ibv_wc wc = must_poll(bed.b.recv_cq.get(), "the datagram that fits");
    require(wc.status == IBV_WC_SUCCESS && wc.byte_len == grh_bytes + 63, "status {}, {} bytes",
            ibv_wc_status_str(wc.status), wc.byte_len);
    counts_once(sides.b, "rx_drop_recv_too_short", before);
    bed.must_work();
}

// A send that fails ends in SQE: what follows is flushed, receiving goes on, and RTS
// brings sending back.
void ud_send_errors(const Sides &sides)
{
    UdBed bed(sides);
    const uint32_t mtu = mtu_bytes(sides.a.port_attr.active_mtu);
    const Ah back = make_ah(sides.b, sides.a.gid);
    const auto fails = [&](const char *what, ibv_wc_status status, auto &&spoil) {
        note(what);
        std::array sges{sge_of(bed.memory_a.span(0, 64), bed.mr_a.get())};
        ibv_send_wr wr = bed.wr(sges);
        spoil(wr, sges[0]);
        bed.send(wr, status);
        require(query_state(bed.a.qp.get()) == IBV_QPS_SQE, "{}: QP is not in SQE", what);
        std::array good{sge_of(bed.memory_a.span(0, 64), bed.mr_a.get())};
        ibv_send_wr next = bed.wr(good);
        bed.send(next, IBV_WC_WR_FLUSH_ERR);

        std::array target{sge_of(bed.memory_a.span(0, 256), bed.mr_a.get())};
        post_recv(bed.a.qp.get(), 9000, target);
        std::array from{sge_of(bed.memory_b.span(0, 16), bed.mr_b.get())};
        ibv_send_wr reply = bed.wr(from);
        reply.wr.ud.ah = back.get();
        reply.wr.ud.remote_qpn = bed.a.qp->qp_num;
        post_send(bed.b.qp.get(), reply);
        must_poll(bed.b.send_cq.get(), "reply");
        check_wc(must_poll(bed.a.recv_cq.get(), "receiving in SQE"), IBV_WC_SUCCESS, 9000,
                 bed.a.qp.get(), "receiving in SQE");

        must_modify(bed.a.qp.get(), state_step(IBV_QPS_RTS), "RTS from SQE");
        bed.must_work();
    };
    fails("too long", IBV_WC_LOC_LEN_ERR,
          [&](ibv_send_wr &, ibv_sge &sge) { sge.length = mtu + 1; });
    fails("wrong lkey", IBV_WC_LOC_PROT_ERR, [](ibv_send_wr &, ibv_sge &sge) { sge.lkey ^= 1; });

    const Pd other(ibv_alloc_pd(sides.a.context.get()));
    const Ah foreign = make_ah(sides.a, sides.b.gid, other.get());
    fails("AH of another PD", IBV_WC_LOC_QP_OP_ERR,
          [&](ibv_send_wr &wr, ibv_sge &) { wr.wr.ud.ah = foreign.get(); });
}

// AHs may be made and unmade by the thousand, while others send.
void many_ahs(const Sides &sides)
{
    UdBed bed(sides);
    std::vector<Ah> handles;
    for (int i = 0; i < 1000; i++)
        handles.push_back(make_ah(sides.a, sides.b.gid));
    for (size_t i = 0; i < handles.size(); i += 100) {
        std::array sges{sge_of(bed.memory_a.span(0, 64), bed.mr_a.get())};
        bed.receive(grh_bytes + 64);
        ibv_send_wr wr = bed.wr(sges);
        wr.wr.ud.ah = handles[i].get();
        bed.send(wr);
        const ibv_wc wc = must_poll(bed.b.recv_cq.get(), "datagram");
        require(wc.status == IBV_WC_SUCCESS, "status {}", ibv_wc_status_str(wc.status));
    }
    handles.clear();
    bed.must_work();
}

ibv_gid mcast_gid(const Side &side, uint8_t last)
{
    ibv_gid gid{};
    if (kind_of(side.gid) == GidKind::ipv4) {
        gid.raw[10] = gid.raw[11] = 0xff;
        gid.raw[12] = 239;
        gid.raw[13] = 71;
    } else {
        gid.raw[0] = 0xff;
        gid.raw[1] = 0x05;
        gid.raw[2] = 0x71;
    }
    gid.raw[15] = last;
    return gid;
}

// Each member gets a copy of its own, those of the sender's device too; who left gets none.
void multicast(const Sides &sides)
{
    UdBed bed(sides);
    const ibv_gid gid = mcast_gid(sides.a, 9);
    const ibv_gid other = mcast_gid(sides.a, 10);
    const Endpoint second = make_ud(sides.b);
    const Endpoint stranger = make_ud(sides.b, qkey + 1);
    const Endpoint local = make_ud(sides.a);
    const std::array<const Endpoint *, 4> members{&bed.b, &second, &local, &stranger};
    for (const Endpoint *member : members)
        require(!ibv_attach_mcast(member->qp.get(), &gid, 0), "ibv_attach_mcast: {}",
                std::strerror(errno));
    // again is no harm, and gives no second copy
    require(!ibv_attach_mcast(second.qp.get(), &gid, 0), "attaching again");
    require(!ibv_attach_mcast(bed.a.qp.get(), &other, 0), "another group");
    ibv_gid unicast = sides.b.gid;
    require(ibv_attach_mcast(bed.b.qp.get(), &unicast, 0) == EINVAL, "attached to a unicast address");

    Buffer memory(4 * page_size);
    const Mr mr_a = make_mr(sides.a, memory.span(), all_access);
    const Mr mr_b = make_mr(sides.b, memory.span(), all_access);
    const auto post_all = [&] {
        for (size_t i = 0; i < members.size(); i++) {
            const ibv_mr *mr = members[i]->side == &sides.a ? mr_a.get() : mr_b.get();
            std::array sges{sge_of(memory.span(i * page_size, 1024), mr)};
            post_recv(members[i]->qp.get(), i, sges);
        }
        std::array sges{sge_of(bed.memory_a.span(page_size, 1024), bed.mr_a.get())};
        post_recv(bed.a.qp.get(), 99, sges);
    };
    const Ah group = make_ah(sides.a, gid);
    const auto send_group = [&] {
        fill_pattern(bed.memory_a.span(0, 500), bed.next_id);
        std::array sges{sge_of(bed.memory_a.span(0, 500), bed.mr_a.get())};
        ibv_send_wr wr = bed.wr(sges);
        wr.wr.ud.ah = group.get();
        wr.wr.ud.remote_qpn = 0xffffff;
        bed.send(wr);
    };
    const auto received = [&](size_t i) {
        const ibv_wc wc = must_poll(members[i]->recv_cq.get(), fmt::format("member {}", i).c_str());
        check_wc(wc, IBV_WC_SUCCESS, i, members[i]->qp.get(), "member");
        require(!std::memcmp(memory.data() + i * page_size + grh_bytes, bed.memory_a.data(), 500),
                "member {} received wrong bytes", i);
        must_be_empty(members[i]->recv_cq.get(), "second copy");
    };
    note("three members with the Q_Key");
    post_all();
    send_group();
    for (size_t i = 0; i < 3; i++)
        received(i);
    must_be_empty(stranger.recv_cq.get(), "other Q_Key");
    must_be_empty(bed.a.recv_cq.get(), "other group");

    note("one has left");
    require(!ibv_detach_mcast(second.qp.get(), &gid, 0), "ibv_detach_mcast");
    require(ibv_detach_mcast(second.qp.get(), &gid, 0) == EINVAL, "detached twice");
    post_all();
    send_group();
    received(0);
    received(2);
    must_be_empty(second.recv_cq.get(), "left the group");
    for (const Endpoint *member : members)
        require(member == &second || !ibv_detach_mcast(member->qp.get(), &gid, 0), "ibv_detach_mcast");
    require(!ibv_detach_mcast(bed.a.qp.get(), &other, 0), "ibv_detach_mcast");
}

// --- UC

struct UcBed {
    Endpoint a;
    Endpoint b;
    Buffer memory_a{512 * 1024};
    Buffer memory_b{512 * 1024};
    Mr mr_a;
    Mr mr_b;

    UcBed(const Sides &sides, Link link)
        : a(make_unreliable_endpoint(sides.a, IBV_QPT_UC)),
          b(make_unreliable_endpoint(sides.b, IBV_QPT_UC)),
          mr_a(make_mr(sides.a, memory_a.span(), all_access)),
          mr_b(make_mr(sides.b, memory_b.span(), all_access))
    {
        link.mtu = IBV_MTU_1024;
        uc_connect(a, b, link);
    }

    void send(uint64_t id, ibv_wr_opcode opcode, size_t length, size_t to = 0)
    {
        std::array sges{sge_of(memory_a.span(0, length), mr_a.get())};
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.sg_list = sges.data();
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.imm_data = htobe32(static_cast<uint32_t>(id));
        wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(memory_b.data()) + to;
        wr.wr.rdma.rkey = mr_b->rkey;
        post_send(a.qp.get(), wr);
        check_wc(must_poll(a.send_cq.get(), "UC send"), IBV_WC_SUCCESS, id, a.qp.get(), "UC send");
    }
};

// On a link that loses nothing everything arrives, in order.
void uc_data(const Sides &sides, const Link &link, uint64_t seed)
{
    UcBed bed(sides, link);
    Rng rng(seed);
    for (uint32_t i = 0; i < 100; i++) {
        const std::array<uint32_t, 7> edges{0, 1, 1023, 1024, 1025, 2047, 2049};
        const uint32_t length = i < 14 ? edges[i % 7] : rng.between(0u, 100000u);
        const std::array opcodes{IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM};
        const ibv_wr_opcode opcode = opcodes[i % 3];
        note(fmt::format("opcode {}, {} bytes", static_cast<int>(opcode), length));
        fill_pattern(bed.memory_a.span(), seed + i);
        std::memset(bed.memory_b.data(), 0x5a, bed.memory_b.size());
        std::array sges{sge_of(bed.memory_b.span(0, 200000), bed.mr_b.get())};
        post_recv(bed.b.qp.get(), i, sges);
        bed.send(i, opcode, length);
        const ibv_wc wc = must_poll(bed.b.recv_cq.get(), "UC receive");
        check_wc(wc, IBV_WC_SUCCESS, i, bed.b.qp.get(), "UC receive");
        require(wc.byte_len == length, "byte_len {} of {}", wc.byte_len, length);
        require(!std::memcmp(bed.memory_b.data(), bed.memory_a.data(), length), "wrong bytes");
        require(bed.memory_b.data()[length] == std::byte{0x5a}, "a byte too many");
    }
}

// Refused messages vanish: no completion, no error, and the next one is served.
void uc_refusals(const Sides &sides, const Link &link)
{
    UcBed bed(sides, link);
    const auto vanishes = [&](const char *counter, auto &&act) {
        note(counter);
        const uint64_t before = hw_counter(sides.b, counter);
        act();
        require(wait_until(milliseconds(2000), [&] { return hw_counter(sides.b, counter) > before; }),
                "{} did not count", counter);
        must_be_empty(bed.b.recv_cq.get(), counter);
        std::array sges{sge_of(bed.memory_b.span(0, 8192), bed.mr_b.get())};
        post_recv(bed.b.qp.get(), 7, sges);
        bed.send(8, IBV_WR_SEND, 5000);
        check_wc(must_poll(bed.b.recv_cq.get(), "next"), IBV_WC_SUCCESS, 7, bed.b.qp.get(), "next");
    };
    vanishes("rx_drop_no_recv_wqe", [&] { bed.send(1, IBV_WR_SEND, 100); });
    vanishes("rx_drop_incomplete", [&] { bed.send(1, IBV_WR_SEND, 5000); });
    vanishes("resp_remote_access_errors",
             [&] { bed.send(1, IBV_WR_RDMA_WRITE, 5000, bed.memory_b.size() - 4999); });
    require(query_state(bed.b.qp.get()) == IBV_QPS_RTS, "the responder left RTS");
}

// A READ is not a UC operation: the application's ring may hold it, the send fails.
void uc_no_read(const Sides &sides, const Link &link)
{
    UcBed bed(sides, link);
    std::array sges{sge_of(bed.memory_a.span(0, 64), bed.mr_a.get())};
    ibv_send_wr wr{};
    ibv_send_wr *bad = nullptr;
    wr.wr_id = 3;
    wr.sg_list = sges.data();
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_READ;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(bed.memory_b.data());
    wr.wr.rdma.rkey = bed.mr_b->rkey;
    if (ibv_post_send(bed.a.qp.get(), &wr, &bad))
        return; // the library knows too
    check_wc(must_poll(bed.a.send_cq.get(), "READ on UC"), IBV_WC_LOC_QP_OP_ERR, 3, bed.a.qp.get(),
             "READ on UC");
}

// With packets lost, every message that completes is whole, right and in order.
void uc_loss(const Sides &sides, const Link &link, uint64_t seed)
{
    UcBed bed(sides, link);
    constexpr uint32_t length = 8000;
    constexpr uint32_t messages = 300;
    uint32_t arrived = 0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < 8; i++) {
        std::array sges{sge_of(bed.memory_b.span(i * size_t{16384}, length), bed.mr_b.get())};
        post_recv(bed.b.qp.get(), i, sges);
    }
    const auto take = [&](milliseconds limit) {
        const auto wc = poll_for(bed.b.recv_cq.get(), limit);
        if (!wc)
            return false;
        require(wc->status == IBV_WC_SUCCESS, "status {}", ibv_wc_status_str(wc->status));
        require(wc->byte_len == length, "{} bytes of a message", wc->byte_len);
        const uint32_t number = be32toh(wc->imm_data);
        require(number > last, "message {} after {}", number, last);
        last = number;
        Buffer expected(length);
        fill_pattern(expected.span(), seed + number);
        const auto got = bed.memory_b.span(wc->wr_id * 16384, length);
        require(!std::memcmp(got.data(), expected.data(), length), "message {} is wrong", number);
        std::array sges{sge_of(got, bed.mr_b.get())};
        post_recv(bed.b.qp.get(), wc->wr_id, sges);
        arrived++;
        return true;
    };
    for (uint32_t i = 1; i <= messages; i++) {
        fill_pattern(bed.memory_a.span(0, length), seed + i);
        bed.send(i, IBV_WR_SEND_WITH_IMM, length);
        while (take(milliseconds(i % 4 ? 0 : 2)))
            ;
    }
    while (take(milliseconds(100)))
        ;
    diag(fmt::format("{} of {} messages arrived", arrived, messages));
    require(arrived > 0 && arrived < messages, "{} of {} messages arrived: no loss, or no service",
            arrived, messages);
}

void add_cases(Ktap &ktap, Sides &sides, const Options &options, bool lossy, bool plain_qkeys)
{
    const Link link = link_from(options);
    const uint64_t seed = options.seed;
    if (lossy) {
        ktap.add("uc.loss", [&sides, link, seed] {
            uc_loss(sides, link, hash_name(seed, "loss"));
        });
        return;
    }
    for (const GidKind kind : usable_kinds(sides, options)) {
        const auto add = [&](const char *what, auto body) {
            ktap.add(fmt::format("{}.{}", to_string(kind), what), [&sides, &options, kind, body] {
                select_gids(sides, options, kind);
                body();
            });
        };
        add("ud.data", [&sides, seed, plain_qkeys] { ud_data(sides, hash_name(seed, "ud"), plain_qkeys); });
        add("ud.network_type", [&sides] { ud_network_type(sides); });
        add("ud.drops", [&sides] { ud_drops(sides); });
        add("ud.send_errors", [&sides] { ud_send_errors(sides); });
        add("ud.many_ahs", [&sides] { many_ahs(sides); });
        add("ud.multicast", [&sides] { multicast(sides); });
        add("uc.data", [&sides, link, seed] { uc_data(sides, link, hash_name(seed, "uc")); });
        add("uc.refusals", [&sides, link] { uc_refusals(sides, link); });
        add("uc.no_read", [&sides, link] { uc_no_read(sides, link); });
    }
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Moves datagrams and UC messages, and requires that what is lost harms nobody.");
    add_common_options(app, options);
    bool lossy = false;
    bool plain_qkeys = false;
    app.add_flag("--lossy", lossy, "the link loses packets: only what can be said then");
    app.add_flag("--plain-qkeys", plain_qkeys, "side A cannot send the Q_Key of its QP by the high bit");
    CLI11_PARSE(app, argc, argv);
    settle_options("unreliable", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) {
        add_cases(ktap, sides, options, lossy, plain_qkeys);
    });
}
