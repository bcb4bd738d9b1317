// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two MPI ranks exchange messages of many sizes, puts and gets, and sums, and verify every
// byte. Open MPI's headers come with its compilers alone, so libmpi is loaded at run time:
// its ABI has the predefined handles as exported objects, a handle being the address of one.
#include "common/ktap.hpp"
#include "common/random.hpp"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace rocev2::test;

namespace {

using MpiHandle = void *;

class Mpi {
public:
    Mpi() : library_(dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL))
    {
        require(library_, "{}", dlerror());
        world = symbol("ompi_mpi_comm_world");
        byte = symbol("ompi_mpi_byte");
        uint64 = symbol("ompi_mpi_uint64_t");
        sum = symbol("ompi_mpi_op_sum");
        no_info = symbol("ompi_mpi_info_null");
    }

    // Calls a function that returns an MPI error code.
    template <typename... Args>
    void call(const char *name, Args... args) const
    {
        using Function = int (*)(Args...);
        const int error = reinterpret_cast<Function>(symbol(name))(args...);
        require(!error, "{} returned {}", name, error);
    }

    MpiHandle world, byte, uint64, sum, no_info;

private:
    void *symbol(const char *name) const
    {
        void *const address = dlsym(library_, name);
        require(address, "{}", dlerror());
        return address;
    }
    void *library_;
};

void verify(std::span<const std::byte> data, uint64_t seed, const char *what)
{
    std::vector<std::byte> expected(data.size());
    fill_pattern(expected, seed);
    require(data.empty() || !std::memcmp(data.data(), expected.data(), data.size()),
            "{} of {} bytes: wrong data", what, data.size());
}

// Both ranks send at once: eager and rendezvous protocols, odd lengths.
void messages(const Mpi &mpi, int me)
{
    const int peer = 1 - me;
    int round = 0;
    for (const size_t size : {size_t{0}, size_t{1}, size_t{8}, size_t{1023}, size_t{4097},
                              size_t{65536}, size_t{1000003}, size_t{4} << 20}) {
        for (int i = 0; i < 8; i++, round++) {
            std::vector<std::byte> out(size), in(size);
            fill_pattern(out, mix64(static_cast<uint64_t>(round) * 2 + static_cast<uint64_t>(me)));
            mpi.call("MPI_Sendrecv", static_cast<const void *>(out.data()), static_cast<int>(size),
                     mpi.byte, peer, round, static_cast<void *>(in.data()),
                     static_cast<int>(size), mpi.byte, peer, round, mpi.world,
                     static_cast<void *>(nullptr));
            verify(in, mix64(static_cast<uint64_t>(round) * 2 + static_cast<uint64_t>(peer)),
                   "message");
        }
    }
}

// One-sided: each rank puts into the lower half of the other's window and gets its upper half.
void windows(const Mpi &mpi, int me)
{
    constexpr size_t half = 300001;
    const int peer = 1 - me;
    std::vector<std::byte> window(2 * half), out(half), in(half);
    const auto seed = [](int rank, int what) { return mix64(static_cast<uint64_t>(1000 + rank * 2 + what)); };
    fill_pattern(std::span(window).subspan(half), seed(me, 0));
    fill_pattern(out, seed(me, 1));
    MpiHandle win = nullptr;
    mpi.call("MPI_Win_create", static_cast<void *>(window.data()), static_cast<ptrdiff_t>(window.size()), 1,
             mpi.no_info, mpi.world, &win);
    mpi.call("MPI_Win_fence", 0, win);
    mpi.call("MPI_Put", static_cast<const void *>(out.data()), static_cast<int>(half), mpi.byte, peer,
             ptrdiff_t{0}, static_cast<int>(half), mpi.byte, win);
    mpi.call("MPI_Get", static_cast<void *>(in.data()), static_cast<int>(half), mpi.byte, peer,
             static_cast<ptrdiff_t>(half), static_cast<int>(half), mpi.byte, win);
    mpi.call("MPI_Win_fence", 0, win);
    verify(std::span(window).first(half), seed(peer, 1), "put");
    verify(in, seed(peer, 0), "get");
    mpi.call("MPI_Win_free", &win);
}

void sums(const Mpi &mpi, int me)
{
    std::vector<uint64_t> mine(10001), total(mine.size());
    for (size_t i = 0; i < mine.size(); i++)
        mine[i] = i * static_cast<uint64_t>(me + 1);
    mpi.call("MPI_Allreduce", static_cast<const void *>(mine.data()), static_cast<void *>(total.data()),
             static_cast<int>(mine.size()), mpi.uint64, mpi.sum, mpi.world);
    for (size_t i = 0; i < total.size(); i++)
        require(total[i] == i * 3, "sum {} is {}", i, total[i]);
}

} // namespace

// --two-sided: no puts and gets, which Open MPI does not have over every transport
int main(int argc, char **argv)
{
    try {
        const bool two_sided = argc == 2 && std::string(argv[1]) == "--two-sided";
        require(argc == 1 || two_sided, "mpi_data takes --two-sided or nothing");
        const Mpi mpi;
        int me = -1;
        int ranks = 0;
        mpi.call("MPI_Init", &argc, &argv);
        mpi.call("MPI_Comm_rank", mpi.world, &me);
        mpi.call("MPI_Comm_size", mpi.world, &ranks);
        require(ranks == 2, "{} ranks, must be 2", ranks);
        messages(mpi, me);
        sums(mpi, me);
        if (!two_sided)
            windows(mpi, me);
        mpi.call("MPI_Finalize");
        fmt::print("rank {} verified all\n", me);
        return 0;
    } catch (const std::exception &error) {
        fmt::print("{}\n", error.what());
        std::fflush(stdout);
        // Without MPI_Finalize(), so that mpirun ends the other rank too.
        _exit(1);
    }
}
