// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The device as requester: its packets, and the answers it must and must not believe.
#include "wire/bench.hpp"

#include <array>

namespace rocev2::wire {

namespace {

// takes the packets of one request and checks their order
std::vector<Decoded> expect_requests(Bench &b, std::uint32_t first_psn, std::size_t count)
{
    std::vector<Decoded> got;
    for (std::size_t i = 0; i < count; i++) {
        got.push_back(b.receive("a request"));
        require(got.back().psn == psn_add(first_psn, static_cast<std::uint32_t>(i)),
                "request {}: expected psn {:#x}, not {}", i + 1,
                psn_add(first_psn, static_cast<std::uint32_t>(i)), got.back().text());
    }
    return got;
}

struct Request {
    ibv_wr_opcode opcode;
    std::uint32_t size;
    std::vector<std::uint8_t> opcodes; // of its packets
};

void run_requests(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    const Bytes data = pattern(window_size, 9);
    std::copy(data.begin(), data.end(), b.memory.bytes());
    const Request rows[] = {
        {IBV_WR_RDMA_WRITE, 0, {write_only}},
        {IBV_WR_RDMA_WRITE, 1, {write_only}},
        {IBV_WR_RDMA_WRITE, mtu, {write_only}},
        {IBV_WR_RDMA_WRITE, mtu + 1, {write_first, write_last}},
        {IBV_WR_RDMA_WRITE, 3 * mtu - 2, {write_first, write_middle, write_last}},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 3, {write_only_imm}},
        {IBV_WR_RDMA_WRITE_WITH_IMM, 2 * mtu, {write_first, write_last_imm}},
        {IBV_WR_SEND, 0, {send_only}},
        {IBV_WR_SEND, 2 * mtu + 3, {send_first, send_middle, send_last}},
        {IBV_WR_SEND_WITH_IMM, 5, {send_only_imm}},
        {IBV_WR_SEND_WITH_IMM, mtu + 5, {send_first, send_last_imm}},
        {IBV_WR_ATOMIC_FETCH_AND_ADD, 8, {fetch_add}},
        {IBV_WR_ATOMIC_CMP_AND_SWP, 8, {compare_swap}},
    };
    std::uint32_t psn = device_psn, msn = 0;
    for (const Request &row : rows) {
        note(fmt::format("opcode {} size {}", static_cast<int>(row.opcode), row.size));
        b.post(50 + msn, row.opcode, 8, row.size);
        const auto got = expect_requests(b, psn, row.opcodes.size());
        Bytes carried;
        for (std::size_t i = 0; i < got.size(); i++) {
            require(got[i].opcode == row.opcodes[i], "packet {}: expected opcode {:#x}, not {}", i + 1,
                    row.opcodes[i], got[i].text());
            carried = carried + got[i].payload;
        }
        require(got.back().ackreq, "the last packet of a request must ask for an acknowledgment");
        const bool atomic = row.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
            row.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
        if (!atomic)
            require(carried.size() == row.size && b.memory.holds(8, carried), "wrong payload");
        if (got[0].opcode == write_first || got[0].opcode == write_only)
            require(got[0].reth_va() == 0x1000 && got[0].reth_rkey() == 0x77 &&
                        got[0].reth_length() == row.size,
                    "wrong RETH");
        psn = psn_add(psn, static_cast<std::uint32_t>(got.size()));
        msn++;
        if (atomic) {
            Packet p = b.packet(atomic_acknowledge, aeth(0x1f, msn) + atomic_ack_eth(0x1122334455667788));
            p.psn = psn_add(psn, 0xffffff);
            b.send(p);
            b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 50 + msn - 1);
            std::uint64_t value;
            std::memcpy(&value, b.memory.bytes() + 8, 8);
            require(value == 0x1122334455667788, "atomic result {:#x}", value);
        } else {
            b.send(b.ack(psn_add(psn, 0xffffff), 0x1f, msn));
            b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 50 + msn - 1);
        }
    }
    b.expect_counters({});
}

struct BadAck {
    const char *name;
    const char *counter;
    std::function<Packet(Bench &)> answer;
};

// answers to one outstanding WRITE that must be ignored: the right one still completes it
const BadAck ignored[] = {
    {"ack_never_sent", "rx_drop_response", [](Bench &b) { return b.ack(psn_add(device_psn, 1)); }},
    {"ack_far_ahead", "rx_drop_response", [](Bench &b) { return b.ack(psn_add(device_psn, 1u << 22)); }},
    {"ack_before", "rx_drop_response", [](Bench &b) { return b.ack(psn_add(device_psn, 0xffffff)); }},
    {"nak_never_sent", "rx_drop_response",
     [](Bench &b) { return b.ack(psn_add(device_psn, 1), nak_access); }},
    {"syndrome_reserved_kind", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x40); }},
    {"syndrome_bit_7", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x80); }},
    {"nak_code_4", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x64); }},
    {"nak_code_31", "rx_drop_response", [](Bench &b) { return b.ack(device_psn, 0x7f); }},
    {"read_response_to_write", "rx_drop_response",
     [](Bench &b) {
         Packet p = b.packet(read_response_only, aeth(0x1f, 1), pattern(64));
         p.psn = device_psn;
         return p;
     }},
    {"atomic_acknowledge_to_write", "rx_drop_response",
     [](Bench &b) {
         Packet p = b.packet(atomic_acknowledge, aeth(0x1f, 1) + atomic_ack_eth(1));
         p.psn = device_psn;
         return p;
     }},
    {"ack_from_elsewhere", "rx_drop_source",
     [](Bench &b) {
         Packet p = b.ack(device_psn);
         p.source[15] ^= 0x40;
         return p;
     }},
    {"ack_with_payload", "rx_drop_length",
     [](Bench &b) {
         Packet p = b.ack(device_psn);
         p.payload = pattern(4);
         return p;
     }},
    {"ack_bad_icrc", "rx_icrc_encapsulated",
     [](Bench &b) {
         Packet p = b.ack(device_psn);
         p.icrc_flip = 4;
         return p;
     }},
};

void run_ignored(Bed &bed, GidKind kind, const BadAck &row)
{
    Bench b(bed, kind, {});
    b.post(1, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 1);
    b.send(row.answer(b));
    b.expect_silence(row.name);
    b.expect_counters({{row.counter, 1}});
    must_be_empty(b.cq.get(), "send CQ");
    b.send(b.ack(device_psn));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
    b.expect_counters({});
    // the same once more is a ghost
    b.send(b.ack(device_psn));
    b.expect_counters({{"rx_drop_response", 1}});
    must_be_empty(b.cq.get(), "send CQ");
}

// Credits do not hold the device back (Documentation/decisions.md): what they tell is late by nature.
void run_credits(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (std::uint64_t id = 1; id <= 3; id++)
        b.post(id, IBV_WR_SEND, 0, 64);
    expect_requests(b, device_psn, 3);
    b.send(b.ack(psn_add(device_psn, 2), 0, 3));
    for (std::uint64_t id = 1; id <= 3; id++)
        b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, id);
    for (std::uint64_t id = 4; id <= 6; id++)
        b.post(id, IBV_WR_SEND, 0, 3 * mtu);
    expect_requests(b, psn_add(device_psn, 3), 9);
    b.send(b.ack(psn_add(device_psn, 11), 0, 6));
    for (std::uint64_t id = 4; id <= 6; id++)
        b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, id);
    b.expect_counters({});
}

struct FatalNak {
    std::uint8_t syndrome;
    ibv_wc_status status;
    const char *counter;
};

void run_fatal_nak(Bed &bed, GidKind kind)
{
    const FatalNak rows[] = {
        {nak_invalid, IBV_WC_REM_INV_REQ_ERR, "req_remote_invalid_request"},
        {nak_access, IBV_WC_REM_ACCESS_ERR, "req_remote_access_errors"},
        {nak_operational, IBV_WC_REM_OP_ERR, "req_remote_op_err"},
    };
    for (const FatalNak &row : rows) {
        note(fmt::format("syndrome {:#x}", row.syndrome));
        Bench b(bed, kind, {});
        for (std::uint64_t id = 1; id <= 3; id++)
            b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
        expect_requests(b, device_psn, 3);
        // of the second: the first is acknowledged by it, the third flushed
        b.send(b.ack(psn_add(device_psn, 1), row.syndrome));
        b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
        b.expect_wc(b.cq.get(), row.status, 2);
        b.expect_wc(b.cq.get(), IBV_WC_WR_FLUSH_ERR, 3);
        b.expect_state(IBV_QPS_ERR);
        b.expect_counters({{row.counter, 1}});
        b.expect_silence("a fatal NAK");
    }
}

void run_sequence_nak(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (std::uint64_t id = 1; id <= 3; id++)
        b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 3);
    b.send(b.ack(psn_add(device_psn, 1), nak_sequence));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
    // Go-Back-N: from there on, in order
    expect_requests(b, psn_add(device_psn, 1), 2);
    b.expect_counters({{"packet_seq_err", 1}});
    b.send(b.ack(psn_add(device_psn, 2)));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 2);
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 3);
    b.expect_counters({});
}

// IBA table 45 in units of 10 us
constexpr std::array<std::uint32_t, 32> rnr_timer{
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

// A fatal NAK is the end of what it refuses, whatever is missing before it.
void run_fatal_nak_behind_read(Bed &bed, GidKind kind)
{
    for (const std::uint8_t timeout : {std::uint8_t{0}, std::uint8_t{12}}) {
        note(fmt::format("READ response lost, timeout {}", timeout));
        Bench b(bed, kind, {.timeout = timeout});
        b.post(1, IBV_WR_RDMA_READ, 0, 64);
        b.post(2, IBV_WR_RDMA_WRITE, 0, 64);
        b.post(3, IBV_WR_RDMA_WRITE, 0, 64);
        expect_requests(b, device_psn, 3);
        b.send(b.ack(psn_add(device_psn, 1), nak_access));
        b.expect_wc(b.cq.get(), IBV_WC_REM_ACCESS_ERR, 1);
        b.expect_wc(b.cq.get(), IBV_WC_WR_FLUSH_ERR, 2);
        b.expect_wc(b.cq.get(), IBV_WC_WR_FLUSH_ERR, 3);
        b.expect_state(IBV_QPS_ERR);
        b.expect_silence("a fatal NAK");
        b.expect_counters({{"req_remote_access_errors", 1}});
    }
    note("READ response overtaken");
    Bench b(bed, kind, {.timeout = 18}); // 1 s
    b.post(1, IBV_WR_RDMA_READ, 0, 64);
    b.post(2, IBV_WR_RDMA_WRITE, 0, 64);
    b.post(3, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 3);
    b.send(b.ack(psn_add(device_psn, 1), nak_invalid));
    b.expect_silence("a fatal NAK");
    must_be_empty(b.cq.get(), "send CQ");
    Packet response = b.packet(read_response_only, aeth(0x1f, 1), pattern(64, 100));
    response.psn = device_psn;
    b.send(response);
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
    b.expect_wc(b.cq.get(), IBV_WC_REM_INV_REQ_ERR, 2);
    b.expect_wc(b.cq.get(), IBV_WC_WR_FLUSH_ERR, 3);
    require(b.memory.holds(0, response.payload), "the READ's data is not in place");
    b.expect_state(IBV_QPS_ERR);
    b.expect_counters({{"req_remote_invalid_request", 1}});
}

void run_rnr_timers(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    b.post(1, IBV_WR_SEND, 0, 64);
    expect_requests(b, device_psn, 1);
    for (std::uint8_t code = 0; code < 32; code++) {
        note(fmt::format("RNR timer code {}", code));
        const std::int64_t timer = rnr_timer[code] * 10;
        std::int64_t waited = 0;
        // a wrong row of the table is always off, a loaded machine is late now and then
        for (int i = 0; i < 5; i++) {
            const auto start = Clock::now();
            b.send(b.ack(device_psn, static_cast<std::uint8_t>(0x20 | code)));
            expect_requests(b, device_psn, 1);
            waited = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count();
            require(waited >= timer, "code {}: sent again after {} us, too early", code, waited);
            if (waited <= timer + 100'000)
                break;
        }
        require(waited <= timer + 100'000, "code {}: sent again after {} us only", code, waited);
    }
    b.expect_counters({{"req_rnr_nak", 32}});
    b.send(b.ack(device_psn));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
}

void run_rnr_exceeded(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.rnr_retry = 2});
    b.post(1, IBV_WR_SEND, 0, 64);
    for (int i = 0; i < 3; i++) {
        expect_requests(b, device_psn, 1);
        b.send(b.ack(device_psn, 0x21));
    }
    b.expect_wc(b.cq.get(), IBV_WC_RNR_RETRY_EXC_ERR, 1);
    b.expect_state(IBV_QPS_ERR);
    b.expect_counters({{"req_rnr_nak", 3}, {"rnr_nak_retry_err", 1}});
}

void run_ack_timeout(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.timeout = 10, .retry_cnt = 2}); // 4.2 ms
    const auto start = Clock::now();
    b.post(1, IBV_WR_RDMA_WRITE, 0, 64);
    for (int i = 0; i < 3; i++)
        expect_requests(b, device_psn, 1);
    b.expect_wc(b.cq.get(), IBV_WC_RETRY_EXC_ERR, 1);
    // then twice and four times as long
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    require(took >= milliseconds(7 * 4), "gave up after {} ms", took.count());
    b.expect_state(IBV_QPS_ERR);
    b.expect_silence("the last retry", milliseconds(50));
    b.expect_counters({{"local_ack_timeout_err", 3}, {"req_retries_exceeded", 1}});
}

// A peer that is only slow gets one packet again, not all that it has in front of it.
void run_slow_ack(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {.timeout = 16}); // 268 ms, then 537
    for (std::uint64_t id = 1; id <= 8; id++)
        b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 8);
    expect_requests(b, device_psn, 1);
    b.expect_silence("the question");
    b.send(b.ack(psn_add(device_psn, 7), 0x1f, 8));
    for (std::uint64_t id = 1; id <= 8; id++)
        b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, id);
    b.expect_silence("the answer");
    b.expect_counters({{"local_ack_timeout_err", 1}});
}

void run_coalesced_ack(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    for (std::uint64_t id = 1; id <= 8; id++)
        b.post(id, IBV_WR_RDMA_WRITE, 0, 64);
    expect_requests(b, device_psn, 8);
    b.send(b.ack(psn_add(device_psn, 5), 0x1f, 6));
    for (std::uint64_t id = 1; id <= 6; id++)
        b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, id);
    must_be_empty(b.cq.get(), "send CQ");
    b.send(b.ack(psn_add(device_psn, 7), 0x1f, 8));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 7);
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 8);
    b.expect_counters({});
}

// A READ of `packets` packets by the device; returns its request.
Decoded start_read(Bench &b, std::uint32_t size)
{
    b.post(1, IBV_WR_RDMA_READ, 0, size);
    const Decoded request = b.receive("a READ request");
    require(request.opcode == read_request && request.psn == device_psn &&
                request.reth_va() == 0x1000 && request.reth_length() == size,
            "expected a READ request, not {}", request.text());
    return request;
}

Packet read_response(Bench &b, std::uint8_t opcode, std::uint32_t nth, std::size_t size)
{
    Packet p = b.packet(opcode, opcode == read_response_middle ? Bytes{} : aeth(0x1f, 1),
                        pattern(size, 100 + nth));
    p.psn = psn_add(device_psn, nth);
    p.ackreq = false;
    return p;
}

void run_read_responses(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    constexpr std::uint32_t size = 2 * mtu + 7;
    start_read(b, size);
    b.send(read_response(b, read_response_first, 0, mtu));
    b.send(read_response(b, read_response_middle, 1, mtu));
    must_be_empty(b.cq.get(), "send CQ");
    b.send(read_response(b, read_response_last, 2, 7));
    const ibv_wc wc = must_poll(b.cq.get(), "READ");
    require(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == size,
            "completion: status {} bytes {}", static_cast<int>(wc.status), wc.byte_len);
    require(b.memory.holds(0, pattern(mtu, 100)) && b.memory.holds(mtu, pattern(mtu, 101)) &&
                b.memory.holds(2 * mtu, pattern(7, 102)) && b.memory.bytes()[size] == poison,
            "wrong data");
    b.expect_counters({});
    // the next request's PSN follows the last response's
    b.post(2, IBV_WR_RDMA_WRITE, 0, 4);
    expect_requests(b, psn_add(device_psn, 3), 1);
}

void run_read_gap(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    start_read(b, 3 * mtu);
    b.send(read_response(b, read_response_first, 0, mtu));
    b.send(read_response(b, read_response_last, 2, mtu));
    // the rest is asked for again
    const Decoded again = b.receive("a repeated READ request");
    require(again.opcode == read_request && again.psn == psn_add(device_psn, 1) &&
                again.reth_va() == 0x1000 + mtu && again.reth_length() == 2 * mtu,
            "expected a READ request for the rest, not {}", again.text());
    b.expect_counters({{"implied_nak_seq_err", 1}});
    must_be_empty(b.cq.get(), "send CQ");
    // with the missing one here, the one that overtook it counts, and its repeat is a ghost
    b.send(read_response(b, read_response_first, 1, mtu));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
    require(b.memory.holds(0, pattern(mtu, 100)) && b.memory.holds(mtu, pattern(mtu, 101)) &&
                b.memory.holds(2 * mtu, pattern(mtu, 102)),
            "wrong data");
    b.expect_counters({});
    b.send(read_response(b, read_response_last, 2, mtu));
    b.expect_silence("a repeated READ response");
    b.expect_counters({{"rx_drop_response", 1}});
}

// Responses too far ahead to be kept do not keep out those that are near.
void run_read_far_ahead(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    constexpr std::uint32_t near = 4, far = 300, last = 556;
    start_read(b, 600 * mtu);
    for (std::uint32_t nth = far; nth < last; nth++)
        b.send(read_response(b, read_response_middle, nth, mtu));
    const Decoded again = b.receive("a repeated READ request");
    require(again.opcode == read_request && again.psn == device_psn, "not {}", again.text());
    b.expect_counters({{"implied_nak_seq_err", 1}, {"rx_drop_response", last - far}});
    for (std::uint32_t nth = near - 1; nth > 0; nth--)
        b.send(read_response(b, read_response_middle, nth, mtu));
    b.send(read_response(b, read_response_first, 0, mtu));
    for (std::uint32_t nth = 0; nth < near; nth++)
        require(wait_until(milliseconds(200), [&] { return b.memory.holds(nth * mtu, pattern(mtu, 100 + nth)); }),
                "response {} was not kept", nth);
    b.expect_counters({});
}

void run_read_duplicate_response(Bed &bed, GidKind kind)
{
    Bench b(bed, kind, {});
    start_read(b, 2 * mtu);
    b.send(read_response(b, read_response_first, 0, mtu));
    Packet ghost = read_response(b, read_response_first, 0, mtu);
    ghost.payload = pattern(mtu, 55);
    b.send(ghost);
    b.expect_silence("a repeated READ response");
    b.expect_counters({{"rx_drop_response", 1}});
    require(b.memory.holds(0, pattern(mtu, 100)), "the repeated response was placed");
    b.send(read_response(b, read_response_last, 1, mtu));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
}

void run_read_acknowledged(Bed &bed, GidKind kind)
{
    // an ACK is no answer to a READ: its response must have been lost
    Bench b(bed, kind, {});
    start_read(b, mtu);
    b.send(b.ack(device_psn));
    const Decoded again = b.receive("a repeated READ request");
    require(again.opcode == read_request && again.psn == device_psn, "not {}", again.text());
    b.expect_counters({{"implied_nak_seq_err", 1}});
    must_be_empty(b.cq.get(), "send CQ");
    b.send(read_response(b, read_response_only, 0, mtu));
    b.expect_wc(b.cq.get(), IBV_WC_SUCCESS, 1);
}

void run_read_bad_length(Bed &bed, GidKind kind)
{
    struct Row {
        const char *name;
        std::uint32_t size;
        std::uint8_t opcode;
        std::size_t length;
    };
    const Row rows[] = {
        {"short", 64, read_response_only, 60},       {"long", 64, read_response_only, 68},
        {"by one", 64, read_response_only, 63},      {"empty", 64, read_response_only, 0},
        {"short first", 2 * mtu, read_response_first, mtu - 4},
        {"long first", 2 * mtu, read_response_first, mtu + 4},
        {"payload for nothing", 0, read_response_only, 4},
    };
    for (const Row &row : rows) {
        note(row.name);
        Bench b(bed, kind, {});
        start_read(b, row.size);
        b.send(read_response(b, row.opcode, 0, row.length));
        b.expect_wc(b.cq.get(), IBV_WC_BAD_RESP_ERR, 1);
        b.expect_state(IBV_QPS_ERR);
        require(b.memory.untouched(), "{}: memory was written", row.name);
        b.expect_counters({{"rx_drop_response", 1}});
    }
}

// Each opcode where it must not stand among the responses.
void run_read_bad_opcode(Bed &bed, GidKind kind)
{
    struct Row {
        const char *name;
        std::uint32_t size;
        std::vector<std::uint8_t> good; // responses before it
        std::uint8_t opcode;
    };
    const Row rows[] = {
        {"first for only", 64, {}, read_response_first},
        {"middle for only", mtu, {}, read_response_middle},
        {"last for only", 64, {}, read_response_last},
        {"middle for first", 2 * mtu, {}, read_response_middle},
        {"last for first", 2 * mtu, {}, read_response_last},
        {"only for first", 2 * mtu, {}, read_response_only},
        {"first for middle", 3 * mtu, {read_response_first}, read_response_first},
        {"last for middle", 3 * mtu, {read_response_first}, read_response_last},
        {"only for middle", 3 * mtu, {read_response_first}, read_response_only},
        {"first for last", 2 * mtu, {read_response_first}, read_response_first},
        {"middle for last", 2 * mtu, {read_response_first}, read_response_middle},
        {"only for last", 2 * mtu, {read_response_first}, read_response_only},
    };
    for (const Row &row : rows) {
        note(row.name);
        Bench b(bed, kind, {});
        start_read(b, row.size);
        std::uint32_t nth = 0;
        for (const std::uint8_t opcode : row.good)
            b.send(read_response(b, opcode, nth++, mtu));
        const std::size_t length = std::min<std::size_t>(mtu, row.size - nth * mtu);
        b.send(read_response(b, row.opcode, nth, length));
        b.expect_wc(b.cq.get(), IBV_WC_BAD_RESP_ERR, 1);
        b.expect_state(IBV_QPS_ERR);
        require(std::all_of(b.memory.bytes() + nth * mtu, b.memory.bytes() + nth * mtu + length,
                            [](std::uint8_t v) { return v == poison; }),
                "{}: its payload was placed", row.name);
        b.expect_counters({{"rx_drop_response", 1}});
    }
}

} // namespace

void add_requester_cases(Ktap &ktap, Bed &bed, GidKind kind)
{
    const auto add = [&](const std::string &name, auto run) { add_case(ktap, bed, kind, name, run); };
    add("req:each_request", run_requests);
    for (const BadAck &row : ignored)
        add(fmt::format("req:{}", row.name), [&row](Bed &b, GidKind k) { run_ignored(b, k, row); });
    add("req:fatal_nak", run_fatal_nak);
    add("req:fatal_nak_behind_read", run_fatal_nak_behind_read);
    add("req:sequence_nak", run_sequence_nak);
    add("req:rnr_each_timer", run_rnr_timers);
    add("req:rnr_exceeded", run_rnr_exceeded);
    add("req:ack_timeout", run_ack_timeout);
    add("req:slow_ack", run_slow_ack);
    add("req:credits", run_credits);
    add("req:coalesced_ack", run_coalesced_ack);
    add("req:read_responses", run_read_responses);
    add("req:read_gap", run_read_gap);
    add("req:read_far_ahead", run_read_far_ahead);
    add("req:read_duplicate_response", run_read_duplicate_response);
    add("req:read_acknowledged", run_read_acknowledged);
    add("req:read_bad_length", run_read_bad_length);
    add("req:read_bad_opcode", run_read_bad_opcode);
}

} // namespace rocev2::wire
