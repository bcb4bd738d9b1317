// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Regions of dma-bufs: data to and from a buffer that udmabuf exports, parts of it, what outlives
// what, and what is refused. B owns the regions, A is the peer.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/udmabuf.hpp"
#include "common/uverbs.hpp"
#include "common/verbs.hpp"

#include <linux/dma-buf.h>

#include <algorithm>
#include <cstring>

using namespace rocev2::test;

namespace {

constexpr size_t buffer_size = 64 * page_size;

class Exported : public Udmabuf {
public:
    Exported() : Udmabuf(buffer_size) {}
};

class Region {
public:
    Region(const Side &side, const Exported &buffer, uint64_t offset, uint64_t length,
           unsigned access = all_access, uint64_t iova = 0)
        : context_(side.context.get())
    {
        const int error = reg_dmabuf_mr(side.pd.get(), offset, length, iova, buffer.fd(), access, mr_);
        require(!error, "REG_DMABUF_MR: {}", std::strerror(error));
    }
    ~Region() { reset(); }
    void reset()
    {
        if (!context_)
            return;
        const int error = dereg_dmabuf_mr(std::exchange(context_, nullptr), mr_);
        if (error)
            report_failure(fmt::format("dereg: {}", std::strerror(error)));
    }
    uint32_t lkey() const { return mr_.lkey; }
    uint32_t rkey() const { return mr_.rkey; }
    uint32_t handle() const { return mr_.handle; }

private:
    ibv_context *context_;
    DmabufMr mr_;
};

ibv_wc_status run(Pair &pair, ibv_wr_opcode opcode, ibv_sge sge, uint64_t addr, uint32_t rkey)
{
    ibv_send_wr wr = remote_request(opcode, {&sge, 1}, addr, rkey, 5);
    post_send(pair.a.qp.get(), wr);
    return must_poll(pair.a.send_cq.get(), "request").status;
}

void must_run(Pair &pair, ibv_wr_opcode opcode, ibv_sge sge, uint64_t addr, uint32_t rkey)
{
    const ibv_wc_status status = run(pair, opcode, sge, addr, rkey);
    require(status == IBV_WC_SUCCESS, "opcode {}: \"{}\"", static_cast<int>(opcode),
            ibv_wc_status_str(status));
}

struct Bench {
    const Sides &sides;
    Pair pair;
    Buffer at_a{buffer_size};
    Mr mr_a;
    Exported buffer;

    Bench(const Sides &sides_, const Link &link)
        : sides(sides_), pair(make_pair(sides, link)),
          mr_a(make_mr(sides.a, at_a.span(), all_access))
    {
    }
    ibv_sge local(size_t offset, size_t length) const
    {
        return sge_of(at_a.span(offset, length), mr_a.get());
    }
};

// Random parts, all operations, data compared through the memfd.
void data(const Sides &sides, const Link &link, uint64_t seed)
{
    Bench b(sides, link);
    Rng rng(seed);
    for (int i = 0; i < 60; i++) {
        const size_t offset = rng.between(size_t{0}, buffer_size - 1);
        const size_t length = rng.between(size_t{1}, buffer_size - offset);
        // of other high bits than the offset, as addresses of devices are
        const uint64_t iova = 0x7000000000ull + (offset & (page_size - 1));
        const Region region(sides.b, b.buffer, offset, length, all_access, iova);
        const size_t at = rng.between(size_t{0}, length - 1);
        const auto bytes = static_cast<uint32_t>(rng.between(size_t{1}, length - at));
        const auto remote = b.buffer.span(offset + at, bytes);
        const auto local = b.at_a.span(0, bytes);

        b.buffer.sync(DMA_BUF_SYNC_START);
        fill_pattern(b.buffer.span(), seed + 1);
        b.buffer.sync(DMA_BUF_SYNC_END);
        fill_pattern(local, rng.next());
        switch (i % 3) {
        case 0:
            must_run(b.pair, IBV_WR_RDMA_WRITE, b.local(0, bytes), iova + at, region.rkey());
            break;
        case 1:
            must_run(b.pair, IBV_WR_RDMA_READ, b.local(0, bytes), iova + at, region.rkey());
            break;
        default: {
            ibv_sge into{iova + at, bytes, region.lkey()};
            post_recv(b.pair.b.qp.get(), 5, {&into, 1});
            must_run(b.pair, IBV_WR_SEND, b.local(0, bytes), 0, 0);
            check_wc(must_poll(b.pair.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, 5,
                     b.pair.b.qp.get(), "receive");
        }
        }
        require(std::ranges::equal(local, remote), "round {}: wrong data", i);
        std::vector<std::byte> beside(buffer_size);
        fill_pattern(beside, seed + 1);
        require(std::equal(beside.begin(), beside.begin() + static_cast<long>(offset + at),
                           b.buffer.span().begin()) &&
                    std::equal(beside.begin() + static_cast<long>(offset + at + bytes), beside.end(),
                               b.buffer.span().begin() + static_cast<long>(offset + at + bytes)),
                "round {}: bytes beside were changed", i);
    }
    const Region region(sides.b, b.buffer, 0, buffer_size);
    const uint64_t before = 7;
    std::memcpy(b.buffer.span().data() + 64, &before, sizeof(before));
    must_run(b.pair, IBV_WR_ATOMIC_FETCH_AND_ADD, b.local(0, 8), 64, region.rkey());
    uint64_t result, now;
    std::memcpy(&result, b.at_a.data(), sizeof(result));
    std::memcpy(&now, b.buffer.span().data() + 64, sizeof(now));
    require(result == 7 && now == 12, "atomic: result {}, now {}", result, now);
}

// B sends from the buffer.
void source(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const Region region(sides.b, b.buffer, page_size, 10 * page_size);
    fill_pattern(b.buffer.span(), 3);
    ibv_sge sge{17, 9 * page_size, region.lkey()};
    ibv_send_wr wr{};
    wr.wr_id = 4;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(b.at_a.data());
    wr.wr.rdma.rkey = b.mr_a->rkey;
    post_send(b.pair.b.qp.get(), wr);
    check_wc(must_poll(b.pair.b.send_cq.get(), "WRITE"), IBV_WC_SUCCESS, 4, b.pair.b.qp.get(), "WRITE");
    require(std::ranges::equal(b.at_a.span(0, 9 * page_size),
                               b.buffer.span(page_size + 17, 9 * page_size)), "wrong data");
}

// The region holds the buffer, not the file descriptor.
void outlives_its_file(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const Region region(sides.b, b.buffer, 0, buffer_size);
    b.buffer.close_all();
    fill_pattern(b.at_a.span(), 5);
    must_run(b.pair, IBV_WR_RDMA_WRITE, b.local(0, buffer_size), 0, region.rkey());
    require(std::ranges::equal(b.at_a.span(), b.buffer.span()), "wrong data");
}

void bounds_and_rights(const Sides &sides, const Link &link)
{
    const auto expect = [&](uint64_t addr, uint32_t length, unsigned access, ibv_wr_opcode opcode,
                            bool works, const char *what) {
        Bench b(sides, link);
        const Region region(sides.b, b.buffer, page_size, 2 * page_size, access, 3 * page_size);
        const auto status = run(b.pair, opcode, b.local(0, length), addr, region.rkey());
        require(status == (works ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR), "{}: \"{}\"", what,
                ibv_wc_status_str(status));
        drain_events(sides.b.context.get());
    };
    expect(3 * page_size, 2 * page_size, all_access, IBV_WR_RDMA_WRITE, true, "all of it");
    expect(3 * page_size, 2 * page_size + 1, all_access, IBV_WR_RDMA_WRITE, false, "a byte more");
    expect(3 * page_size - 1, 8, all_access, IBV_WR_RDMA_WRITE, false, "a byte before");
    expect(3 * page_size, 8, IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, false, "a WRITE to what is to read");
    expect(3 * page_size, 8, IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ, true, "a READ");
    Bench b(sides, link);
    Region region(sides.b, b.buffer, 0, buffer_size);
    const uint32_t rkey = region.rkey();
    region.reset();
    const auto status = run(b.pair, IBV_WR_RDMA_WRITE, b.local(0, 8), 0, rkey);
    require(status == IBV_WC_REM_ACCESS_ERR, "by a dead key: \"{}\"", ibv_wc_status_str(status));
    drain_events(sides.b.context.get());
}

void refused(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    const auto expect = [&](uint64_t offset, uint64_t length, int fd, int want, const char *what) {
        DmabufMr mr;
        const int error = reg_dmabuf_mr(sides.b.pd.get(), offset, length, offset & (page_size - 1), fd,
                                        all_access, mr);
        require(error == want, "{}: \"{}\", expected \"{}\"", what, std::strerror(error),
                std::strerror(want));
        if (!error)
            dereg_dmabuf_mr(sides.b.context.get(), mr);
    };
    expect(0, buffer_size + 1, b.buffer.fd(), EINVAL, "more than the buffer");
    expect(buffer_size, 1, b.buffer.fd(), EINVAL, "behind the buffer");
    expect(page_size, ~0ull, b.buffer.fd(), EINVAL, "a length that wraps");
    expect(0, 0, b.buffer.fd(), EINVAL, "nothing");
    expect(0, page_size, b.buffer.memfd(), EINVAL, "another kind of file");
    expect(0, page_size, 999, EBADF, "no file");
    expect(0, buffer_size, b.buffer.fd(), 0, "all of it");
}

void rereg(const Sides &sides, const Link &link)
{
    Bench b(sides, link);
    Region region(sides.b, b.buffer, 0, buffer_size);
    ibv_mr mr{};
    mr.context = sides.b.context.get();
    mr.handle = region.handle();
    int error = rereg_mr(&mr, IBV_REREG_MR_CHANGE_ACCESS, {nullptr, {}, IBV_ACCESS_REMOTE_READ});
    require(!error && mr.rkey == region.rkey(), "rereg: {}", std::strerror(error));
    fill_pattern(b.buffer.span(), 6);
    must_run(b.pair, IBV_WR_RDMA_READ, b.local(0, buffer_size), 0, region.rkey());
    require(std::ranges::equal(b.at_a.span(), b.buffer.span()), "wrong data");
    const auto status = run(b.pair, IBV_WR_RDMA_WRITE, b.local(0, 8), 0, region.rkey());
    require(status == IBV_WC_REM_ACCESS_ERR, "a WRITE: \"{}\"", ibv_wc_status_str(status));
    drain_events(sides.b.context.get());
}

void nothing_left(const Sides &sides, const Link &link)
{
    const auto before = resource_counts(sides.b.device);
    {
        Bench b(sides, link);
        for (int i = 0; i < 200; i++)
            const Region region(sides.b, b.buffer, 0, buffer_size);
    }
    require(resource_counts(sides.b.device) == before, "objects are left");
}

void add_cases(Ktap &ktap, const Sides &sides, const Options &options)
{
    const Link link = link_from(options);
    const auto add = [&](std::string name, auto run_case) {
        ktap.add(std::move(name), [&sides, link, run_case] { run_case(sides, link); });
    };
    const uint64_t seed = options.seed;
    add("data", [seed](const Sides &s, const Link &l) { data(s, l, seed); });
    add("source", source);
    add("outlives_its_file", outlives_its_file);
    add("bounds_and_rights", bounds_and_rights);
    add("refused", refused);
    add("rereg", rereg);
    add("nothing_left", nothing_left);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Regions of dma-bufs.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("dmabuf", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) { add_cases(ktap, sides, options); });
}
