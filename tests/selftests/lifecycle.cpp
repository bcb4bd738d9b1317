// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Objects that come and go while packets pour in: QPs, memory regions, CQs,
// whole processes.  Nothing may leak: after every case the kernel's counts
// of `rdma resource show` must be what they were before.
#include "common/balance.hpp"
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/verbs.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

using namespace rocev2::test;
using std::chrono::milliseconds;

namespace {

// Registered memory of one side.
struct Memory {
    Buffer buffer;
    Mr mr;

    Memory(const Side &side, size_t size) : buffer(size), mr(make_mr(side, buffer.span(), all_access))
    {
        std::memset(buffer.data(), 0, size);
    }
    uint64_t address() const { return reinterpret_cast<uint64_t>(buffer.data()); }
};

ibv_send_wr write_request(uint64_t id, std::span<ibv_sge> sges, uint64_t address, uint32_t rkey)
{
    ibv_send_wr wr{};
    wr.wr_id = id;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    return wr;
}

// WRITEs in both directions that never stop and never may fail, on a thread.
class Traffic {
public:
    Traffic(const Sides &sides, const Link &link)
        : pair_(make_pair(sides, link, {.send_wr = 32, .recv_wr = 8})), a_(sides.a, size),
          b_(sides.b, size), thread_([this] { run(); })
    {
    }

    ~Traffic()
    {
        stop_ = true;
        thread_.join();
    }

    uint64_t done() const { return done_; }
    Traffic(const Traffic &) = delete;
    Traffic &operator=(const Traffic &) = delete;

private:
    static constexpr size_t size = 16 * page_size;
    static constexpr uint32_t length = 5000;

    void run()
    {
        try {
            uint64_t posted[2] = {};
            uint64_t completed[2] = {};
            while (!stop_ || posted[0] != completed[0] || posted[1] != completed[1]) {
                for (const int direction : {0, 1}) {
                    Endpoint &from = direction ? pair_.b : pair_.a;
                    const Memory &local = direction ? b_ : a_;
                    const Memory &remote = direction ? a_ : b_;
                    if (!stop_ && posted[direction] - completed[direction] < 16) {
                        std::array sges{sge_of(local.buffer.span(0, length), local.mr.get())};
                        ibv_send_wr wr =
                            write_request(posted[direction], sges, remote.address() + size / 2,
                                          remote.mr->rkey);
                        post_send(from.qp.get(), wr);
                        posted[direction]++;
                    }
                    std::array<ibv_wc, 16> wcs;
                    const int n = ibv_poll_cq(from.send_cq.get(), 16, wcs.data());
                    for (int i = 0; i < n; i++) {
                        check_wc(wcs[static_cast<size_t>(i)], IBV_WC_SUCCESS,
                                 completed[direction], from.qp.get(), "background traffic");
                        completed[direction]++;
                        done_++;
                    }
                }
                std::this_thread::yield();
            }
        } catch (const std::exception &error) {
            report_failure(error.what());
        }
    }

    Pair pair_;
    Memory a_;
    Memory b_;
    std::atomic<uint64_t> done_ = 0;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

// SENDs of many QPs into one SRQ, which is resized all the time, on a thread.
class SrqTraffic {
public:
    SrqTraffic(const Sides &sides, const Link &link)
        : a_(sides.a, length), b_(sides.b, slots * length), srq_(make_srq(sides.b, slots)),
          recv_cq_(make_cq(sides.b, slots + 16))
    {
        for (int i = 0; i < 6; i++) {
            from_.push_back(make_endpoint(sides.a, {.send_wr = 16, .recv_wr = 1}));
            Endpoint to;
            to.send_cq = make_cq(sides.b, 4);
            to.qp = make_qp(sides.b, to.send_cq.get(), recv_cq_.get(), {.srq = srq_.get()});
            connect(sides.a, from_.back().qp.get(), sides.b, to.qp.get(), link);
            to_.push_back(std::move(to));
        }
        thread_ = std::thread([this] { run(); });
    }

    ~SrqTraffic()
    {
        stop_ = true;
        thread_.join();
    }

    uint64_t done() const { return done_; }
    SrqTraffic(const SrqTraffic &) = delete;
    SrqTraffic &operator=(const SrqTraffic &) = delete;

private:
    static constexpr uint32_t slots = 32;
    static constexpr uint32_t length = 5000;

    void post(uint64_t id)
    {
        std::array sges{sge_of(b_.buffer.span(static_cast<size_t>(id) * length, length),
                               b_.mr.get())};
        post_srq_recv(srq_.get(), id, sges);
    }

    void run()
    {
        try {
            for (uint64_t id = 0; id < slots; id++)
                post(id);
            std::vector<int> outstanding(from_.size());
            std::array sges{sge_of(a_.buffer.span(), a_.mr.get())};
            while (!stop_) {
                ibv_wc wc{};
                for (size_t i = 0; i < from_.size(); i++) {
                    while (ibv_poll_cq(from_[i].send_cq.get(), 1, &wc) == 1) {
                        require(wc.status == IBV_WC_SUCCESS, "send: {}", ibv_wc_status_str(wc.status));
                        outstanding[i]--;
                    }
                    if (outstanding[i] >= 16)
                        continue;
                    ibv_send_wr wr{};
                    wr.sg_list = sges.data();
                    wr.num_sge = 1;
                    wr.opcode = IBV_WR_SEND;
                    wr.send_flags = IBV_SEND_SIGNALED;
                    post_send(from_[i].qp.get(), wr);
                    outstanding[i]++;
                }
                while (ibv_poll_cq(recv_cq_.get(), 1, &wc) == 1) {
                    require(wc.status == IBV_WC_SUCCESS, "receive: {}", ibv_wc_status_str(wc.status));
                    post(wc.wr_id);
                    done_++;
                }
                ibv_srq_attr attr{};
                attr.max_wr = done_ & 1 ? slots : 8 * slots;
                const int error = ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR);
                require(!error, "resize: {}", std::strerror(error));
            }
        } catch (const std::exception &error) {
            report_failure(error.what());
        }
    }

    Memory a_;
    Memory b_;
    Srq srq_;
    Cq recv_cq_;
    std::vector<Endpoint> from_;
    std::vector<Endpoint> to_;
    std::atomic<uint64_t> done_ = 0;
    std::atomic<bool> stop_ = false;
    std::thread thread_;
};

// ---------------------------------------------------------------------------

// QPs are made and destroyed while their peer sends to them and while other
// QPs carry traffic.
void churn(const Options &options, const Sides &sides, const Link &base, int count)
{
    const Balance balance(options);
    {
        Link link = base;
        link.timeout = 8;
        link.retry_cnt = 1;
        const Traffic traffic(sides, base);
        const Memory a(sides.a, 2 * page_size);
        const Memory b(sides.b, 2 * page_size);
        const uint64_t before = traffic.done();
        for (int i = 0; i < count; i++) {
            note(fmt::format("QP {} of {}", i, count));
            Pair pair = make_pair(sides, link, {.send_wr = 8, .recv_wr = 8});
            std::array sges{sge_of(a.buffer.span(0, 4000), a.mr.get())};
            for (uint64_t id = 0; id < 8; id++) {
                ibv_send_wr wr = write_request(id, sges, b.address(), b.mr->rkey);
                post_send(pair.a.qp.get(), wr);
            }
            // Sometimes the sender goes first, sometimes the receiver with
            // the packets still coming, sometimes both are let finish.
            switch (i % 4) {
            case 0:
                pair.b.qp.reset();
                break;
            case 1:
                pair.a.qp.reset();
                break;
            case 2:
                must_modify(pair.b.qp.get(), state_step(IBV_QPS_RESET), "RESET");
                must_modify(pair.a.qp.get(), state_step(IBV_QPS_ERR), "ERR");
                break;
            default:
                for (uint64_t id = 0; id < 8; id++)
                    check_wc(must_poll(pair.a.send_cq.get(), "write"), IBV_WC_SUCCESS, id,
                             pair.a.qp.get(), "write");
            }
            if (failure_reported())
                return;
        }
        require(traffic.done() > before, "the background traffic stood still");
        diag(fmt::format("{} QP pairs, {} background requests", count, traffic.done() - before));
    }
    balance.must_hold();
}

// A region is deregistered while WRITEs to it arrive: the requester sees
// success or a remote access error, and after dereg_mr not one byte changes.
void dereg_under_traffic(const Options &options, const Sides &sides, const Link &link, int rounds)
{
    const Balance balance(options);
    {
        const Traffic traffic(sides, link);
        Memory source(sides.a, 4 * page_size);
        Buffer target(4 * page_size);
        Rng rng(options.seed);
        int cut_off = 0;
        for (int round = 0; round < rounds; round++) {
            note(fmt::format("round {} of {}", round, rounds));
            Pair pair = make_pair(sides, link, {.send_wr = 32, .recv_wr = 8});
            Mr mr = make_mr(sides.b, target.span(), all_access);
            std::memset(source.buffer.data(), 0xff, source.buffer.size());
            std::array sges{sge_of(source.buffer.span(), source.mr.get())};
            const bool read = round % 3 == 2;
            // A request may run inside ibv_post_send(), so the posting has a
            // thread of its own.
            constexpr uint64_t most = 400;
            std::atomic<uint64_t> posted = 0;
            std::atomic<uint64_t> completed = 0;
            std::atomic<bool> stop = false;
            const uint64_t address = reinterpret_cast<uint64_t>(target.data());
            const uint32_t rkey = mr->rkey;
            std::thread poster([&] {
                try {
                    while (posted < most && !stop) {
                        if (posted - completed >= 24) {
                            std::this_thread::yield();
                            continue;
                        }
                        ibv_send_wr wr = write_request(posted, sges, address, rkey);
                        if (read)
                            wr.opcode = IBV_WR_RDMA_READ;
                        posted++;
                        post_send(pair.a.qp.get(), wr);
                    }
                } catch (const std::exception &error) {
                    report_failure(error.what());
                }
            });
            std::thread remover([&, delay = rng.between(0, 4000)] {
                std::this_thread::sleep_for(std::chrono::microseconds(delay));
                mr.reset();
                std::memset(target.data(), 0x5a, target.size());
            });
            bool refused = false;
            std::exception_ptr error;
            try {
                while (completed < most && !refused) {
                    const ibv_wc wc = must_poll(pair.a.send_cq.get(), "request");
                    if (wc.status != IBV_WC_SUCCESS) {
                        check_wc(wc, IBV_WC_REM_ACCESS_ERR, completed, pair.a.qp.get(), "refused");
                        refused = true;
                    } else {
                        check_wc(wc, IBV_WC_SUCCESS, completed, pair.a.qp.get(), "request");
                    }
                    completed++;
                }
            } catch (...) {
                error = std::current_exception();
            }
            stop = true;
            poster.join();
            remover.join();
            if (error)
                std::rethrow_exception(error);
            for (; completed < posted; completed++)
                check_wc(must_poll(pair.a.send_cq.get(), "behind"), IBV_WC_WR_FLUSH_ERR, completed,
                         pair.a.qp.get(), "behind");
            cut_off += refused;
            for (const std::byte b : target.span())
                require(b == std::byte{0x5a}, "memory was written after ibv_dereg_mr returned");
        }
        drain_events(sides.b.context.get());
        require(cut_off > 0, "no deregistration came while requests were under way");
        diag(fmt::format("{} of {} registrations were cut off by the deregistration", cut_off,
                         rounds));
    }
    balance.must_hold();
}

// 200 regions used in turn: what the translation cache has to keep.
void many_mrs(const Options &options, const Sides &sides, const Link &link, int rounds)
{
    const Balance balance(options);
    {
        constexpr size_t count = 200;
        Pair pair = make_pair(sides, link, {.send_wr = 64, .recv_wr = 8});
        const Memory source(sides.a, page_size);
        Buffer target(count * page_size);
        std::vector<Mr> mrs;
        for (size_t i = 0; i < count; i++)
            mrs.push_back(make_mr(sides.b, target.span(i * page_size, page_size), all_access));
        fill_pattern(source.buffer.span(), options.seed);
        std::array sges{sge_of(source.buffer.span(0, 256), source.mr.get())};
        uint64_t posted = 0;
        uint64_t completed = 0;
        const uint64_t total = count * static_cast<uint64_t>(rounds);
        while (completed < total) {
            while (posted < total && posted - completed < 32) {
                const size_t i = posted % count;
                ibv_send_wr wr = write_request(
                    posted, sges,
                    reinterpret_cast<uint64_t>(target.data()) + i * page_size + posted / count % 8,
                    mrs[i]->rkey);
                post_send(pair.a.qp.get(), wr);
                posted++;
            }
            check_wc(must_poll(pair.a.send_cq.get(), "write"), IBV_WC_SUCCESS, completed,
                     pair.a.qp.get(), "write");
            completed++;
        }
        for (size_t i = 0; i < count; i++)
            require(!std::memcmp(target.data() + i * page_size + (rounds - 1) % 8,
                                 source.buffer.data(), 256),
                    "MR {} has the wrong data", i);
        diag(fmt::format("{} requests over {} MRs; `rdma statistic show link {}/{}` has the cache's "
                         "hits and misses",
                         total, count, sides.b.device, sides.b.port));
    }
    balance.must_hold();
}

void destroy_order(const Options &options, const Sides &sides, const Link &link)
{
    const Balance balance(options);
    {
        Pair pair = make_pair(sides, link);
        int error = pair.a.send_cq.try_reset();
        require(error == EBUSY, "destroying a CQ with a QP: {}, expected {}", std::strerror(error),
                std::strerror(EBUSY));
        Side other = open_side("C", sides.a.device, sides.a.netns, sides.a.port);
        Endpoint end = make_endpoint(other);
        Memory memory(other, page_size);
        error = other.pd.try_reset();
        require(error == EBUSY, "destroying a PD in use: {}, expected {}", std::strerror(error),
                std::strerror(EBUSY));
        end.qp.reset();
        error = other.pd.try_reset();
        require(error == EBUSY, "destroying a PD with an MR: {}, expected {}", std::strerror(error),
                std::strerror(EBUSY));
        memory.mr.reset();
        // Both pass by themselves now: the handles check.
    }
    balance.must_hold();
}

// Closing the device takes everything with it, in whatever order.
void exit_without_destroying(const Options &options, const Sides &sides, const Link &link)
{
    const Balance balance(options);
    for (int round = 0; round < 3; round++) {
        const pid_t child = fork();
        require(child >= 0, "fork: {}", std::strerror(errno));
        if (child == 0) {
            // A new process with devices of its own; leaves in the middle.
            try {
                Sides own = open_sides(options);
                select_default_gids(own, options);
                Pair pair = make_pair(own, link);
                Memory a(own.a, page_size);
                Memory b(own.b, page_size);
                std::array sges{sge_of(a.buffer.span(), a.mr.get())};
                for (uint64_t id = 0; id < 16; id++) {
                    ibv_send_wr wr = write_request(id, sges, b.address(), b.mr->rkey);
                    post_send(pair.a.qp.get(), wr);
                }
                _exit(0);
            } catch (const std::exception &) {
                _exit(1);
            }
        }
        int status = 0;
        waitpid(child, &status, 0);
        require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed");
    }
    (void)sides;
    balance.must_hold();
}

// Runs --run-until-killed and kills it with everything in flight.
void kill_under_traffic(const Options &options, int rounds)
{
    const Balance balance(options);
    for (int round = 0; round < rounds; round++) {
        note(fmt::format("round {} of {}", round, rounds));
        int pipe_fd[2];
        require(!pipe(pipe_fd), "pipe: {}", std::strerror(errno));
        const pid_t child = fork();
        require(child >= 0, "fork: {}", std::strerror(errno));
        if (child == 0) {
            dup2(pipe_fd[1], 1);
            close(pipe_fd[0]);
            close(pipe_fd[1]);
            execl("/proc/self/exe", "lifecycle", "--run-until-killed", "--dev-a",
                  options.dev_a.c_str(), "--dev-b", options.dev_b.c_str(), nullptr);
            _exit(127);
        }
        close(pipe_fd[1]);
        std::string said;
        char c = 0;
        while (read(pipe_fd[0], &c, 1) == 1) {
            said += c;
            if (said.ends_with("running\n"))
                break;
        }
        const bool running = said.ends_with("running\n");
        std::this_thread::sleep_for(milliseconds(20 + 17 * round));
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        close(pipe_fd[0]);
        require(running, "the child did not start its traffic: {}", said);
        require(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                "the child ended by itself before it was killed");
    }
    balance.must_hold(milliseconds(5000));
}

int run_until_killed(const Options &options)
{
    try {
        Sides sides = open_sides(options);
        select_default_gids(sides, options);
        const Link link = link_from(options);
        std::vector<std::unique_ptr<Traffic>> traffic;
        for (int i = 0; i < 8; i++)
            traffic.push_back(std::make_unique<Traffic>(sides, link));
        const SrqTraffic shared(sides, link);
        while (shared.done() < 10)
            std::this_thread::sleep_for(milliseconds(1));
        while (traffic.back()->done() < 10)
            std::this_thread::sleep_for(milliseconds(1));
        fmt::print("running\n");
        std::fflush(stdout);
        while (!failure_reported())
            std::this_thread::sleep_for(milliseconds(10));
        return 1;
    } catch (const std::exception &error) {
        fmt::print("{}\n", error.what());
        return 1;
    }
}

// ---------------------------------------------------------------------------

// Several threads post on one QP; every request completes once, and what one
// thread posted completes in its order.
void threads_on_one_qp(const Options &options, const Sides &sides, const Link &link)
{
    const Balance balance(options);
    {
        constexpr uint64_t threads = 4;
        constexpr uint64_t each = 300;
        Pair pair = make_pair(sides, link, {.send_wr = 128, .recv_wr = 8});
        const Memory a(sides.a, threads * page_size);
        const Memory b(sides.b, threads * page_size);
        std::atomic<uint64_t> in_flight = 0;
        std::atomic<bool> stop = false;
        std::vector<std::thread> pool;
        for (uint64_t t = 0; t < threads; t++)
            pool.emplace_back([&, t] {
                try {
                    std::array sges{sge_of(a.buffer.span(t * page_size, 1500), a.mr.get())};
                    for (uint64_t i = 0; i < each && !stop; i++) {
                        // A place in the queue, taken before posting.
                        for (;;) {
                            uint64_t now = in_flight;
                            if (now < 100 && in_flight.compare_exchange_weak(now, now + 1))
                                break;
                            if (stop)
                                return;
                            std::this_thread::yield();
                        }
                        ibv_send_wr wr = write_request(t << 32 | i, sges, b.address() + t * page_size,
                                                       b.mr->rkey);
                        post_send(pair.a.qp.get(), wr);
                    }
                } catch (const std::exception &error) {
                    report_failure(error.what());
                }
            });
        std::array<uint64_t, threads> next{};
        try {
            for (uint64_t i = 0; i < threads * each; i++) {
                const ibv_wc wc = must_poll(pair.a.send_cq.get(), "write");
                const uint64_t t = wc.wr_id >> 32;
                require(t < threads, "wr_id {:#x} was never posted", wc.wr_id);
                check_wc(wc, IBV_WC_SUCCESS, t << 32 | next[t], pair.a.qp.get(), "write");
                next[t]++;
                in_flight--;
            }
        } catch (...) {
            stop = true;
            for (std::thread &thread : pool)
                thread.join();
            throw;
        }
        for (std::thread &thread : pool)
            thread.join();
        must_be_empty(pair.a.send_cq.get(), "after the last request");
    }
    balance.must_hold();
}

// Many connected pairs at once, all on one CQ a side, driven by two threads.
void many_pairs(const Options &options, const Sides &sides, const Link &link, size_t pairs)
{
    const Balance balance(options);
    {
        constexpr uint64_t rounds = 4;
        const int room = static_cast<int>(pairs * rounds * 2);
        const Cq cq_a = make_cq(sides.a, room);
        const Cq cq_b = make_cq(sides.b, room);
        const QpSize size{.send_wr = 8, .recv_wr = 8};
        std::vector<std::pair<Qp, Qp>> qps;
        std::map<uint32_t, size_t> index_of;
        for (size_t i = 0; i < pairs; i++) {
            note(fmt::format("connecting pair {}", i));
            Qp a = make_qp(sides.a, cq_a.get(), cq_a.get(), size);
            Qp b = make_qp(sides.b, cq_b.get(), cq_b.get(), size);
            connect(sides.a, a.get(), sides.b, b.get(), link);
            require(index_of.emplace(a->qp_num, i).second, "QP number {:#x} given twice", a->qp_num);
            qps.emplace_back(std::move(a), std::move(b));
        }
        constexpr size_t slot = 2048;
        const Memory a(sides.a, pairs * slot);
        const Memory b(sides.b, pairs * slot);
        for (size_t i = 0; i < pairs; i++)
            fill_pattern(a.buffer.span(i * slot, slot), i);
        for (size_t i = 0; i < pairs; i++)
            for (uint64_t r = 0; r < rounds; r++) {
                std::array sges{sge_of(b.buffer.span(i * slot, slot), b.mr.get())};
                post_recv(qps[i].second.get(), i * rounds + r, sges);
            }
        const auto post = [&](size_t first, size_t step) {
            try {
                for (uint64_t r = 0; r < rounds; r++)
                    for (size_t i = first; i < pairs; i += step) {
                        std::array sges{sge_of(a.buffer.span(i * slot, slot), a.mr.get())};
                        ibv_send_wr wr = write_request(i * rounds + r, sges, 0, 0);
                        wr.opcode = IBV_WR_SEND;
                        post_send(qps[i].first.get(), wr);
                    }
            } catch (const std::exception &error) {
                report_failure(error.what());
            }
        };
        std::thread one(post, 0, 2);
        std::thread two(post, 1, 2);
        std::vector<uint64_t> next_a(pairs, 0);
        std::vector<uint64_t> next_b(pairs, 0);
        std::exception_ptr error;
        try {
            for (uint64_t n = 0; n < pairs * rounds; n++) {
                for (const auto &[cq, next, what] :
                     {std::tuple{cq_a.get(), &next_a, "send"}, {cq_b.get(), &next_b, "receive"}}) {
                    const ibv_wc wc = must_poll(cq, what);
                    const size_t i = wc.wr_id / rounds;
                    require(i < pairs, "wr_id {} was never posted", wc.wr_id);
                    const Qp &qp = cq == cq_a.get() ? qps[i].first : qps[i].second;
                    check_wc(wc, IBV_WC_SUCCESS, i * rounds + (*next)[i], qp.get(), what);
                    (*next)[i]++;
                }
            }
        } catch (...) {
            error = std::current_exception();
        }
        one.join();
        two.join();
        if (error)
            std::rethrow_exception(error);
        require(!std::memcmp(a.buffer.data(), b.buffer.data(), pairs * slot), "wrong data arrived");
        const auto counts = resource_counts(options.dev_a);
        require(counts.at("qp") >= static_cast<long>(pairs), "`rdma resource` counts {} QPs only",
                counts.at("qp"));
    }
    balance.must_hold();
}

// Destroying a QP removes its completions from nobody else's view, and a CQ
// shared by two QPs keeps the other one's.
void shared_cq_survives(const Options &options, const Sides &sides, const Link &link)
{
    const Balance balance(options);
    {
        const Cq cq = make_cq(sides.a, 64);
        const Cq cq_b = make_cq(sides.b, 64);
        const Memory a(sides.a, page_size);
        const Memory b(sides.b, page_size);
        Qp doomed = make_qp(sides.a, cq.get(), cq.get());
        Qp doomed_peer = make_qp(sides.b, cq_b.get(), cq_b.get());
        Qp kept = make_qp(sides.a, cq.get(), cq.get());
        Qp kept_peer = make_qp(sides.b, cq_b.get(), cq_b.get());
        connect(sides.a, doomed.get(), sides.b, doomed_peer.get(), link);
        connect(sides.a, kept.get(), sides.b, kept_peer.get(), link);
        std::array sges{sge_of(a.buffer.span(0, 100), a.mr.get())};
        for (uint64_t id = 0; id < 5; id++) {
            ibv_send_wr wr = write_request(id, sges, b.address(), b.mr->rkey);
            post_send(doomed.get(), wr);
            wr.wr_id = 100 + id;
            post_send(kept.get(), wr);
        }
        std::this_thread::sleep_for(milliseconds(50));
        const uint32_t gone = doomed->qp_num;
        doomed.reset();
        uint64_t next = 100;
        while (next < 105) {
            const ibv_wc wc = must_poll(cq.get(), "write");
            // Whether those of a destroyed QP stay is up to the provider.
            if (wc.qp_num == gone && wc.wr_id < 5)
                continue;
            check_wc(wc, IBV_WC_SUCCESS, next, kept.get(), "write");
            next++;
        }
    }
    balance.must_hold();
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options, int qps)
{
    const Link link = link_from(options);
    ktap.add("destroy_order", [&, link] { destroy_order(options, sides, link); });
    ktap.add("qps_under_traffic", [&, link, qps] { churn(options, sides, link, qps); }, 120);
    ktap.add("dereg_under_traffic",
             [&, link] { dereg_under_traffic(options, sides, link, 60); });
    ktap.add("many_mrs", [&, link] { many_mrs(options, sides, link, 60); });
    ktap.add("threads_on_one_qp", [&, link] { threads_on_one_qp(options, sides, link); });
    ktap.add("many_pairs", [&, link] { many_pairs(options, sides, link, 220); });
    ktap.add("shared_cq_survives", [&, link] { shared_cq_survives(options, sides, link); });
    ktap.add("exit_without_destroying",
             [&, link] { exit_without_destroying(options, sides, link); });
    ktap.add("kill_under_traffic", [&] { kill_under_traffic(options, 4); });
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    bool until_killed = false;
    int qps = 500; // pairs: two QPs each
    CLI::App app("Makes and destroys objects under traffic and checks that none leaks.");
    add_common_options(app, options);
    app.add_flag("--run-until-killed", until_killed,
                 "only run traffic, after printing \"running\", until this process is killed");
    app.add_option("--qp-pairs", qps, "QP pairs to make and destroy under traffic");
    CLI11_PARSE(app, argc, argv);
    if (until_killed) {
        if (options.dev_b.empty())
            options.dev_b = options.dev_a;
        return run_until_killed(options);
    }
    settle_options("lifecycle", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) {
        add_cases(ktap, sides, options, qps);
    });
}
