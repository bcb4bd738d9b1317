// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Connects through rdma_cm, moves data both ways, disconnects and connects again at
// once, over and over. Everything is made anew each time: cm_id, PD, CQs, QP and
// regions. So a number or a key that comes back while somebody still has it from
// before shows as a refused connection or as wrong bytes. Run it twice, as server
// and as client.
#include "common/ktap.hpp"
#include "common/memory.hpp"
#include "common/random.hpp"

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstring>
#include <memory>

using namespace rocev2::test;

namespace {

// several packets, the last one short
constexpr size_t message_size = 10007;
constexpr int backlog = 16;

struct Deleter {
    void operator()(rdma_cm_id *id) const { rdma_destroy_ep(id); }
    void operator()(rdma_addrinfo *info) const { rdma_freeaddrinfo(info); }
    void operator()(ibv_mr *mr) const { rdma_dereg_mr(mr); }
};
using Id = std::unique_ptr<rdma_cm_id, Deleter>;
using Address = std::unique_ptr<rdma_addrinfo, Deleter>;
using Region = std::unique_ptr<ibv_mr, Deleter>;

void must(int result, const char *what)
{
    require(!result, "{}: {}", what, std::strerror(errno));
}

// A port space belongs to one service, that of InfiniBand to any.
Address resolve(const std::string &address, const std::string &port, int flags, ibv_qp_type type)
{
    rdma_addrinfo hints{};
    rdma_addrinfo *info = nullptr;
    hints.ai_flags = flags;
    hints.ai_port_space = type == IBV_QPT_RC ? RDMA_PS_TCP : RDMA_PS_IB;
    hints.ai_qp_type = type;
    must(rdma_getaddrinfo(address.c_str(), port.c_str(), &hints, &info), "rdma_getaddrinfo");
    return Address(info);
}

Id make_id(const Address &address)
{
    ibv_qp_init_attr attr{};
    attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
    attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
    attr.qp_type = static_cast<ibv_qp_type>(address->ai_qp_type);
    attr.sq_sig_all = 1;
    rdma_cm_id *id = nullptr;
    must(rdma_create_ep(&id, address.get(), nullptr, &attr), "rdma_create_ep");
    return Id(id);
}

uint64_t seed_of(int round, bool reply)
{
    return mix64(static_cast<uint64_t>(round) * 2 + reply);
}

// One connection's memory, and what is done with it.
class Exchange {
public:
    explicit Exchange(rdma_cm_id *id)
        : id_(id), out_mr_(rdma_reg_msgs(id, out_.data(), out_.size())),
          in_mr_(rdma_reg_msgs(id, in_.data(), in_.size()))
    {
        require(out_mr_ && in_mr_, "rdma_reg_msgs: {}", std::strerror(errno));
        must(rdma_post_recv(id, nullptr, in_.data(), in_.size(), in_mr_.get()), "rdma_post_recv");
    }
    void send(uint64_t seed)
    {
        fill_pattern(out_.span(0, message_size), seed);
        must(rdma_post_send(id_, nullptr, out_.data(), message_size, out_mr_.get(), 0),
             "rdma_post_send");
        ibv_wc wc{};
        require(rdma_get_send_comp(id_, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
                "send completes with \"{}\"", ibv_wc_status_str(wc.status));
    }
    void receive(uint64_t seed)
    {
        ibv_wc wc{};
        require(rdma_get_recv_comp(id_, &wc) == 1 && wc.status == IBV_WC_SUCCESS,
                "receive completes with \"{}\"", ibv_wc_status_str(wc.status));
        require(wc.byte_len == message_size, "{} bytes received", wc.byte_len);
        Buffer expected(message_size);
        fill_pattern(expected.span(), seed);
        require(!std::memcmp(in_.data(), expected.data(), message_size), "wrong bytes received");
    }

private:
    rdma_cm_id *id_;
    Buffer out_{message_size};
    Buffer in_{message_size + 64};
    Region out_mr_;
    Region in_mr_;
};

void serve(rdma_cm_id *listener, int round)
{
    rdma_cm_id *raw = nullptr;
    must(rdma_get_request(listener, &raw), "rdma_get_request");
    const Id id(raw);
    Exchange exchange(id.get());
    must(rdma_accept(id.get(), nullptr), "rdma_accept");
    exchange.receive(seed_of(round, false));
    exchange.send(seed_of(round, true));
    must(rdma_disconnect(id.get()), "rdma_disconnect");
}

void ask(const Address &address, int round)
{
    const Id id = make_id(address);
    Exchange exchange(id.get());
    must(rdma_connect(id.get(), nullptr), "rdma_connect");
    exchange.send(seed_of(round, false));
    exchange.receive(seed_of(round, true));
    must(rdma_disconnect(id.get()), "rdma_disconnect");
}

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("Connects, verifies data, disconnects and connects again at once.");
    std::string bind;
    std::string connect;
    std::string port = "7480";
    int rounds = 1000;
    bool uc = false;
    auto *roles = app.add_option_group("role")->require_option(1);
    roles->add_option("--bind", bind, "serve at this address");
    roles->add_option("--connect", connect, "connect to this address");
    app.add_option("--port", port, "port to listen on or connect to");
    app.add_option("--rounds", rounds, "connections");
    app.add_flag("--uc", uc, "connect QPs of UC, not RC");
    CLI11_PARSE(app, argc, argv);

    int round = 0;
    try {
        const Address address = resolve(bind.empty() ? connect : bind, port,
                                        bind.empty() ? 0 : RAI_PASSIVE, uc ? IBV_QPT_UC : IBV_QPT_RC);
        Id listener;
        if (!bind.empty()) {
            listener = make_id(address);
            must(rdma_listen(listener.get(), backlog), "rdma_listen");
        }
        for (; round < rounds; round++) {
            if (listener)
                serve(listener.get(), round);
            else
                ask(address, round);
        }
    } catch (const std::exception &error) {
        fmt::print("connection {}: {}\n", round, error.what());
        return 1;
    }
    fmt::print("{} connections, {} bytes each way verified\n", rounds, message_size);
    return 0;
}
