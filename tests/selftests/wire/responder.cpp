// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Requests that pass the header checks: refused with a NAK, out of order, repeated, or answered.
#include "wire/bench.hpp"

namespace rocev2::wire {

namespace {

// ---------------------------------------------------------------------------
// Requests that are refused: NAK, event, error state

struct Refused {
    const char *name;
    std::uint8_t syndrome;
    const char *counter;
    // Sends the request; earlier packets of the message count up `expected`.
    std::function<void(Bench &)> act;
    Setup setup{};
};

const char *const access_errors = "resp_remote_access_errors";
const char *const invalid_requests = "resp_remote_invalid_request";

Region &other_region(Bench &b, int access)
{
    b.other_regions.push_back(std::make_unique<Region>(b.bed().side, access));
    return *b.other_regions.back();
}

void send_write_to(Bench &b, std::uint64_t va, std::uint32_t rkey, std::size_t size = 64)
{
    b.send(b.packet(write_only, reth(va, rkey, static_cast<std::uint32_t>(size)), pattern(size)));
}

// the first packets of a WRITE of `total` bytes
void write_head(Bench &b, std::uint32_t total, std::size_t first = mtu)
{
    Packet p = b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, total), pattern(first));
    p.ackreq = false;
    b.send(p);
    b.expected = psn_add(b.expected, 1);
}

void send_head(Bench &b)
{
    b.post_receive(1, 0, 8192);
    Packet p = b.packet(send_first, {}, pattern(mtu));
    p.ackreq = false;
    b.send(p);
    b.expected = psn_add(b.expected, 1);
}

const Refused refused[] = {
    {"rkey_unknown", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va(), b.memory.mr->rkey ^ 0x7fff0000); }},
    {"rkey_zero", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va(), 0); }},
    {"rkey_stale_variant", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va(), b.memory.mr->rkey ^ 1); }},
    {"rkey_deregistered", nak_access, access_errors,
     [](Bench &b) {
         // used once, so that it is in the QP's translation cache
         auto region = std::make_unique<Region>(b.bed().side, all_access);
         const std::uint64_t va = region->va();
         const std::uint32_t rkey = region->mr->rkey;
         send_write_to(b, va, rkey);
         b.expect_ack(b.expected);
         b.expected = psn_add(b.expected, 1);
         region->mr.reset();
         send_write_to(b, va, rkey);
     }},
    {"rkey_of_another_pd", nak_access, access_errors,
     [](Bench &b) {
         b.other_pd = Pd(ibv_alloc_pd(b.bed().side.context.get()));
         b.other_mr = Mr(ibv_reg_mr(b.other_pd.get(), b.memory.window().data(), window_size, all_access));
         require(static_cast<bool>(b.other_mr), "cannot register in a second PD");
         send_write_to(b, b.memory.va(), b.other_mr->rkey);
     }},
    {"one_byte_beyond", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va() + window_size - 63, b.memory.mr->rkey); }},
    {"one_byte_before", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, b.memory.va() - 1, b.memory.mr->rkey); }},
    {"address_wraps", nak_access, access_errors,
     [](Bench &b) { send_write_to(b, UINT64_MAX - 31, b.memory.mr->rkey); }},
    {"length_beyond_first_packet", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(write_first,
                         reth(b.memory.va(), b.memory.mr->rkey, static_cast<std::uint32_t>(window_size) + 1),
                         pattern(mtu)));
     }},
    {"length_2g_wraps_nothing", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 0x80000000), pattern(mtu)));
     }},
    {"length_above_2g", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 0x80000001), pattern(mtu)));
     }},
    {"write_to_read_only_region", nak_access, access_errors,
     [](Bench &b) {
         auto &r = other_region(b, IBV_ACCESS_REMOTE_READ);
         send_write_to(b, r.va(), r.mr->rkey);
     }},
    {"read_from_write_only_region", nak_access, access_errors,
     [](Bench &b) {
         auto &r = other_region(b, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
         b.send(b.packet(read_request, reth(r.va(), r.mr->rkey, 64)));
     }},
    {"atomic_on_region_without_right", nak_access, access_errors,
     [](Bench &b) {
         auto &r = other_region(b, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ);
         b.send(b.packet(fetch_add, atomic_eth(r.va(), r.mr->rkey, 1, 0)));
     }},
    {"read_one_byte_beyond", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(read_request, reth(b.memory.va() + 1, b.memory.mr->rkey, window_size)));
     }},
    {"read_wraps", nak_access, access_errors,
     [](Bench &b) { b.send(b.packet(read_request, reth(UINT64_MAX, b.memory.mr->rkey, 2))); }},
    {"atomic_beyond", nak_access, access_errors,
     [](Bench &b) {
         b.send(b.packet(compare_swap,
                         atomic_eth(b.memory.va() + window_size, b.memory.mr->rkey, 1, 0)));
     }},
    {"atomic_misaligned", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(fetch_add, atomic_eth(b.memory.va() + 4, b.memory.mr->rkey, 1, 0)));
     }},
    {"write_not_enabled_on_qp", nak_invalid, invalid_requests, [](Bench &b) { b.send(b.write()); },
     {.qp_access = IBV_ACCESS_REMOTE_READ}},
    {"read_not_enabled_on_qp", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 64))); },
     {.qp_access = IBV_ACCESS_REMOTE_WRITE}},
    {"atomic_not_enabled_on_qp", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(fetch_add, atomic_eth(b.memory.va(), b.memory.mr->rkey, 1, 0)));
     },
     {.qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE}},
    {"read_with_no_responder_resources", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 64))); },
     {.max_dest_rd_atomic = 0}},

    {"write_middle_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(write_middle, {}, pattern(mtu))); }},
    {"write_last_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(write_last, {}, pattern(64))); }},
    {"send_middle_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(send_middle, {}, pattern(mtu))); }},
    {"send_last_imm_first", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(send_last_imm, word(1), pattern(64))); }},
    {"first_in_message", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu)));
     }},
    {"only_in_message", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.write());
     }},
    {"read_in_message", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 64)));
     }},
    {"send_middle_in_write", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(send_middle, {}, pattern(mtu)));
     }},
    {"write_last_in_send", nak_invalid, invalid_requests,
     [](Bench &b) {
         send_head(b);
         b.send(b.packet(write_last, {}, pattern(64)));
     }},

    {"first_below_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu - 4)));
     }},
    {"first_above_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu + 4)));
     }},
    {"first_padded", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096), pattern(mtu - 1)));
     }},
    {"first_empty", nak_invalid, invalid_requests,
     [](Bench &b) { b.send(b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, 4096))); }},
    {"middle_below_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(write_middle, {}, pattern(mtu - 4)));
     }},
    {"middle_above_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 4096);
         b.send(b.packet(write_middle, {}, pattern(mtu + 4)));
     }},
    {"last_above_mtu", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 2 * mtu + 4);
         b.send(b.packet(write_last, {}, pattern(mtu + 4)));
     }},
    {"last_empty", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, mtu);
         b.send(b.packet(write_last));
     }},
    {"only_above_mtu", nak_invalid, invalid_requests, [](Bench &b) { b.send(b.write(mtu + 4)); }},
    {"dma_length_above_payload", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_only, reth(b.memory.va(), b.memory.mr->rkey, 65), pattern(64)));
     }},
    {"dma_length_below_payload", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_only, reth(b.memory.va(), b.memory.mr->rkey, 63), pattern(64)));
     }},
    {"dma_length_zero_with_payload", nak_invalid, invalid_requests,
     [](Bench &b) {
         b.send(b.packet(write_only, reth(b.memory.va(), b.memory.mr->rkey, 0), pattern(4)));
     }},
    {"middle_beyond_dma_length", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, mtu + 4);
         b.send(b.packet(write_middle, {}, pattern(mtu)));
     }},
    {"last_short_of_dma_length", nak_invalid, invalid_requests,
     [](Bench &b) {
         write_head(b, 2 * mtu);
         b.send(b.packet(write_last, {}, pattern(mtu - 4)));
     }},
};

void run_refused(Bed &bed, GidKind kind, const Refused &row)
{
    Bench b(bed, kind, row.setup);
    row.act(b);
    b.expect_answer(row.syndrome, b.expected);
    b.expect_counters({{row.counter, 1}});
    b.expect_event(row.syndrome == nak_access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
    b.expect_event({});
    b.expect_state(IBV_QPS_ERR);
    if (b.expected == request_psn)
        require(b.memory.untouched(), "memory was written");
    // and from now on it is deaf
    b.send(b.write());
    b.expect_silence("a request to the QP in error");
    b.expect_counters({{"rx_drop_state", 1}});
}

// ---------------------------------------------------------------------------
// Receive requests

void run_rnr(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const Packet p = b.packet(send_only, {}, pattern(64));
    b.send(p);
    b.expect_answer(0x20 | min_rnr_timer, b.expected);
    b.expect_counters({{"resp_rnr_nak", 1}});
    b.post_receive(9, 0, 64);
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_SUCCESS, 9);
    require(b.memory.holds(0, p.payload), "the SEND was not placed");
    b.expected = psn_add(b.expected, 1);
    b.expect_counters({});
    // a WRITE needs a receive request only for its immediate data
    b.send(b.packet(write_only_imm, reth(b.memory.va(), b.memory.mr->rkey, 64) + word(7), pattern(64, 2)));
    b.expect_answer(0x20 | min_rnr_timer, b.expected);
    b.expect_counters({{"resp_rnr_nak", 1}});
    b.expect_event({});
    b.expect_alive();
}

void run_send_too_long(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(9, 0, 63);
    b.send(b.packet(send_only, {}, pattern(64)));
    b.expect_answer(nak_invalid, b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_LOC_LEN_ERR, 9);
    b.expect_counters({{"resp_local_length_error", 1}});
    b.expect_state(IBV_QPS_ERR);
    require(b.memory.untouched(), "memory was written");
}

void run_recv_bad_lkey(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(9, 0, 64, b.memory.mr->lkey ^ 1);
    b.send(b.packet(send_only, {}, pattern(64)));
    b.expect_answer(nak_operational, b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_LOC_PROT_ERR, 9);
    b.expect_counters({{"resp_remote_op_err", 1}});
    b.expect_state(IBV_QPS_ERR);
    require(b.memory.untouched(), "memory was written");
}

// SEND and immediate data over several packets, PSN wrap included
void run_send_multi(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(1, 0, 8192);
    const Bytes data = pattern(2 * mtu + 77);
    const auto part = [&](std::size_t from, std::size_t to) {
        return Bytes(data.begin() + static_cast<std::ptrdiff_t>(from),
                     data.begin() + static_cast<std::ptrdiff_t>(to));
    };
    Packet p = b.packet(send_first, {}, part(0, mtu));
    p.ackreq = false;
    b.send(p);
    p = b.packet(send_middle, {}, part(mtu, 2 * mtu));
    p.psn = psn_add(b.expected, 1);
    p.ackreq = false;
    b.send(p);
    p = b.packet(send_last_imm, word(0xfeedbeef), part(2 * mtu, data.size()));
    p.psn = psn_add(b.expected, 2);
    b.send(p);
    b.expect_ack(psn_add(b.expected, 2));
    const ibv_wc wc = must_poll(b.recv_cq.get(), "receive");
    require(wc.status == IBV_WC_SUCCESS && wc.byte_len == data.size() &&
                wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == htonl(0xfeedbeef),
            "completion: status {} bytes {} flags {:#x} imm {:#x}", static_cast<int>(wc.status),
            wc.byte_len, static_cast<unsigned>(wc.wc_flags), ntohl(wc.imm_data));
    require(b.memory.holds(0, data), "wrong data");
    b.expect_counters({});
}

// ---------------------------------------------------------------------------
// PSN order at the responder

void run_psn_ahead(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    // beyond the window that the responder keeps
    for (const std::uint32_t ahead : {256u, 1000u, 1u << 22, (1u << 23) - 1}) {
        Packet p = b.write();
        p.psn = psn_add(b.expected, ahead);
        b.send(p);
        b.expect_answer(nak_sequence, b.expected);
        b.expect_counters({{"out_of_sequence", 1}});
        // one NAK a gap
        b.send(p);
        p.psn = psn_add(p.psn, 1);
        if (ahead < 1u << 22)
            b.send(p);
        b.expect_silence("more packets ahead");
        b.expect_counters({{"out_of_sequence", ahead < 1u << 22 ? 2u : 1u}});
        require(b.memory.untouched(), "memory was written");
        b.expect_alive();
        b.expect_counters({});
    }
    b.expect_event({});
}

void run_psn_overtaken(Bed &bed, GidKind kind)
{
    // 1, 2, 1 again, then 0: a NAK for the gap, nothing placed; then all three, once
    Bench b(bed, kind, {});
    Packet first = b.write(64, 0);
    Packet second = b.write(64, 64);
    Packet third = b.write(64, 128);
    second.psn = psn_add(b.expected, 1);
    third.psn = psn_add(b.expected, 2);
    b.send(second);
    b.expect_answer(nak_sequence, b.expected);
    b.send(third);
    b.send(second);
    b.expect_silence("packets ahead");
    b.expect_counters({{"out_of_sequence", 3}});
    require(b.memory.untouched(), "memory was written");
    b.send(first);
    b.expect_ack(psn_add(b.expected, 2));
    b.expect_counters({});
    require(b.memory.holds(0, first.payload) && b.memory.holds(64, second.payload) &&
                b.memory.holds(128, third.payload),
            "wrong data");
    // the requester, gone back, sends the others again: they are duplicates now
    b.send(second);
    b.expect_ack(psn_add(b.expected, 2));
    b.expect_counters({{"duplicate_request", 1}});
    b.expected = psn_add(b.expected, 3);
    b.expect_alive();
}

void run_psn_half_space(Bed &bed, GidKind kind)
{
    // 2^23 ahead is 2^23 behind: a duplicate, acknowledged and not placed
    Bench b(bed, kind, {});
    Packet p = b.write();
    p.psn = psn_add(b.expected, 1u << 23);
    b.send(p);
    b.expect_ack(psn_add(b.expected, 0xffffff));
    b.expect_counters({{"duplicate_request", 1}});
    require(b.memory.untouched(), "memory was written");
    b.expect_alive();
}

void run_duplicate_send(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post_receive(1, 0, 64);
    b.post_receive(2, 128, 64);
    Packet p = b.packet(send_only, {}, pattern(64));
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_wc(b.recv_cq.get(), IBV_WC_SUCCESS, 1);
    p.payload = pattern(64, 2);
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_counters({{"duplicate_request", 1}});
    must_be_empty(b.recv_cq.get(), "receive CQ");
    require(b.memory.holds(0, pattern(64)), "the duplicate was placed");
}

void run_duplicate_write(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    Packet p = b.write();
    b.send(p);
    b.expect_ack(b.expected);
    p.payload = pattern(64, 2);
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_counters({{"duplicate_request", 1}});
    require(b.memory.holds(0, pattern(64)), "the duplicate was placed");
    b.expected = psn_add(b.expected, 1);
    b.expect_alive();
}

// the responses to a READ of `size` bytes at window offset `at`, from PSN `psn` on
void expect_read_responses(Bench &b, std::uint32_t psn, std::size_t at, std::size_t size)
{
    const std::size_t packets = size ? (size + mtu - 1) / mtu : 1;
    for (std::size_t i = 0; i < packets; i++) {
        const Decoded got = b.receive("a READ response");
        const std::uint8_t want = packets == 1 ? read_response_only
            : i == 0                           ? read_response_first
            : i + 1 == packets                 ? read_response_last
                                               : read_response_middle;
        const std::size_t length = std::min<std::size_t>(mtu, size - i * mtu);
        require(got.opcode == want && got.psn == psn_add(psn, static_cast<std::uint32_t>(i)) &&
                    got.payload.size() == length,
                "READ response {} of {}: {}", i + 1, packets, got.text());
        require(std::equal(got.payload.begin(), got.payload.end(), b.memory.bytes() + at + i * mtu),
                "READ response {} carries the wrong bytes", i + 1);
        if (!got.extended.empty())
            require(got.syndrome() < 0x20, "READ response with syndrome {:#x}", got.syndrome());
    }
}

void run_read(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const Bytes data = pattern(window_size, 5);
    std::copy(data.begin(), data.end(), b.memory.bytes());
    for (const std::uint32_t size : {0u, 1u, 3u, mtu - 1, mtu, mtu + 1, 2 * mtu, 5 * mtu + 2}) {
        b.send(b.packet(read_request, reth(b.memory.va() + 3, b.memory.mr->rkey, size)));
        expect_read_responses(b, b.expected, 3, size);
        b.expected = psn_add(b.expected, size ? (size + mtu - 1) / mtu : 1);
    }
    b.expect_counters({});
    b.expect_silence("READ responses");
}

void run_duplicate_read(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    constexpr std::uint32_t size = 3 * mtu + 5;
    const auto request = [&](std::uint32_t skip) {
        Packet p = b.packet(read_request,
                            reth(b.memory.va() + skip * mtu, b.memory.mr->rkey, size - skip * mtu));
        p.psn = psn_add(request_psn, skip);
        return p;
    };
    b.send(request(0));
    expect_read_responses(b, request_psn, 0, size);
    // read again: what is there now, not what was there then
    const Bytes data = pattern(size, 6);
    std::copy(data.begin(), data.end(), b.memory.bytes());
    b.send(request(0));
    expect_read_responses(b, request_psn, 0, size);
    b.expect_counters({{"duplicate_request", 1}});
    // the rest of it
    b.send(request(2));
    expect_read_responses(b, psn_add(request_psn, 2), 2 * mtu, size - 2 * mtu);
    b.expect_counters({{"duplicate_request", 1}});
    // not what was asked for then: no answer
    Packet other = request(0);
    other.extended = reth(b.memory.va() + 8, b.memory.mr->rkey, size);
    b.send(other);
    b.expect_silence("a duplicate READ of something else");
    b.expect_counters({{"duplicate_request", 1}});
    b.expected = psn_add(request_psn, 4);
    std::memset(b.memory.bytes(), poison, size);
    b.expect_alive();
}

void run_duplicate_atomic(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    auto *target = reinterpret_cast<std::uint64_t *>(b.memory.bytes());
    *target = 40;
    const auto expect_original = [&](std::uint64_t want) {
        const Decoded got = b.receive("an atomic acknowledge");
        require(got.opcode == atomic_acknowledge && got.psn == request_psn &&
                    got.atomic_original() == want,
                "expected the original value {}, not {} in {}", want,
                got.opcode == atomic_acknowledge ? got.atomic_original() : 0, got.text());
    };
    const Packet p = b.packet(fetch_add, atomic_eth(b.memory.va(), b.memory.mr->rkey, 2, 0));
    b.send(p);
    expect_original(40);
    require(*target == 42, "the sum is {}", *target);
    for (int again = 0; again < 3; again++) {
        *target = 100;
        b.send(p);
        expect_original(40);
        require(*target == 100, "a duplicate atomic was executed");
    }
    b.expect_counters({{"duplicate_request", 3}});
    // the next one, a compare that fails, then one that holds
    b.expected = psn_add(request_psn, 1);
    for (const std::uint64_t compare : {99u, 100u}) {
        b.send(b.packet(compare_swap, atomic_eth(b.memory.va(), b.memory.mr->rkey, 7, compare)));
        const Decoded got = b.receive("an atomic acknowledge");
        require(got.atomic_original() == 100 && *target == (compare == 100 ? 7 : 100),
                "compare {}: original {}, now {}", compare, got.atomic_original(), *target);
        b.expected = psn_add(b.expected, 1);
    }
    b.expect_counters({});
}

// The message sequence number of the answers counts finished messages, and duplicates and NAKs do not.
void run_msn(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const auto expect_msn = [&](std::uint32_t msn) {
        const Decoded got = b.receive("an acknowledge");
        require(got.opcode == acknowledge && got.msn() == msn, "expected msn {}, not {}", msn,
                got.text());
    };
    for (std::uint32_t msn = 1; msn <= 3; msn++) {
        b.send(b.write());
        expect_msn(msn);
        b.expected = psn_add(b.expected, 1);
    }
    Packet p = b.write();
    p.psn = request_psn;
    b.send(p); // a duplicate
    expect_msn(3);
    p.psn = psn_add(b.expected, 5);
    b.send(p); // a gap
    expect_msn(3);
    p = b.packet(write_first, reth(b.memory.va(), b.memory.mr->rkey, mtu + 4), pattern(mtu));
    b.send(p); // half a message
    expect_msn(3);
    b.expected = psn_add(b.expected, 1);
    b.send(b.packet(write_last, {}, pattern(4)));
    expect_msn(4);
}

// More READs than max_dest_rd_atomic grants, while the first still sends. False when a busy
// machine let the second one come too late to be refused.
bool too_many_reads(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.max_dest_rd_atomic = 1});
    constexpr std::uint32_t size = 8 << 20;
    Buffer big(size);
    const Mr mr = make_mr(bed.side, big.span(0, size), all_access);
    const Packet first = b.packet(
        read_request, reth(reinterpret_cast<std::uint64_t>(big.data()), mr->rkey, size));
    Packet second = b.packet(read_request, reth(b.memory.va(), b.memory.mr->rkey, 4));
    second.psn = psn_add(b.expected, size / mtu);
    b.send(first);
    b.send(second);
    // the NAK comes after the responses to the good READ, and is the end of the QP
    for (std::uint32_t i = 0; i < size / mtu; i++) {
        const Decoded got = b.receive("a READ response");
        require(got.opcode >= read_response_first && got.opcode <= read_response_last &&
                    got.psn == psn_add(b.expected, i),
                "READ response {}: {}", i + 1, got.text());
    }
    const Decoded got = b.receive("the NAK");
    if (got.opcode == read_response_only && got.psn == second.psn)
        return false;
    require(got.opcode == acknowledge && got.psn == second.psn && got.syndrome() == nak_invalid,
            "expected an invalid request NAK at {:#x}, not {}", second.psn, got.text());
    b.expect_counters({{"resp_remote_invalid_request", 1}});
    b.expect_event(IBV_EVENT_QP_REQ_ERR);
    b.expect_state(IBV_QPS_ERR);
    return true;
}

void run_too_many_reads(Bed &bed, GidKind kind)
{
    for (int i = 0; i < 10; i++)
        if (too_many_reads(bed, kind))
            return;
    fail("ten times a second READ was answered, though one was granted");
}

// A region that goes away while a READ of it is being answered.
void run_read_of_dying_region(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    constexpr std::uint32_t size = 8 << 20;
    Buffer big(size);
    Mr mr = make_mr(bed.side, big.span(0, size), all_access);
    b.send(b.packet(read_request, reth(reinterpret_cast<std::uint64_t>(big.data()), mr->rkey, size)));
    b.receive("the first READ response");
    mr.reset();
    // either all of it was sent before, or a NAK says where it ended
    std::uint32_t psn = psn_add(b.expected, 1);
    for (;;) {
        const Decoded got = b.receive("a READ response or a NAK");
        require(got.psn == psn, "expected psn {:#x}, not {}", psn, got.text());
        if (got.opcode == acknowledge) {
            require(got.syndrome() == nak_access, "expected an access NAK, not {}", got.text());
            b.expect_counters({{access_errors, 1}});
            b.expect_event(IBV_EVENT_QP_ACCESS_ERR);
            b.expect_state(IBV_QPS_ERR);
            return;
        }
        if (got.opcode == read_response_last)
            return;
        psn = psn_add(psn, 1);
    }
}

// The duplicate of a request that was never legal is still only a duplicate.
void run_duplicate_of_nonsense(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.send(b.write());
    b.expect_ack(b.expected);
    Packet p = b.packet(write_only, reth(0, 0x12345678, 64), pattern(64, 3));
    b.send(p);
    b.expect_ack(b.expected);
    b.expect_counters({{"duplicate_request", 1}});
    b.expect_event({});
    b.expected = psn_add(b.expected, 1);
    b.expect_alive();
}

// No acknowledgment is forced when none is asked for, and one ACK answers for all before it.
void run_unrequested_ack(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (int i = 0; i < 5; i++) {
        Packet p = b.write();
        p.ackreq = i == 4;
        b.send(p);
        b.expected = psn_add(b.expected, 1);
    }
    b.expect_ack(psn_add(b.expected, 0xffffff));
    b.expect_silence("one acknowledge");
    b.expect_counters({});
}

// SEND with Invalidate of a key that a peer cannot take back: refused as a whole. The receive tells.
void run_send_invalidate(Bed &bed, GidKind kind, std::uint32_t flip)
{
    Bench b(bed, kind, {});
    b.post_receive(9, 0, 64);
    b.post_receive(10, 0, 64);
    b.send(b.packet(send_only_invalidate, word(b.memory.mr->rkey ^ flip), pattern(64)));
    b.expect_answer(nak_access, b.expected);
    b.expect_counters({{access_errors, 1}});
    b.expect_event({});
    b.expect_wc(b.recv_cq.get(), IBV_WC_LOC_ACCESS_ERR, 9);
    b.expect_wc(b.recv_cq.get(), IBV_WC_WR_FLUSH_ERR, 10);
    b.expect_state(IBV_QPS_ERR);
}

// A memory window of type 2 that the bench's QP binds to a region.
class Window {
public:
    explicit Window(Bench &b)
        : b_(b), region_(b.bed().side, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND),
          mw_(ibv_alloc_mw(b.bed().side.pd.get(), IBV_MW_TYPE_2))
    {
        require(bool(mw_), "ibv_alloc_mw: {}", std::strerror(errno));
        key = mw_->rkey;
    }

    void bind(std::uint32_t with)
    {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_BIND_MW;
        wr.bind_mw.mw = mw_.get();
        wr.bind_mw.rkey = key = with;
        wr.bind_mw.bind_info = {region_.mr.get(), region_.va(), window_size,
                                IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                    IBV_ACCESS_REMOTE_ATOMIC};
        post(wr, "bind");
    }
    void invalidate()
    {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_LOCAL_INV;
        wr.invalidate_rkey = key;
        post(wr, "LOCAL_INV");
    }
    Packet write(std::size_t size = 64) const
    {
        return b_.packet(write_only, reth(region_.va(), key, static_cast<std::uint32_t>(size)),
                         pattern(size));
    }
    // a WRITE by the key now is taken
    void expect_alive()
    {
        b_.send(write());
        b_.expect_ack(b_.expected);
        b_.expected = psn_add(b_.expected, 1);
    }
    const Region &region() const { return region_; }

    std::uint32_t key = 0;

private:
    void post(ibv_send_wr &wr, const char *what)
    {
        wr.wr_id = 70;
        wr.send_flags = IBV_SEND_SIGNALED;
        post_send(b_.qp.get(), wr);
        check_wc(must_poll(b_.cq.get(), what), IBV_WC_SUCCESS, 70, b_.qp.get(), what);
    }

    Bench &b_;
    Region region_;
    Handle<ibv_mw, ibv_dealloc_mw> mw_;
};

// The window dies once; the duplicate is acknowledged and leaves alone what was bound since.
void run_send_invalidate_twice(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    Window window(b);
    window.bind(window.key + 1);
    window.expect_alive();
    b.post_receive(9, 0, 64);
    const Packet p = b.packet(send_only_invalidate, word(window.key), pattern(64));
    const std::uint32_t key = window.key;
    b.send(p);
    b.expect_ack(b.expected);
    b.expected = psn_add(b.expected, 1);
    const ibv_wc wc = must_poll(b.recv_cq.get(), "receive");
    check_wc(wc, IBV_WC_SUCCESS, 9, b.qp.get(), "receive");
    require(wc.wc_flags == IBV_WC_WITH_INV && wc.invalidated_rkey == key, "flags {:#x} key {:#x}",
            wc.wc_flags, wc.invalidated_rkey);
    // the same key again: only a duplicate that was executed could hurt it
    window.bind(key);
    b.send(p);
    b.expect_ack(psn_add(b.expected, 0xffffff));
    window.expect_alive();
    b.expect_counters({{"duplicate_request", 1}});
    b.expect_event({});
}

// First and middle packets invalidate nothing, and neither does a last one out of order.
void run_send_invalidate_multi(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    Window window(b);
    window.bind(window.key + 1);
    send_head(b);
    Packet last = b.packet(send_last_invalidate, word(window.key), pattern(100));
    last.psn = psn_add(b.expected, 1);
    b.send(last);
    b.expect_answer(nak_sequence, b.expected);
    must_be_empty(b.recv_cq.get(), "receive");
    Packet middle = b.packet(send_middle, {}, pattern(mtu));
    b.send(middle);
    b.expect_ack(psn_add(b.expected, 1));
    const ibv_wc wc = must_poll(b.recv_cq.get(), "receive");
    check_wc(wc, IBV_WC_SUCCESS, 1, b.qp.get(), "receive");
    require(wc.wc_flags == IBV_WC_WITH_INV && wc.byte_len == 2 * mtu + 100, "flags {:#x} length {}",
            wc.wc_flags, wc.byte_len);
    b.expect_counters({{"out_of_sequence", 1}});
    b.expected = psn_add(b.expected, 2);
    b.send(window.write());
    b.expect_answer(nak_access, b.expected);
}

// The key of a READ is looked at again for a duplicate, that of an atomic is not: it is not executed.
void run_duplicate_after_invalidate(Bed &bed, GidKind kind, bool atomic)
{
    Bench b(bed, kind, {});
    Window window(b);
    window.bind(window.key + 1);
    const Packet p = atomic
        ? b.packet(fetch_add, atomic_eth(window.region().va() + 56, window.key, 1, 0))
        : b.packet(read_request, reth(window.region().va(), window.key, 64));
    b.send(p);
    const Decoded first = b.receive("the response");
    b.expected = psn_add(b.expected, 1);
    window.invalidate();
    b.send(p);
    if (atomic) {
        const Decoded again = b.receive("the response again");
        require(again.opcode == first.opcode && again.psn == first.psn &&
                    again.atomic_original() == first.atomic_original(),
                "{}, then {}", first.text(), again.text());
        b.expect_counters({{"duplicate_request", 1}});
        b.expect_event({});
        return;
    }
    b.expect_answer(nak_access, p.psn);
    b.expect_counters({{"duplicate_request", 1}, {access_errors, 1}});
    b.expect_event(IBV_EVENT_QP_ACCESS_ERR);
    b.expect_state(IBV_QPS_ERR);
}

// A receive that cannot complete, its CQ being full: the peer learns of it at once.
void run_recv_cq_full(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.recv_cq_entries = 1});
    const auto room = static_cast<std::uint64_t>(b.recv_cq->cqe);
    for (std::uint64_t id = 1; id <= room + 2; id++)
        b.post_receive(id, 0, 64);
    for (std::uint64_t id = 1; id <= room; id++) {
        b.send(b.packet(send_only, {}, pattern(8)));
        b.expect_ack(b.expected);
        b.expected = psn_add(b.expected, 1);
    }
    b.send(b.packet(send_only, {}, pattern(8)));
    b.expect_answer(nak_operational, b.expected);
    b.expect_state(IBV_QPS_ERR);
    std::map<ibv_event_type, const void *> events;
    while (const auto event = next_event(b.bed().side.context.get(), milliseconds(200)))
        events[event->type] = event->element;
    const std::map<ibv_event_type, const void *> wanted{{IBV_EVENT_CQ_ERR, b.recv_cq.get()},
                                                        {IBV_EVENT_QP_FATAL, b.qp.get()}};
    require(events == wanted, "{} events, expected CQ_ERR of the CQ and QP_FATAL of the QP",
            events.size());
    b.expect_counters({{"resp_remote_op_err", 1}});
    for (std::uint64_t id = 1; id <= room; id++)
        b.expect_wc(b.recv_cq.get(), IBV_WC_SUCCESS, id);
}

} // namespace

void add_responder_cases(Ktap &ktap, Bed &bed, GidKind kind)
{
    const auto add = [&](const std::string &name, auto run) { add_case(ktap, bed, kind, name, run); };
    for (const Refused &row : refused)
        add(fmt::format("nak:{}", row.name), [&row](Bed &b, GidKind k) { run_refused(b, k, row); });
    add("recv:rnr", run_rnr);
    add("recv:send_too_long", run_send_too_long);
    add("recv:bad_lkey", run_recv_bad_lkey);
    add("recv:cq_full", run_recv_cq_full);
    add("recv:send_of_three_packets", run_send_multi);
    add("psn:ahead", run_psn_ahead);
    add("psn:overtaken", run_psn_overtaken);
    add("psn:half_the_space", run_psn_half_space);
    add("psn:duplicate_send", run_duplicate_send);
    add("psn:duplicate_write", run_duplicate_write);
    add("psn:read", run_read);
    add("psn:duplicate_read", run_duplicate_read);
    add("psn:duplicate_atomic", run_duplicate_atomic);
    add("psn:duplicate_of_nonsense", run_duplicate_of_nonsense);
    add("psn:message_sequence_number", run_msn);
    add("psn:acknowledge_unasked", run_unrequested_ack);
    add("nak:too_many_reads", run_too_many_reads);
    add("nak:read_of_dying_region", run_read_of_dying_region);
    add("nak:send_invalidate_region",
        [](Bed &b, GidKind k) { run_send_invalidate(b, k, 0); });
    add("nak:send_invalidate_unknown",
        [](Bed &b, GidKind k) { run_send_invalidate(b, k, 0x7fff0000); });
    add("psn:send_invalidate_twice", run_send_invalidate_twice);
    add("psn:send_invalidate_of_three_packets", run_send_invalidate_multi);
    add("psn:duplicate_read_after_invalidate",
        [](Bed &b, GidKind k) { run_duplicate_after_invalidate(b, k, false); });
    add("psn:duplicate_atomic_after_invalidate",
        [](Bed &b, GidKind k) { run_duplicate_after_invalidate(b, k, true); });
}

} // namespace rocev2::wire
