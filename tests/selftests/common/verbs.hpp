// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Owning handles over libibverbs and the few steps every selftest needs:
// open a side, make a QP, connect two, wait for completions and events.
// Both sides live in one process, so connecting needs no exchange.
#pragma once

#include "common/ktap.hpp"
#include "common/options.hpp"
#include "common/system.hpp"

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rocev2::test {

void destroy_failed(const char *what, int error);

template <typename T, int (*Destroy)(T *)>
class Handle {
public:
    Handle() = default;
    explicit Handle(T *raw) : raw_(raw) {}
    ~Handle() { reset(); }
    Handle(Handle &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    Handle &operator=(Handle &&other) noexcept
    {
        if (this != &other) {
            reset();
            raw_ = std::exchange(other.raw_, nullptr);
        }
        return *this;
    }

    T *get() const { return raw_; }
    T *operator->() const { return raw_; }
    explicit operator bool() const { return raw_ != nullptr; }

    // Every object must go away at the first try: anything else fails the
    // running case.
    void reset()
    {
        if (!raw_)
            return;
        const int error = Destroy(std::exchange(raw_, nullptr));
        if (error)
            destroy_failed(__PRETTY_FUNCTION__, error);
    }

    // Destroys and returns the errno instead of failing the case; the
    // object is kept when the destroy is refused.
    int try_reset()
    {
        const int error = Destroy(raw_);
        if (!error)
            raw_ = nullptr;
        return error;
    }

private:
    T *raw_ = nullptr;
};

using Context = Handle<ibv_context, ibv_close_device>;
using Pd = Handle<ibv_pd, ibv_dealloc_pd>;
using Channel = Handle<ibv_comp_channel, ibv_destroy_comp_channel>;
using Cq = Handle<ibv_cq, ibv_destroy_cq>;
using Mr = Handle<ibv_mr, ibv_dereg_mr>;
using Qp = Handle<ibv_qp, ibv_destroy_qp>;
using Srq = Handle<ibv_srq, ibv_destroy_srq>;
using Ah = Handle<ibv_ah, ibv_destroy_ah>;

enum class GidKind { ipv4, ipv6, link_local };

const char *to_string(GidKind kind);
std::string to_string(const ibv_gid &gid);
GidKind kind_of(const ibv_gid &gid);

// One end: an open device, a PD and the GID in use.
struct Side {
    std::string name;
    std::string device;
    std::string netns;
    uint8_t port = 1;
    Context context;
    Pd pd;
    ibv_device_attr attr{};
    ibv_port_attr port_attr{};
    uint8_t gid_index = 0;
    ibv_gid gid{};
};

Context open_device(const std::string &name);
std::vector<ibv_gid_entry> gid_table(ibv_context *context, int port);

Side open_side(const std::string &name, const std::string &device, const std::string &netns,
               int port);

// One of the counters of `rdma statistic`. The kernel gives the same value for a few milliseconds.
uint64_t hw_counter(const Side &side, const std::string &name);

struct Sides {
    Side a;
    Side b;
};

Sides open_sides(const Options &options);

// The rest of main() of a program whose cases need both sides and nothing else: opens them, has the
// cases added, runs those that the options choose. Returns the exit status.
int run_on_sides(const Options &options,
                 const std::function<void(Ktap &ktap, Sides &sides)> &add_cases);

// The kinds of GID both sides can use; with --gid-a/--gid-b, the one kind
// those two have.
std::vector<GidKind> usable_kinds(const Sides &sides, const Options &options);
void select_gids(Sides &sides, const Options &options, GidKind kind);

// Selects the GIDs of the first usable kind.
void select_default_gids(Sides &sides, const Options &options);

Cq make_cq(const Side &side, int entries, ibv_comp_channel *channel = nullptr);
Mr make_mr(const Side &side, std::span<std::byte> memory, int access);
Mr make_mr_iova(const Side &side, std::span<std::byte> memory, uint64_t iova, int access);

inline constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct QpSize {
    uint32_t send_wr = 64;
    uint32_t recv_wr = 64;
    uint32_t send_sge = 1;
    uint32_t recv_sge = 1;
    uint32_t inline_data = 0;
    bool signal_all = false;
    ibv_srq *srq = nullptr; // instead of a receive queue
};

Qp make_qp(const Side &side, ibv_cq *send_cq, ibv_cq *recv_cq, const QpSize &size = {});
Srq make_srq(const Side &side, uint32_t max_wr, uint32_t max_sge = 1, ibv_pd *pd = nullptr);

struct Link {
    ibv_mtu mtu = IBV_MTU_1024;
    int qp_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    uint8_t timeout = 14;
    uint8_t retry_cnt = 7;
    uint8_t rnr_retry = 7;
    uint8_t min_rnr_timer = 1;
    uint8_t max_rd_atomic = 16;
    uint8_t max_dest_rd_atomic = 16;
    uint32_t psn_a = 0x00fff0; // of the packets A sends
    uint32_t psn_b = 0xfffff0; // wraps after 16 packets
};

Link link_from(const Options &options);

// The attributes and the mask of the regular transitions; tests that want a
// wrong one change what these return.
struct Modify {
    ibv_qp_attr attr{};
    int mask = 0;
};

Modify init_step(const Side &side, const Link &link);
Modify rtr_step(const Side &side, const Link &link, uint32_t dest_qpn, const ibv_gid &dest,
                uint32_t rq_psn);
Modify rts_step(const Link &link, uint32_t sq_psn);
Modify state_step(ibv_qp_state state);

int modify(ibv_qp *qp, Modify step);
void must_modify(ibv_qp *qp, Modify step, const char *what);

void to_init(const Side &side, ibv_qp *qp, const Link &link);
void connect(const Side &a, ibv_qp *qp_a, const Side &b, ibv_qp *qp_b, const Link &link);
ibv_qp_state query_state(ibv_qp *qp);

ibv_mtu common_mtu(const Sides &sides);
constexpr uint32_t mtu_bytes(ibv_mtu mtu)
{
    return 128u << mtu;
}

// The next completion, or none when the time is over.
std::optional<ibv_wc> poll_for(ibv_cq *cq, std::chrono::milliseconds limit);
ibv_wc must_poll(ibv_cq *cq, const char *what,
                 std::chrono::milliseconds limit = std::chrono::seconds(10));
void must_be_empty(ibv_cq *cq, const char *what);

// Requires status, wr_id and QP of one completion.
void check_wc(const ibv_wc &wc, ibv_wc_status status, uint64_t wr_id, const ibv_qp *qp,
              const char *what);

struct AsyncEvent {
    ibv_event_type type;
    const void *element; // the ibv_qp, ibv_cq or ibv_srq, null for port events
};

// The next asynchronous event, already acknowledged.
std::optional<AsyncEvent> next_event(ibv_context *context, std::chrono::milliseconds limit);
void drain_events(ibv_context *context);

// A signaled request with wr_id 9 for the peer's bytes at `addr`; an atomic has `operand` to compare or add.
ibv_send_wr remote_request(ibv_wr_opcode opcode, std::span<ibv_sge> sges, uint64_t addr, uint32_t rkey,
                           uint64_t operand);

// Posts and requires that it is accepted.
void post_send(ibv_qp *qp, ibv_send_wr &wr);
void post_recv(ibv_qp *qp, uint64_t wr_id, std::span<ibv_sge> sges);
void post_srq_recv(ibv_srq *srq, uint64_t wr_id, std::span<ibv_sge> sges);

constexpr unsigned flag_if(bool condition, unsigned flag)
{
    return condition ? flag : 0u;
}

ibv_sge sge_of(std::span<std::byte> memory, const ibv_mr *mr);

// A connected pair of QPs with its own CQs and one registered buffer a side:
// enough for tests that look at single operations.
struct Endpoint {
    const Side *side = nullptr;
    Cq send_cq;
    Cq recv_cq;
    Qp qp;
};

struct Pair {
    Endpoint a;
    Endpoint b;
};

Endpoint make_endpoint(const Side &side, const QpSize &size = {}, int cq_entries = 256);
Pair make_pair(const Sides &sides, const Link &link, const QpSize &size = {});

} // namespace rocev2::test
