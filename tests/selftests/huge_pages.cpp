// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Regions that begin and end anywhere in huge pages, at addresses of their own (iova) or not: the
// module must keep them in huge blocks, and each byte must land where it belongs, the borders of
// small and huge pages included. Started by huge_pages.sh, which makes the huge pages.
#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/ring.hpp"
#include "common/verbs.hpp"

#include <cstring>

using namespace rocev2::test;

namespace {

constexpr size_t pages = 4;
constexpr size_t memory_size = pages * huge_page_size;
constexpr std::byte poison{0xa5};

struct Window {
    size_t offset;
    size_t length;
};

constexpr Window windows[] = {
    {0, memory_size},
    {0, huge_page_size + 1},
    {1, huge_page_size},
    {4095, huge_page_size + 4098},
    {4096, huge_page_size},
    {huge_page_size - 1, 2},
    {huge_page_size - 4096, 8192},
    {huge_page_size - 1, huge_page_size + 2},
    {huge_page_size + 1, 2 * huge_page_size - 2},
    {huge_page_size + 12345, huge_page_size + 54321},
    {2 * huge_page_size - 77, 65536},
    {memory_size - huge_page_size - 3, huge_page_size + 3},
};

// Smaller than a page of either kind: whatever block covers it will do.
constexpr Window small_windows[] = {
    {5, 1}, {4090, 12}, {huge_page_size - 4096, 4096}, {3 * huge_page_size, 4096},
    {huge_page_size - 9000, 8999},
};

class Bench {
public:
    Bench(Sides &sides, const Options &options)
        : sides_(sides), rng_(options.seed), link_(link_from(options)), local_(memory_size),
          local_mr_(make_mr(sides.a, local_.span(), all_access)), expected_(memory_size)
    {
        link_.mtu = common_mtu(sides);
        pair_ = make_pair(sides, link_, {.send_sge = 8, .recv_sge = 8});
    }

    // A region over this part of @memory: WRITE all of it, look at every byte, READ it back.
    // Blocks of at least 2^@least_shift bytes, and at most 2^@most_shift.
    void run(const Buffer &memory, const Window &window, uint64_t iova, int least_shift,
             int most_shift)
    {
        note(fmt::format("offset {:#x}, {} bytes, iova {:#x}", window.offset, window.length, iova));
        const auto bytes = memory.span(window.offset, window.length);
        Mr mr = make_mr_iova(sides_.b, bytes, iova, all_access);
        const int shift = registered_block_shift(sides_.b.device, mr->lkey);
        require(shift >= least_shift && shift <= most_shift,
                "registered in blocks of 2^{} bytes, expected 2^{} to 2^{}", shift, least_shift,
                most_shift);

        const uint64_t seed = rng_.next();
        std::memset(memory.data(), static_cast<int>(poison), memory.size());
        std::memset(expected_.data(), static_cast<int>(poison), expected_.size());
        fill_pattern(std::span(expected_).subspan(window.offset, window.length), seed);
        fill_pattern(local_.span(0, window.length), seed);
        transfer(IBV_WR_RDMA_WRITE, window.length, iova, mr->rkey);
        compare(memory, "WRITE");
        std::memset(local_.data(), 0, window.length);
        transfer(IBV_WR_RDMA_READ, window.length, iova, mr->rkey);
        require(!std::memcmp(local_.data(), expected_.data() + window.offset, window.length),
                "READ: wrong data");

        // as scatter list of receives, its elements cut anywhere
        if (window.length > 128 * 1024)
            return;
        std::memset(bytes.data(), static_cast<int>(poison), bytes.size());
        std::vector<ibv_sge> sges;
        size_t at = 0;
        for (const uint32_t length : random_split(static_cast<uint32_t>(window.length), 5, rng_)) {
            sges.push_back({iova + at, length, mr->lkey});
            at += length;
        }
        post_recv(pair_.b.qp.get(), 7, sges);
        fill_pattern(local_.span(0, window.length), seed);
        transfer(IBV_WR_SEND, window.length, 0, 0);
        check_wc(must_poll(pair_.b.recv_cq.get(), "receive"), IBV_WC_SUCCESS, 7,
                 pair_.b.qp.get(), "receive");
        compare(memory, "SEND");
    }

    // both with the application's address and with one that lies elsewhere in its huge page
    void run_both(const Buffer &memory, const Window &window, int least_shift, int most_shift)
    {
        const uint64_t va = reinterpret_cast<uint64_t>(memory.data()) + window.offset;
        const uint64_t other = (uint64_t{1} << 40) +
            rng_.between<uint64_t>(1, huge_page_size / page_size - 1) * page_size;

        run(memory, window, va, least_shift, most_shift);
        // libibverbs demands the same place in a small page, and no more
        run(memory, window, va + other, least_shift, most_shift);
    }

private:
    void transfer(ibv_wr_opcode opcode, size_t length, uint64_t address, uint32_t rkey)
    {
        std::vector<ibv_sge> sges;
        size_t at = 0;
        for (const uint32_t part : random_split(static_cast<uint32_t>(length), 5, rng_)) {
            sges.push_back(sge_of(local_.span(at, part), local_mr_.get()));
            at += part;
        }
        ibv_send_wr wr{};
        wr.wr_id = ++id_;
        wr.sg_list = sges.data();
        wr.num_sge = static_cast<int>(sges.size());
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = rkey;
        post_send(pair_.a.qp.get(), wr);
        check_wc(must_poll(pair_.a.send_cq.get(), "request", std::chrono::seconds(60)),
                 IBV_WC_SUCCESS, id_, pair_.a.qp.get(), "request");
    }

    void compare(const Buffer &memory, const char *what) const
    {
        if (!std::memcmp(memory.data(), expected_.data(), memory_size))
            return;
        size_t at = 0;
        while (memory.data()[at] == expected_[at])
            at++;
        fail("{}: byte {:#x} of the memory is {:#04x}, expected {:#04x}", what, at,
             static_cast<int>(memory.data()[at]), static_cast<int>(expected_[at]));
    }

    Sides &sides_;
    Rng rng_;
    Link link_;
    Buffer local_;
    Mr local_mr_;
    std::vector<std::byte> expected_;
    Pair pair_;
    uint64_t id_ = 0;
};

constexpr int any_shift = 63;
constexpr int small_page_shift = 12;

void run_windows(Sides &sides, const Options &options, Paging paging)
{
    Bench bench(sides, options);
    Buffer memory(memory_size, paging);
    std::memset(memory.data(), 0, memory.size()); // transparent pages come with the first touch
    for (const Window &window : windows)
        bench.run_both(memory, window, huge_page_shift, any_shift);
    for (const Window &window : small_windows)
        bench.run_both(memory, window, small_page_shift, any_shift);
}

// Huge pages with small ones behind them: small blocks over both, huge ones over the huge part.
void run_border(Sides &sides, const Options &options)
{
    Bench bench(sides, options);
    Buffer memory(memory_size, Paging::mixed);
    constexpr size_t border = memory_size / 2;
    // Every second page first: small pages must not happen to lie side by side.
    for (const size_t start : {size_t{0}, page_size})
        for (size_t at = start; at < memory_size; at += 2 * page_size)
            std::memset(memory.data() + at, 0, page_size);
    bench.run_both(memory, {0, border}, huge_page_shift, any_shift);
    bench.run_both(memory, {0, memory_size}, small_page_shift, huge_page_shift - 1);
    bench.run_both(memory, {border - 1, 2}, small_page_shift, any_shift);
    bench.run_both(memory, {border - 4097, 100000}, small_page_shift, huge_page_shift - 1);
}

} // namespace

int main(int argc, char **argv)
{
    Options options;
    CLI::App app("Memory regions in huge pages: how they are registered, and every byte.");
    add_common_options(app, options);
    CLI11_PARSE(app, argc, argv);
    settle_options("huge_pages", options);
    return run_on_sides(options, [&](Ktap &ktap, Sides &sides) {
        ktap.add("hugetlb", [&] { run_windows(sides, options, Paging::hugetlb); });
        ktap.add("transparent", [&] { run_windows(sides, options, Paging::transparent); });
        ktap.add("border_to_small_pages", [&] { run_border(sides, options); });
    });
}
