// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Any client of the vfio-user server. The input is a sequence of pieces: a byte that says what is done, and its
 * arguments; what runs short ends it. Whatever comes, nothing is read past its end and no descriptor stays open.
 */
#include "fuzz_input.hpp"
#include "vfio_user.hpp"

#include "../tests/host_fixture.hpp"

#include <sys/eventfd.h>

#include <cstdlib>

namespace {

using namespace cx;
using namespace cx::test;

void Run(FuzzInput &input)
{
    EventLoop loop;
    Trace trace(false);
    RecordingFunction function;
    VfioUser server(loop, trace, "", false);
    auto [client, other] = MakePair(SOCK_STREAM);
    const FileDescriptor memory = MakeMemory(1 << 16);
    const FileDescriptor event(eventfd(0, EFD_NONBLOCK));
    const std::vector<std::byte> version = {std::byte{1}, {}, std::byte{1}, {}, std::byte{20}, {}, {}, {}, {}, {},
                                            {},           {}, {},           {}, {},            {}, {}, {}, {}, {}};

    server.Start(function);
    server.Adopt(std::move(other));
    if (input.Byte() % 8 != 0) /* else the version is for the input to negotiate */
        SendWith(client.Get(), version, {});
    while (!input.Empty()) {
        const unsigned kind = input.Byte();
        std::vector<int> descriptors;

        for (unsigned i = 0; i < kind / 8 % 8; ++i)
            descriptors.push_back(kind % 2 == 0 ? memory.Get() : event.Get());
        if (kind % 8 < 5) { /* a message with a header that fits it, and some flags */
            const std::uint16_t command = input.Byte() % 16;
            const auto body = input.Bytes(input.Byte());
            std::vector<std::byte> message;

            Append(message, std::uint16_t{1});
            Append(message, command);
            Append(message, static_cast<std::uint32_t>(16 + body.size()));
            Append(message, kind % 8 == 4 ? std::uint32_t{0x10} : 0U);
            Append(message, std::uint32_t{0});
            message.insert(message.end(), body.begin(), body.end());
            SendWith(client.Get(), message, descriptors);
        } else if (kind % 8 == 5) { /* bytes as they are */
            const auto bytes = input.Bytes(input.Byte());

            if (!bytes.empty())
                SendWith(client.Get(), bytes, descriptors);
        } else if (kind % 8 == 6) {
            server.Interrupt(kind / 8);
        }
        for (int i = 0; i < 3; ++i)
            loop.RunOnce(Clock::duration::zero());
        std::array<char, 65536> replies = {};
        while (recv(client.Get(), replies.data(), replies.size(), MSG_DONTWAIT) > 0)
            loop.RunOnce(Clock::duration::zero());
        function.reads.clear();
        function.writes.clear();
        function.registers.clear();
    }
    client.Reset();
    for (int i = 0; i < 3; ++i)
        loop.RunOnce(Clock::duration::zero());
    if (server.Memory().Ranges() != 0)
        std::abort();
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::size_t before = cx::test::OpenDescriptors(); /* the fuzzer opens some of its own between runs */
    cx::FuzzInput input({data, size});

    Run(input);
    if (cx::test::OpenDescriptors() != before)
        std::abort();
    return 0;
}
