// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Every way an RC request can fail as an application sees it: the status of
// the completion, the flushed requests behind it, the asynchronous event on
// the right side, the state of both QPs, and memory that must stay as it was.
// Also the table of QP state transitions.  What is expected is what the
// InfiniBand specification says (responder errors: table of section 9.9.3).
#include "common/memory.hpp"
#include "common/system.hpp"
#include "common/verbs.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

constexpr std::byte poison{0xa5};
constexpr size_t buffer_size = 16 * page_size;
// The MR starts and ends inside the buffer, so bytes next to it can be seen.
constexpr size_t window_at = page_size + 64;
constexpr size_t window_size = 2 * page_size;

struct Memory {
    Buffer buffer{buffer_size};
    Mr mr;

    std::span<std::byte> window() const { return buffer.span(window_at, window_size); }
    uint64_t address() const { return reinterpret_cast<uint64_t>(window().data()); }
};

Memory make_memory(const Side &side, int access)
{
    Memory memory;
    std::memset(memory.buffer.data(), static_cast<int>(poison), buffer_size);
    memory.mr = make_mr(side, memory.window(), access);
    return memory;
}

bool untouched(std::span<const std::byte> bytes)
{
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == poison; });
}

// A connected pair and a registered window a side.
struct Bench {
    Pair pair;
    Memory a;
    Memory b;

    Bench(const Sides &sides, const Link &link, int access_a = all_access, int access_b = all_access)
        : pair(make_pair(sides, link,
                         {.send_wr = 32, .recv_wr = 32, .send_sge = 4, .recv_sge = 4,
                          .inline_data = 64})),
          a(make_memory(sides.a, access_a)), b(make_memory(sides.b, access_b))
    {
        drain_events(sides.a.context.get());
        drain_events(sides.b.context.get());
    }

    ibv_send_wr request(uint64_t id, ibv_wr_opcode opcode, std::span<ibv_sge> sges) const
    {
        ibv_send_wr wr = remote_request(opcode, sges, b.address(), b.mr->rkey, 1);
        wr.wr_id = id;
        return wr;
    }

    ibv_sge local(size_t offset, size_t length) const
    {
        return sge_of(a.window().subspan(offset, length), a.mr.get());
    }
};

void expect_event(const Side &side, ibv_event_type type, const void *element)
{
    const auto event = next_event(side.context.get(), milliseconds(1000));
    require(event.has_value(), "side {}: no asynchronous event, expected \"{}\"", side.name,
            ibv_event_type_str(type));
    require(event->type == type, "side {}: event \"{}\", expected \"{}\"", side.name,
            ibv_event_type_str(event->type), ibv_event_type_str(type));
    require(event->element == element, "side {}: event \"{}\" for the wrong object", side.name,
            ibv_event_type_str(type));
}

void expect_no_event(const Side &side)
{
    const auto event = next_event(side.context.get(), milliseconds(20));
    require(!event, "side {}: unexpected event \"{}\"", side.name,
            event ? ibv_event_type_str(event->type) : "");
}

void expect_state(const Endpoint &end, ibv_qp_state state)
{
    // The state follows the completion; give it a moment.
    const bool reached = wait_until(milliseconds(500),
                                    [&] { return query_state(end.qp.get()) == state; });
    require(reached, "side {}: QP state is {}, expected {}", end.side->name,
            static_cast<int>(query_state(end.qp.get())), static_cast<int>(state));
}

// ---------------------------------------------------------------------------
// Remote errors

enum class Answer { access, invalid_request };

struct Target {
    uint64_t address;
    uint32_t rkey;
};

struct RemoteError {
    const char *name;
    std::vector<ibv_wr_opcode> opcodes;
    Answer answer;
    // Changes the bench and gives the target of the request.
    std::function<Target(Bench &, const Sides &, uint32_t length)> prepare;
    int access = all_access;    // of the peer's MR
    int qp_access = all_access; // of both QPs
};

const std::vector<ibv_wr_opcode> writes{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
const std::vector<ibv_wr_opcode> reads{IBV_WR_RDMA_READ};
const std::vector<ibv_wr_opcode> atomics{IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
const std::vector<ibv_wr_opcode> write_read{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
const std::vector<ibv_wr_opcode> all_remote{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                            IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                                            IBV_WR_ATOMIC_FETCH_AND_ADD};

const char *opcode_name(ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
        return "write";
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return "write_imm";
    case IBV_WR_RDMA_READ:
        return "read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return "cmp_swap";
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return "fetch_add";
    default:
        return "send";
    }
}

bool is_atomic(ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

std::vector<RemoteError> remote_errors()
{
    const auto as_is = [](Bench &bench, const Sides &, uint32_t) {
        return Target{bench.b.address(), bench.b.mr->rkey};
    };
    return {
        {"rkey_unknown_index", all_remote, Answer::access,
         [](Bench &bench, const Sides &, uint32_t) {
             return Target{bench.b.address(), bench.b.mr->rkey ^ 0x7fff0000};
         }},
        {"rkey_wrong_variant", all_remote, Answer::access,
         [](Bench &bench, const Sides &, uint32_t) {
             return Target{bench.b.address(), bench.b.mr->rkey ^ 1};
         }},
        {"rkey_zero", write_read, Answer::access,
         [](Bench &bench, const Sides &, uint32_t) { return Target{bench.b.address(), 0}; }},
        {"rkey_deregistered", all_remote, Answer::access,
         [](Bench &bench, const Sides &sides, uint32_t) {
             const uint32_t rkey = bench.b.mr->rkey;
             // The next MR may get the same index; the old key must not fit it.
             bench.b.mr.reset();
             bench.b.mr = make_mr(sides.b, bench.b.window(), all_access);
             require(bench.b.mr->rkey != rkey, "a new MR has the R_Key of the one before");
             return Target{bench.b.address(), rkey};
         }},
        {"rkey_of_another_pd", all_remote, Answer::access,
         [](Bench &bench, const Sides &sides, uint32_t) {
             // Keeps both alive beyond the request.
             static Pd pd;
             static Mr mr;
             mr.reset();
             pd.reset();
             pd = Pd(ibv_alloc_pd(sides.b.context.get()));
             mr = Mr(ibv_reg_mr(pd.get(), bench.b.window().data(), window_size, all_access));
             require(bool(mr), "cannot register in a second PD");
             return Target{bench.b.address(), mr->rkey};
         }},
        {"one_byte_past_the_end", all_remote, Answer::access,
         [](Bench &bench, const Sides &, uint32_t length) {
             // Atomics must stay aligned, they go past by eight.
             const uint32_t inside = length == 8 ? 0 : length - 1;
             return Target{bench.b.address() + window_size - inside, bench.b.mr->rkey};
         }},
        {"one_byte_before_the_start", write_read, Answer::access,
         [](Bench &bench, const Sides &, uint32_t) {
             return Target{bench.b.address() - 1, bench.b.mr->rkey};
         }},
        {"wraps_around_the_address_space", write_read, Answer::access,
         [](Bench &bench, const Sides &, uint32_t length) {
             return Target{0ull - length / 2, bench.b.mr->rkey};
         }},
        {"ends_at_the_top_of_the_address_space", write_read, Answer::access,
         [](Bench &bench, const Sides &, uint32_t length) {
             return Target{0ull - length, bench.b.mr->rkey};
         }},
        {"mr_without_remote_write", writes, Answer::access, as_is,
         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC},
        {"mr_without_remote_read", reads, Answer::access, as_is,
         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC},
        {"mr_without_remote_atomic", atomics, Answer::access, as_is,
         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
        {"mr_local_only", all_remote, Answer::access, as_is, IBV_ACCESS_LOCAL_WRITE},
        // "A function not supported by this QP" is an invalid request.
        {"qp_without_remote_write", writes, Answer::invalid_request, as_is, all_access,
         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC},
        {"qp_without_remote_read", reads, Answer::invalid_request, as_is, all_access,
         IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC},
        {"qp_without_remote_atomic", atomics, Answer::invalid_request, as_is, all_access,
         IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ},
    };
}

// One bad request between good ones: those before succeed, those behind are
// flushed and leave no trace.
void remote_error(const Sides &sides, Link link, const RemoteError &error, ibv_wr_opcode opcode,
                  uint32_t length)
{
    link.qp_access = error.qp_access;
    Bench bench(sides, link, all_access, error.access);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    ibv_qp *qp_b = bench.pair.b.qp.get();
    ibv_cq *cq_a = bench.pair.a.send_cq.get();
    ibv_cq *cq_b = bench.pair.b.recv_cq.get();
    for (uint64_t id = 100; id < 103; id++)
        post_recv(qp_b, id, {});
    const Target target = error.prepare(bench, sides, length);
    std::memset(bench.a.window().data(), 0x11, window_size);
    std::memset(bench.b.window().data(), static_cast<int>(poison), window_size);

    std::array good{bench.local(0, 0)};
    std::array bad{bench.local(0, length)};
    ibv_send_wr first = bench.request(1, IBV_WR_SEND, good);
    ibv_send_wr second = bench.request(2, opcode, bad);
    if (is_atomic(opcode)) {
        second.wr.atomic.remote_addr = target.address;
        second.wr.atomic.rkey = target.rkey;
    } else {
        second.wr.rdma.remote_addr = target.address;
        second.wr.rdma.rkey = target.rkey;
    }
    ibv_send_wr third = bench.request(3, IBV_WR_SEND, good);
    ibv_send_wr fourth = bench.request(4, IBV_WR_SEND, good);
    fourth.send_flags = 0; // flushed all the same, and reported
    first.next = &second;
    second.next = &third;
    third.next = &fourth;
    post_send(qp_a, first);

    check_wc(must_poll(cq_a, "good request"), IBV_WC_SUCCESS, 1, qp_a, "good request");
    check_wc(must_poll(cq_a, "bad request"),
             error.answer == Answer::access ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR, 2,
             qp_a, "bad request");
    check_wc(must_poll(cq_a, "request behind"), IBV_WC_WR_FLUSH_ERR, 3, qp_a, "request behind");
    check_wc(must_poll(cq_a, "unsignaled request behind"), IBV_WC_WR_FLUSH_ERR, 4, qp_a,
             "unsignaled request behind");
    check_wc(must_poll(cq_b, "first receive"), IBV_WC_SUCCESS, 100, qp_b, "first receive");
    expect_event(sides.b,
                 error.answer == Answer::access ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR,
                 qp_b);
    expect_state(bench.pair.a, IBV_QPS_ERR);
    expect_state(bench.pair.b, IBV_QPS_ERR);
    for (uint64_t id = 101; id < 103; id++)
        check_wc(must_poll(cq_b, "flushed receive", milliseconds(1000)), IBV_WC_WR_FLUSH_ERR, id,
                 qp_b, "flushed receive");
    must_be_empty(cq_a, "requester");
    must_be_empty(cq_b, "responder");
    require(untouched(bench.b.buffer.span()), "the refused request changed the peer's memory");
    for (const std::byte b : bench.a.window())
        require(b == std::byte{0x11}, "the refused request changed local memory");
    expect_no_event(sides.a);
    expect_no_event(sides.b);
}

void zero_length_ignores_rkey(const Sides &sides, const Link &link)
{
    Bench bench(sides, link);
    for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        ibv_send_wr wr = bench.request(opcode, opcode, {});
        wr.wr.rdma.rkey = 0xdeadbeef;
        wr.wr.rdma.remote_addr = ~0ull;
        post_send(bench.pair.a.qp.get(), wr);
        check_wc(must_poll(bench.pair.a.send_cq.get(), opcode_name(opcode)), IBV_WC_SUCCESS, opcode,
                 bench.pair.a.qp.get(), opcode_name(opcode));
    }
}

// ---------------------------------------------------------------------------
// Receives that do not fit

void receive_too_short(const Sides &sides, const Link &link, uint32_t length, uint32_t room)
{
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    ibv_qp *qp_b = bench.pair.b.qp.get();
    std::array receive{sge_of(bench.b.window().first(room), bench.b.mr.get())};
    post_recv(qp_b, 7, receive);
    post_recv(qp_b, 8, receive);
    std::array sges{bench.local(0, length)};
    ibv_send_wr wr = bench.request(1, IBV_WR_SEND, sges);
    post_send(qp_a, wr);
    check_wc(must_poll(bench.pair.b.recv_cq.get(), "receive"), IBV_WC_LOC_LEN_ERR, 7, qp_b,
             "receive");
    check_wc(must_poll(bench.pair.a.send_cq.get(), "send"), IBV_WC_REM_INV_REQ_ERR, 1, qp_a,
             "send");
    check_wc(must_poll(bench.pair.b.recv_cq.get(), "receive behind"), IBV_WC_WR_FLUSH_ERR, 8, qp_b,
             "receive behind");
    expect_state(bench.pair.a, IBV_QPS_ERR);
    expect_state(bench.pair.b, IBV_QPS_ERR);
    require(untouched(bench.b.buffer.span(window_at + room, window_size - room)),
            "bytes behind the receive were written");
}

void receive_protection(const Sides &sides, const Link &link, const char *what)
{
    const bool no_write = !std::strcmp(what, "no_local_write");
    Bench bench(sides, link, all_access, no_write ? IBV_ACCESS_REMOTE_READ : all_access);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    ibv_qp *qp_b = bench.pair.b.qp.get();
    std::array receive{sge_of(bench.b.window().first(256), bench.b.mr.get())};
    if (!std::strcmp(what, "bad_lkey"))
        receive[0].lkey ^= 0x7fff0000;
    if (!std::strcmp(what, "out_of_bounds"))
        receive[0].addr = bench.b.address() + window_size - 255;
    post_recv(qp_b, 7, receive);
    std::array sges{bench.local(0, 256)};
    ibv_send_wr wr = bench.request(1, IBV_WR_SEND, sges);
    post_send(qp_a, wr);
    check_wc(must_poll(bench.pair.b.recv_cq.get(), "receive"), IBV_WC_LOC_PROT_ERR, 7, qp_b,
             "receive");
    check_wc(must_poll(bench.pair.a.send_cq.get(), "send"), IBV_WC_REM_OP_ERR, 1, qp_a, "send");
    expect_state(bench.pair.a, IBV_QPS_ERR);
    expect_state(bench.pair.b, IBV_QPS_ERR);
    require(untouched(bench.b.buffer.span(window_at + window_size, page_size)) &&
                (!no_write || untouched(bench.b.buffer.span())),
            "memory outside the MR was written");
}

// ---------------------------------------------------------------------------
// Not ready, not there

// What the 5-bit RNR timer code stands for, in microseconds (table 45).
constexpr std::array<uint32_t, 32> rnr_timer_us{
    655360, 10,    20,    30,    40,    60,    80,    120,   160,   240,    320,
    480,    640,   960,   1280,  1920,  2560,  3840,  5120,  7680,  10240,  15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};

void rnr_exceeded(const Sides &sides, Link link, uint8_t retries, uint8_t timer)
{
    link.rnr_retry = retries;
    link.min_rnr_timer = timer;
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    std::array sges{bench.local(0, 100)};
    ibv_send_wr wr = bench.request(1, IBV_WR_SEND, sges);
    const auto start = Clock::now();
    post_send(qp_a, wr);
    check_wc(must_poll(bench.pair.a.send_cq.get(), "send"), IBV_WC_RNR_RETRY_EXC_ERR, 1, qp_a,
             "send");
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    const int64_t least = int64_t{rnr_timer_us[timer]} * retries;
    require(took.count() >= least, "gave up after {} us, before {} retries of {} us", took.count(),
            retries, rnr_timer_us[timer]);
    expect_state(bench.pair.a, IBV_QPS_ERR);
    // Not ready is no error of the responder.
    expect_state(bench.pair.b, IBV_QPS_RTS);
}

void rnr_until_ready(const Sides &sides, Link link, ibv_wr_opcode opcode)
{
    link.rnr_retry = 7;
    link.min_rnr_timer = 12;
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    std::array sges{bench.local(0, 3000)};
    std::memset(bench.a.window().data(), 0x33, window_size);
    ibv_send_wr wr = bench.request(1, opcode, sges);
    post_send(qp_a, wr);
    require(!poll_for(bench.pair.a.send_cq.get(), milliseconds(150)),
            "completion without a receive");
    std::array receive{sge_of(bench.b.window().first(3000), bench.b.mr.get())};
    post_recv(bench.pair.b.qp.get(), 2, receive);
    check_wc(must_poll(bench.pair.a.send_cq.get(), "send"), IBV_WC_SUCCESS, 1, qp_a, "send");
    check_wc(must_poll(bench.pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, 2,
             bench.pair.b.qp.get(), "receive");
    require(std::all_of(bench.b.window().begin(), bench.b.window().begin() + 3000,
                        [](std::byte b) { return b == std::byte{0x33}; }),
            "wrong data");
}

void retry_exceeded(const Sides &sides, Link link, const char *peer)
{
    link.timeout = 10; // 4.2 ms
    link.retry_cnt = 2;
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    if (!std::strcmp(peer, "destroyed"))
        bench.pair.b.qp.reset();
    else if (!std::strcmp(peer, "in_reset"))
        must_modify(bench.pair.b.qp.get(), state_step(IBV_QPS_RESET), "RESET");
    else
        must_modify(bench.pair.b.qp.get(), state_step(IBV_QPS_ERR), "ERR");
    std::array sges{bench.local(0, 100)};
    ibv_send_wr wr = bench.request(1, IBV_WR_RDMA_WRITE, sges);
    ibv_send_wr behind = bench.request(2, IBV_WR_RDMA_WRITE, sges);
    wr.next = &behind;
    const auto start = Clock::now();
    post_send(qp_a, wr);
    check_wc(must_poll(bench.pair.a.send_cq.get(), "write"), IBV_WC_RETRY_EXC_ERR, 1, qp_a,
             "write");
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - start);
    require(took >= milliseconds(7 * 4), "gave up after {} ms, 1 + 2 + 4 timeouts are 28", took.count());
    require(took < milliseconds(3000), "took {} ms", took.count());
    check_wc(must_poll(bench.pair.a.send_cq.get(), "behind"), IBV_WC_WR_FLUSH_ERR, 2, qp_a,
             "behind");
    expect_state(bench.pair.a, IBV_QPS_ERR);
    require(untouched(bench.b.buffer.span()), "the peer's memory was written");
}

// A qdisc that gives the device next to nothing.
class StuckDevice {
public:
    explicit StuckDevice(const Side &side) : side_(side)
    {
        netdev_ = run({"cat", fmt::format("/sys/class/infiniband/{}/ports/1/gid_attrs/ndevs/0", side.device)});
        netdev_.erase(netdev_.find_last_not_of('\n') + 1);
        // superpackets would be cut, and so leave the QP's count of what the device has
        run({"ethtool", "-K", netdev_, "tx-udp-segmentation", "off"});
        run({"tc", "qdisc", "add", "dev", netdev_, "root", "tbf", "rate", "1kbit", "burst", "1600", "limit",
             "1000000"});
    }
    ~StuckDevice()
    {
        try {
            run({"tc", "qdisc", "del", "dev", netdev_, "root"});
            run({"ethtool", "-K", netdev_, "tx-udp-segmentation", "on"});
        } catch (const std::exception &error) {
            fmt::print("# {}\n", error.what());
        }
    }
    StuckDevice(const StuckDevice &) = delete;
    StuckDevice &operator=(const StuckDevice &) = delete;

private:
    std::string run(std::vector<std::string> argv) const
    {
        if (!side_.netns.empty())
            argv.insert(argv.begin(), {"ip", "netns", "exec", side_.netns});
        return run_command(argv);
    }

    const Side &side_;
    std::string netdev_;
};

// Packets that the device does not take are lost, too, in the end: after a time-out none of them can be sent again,
// since so many are there already.
void retry_exceeded_in_device(const Sides &sides, Link link)
{
    constexpr uint64_t requests = 8;
    link.mtu = IBV_MTU_256;
    link.timeout = 10; // 4.2 ms
    link.retry_cnt = 2;
    Bench bench(sides, link);
    const StuckDevice stuck(sides.a);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    std::array sges{bench.local(0, window_size)};
    for (uint64_t id = 1; id <= requests; id++) {
        ibv_send_wr wr = bench.request(id, IBV_WR_RDMA_WRITE, sges);
        post_send(qp_a, wr);
    }
    check_wc(must_poll(bench.pair.a.send_cq.get(), "write"), IBV_WC_RETRY_EXC_ERR, 1, qp_a, "write");
    for (uint64_t id = 2; id <= requests; id++)
        check_wc(must_poll(bench.pair.a.send_cq.get(), "behind"), IBV_WC_WR_FLUSH_ERR, id, qp_a, "behind");
    expect_state(bench.pair.a, IBV_QPS_ERR);
}

// ---------------------------------------------------------------------------
// Local errors

struct LocalError {
    const char *name;
    std::vector<ibv_wr_opcode> opcodes;
    std::function<void(Bench &, const Sides &, std::vector<ibv_sge> &)> spoil;
    int access = all_access;
};

std::vector<LocalError> local_errors()
{
    const std::vector<ibv_wr_opcode> every{IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                           IBV_WR_ATOMIC_FETCH_AND_ADD};
    return {
        {"bad_lkey", every,
         [](Bench &, const Sides &, std::vector<ibv_sge> &sges) { sges[0].lkey ^= 0x7fff0000; }},
        {"wrong_lkey_variant", every,
         [](Bench &, const Sides &, std::vector<ibv_sge> &sges) { sges[0].lkey ^= 1; }},
        {"one_byte_out_of_bounds", every,
         [](Bench &bench, const Sides &, std::vector<ibv_sge> &sges) {
             sges[0].addr = bench.a.address() + window_size - sges[0].length + 1;
         }},
        {"wraps_around", every,
         [](Bench &, const Sides &, std::vector<ibv_sge> &sges) { sges[0].addr = 0ull - 4; }},
        {"second_sge_bad",
         {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ},
         [](Bench &, const Sides &, std::vector<ibv_sge> &sges) {
             sges.push_back(sges[0]);
             sges[1].lkey ^= 0x7fff0000;
         }},
        {"mr_of_another_pd", every,
         [](Bench &bench, const Sides &sides, std::vector<ibv_sge> &sges) {
             static Pd pd;
             static Mr mr;
             mr.reset();
             pd.reset();
             pd = Pd(ibv_alloc_pd(sides.a.context.get()));
             mr = Mr(ibv_reg_mr(pd.get(), bench.a.window().data(), window_size, all_access));
             require(bool(mr), "cannot register in a second PD");
             sges[0].lkey = mr->lkey;
         }},
        {"mr_without_local_write",
         {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD},
         [](Bench &, const Sides &, std::vector<ibv_sge> &) {},
         IBV_ACCESS_REMOTE_READ},
    };
}

void local_error(const Sides &sides, const Link &link, const LocalError &error,
                 ibv_wr_opcode opcode)
{
    Bench bench(sides, link, error.access);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    if (opcode == IBV_WR_SEND) {
        std::array receive{sge_of(bench.b.window(), bench.b.mr.get())};
        post_recv(bench.pair.b.qp.get(), 7, receive);
    }
    std::vector<ibv_sge> sges{bench.local(0, is_atomic(opcode) ? 8 : 16)};
    error.spoil(bench, sides, sges);
    ibv_send_wr wr = bench.request(1, opcode, sges);
    std::array good{bench.local(0, 0)};
    ibv_send_wr behind = bench.request(2, IBV_WR_RDMA_WRITE, good);
    wr.next = &behind;
    post_send(qp_a, wr);
    check_wc(must_poll(bench.pair.a.send_cq.get(), "request"), IBV_WC_LOC_PROT_ERR, 1, qp_a,
             "request");
    check_wc(must_poll(bench.pair.a.send_cq.get(), "request behind"), IBV_WC_WR_FLUSH_ERR, 2, qp_a,
             "request behind");
    expect_state(bench.pair.a, IBV_QPS_ERR);
    require(untouched(bench.a.buffer.span()), "local memory was written");
    // The responder has seen nothing wrong.
    expect_state(bench.pair.b, IBV_QPS_RTS);
    expect_no_event(sides.b);
}

void refused_posts(const Sides &sides, const Link &link)
{
    Bench bench(sides, link);
    ibv_qp *qp = bench.pair.a.qp.get();
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    require(!ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp failed");
    ibv_send_wr *bad = nullptr;

    std::vector<ibv_sge> many(init.cap.max_send_sge + 1, bench.local(0, 1));
    ibv_send_wr wr = bench.request(1, IBV_WR_RDMA_WRITE, many);
    require(ibv_post_send(qp, &wr, &bad) != 0, "{} SGEs were accepted, the limit is {}",
            many.size(), init.cap.max_send_sge);
    require(bad == &wr, "bad_wr does not name the refused request");

    std::array sges{bench.local(0, init.cap.max_inline_data + 1)};
    wr = bench.request(2, IBV_WR_RDMA_WRITE, sges);
    wr.send_flags |= IBV_SEND_INLINE;
    require(ibv_post_send(qp, &wr, &bad) != 0, "{} bytes inline were accepted, the limit is {}",
            sges[0].length, init.cap.max_inline_data);

    ibv_recv_wr recv{};
    ibv_recv_wr *bad_recv = nullptr;
    std::vector<ibv_sge> many_recv(init.cap.max_recv_sge + 1, bench.local(0, 1));
    recv.sg_list = many_recv.data();
    recv.num_sge = static_cast<int>(many_recv.size());
    require(ibv_post_recv(qp, &recv, &bad_recv) != 0, "{} receive SGEs were accepted",
            many_recv.size());

    // A full receive queue.
    uint32_t posted = 0;
    recv.num_sge = 0;
    while (posted <= init.cap.max_recv_wr * 4 && !ibv_post_recv(qp, &recv, &bad_recv))
        posted++;
    require(posted >= 32, "only {} receives fit a queue of 32", posted);
    require(posted >= init.cap.max_recv_wr && posted <= init.cap.max_recv_wr + 1,
            "{} receives fit, the QP says {}", posted, init.cap.max_recv_wr);

    // A full send queue: the peer is not ready, so nothing completes.
    std::array one{bench.local(0, 1)};
    uint32_t sent = 0;
    wr = bench.request(3, IBV_WR_SEND, one);
    while (sent <= init.cap.max_send_wr * 4 && !ibv_post_send(qp, &wr, &bad))
        sent++;
    require(sent >= 32, "only {} requests fit a queue of 32", sent);
    require(sent >= init.cap.max_send_wr && sent <= init.cap.max_send_wr + 1,
            "{} requests fit, the QP says {}", sent, init.cap.max_send_wr);

    // None of the refused ones may have done anything.
    must_modify(qp, state_step(IBV_QPS_ERR), "ERR");
    for (uint32_t i = 0; i < sent; i++)
        check_wc(must_poll(bench.pair.a.send_cq.get(), "flush"), IBV_WC_WR_FLUSH_ERR, 3, qp,
                 "flush");
    must_be_empty(bench.pair.a.send_cq.get(), "after the flush");
    require(untouched(bench.b.buffer.span()), "a refused request wrote");
}

void post_in_wrong_state(const Sides &sides, const Link &link)
{
    Endpoint end = make_endpoint(sides.a);
    Endpoint peer = make_endpoint(sides.b);
    ibv_qp *qp = end.qp.get();
    ibv_send_wr wr{};
    ibv_send_wr *bad = nullptr;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    require(ibv_post_send(qp, &wr, &bad) != 0, "ibv_post_send worked in RESET");
    to_init(sides.a, qp, link);
    require(ibv_post_send(qp, &wr, &bad) != 0, "ibv_post_send worked in INIT");
    must_modify(qp, rtr_step(sides.a, link, peer.qp->qp_num, sides.b.gid, 0), "RTR");
    require(ibv_post_send(qp, &wr, &bad) != 0, "ibv_post_send worked in RTR");
}

void message_over_the_limit(const Sides &sides, const Link &link)
{
    Bench bench(sides, link);
    const uint64_t limit = std::min(sides.a.port_attr.max_msg_sz, sides.b.port_attr.max_msg_sz);
    if (limit >= 0xffffffff)
        skip("the ports take every length an SGE list of this test can name");
    // The length counts before the memory: none of it has to exist.
    std::array sges{bench.local(0, 1), bench.local(0, 1)};
    sges[0].length = static_cast<uint32_t>(limit);
    ibv_send_wr wr = bench.request(1, IBV_WR_RDMA_WRITE, sges);
    ibv_send_wr *bad = nullptr;
    if (ibv_post_send(bench.pair.a.qp.get(), &wr, &bad))
        return; // refused at once: just as good
    const ibv_wc wc = must_poll(bench.pair.a.send_cq.get(), "write");
    require(wc.status == IBV_WC_LOC_LEN_ERR || wc.status == IBV_WC_LOC_PROT_ERR ||
                wc.status == IBV_WC_LOC_QP_OP_ERR,
            "status is \"{}\"", ibv_wc_status_str(wc.status));
    require(untouched(bench.b.buffer.span()), "bytes arrived");
}

// ---------------------------------------------------------------------------
// Flush, limits, CQ overrun

void flush(const Sides &sides, Link link)
{
    link.rnr_retry = 7;
    link.min_rnr_timer = 0; // 655 ms: the requests stay outstanding
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    std::array sges{bench.local(0, 100)};
    constexpr uint64_t n = 12;
    for (uint64_t id = 0; id < n; id++) {
        ibv_send_wr wr = bench.request(id, IBV_WR_SEND, sges);
        wr.send_flags = flag_if(id % 2, IBV_SEND_SIGNALED);
        post_send(qp_a, wr);
        post_recv(qp_a, 1000 + id, sges);
    }
    require(!poll_for(bench.pair.a.send_cq.get(), milliseconds(20)), "completion too early");
    must_modify(qp_a, state_step(IBV_QPS_ERR), "ERR");
    for (uint64_t id = 0; id < n; id++) {
        check_wc(must_poll(bench.pair.a.send_cq.get(), "send flush"), IBV_WC_WR_FLUSH_ERR, id,
                 qp_a, "send flush");
        check_wc(must_poll(bench.pair.a.recv_cq.get(), "receive flush"), IBV_WC_WR_FLUSH_ERR,
                 1000 + id, qp_a, "receive flush");
    }
    must_be_empty(bench.pair.a.send_cq.get(), "send flush");
    must_be_empty(bench.pair.a.recv_cq.get(), "receive flush");

    // Requests posted in the error state are flushed too.
    ibv_send_wr wr = bench.request(50, IBV_WR_SEND, sges);
    post_send(qp_a, wr);
    check_wc(must_poll(bench.pair.a.send_cq.get(), "post in ERR"), IBV_WC_WR_FLUSH_ERR, 50, qp_a,
             "post in ERR");
}

// A peer that is never ready, asked for ever: no storm of packets, and all arrives once it is.
void rnr_storm(const Sides &sides, Link link)
{
    link.min_rnr_timer = 1; // 10 us
    link.rnr_retry = 7;     // for ever
    Bench bench(sides, link);
    std::array sges{bench.local(0, 64)};
    const uint64_t before = hw_counter(sides.b, "resp_rnr_nak");
    for (uint64_t id = 0; id < 16; id++) {
        ibv_send_wr wr = bench.request(id, IBV_WR_SEND, sges);
        post_send(bench.pair.a.qp.get(), wr);
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const uint64_t naks = hw_counter(sides.b, "resp_rnr_nak") - before;
    diag(fmt::format("{} RNR NAKs in a second", naks));
    require(naks >= 2 && naks < 2000, "{} RNR NAKs in a second", naks);
    must_be_empty(bench.pair.a.send_cq.get(), "nothing was received yet");
    for (uint64_t id = 0; id < 16; id++) {
        std::array target{sge_of(bench.b.window().subspan(id * 64, 64), bench.b.mr.get())};
        post_recv(bench.pair.b.qp.get(), id, target);
    }
    for (uint64_t id = 0; id < 16; id++) {
        check_wc(must_poll(bench.pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, id,
                 bench.pair.b.qp.get(), "receive");
        check_wc(must_poll(bench.pair.a.send_cq.get(), "send"), IBV_WC_SUCCESS, id,
                 bench.pair.a.qp.get(), "send");
    }
}

void read_atomic_limits(const Sides &sides, Link link)
{
    link.max_rd_atomic = 1;
    link.max_dest_rd_atomic = 1;
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    uint64_t counter = 0;
    std::memcpy(bench.b.window().data(), &counter, 8);
    std::array<ibv_sge, 1> sges;
    for (uint64_t id = 0; id < 24; id++) {
        const bool read = id % 3 == 0;
        sges[0] = bench.local(id * 64, read ? 64 : 8);
        ibv_send_wr wr =
            bench.request(id, read ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD, sges);
        post_send(qp_a, wr);
    }
    for (uint64_t id = 0; id < 24; id++) {
        check_wc(must_poll(bench.pair.a.send_cq.get(), "request"), IBV_WC_SUCCESS, id, qp_a,
                 "request");
        uint64_t value = 0;
        std::memcpy(&value, bench.a.window().data() + id * 64, 8);
        require(value == counter, "request {}: value {}, expected {}", id, value, counter);
        counter += id % 3 != 0;
    }
}

// More requests at once than the responder said it can keep: it may cope or
// refuse, but never answer wrongly.
void read_atomic_overrun(const Sides &sides, Link link)
{
    link.max_rd_atomic = 16;
    link.max_dest_rd_atomic = 1;
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    std::memset(bench.b.window().data(), 0x77, window_size);
    std::array<ibv_sge, 1> sges;
    for (uint64_t id = 0; id < 16; id++) {
        sges[0] = bench.local(id * 256, 256);
        ibv_send_wr wr = bench.request(id, IBV_WR_RDMA_READ, sges);
        post_send(qp_a, wr);
    }
    bool refused = false;
    for (uint64_t id = 0; id < 16; id++) {
        const ibv_wc wc = must_poll(bench.pair.a.send_cq.get(), "read");
        require(wc.wr_id == id, "wr_id {}, expected {}", wc.wr_id, id);
        if (wc.status == IBV_WC_SUCCESS && !refused) {
            require(bench.a.window()[id * 256] == std::byte{0x77}, "wrong data");
        } else {
            require(wc.status == (refused ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_INV_REQ_ERR),
                    "status is \"{}\"", ibv_wc_status_str(wc.status));
            refused = true;
        }
    }
}

void cq_overrun(const Sides &sides, const Link &link)
{
    Pair pair{make_endpoint(sides.a, {.send_wr = 512}, 4), make_endpoint(sides.b)};
    connect(sides.a, pair.a.qp.get(), sides.b, pair.b.qp.get(), link);
    drain_events(sides.a.context.get());
    const int room = pair.a.send_cq->cqe;
    require(room >= 4, "a CQ of 4 entries holds {}", room);
    for (int i = 0; i < room + 8; i++) {
        ibv_send_wr wr{};
        ibv_send_wr *bad = nullptr;
        wr.wr_id = static_cast<uint64_t>(i);
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        // The QP may be in error before the last one.
        if (ibv_post_send(pair.a.qp.get(), &wr, &bad))
            break;
    }
    bool cq_error = false;
    bool qp_fatal = false;
    while (const auto event = next_event(sides.a.context.get(), milliseconds(500))) {
        if (event->type == IBV_EVENT_CQ_ERR) {
            require(event->element == pair.a.send_cq.get(), "CQ_ERR for another CQ");
            cq_error = true;
        } else if (event->type == IBV_EVENT_QP_FATAL) {
            require(event->element == pair.a.qp.get(), "QP_FATAL for another QP");
            qp_fatal = true;
        } else {
            fail("unexpected event \"{}\"", ibv_event_type_str(event->type));
        }
        if (cq_error && qp_fatal)
            break;
    }
    require(cq_error, "no IBV_EVENT_CQ_ERR after {} completions into a CQ of {}", room + 8, room);
    diag(fmt::format("cq_overrun: CQ of {}, QP_FATAL {}, QP state {}", room,
                     qp_fatal ? "seen" : "not seen",
                     static_cast<int>(query_state(pair.a.qp.get()))));
    // What was completed in time is there and in order.
    ibv_wc wc{};
    uint64_t next = 0;
    while (next < static_cast<uint64_t>(room) && ibv_poll_cq(pair.a.send_cq.get(), 1, &wc) == 1) {
        require(wc.wr_id == next && wc.status == IBV_WC_SUCCESS, "completion {} is wr_id {} \"{}\"",
                next, wc.wr_id, ibv_wc_status_str(wc.status));
        next++;
    }
    require(next == static_cast<uint64_t>(room), "only {} of {} completions are there", next, room);
}

// ---------------------------------------------------------------------------
// States

void exchange_data(Bench &bench, uint64_t id)
{
    std::array receive{sge_of(bench.b.window().first(2000), bench.b.mr.get())};
    std::array sges{bench.local(0, 2000)};
    std::memset(bench.a.window().data(), static_cast<int>(id), 2000);
    post_recv(bench.pair.b.qp.get(), id, receive);
    ibv_send_wr wr = bench.request(id, IBV_WR_SEND, sges);
    post_send(bench.pair.a.qp.get(), wr);
    check_wc(must_poll(bench.pair.a.send_cq.get(), "send"), IBV_WC_SUCCESS, id,
             bench.pair.a.qp.get(), "send");
    check_wc(must_poll(bench.pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, id,
             bench.pair.b.qp.get(), "receive");
    require(!std::memcmp(bench.a.window().data(), bench.b.window().data(), 2000), "wrong data");
}

void full_life(const Sides &sides, const Link &link)
{
    Bench bench(sides, link);
    ibv_qp *qp_a = bench.pair.a.qp.get();
    ibv_qp *qp_b = bench.pair.b.qp.get();
    exchange_data(bench, 1);

    note("RTS to SQD");
    Modify drain = state_step(IBV_QPS_SQD);
    drain.attr.en_sqd_async_notify = 1;
    drain.mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
    must_modify(qp_a, drain, "SQD");
    expect_event(sides.a, IBV_EVENT_SQ_DRAINED, qp_a);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    require(!ibv_query_qp(qp_a, &attr, IBV_QP_STATE, &init), "ibv_query_qp failed");
    require(attr.qp_state == IBV_QPS_SQD, "state is {}", static_cast<int>(attr.qp_state));
    require(!attr.sq_draining, "sq_draining is set after the SQ_DRAINED event");

    note("requests wait in SQD, receives work");
    std::array sges{bench.local(0, 100)};
    std::array receive{sge_of(bench.b.window().first(2000), bench.b.mr.get())};
    post_recv(qp_b, 2, receive);
    ibv_send_wr wr = bench.request(2, IBV_WR_SEND, sges);
    post_send(qp_a, wr);
    require(!poll_for(bench.pair.a.send_cq.get(), milliseconds(50)),
            "a request posted in SQD was executed");
    std::array receive_a{bench.local(4096, 100)};
    post_recv(qp_a, 3, receive_a);
    std::array sges_b{sge_of(bench.b.window().subspan(4096, 100), bench.b.mr.get())};
    wr = bench.request(3, IBV_WR_SEND, sges_b);
    post_send(qp_b, wr);
    check_wc(must_poll(bench.pair.a.recv_cq.get(), "receive in SQD"), IBV_WC_SUCCESS, 3, qp_a,
             "receive in SQD");
    check_wc(must_poll(bench.pair.b.send_cq.get(), "send to SQD"), IBV_WC_SUCCESS, 3, qp_b,
             "send to SQD");
    must_modify(qp_a, state_step(IBV_QPS_RTS), "RTS");
    check_wc(must_poll(bench.pair.a.send_cq.get(), "send after SQD"), IBV_WC_SUCCESS, 2, qp_a,
             "send after SQD");
    check_wc(must_poll(bench.pair.b.recv_cq.get(), "receive after SQD"), IBV_WC_SUCCESS, 2, qp_b,
             "receive after SQD");
    exchange_data(bench, 4);

    for (uint64_t round = 0; round < 20; round++) {
        note(fmt::format("ERR to RESET and connected again, round {}", round));
        post_recv(qp_b, 999, receive); // must not survive the reset
        if (round % 2) {
            must_modify(qp_a, state_step(IBV_QPS_ERR), "ERR");
            must_modify(qp_b, state_step(IBV_QPS_ERR), "ERR");
            check_wc(must_poll(bench.pair.b.recv_cq.get(), "flush"), IBV_WC_WR_FLUSH_ERR, 999,
                     qp_b, "flush");
        }
        must_modify(qp_a, state_step(IBV_QPS_RESET), "RESET");
        must_modify(qp_b, state_step(IBV_QPS_RESET), "RESET");
        require(query_state(qp_a) == IBV_QPS_RESET, "the QP is not in RESET");
        connect(sides.a, qp_a, sides.b, qp_b, link);
        exchange_data(bench, 10 + round);
    }
    must_be_empty(bench.pair.a.send_cq.get(), "at the end");
    must_be_empty(bench.pair.b.recv_cq.get(), "at the end");
}

// A responder needs RTR only.
void receive_in_rtr(const Sides &sides, const Link &link)
{
    Pair pair{make_endpoint(sides.a), make_endpoint(sides.b)};
    ibv_qp *qp_a = pair.a.qp.get();
    ibv_qp *qp_b = pair.b.qp.get();
    to_init(sides.a, qp_a, link);
    to_init(sides.b, qp_b, link);
    post_recv(qp_b, 1, {});
    must_modify(qp_b, rtr_step(sides.b, link, qp_a->qp_num, sides.a.gid, 5), "RTR");
    must_modify(qp_a, rtr_step(sides.a, link, qp_b->qp_num, sides.b.gid, 6), "RTR");
    must_modify(qp_a, rts_step(link, 5), "RTS");
    ibv_send_wr wr{};
    wr.wr_id = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    post_send(qp_a, wr);
    check_wc(must_poll(pair.a.send_cq.get(), "send"), IBV_WC_SUCCESS, 1, qp_a, "send");
    check_wc(must_poll(pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, 1, qp_b, "receive");
    drain_events(sides.b.context.get()); // "communication established" is allowed
    must_modify(qp_b, rts_step(link, 6), "RTS");
}

// What ibv_query_qp says must be what ibv_modify_qp was told.
void query_truth(const Sides &sides, Link link)
{
    link.max_rd_atomic = 3;
    link.max_dest_rd_atomic = 5;
    link.timeout = 11;
    link.retry_cnt = 4;
    link.rnr_retry = 5;
    link.min_rnr_timer = 17;
    Pair pair = make_pair(sides, link);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    require(!ibv_query_qp(pair.a.qp.get(), &attr, (1 << 21) - 1, &init), "ibv_query_qp failed");
    require(attr.qp_state == IBV_QPS_RTS && attr.cur_qp_state == IBV_QPS_RTS, "state");
    require(attr.path_mtu == link.mtu, "path_mtu is {}", static_cast<int>(attr.path_mtu));
    require(attr.dest_qp_num == pair.b.qp->qp_num, "dest_qp_num is {:#x}", attr.dest_qp_num);
    require(attr.rq_psn == link.psn_b, "rq_psn is {:#x}", attr.rq_psn);
    require(attr.sq_psn == link.psn_a, "sq_psn is {:#x}", attr.sq_psn);
    require(attr.max_rd_atomic == 3, "max_rd_atomic is {}", attr.max_rd_atomic);
    require(attr.max_dest_rd_atomic == 5, "max_dest_rd_atomic is {}", attr.max_dest_rd_atomic);
    require(attr.timeout == 11, "timeout is {}", attr.timeout);
    require(attr.retry_cnt == 4, "retry_cnt is {}", attr.retry_cnt);
    require(attr.rnr_retry == 5, "rnr_retry is {}", attr.rnr_retry);
    require(attr.min_rnr_timer == 17, "min_rnr_timer is {}", attr.min_rnr_timer);
    require(attr.port_num == sides.a.port && attr.pkey_index == 0, "port or P_Key index");
    require(static_cast<int>(attr.qp_access_flags & static_cast<unsigned>(all_access)) ==
                    link.qp_access ||
                static_cast<int>(attr.qp_access_flags) == (link.qp_access | IBV_ACCESS_LOCAL_WRITE),
            "qp_access_flags are {:#x}", attr.qp_access_flags);
    require(!std::memcmp(&attr.ah_attr.grh.dgid, &sides.b.gid, 16), "dgid is {}",
            to_string(attr.ah_attr.grh.dgid));
    require(attr.ah_attr.grh.sgid_index == sides.a.gid_index, "sgid_index is {}",
            attr.ah_attr.grh.sgid_index);
    require(attr.ah_attr.grh.hop_limit == 64, "hop_limit is {}", attr.ah_attr.grh.hop_limit);
    require(init.send_cq == pair.a.send_cq.get() && init.qp_type == IBV_QPT_RC, "init attributes");
    require(init.cap.max_send_wr >= 64 && init.cap.max_recv_wr >= 64, "queue sizes");
}

using Step = std::function<Modify()>;

// A QP brought to a state, with the regular steps at hand.
struct StateBench {
    const Sides &sides;
    Link link;
    Endpoint end;
    Endpoint peer;

    StateBench(const Sides &s, const Link &l)
        : sides(s), link(l), end(make_endpoint(s.a)), peer(make_endpoint(s.b))
    {
    }

    Modify step(ibv_qp_state state) const
    {
        switch (state) {
        case IBV_QPS_INIT:
            return init_step(sides.a, link);
        case IBV_QPS_RTR:
            return rtr_step(sides.a, link, peer.qp->qp_num, sides.b.gid, 1);
        case IBV_QPS_RTS:
            return rts_step(link, 2);
        default:
            return state_step(state);
        }
    }

    void bring_to(ibv_qp_state state)
    {
        ibv_qp *qp = end.qp.get();
        must_modify(qp, state_step(IBV_QPS_RESET), "RESET");
        static constexpr std::array path{IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
        if (state == IBV_QPS_RESET)
            return;
        if (state == IBV_QPS_ERR) {
            must_modify(qp, step(IBV_QPS_INIT), "INIT");
            must_modify(qp, step(IBV_QPS_ERR), "ERR");
            return;
        }
        for (const ibv_qp_state next : path) {
            must_modify(qp, step(next), "the next state");
            if (next == state)
                break;
        }
        require(query_state(qp) == state, "the QP is not in the state it was brought to");
    }

    void must_refuse(ibv_qp_state from, const Modify &wrong, const std::string &what)
    {
        bring_to(from);
        const int error = modify(end.qp.get(), wrong);
        require(error != 0, "{}: accepted", what);
        require(query_state(end.qp.get()) == from, "{}: refused, but the state changed", what);
    }
};

constexpr std::array<const char *, 7> state_names{"RESET", "INIT", "RTR", "RTS",
                                                  "SQD",   "SQE",  "ERR"};

void transition_table(const Sides &sides, const Link &link)
{
    StateBench bench(sides, link);
    const auto legal = [](int from, int to) {
        if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
            return true;
        switch (from) {
        case IBV_QPS_RESET:
            return to == IBV_QPS_INIT;
        case IBV_QPS_INIT:
            return to == IBV_QPS_INIT || to == IBV_QPS_RTR;
        case IBV_QPS_RTR:
            return to == IBV_QPS_RTS;
        case IBV_QPS_RTS:
            return to == IBV_QPS_RTS || to == IBV_QPS_SQD;
        case IBV_QPS_SQD:
            return to == IBV_QPS_RTS || to == IBV_QPS_SQD;
        default:
            return false;
        }
    };
    for (const int from : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD,
                           IBV_QPS_ERR}) {
        for (const int to : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD,
                             IBV_QPS_SQE, IBV_QPS_ERR}) {
            // The specification allows it, the kernel's own table does not.
            if (from == IBV_QPS_RESET && to == IBV_QPS_ERR)
                continue;
            const auto f = static_cast<ibv_qp_state>(from);
            const auto t = static_cast<ibv_qp_state>(to);
            Modify step = bench.step(t);
            // Inside RTS and from SQD most attributes are not allowed.
            if (t == IBV_QPS_RTS && f != IBV_QPS_RTR)
                step = state_step(t);
            if (t == IBV_QPS_INIT && f == IBV_QPS_INIT)
                step.mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
            const std::string what =
                fmt::format("{} to {}", state_names[static_cast<size_t>(from)],
                            state_names[static_cast<size_t>(to)]);
            note(what);
            if (!legal(from, to)) {
                bench.must_refuse(f, step, what);
                continue;
            }
            bench.bring_to(f);
            const int error = modify(bench.end.qp.get(), step);
            require(!error, "{}: {}", what, std::strerror(error));
            require(query_state(bench.end.qp.get()) == t, "{}: state is another", what);
        }
    }
}

constexpr std::array mask_names{
    std::pair{IBV_QP_CUR_STATE, "CUR_STATE"},
    std::pair{IBV_QP_ACCESS_FLAGS, "ACCESS_FLAGS"},
    std::pair{IBV_QP_PKEY_INDEX, "PKEY_INDEX"},
    std::pair{IBV_QP_PORT, "PORT"},
    std::pair{IBV_QP_QKEY, "QKEY"},
    std::pair{IBV_QP_AV, "AV"},
    std::pair{IBV_QP_PATH_MTU, "PATH_MTU"},
    std::pair{IBV_QP_TIMEOUT, "TIMEOUT"},
    std::pair{IBV_QP_RETRY_CNT, "RETRY_CNT"},
    std::pair{IBV_QP_RNR_RETRY, "RNR_RETRY"},
    std::pair{IBV_QP_RQ_PSN, "RQ_PSN"},
    std::pair{IBV_QP_MAX_QP_RD_ATOMIC, "MAX_QP_RD_ATOMIC"},
    std::pair{IBV_QP_MIN_RNR_TIMER, "MIN_RNR_TIMER"},
    std::pair{IBV_QP_SQ_PSN, "SQ_PSN"},
    std::pair{IBV_QP_MAX_DEST_RD_ATOMIC, "MAX_DEST_RD_ATOMIC"},
    std::pair{IBV_QP_DEST_QPN, "DEST_QPN"},
};

void attribute_masks(const Sides &sides, const Link &link)
{
    StateBench bench(sides, link);
    struct Transition {
        ibv_qp_state from;
        ibv_qp_state to;
        int optional; // attributes that may be added
    };
    static constexpr int access_pkey = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX;
    const std::array transitions{
        Transition{IBV_QPS_RESET, IBV_QPS_INIT, 0},
        Transition{IBV_QPS_INIT, IBV_QPS_RTR, access_pkey},
        Transition{IBV_QPS_RTR, IBV_QPS_RTS,
                   IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    };
    for (const Transition &transition : transitions) {
        const Modify right = bench.step(transition.to);
        for (const auto &[bit, name] : mask_names) {
            Modify wrong = right;
            std::string what;
            if (right.mask & bit) {
                wrong.mask &= ~bit;
                what = fmt::format("to {} without {}", state_names[transition.to], name);
            } else if (!(transition.optional & bit)) {
                wrong.mask |= bit;
                what = fmt::format("to {} with {}", state_names[transition.to], name);
                // Valid values: the attribute itself is what is wrong.
                wrong.attr.port_num = sides.a.port;
                wrong.attr.path_mtu = IBV_MTU_1024;
                wrong.attr.cur_qp_state = transition.from;
                if (bit == IBV_QP_AV)
                    wrong.attr.ah_attr = bench.step(IBV_QPS_RTR).attr.ah_attr;
            } else {
                continue;
            }
            note(what);
            bench.must_refuse(transition.from, wrong, what);
        }
    }
}

void attribute_values(const Sides &sides, const Link &link)
{
    StateBench bench(sides, link);
    struct Wrong {
        const char *what;
        ibv_qp_state to;
        std::function<void(Modify &)> spoil;
    };
    const std::vector<Wrong> table{
        {"P_Key index out of the table", IBV_QPS_INIT,
         [&](Modify &m) { m.attr.pkey_index = sides.a.port_attr.pkey_tbl_len; }},
        {"port 0", IBV_QPS_INIT, [](Modify &m) { m.attr.port_num = 0; }},
        {"port past the last", IBV_QPS_INIT,
         [&](Modify &m) { m.attr.port_num = static_cast<uint8_t>(sides.a.attr.phys_port_cnt + 1); }},
        {"path MTU 0", IBV_QPS_RTR, [](Modify &m) { m.attr.path_mtu = static_cast<ibv_mtu>(0); }},
        {"path MTU 6", IBV_QPS_RTR, [](Modify &m) { m.attr.path_mtu = static_cast<ibv_mtu>(6); }},
        {"path MTU over the port's", IBV_QPS_RTR,
         [&](Modify &m) {
             m.attr.path_mtu = static_cast<ibv_mtu>(sides.a.port_attr.active_mtu + 1);
         }},
        {"an empty entry of the GID table", IBV_QPS_RTR,
         [&](Modify &m) {
             m.attr.ah_attr.grh.sgid_index =
                 static_cast<uint8_t>(std::min(sides.a.port_attr.gid_tbl_len - 1, 255));
         }},
        {"no GRH", IBV_QPS_RTR, [](Modify &m) { m.attr.ah_attr.is_global = 0; }},
        {"a zero destination GID", IBV_QPS_RTR,
         [](Modify &m) { m.attr.ah_attr.grh.dgid = ibv_gid{}; }},
        {"another port in the address", IBV_QPS_RTR,
         [&](Modify &m) {
             m.attr.ah_attr.port_num = static_cast<uint8_t>(sides.a.attr.phys_port_cnt + 1);
         }},
        {"max_dest_rd_atomic over the device's", IBV_QPS_RTR,
         [&](Modify &m) {
             if (sides.a.attr.max_qp_rd_atom >= 255)
                 m.mask = 0;
             m.attr.max_dest_rd_atomic = static_cast<uint8_t>(sides.a.attr.max_qp_rd_atom + 1);
         }},
        {"min_rnr_timer 32", IBV_QPS_RTR, [](Modify &m) { m.attr.min_rnr_timer = 32; }},
        {"destination QPN of 25 bits", IBV_QPS_RTR,
         [](Modify &m) { m.attr.dest_qp_num = 1u << 24; }},
        {"timeout 32", IBV_QPS_RTS, [](Modify &m) { m.attr.timeout = 32; }},
        {"retry_cnt 8", IBV_QPS_RTS, [](Modify &m) { m.attr.retry_cnt = 8; }},
        {"rnr_retry 8", IBV_QPS_RTS, [](Modify &m) { m.attr.rnr_retry = 8; }},
        {"max_rd_atomic over the device's", IBV_QPS_RTS,
         [&](Modify &m) {
             if (sides.a.attr.max_qp_init_rd_atom >= 255)
                 m.mask = 0;
             m.attr.max_rd_atomic = static_cast<uint8_t>(sides.a.attr.max_qp_init_rd_atom + 1);
         }},
        {"a wrong current state", IBV_QPS_RTS,
         [](Modify &m) {
             m.mask |= IBV_QP_CUR_STATE;
             m.attr.cur_qp_state = IBV_QPS_RESET;
         }},
    };
    std::string accepted;
    for (const Wrong &wrong : table) {
        const auto from = static_cast<ibv_qp_state>(wrong.to - 1);
        Modify step = bench.step(wrong.to);
        wrong.spoil(step);
        if (!step.mask) // the limit is the field's own: nothing is over it
            continue;
        // A path MTU over the largest there is was tried above.
        if (step.mask & IBV_QP_PATH_MTU && step.attr.path_mtu > IBV_MTU_4096 &&
            sides.a.port_attr.active_mtu < IBV_MTU_4096 &&
            step.attr.path_mtu != static_cast<ibv_mtu>(6))
            continue;
        note(wrong.what);
        bench.bring_to(from);
        if (!modify(bench.end.qp.get(), step))
            accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", wrong.what);
        else
            require(query_state(bench.end.qp.get()) == from, "{}: refused, but the state changed",
                    wrong.what);
    }
    require(accepted.empty(), "accepted: {}", accepted);
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options)
{
    const Link link = link_from(options);
    const auto add = [&ktap](std::string name, auto body) { ktap.add(std::move(name), body); };

    static const auto remote_table = remote_errors();
    for (const RemoteError &error : remote_table)
        for (const ibv_wr_opcode opcode : error.opcodes)
            add(fmt::format("remote.{}.{}", error.name, opcode_name(opcode)), [&, opcode, link] {
                remote_error(sides, link, error, opcode, is_atomic(opcode) ? 8 : 64);
                // Once more with a message of several packets.
                if (!is_atomic(opcode))
                    remote_error(sides, link, error, opcode, 3 * 1024 + 5);
            });
    add("remote.zero_length_ignores_rkey", [&, link] { zero_length_ignores_rkey(sides, link); });

    add("receive.one_byte_short", [&, link] { receive_too_short(sides, link, 65, 64); });
    add("receive.short_by_a_packet", [&, link] { receive_too_short(sides, link, 3000, 1500); });
    add("receive.short_in_last_packet", [&, link] { receive_too_short(sides, link, 3000, 2999); });
    for (const char *what : {"bad_lkey", "out_of_bounds", "no_local_write"})
        add(fmt::format("receive.{}", what),
            [&, link, what] { receive_protection(sides, link, what); });

    add("rnr.retry_0", [&, link] { rnr_exceeded(sides, link, 0, 1); });
    add("rnr.retry_1", [&, link] { rnr_exceeded(sides, link, 1, 22); });
    add("rnr.retry_6", [&, link] { rnr_exceeded(sides, link, 6, 18); });
    add("rnr.retry_forever.send", [&, link] { rnr_until_ready(sides, link, IBV_WR_SEND); });
    add("rnr.retry_forever.write_imm",
        [&, link] { rnr_until_ready(sides, link, IBV_WR_RDMA_WRITE_WITH_IMM); });
    for (const char *peer : {"destroyed", "in_reset", "in_error"})
        add(fmt::format("retry_exceeded.peer_{}", peer),
            [&, link, peer] { retry_exceeded(sides, link, peer); });
    add("retry_exceeded.in_device", [&, link] { retry_exceeded_in_device(sides, link); });

    static const auto local_table = local_errors();
    for (const LocalError &error : local_table)
        for (const ibv_wr_opcode opcode : error.opcodes)
            add(fmt::format("local.{}.{}", error.name, opcode_name(opcode)),
                [&, opcode, link] { local_error(sides, link, error, opcode); });
    add("local.refused_posts", [&, link] { refused_posts(sides, link); });
    add("local.post_in_wrong_state", [&, link] { post_in_wrong_state(sides, link); });
    add("local.message_over_the_limit", [&, link] { message_over_the_limit(sides, link); });

    add("flush", [&, link] { flush(sides, link); });
    add("rnr_storm", [&, link] { rnr_storm(sides, link); });
    add("read_atomic.limit_1", [&, link] { read_atomic_limits(sides, link); });
    add("read_atomic.overrun", [&, link] { read_atomic_overrun(sides, link); });
    add("cq_overrun", [&, link] { cq_overrun(sides, link); });

    add("state.full_life", [&, link] { full_life(sides, link); });
    add("state.receive_in_rtr", [&, link] { receive_in_rtr(sides, link); });
    add("state.query", [&, link] { query_truth(sides, link); });
    add("state.transitions", [&, link] { transition_table(sides, link); });
    add("state.attribute_masks", [&, link] { attribute_masks(sides, link); });
    add("state.attribute_values", [&, link] { attribute_values(sides, link); });
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Every error an RC application can see, and the QP state table.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("rc_errors", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) {
        add_cases(ktap, sides, options);
    });
}
