// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Any guest of the virtio-pcidev device: requests of any kind, and rings and buffers in shared memory with anything in
 * them. The input is a sequence of pieces: a byte that says what is done, and its arguments.
 */
#include "fuzz_input.hpp"
#include "virtio_pcidev.hpp"

#include "../tests/host_fixture.hpp"

#include <sys/eventfd.h>

#include <cstdlib>

namespace {

using namespace cx;
using namespace cx::test;

constexpr std::uint64_t kMemory = 1 << 16;

class Guest {
public:
    Guest()
    {
        auto [guest, device] = MakePair(SOCK_STREAM);

        guest_ = std::move(guest);
        device_.Start(function_);
        device_.Adopt(std::move(device));
        bytes_ = static_cast<std::byte *>(mmap(nullptr, kMemory, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.Get(), 0));
    }
    ~Guest()
    {
        munmap(bytes_, kMemory);
    }
    Guest(const Guest &) = delete;
    Guest &operator=(const Guest &) = delete;

    template <typename... Values>
    void Ask(std::uint32_t request, const std::vector<int> &descriptors, const Values &...values)
    {
        std::vector<std::byte> body;

        (Append(body, values), ...);
        Send(request, 1, body, descriptors);
    }
    /* All that a guest does until its rings run; both of 16 entries, the second at the memory's middle. */
    void SetUp()
    {
        Ask(2, {}, std::uint64_t{1ULL << 32});
        Ask(5, {memory_.Get()}, std::uint32_t{1}, std::uint32_t{0}, std::uint64_t{0}, kMemory, std::uint64_t{0},
            std::uint64_t{0});
        for (std::uint32_t ring = 0; ring < 2; ++ring) {
            const std::uint64_t start = ring * kMemory / 2;

            Ask(8, {}, ring, std::uint32_t{16});
            Ask(9, {}, ring, std::uint32_t{0}, start, start + 512, start + 256, std::uint64_t{0});
            Ask(13, {event_.Get()}, std::uint64_t{ring});
            Ask(12, {kick_.Get()}, std::uint64_t{ring});
        }
        Turn();
    }
    void Step(FuzzInput &input)
    {
        const unsigned kind = input.Byte();

        switch (kind % 8) {
        case 0:
        case 1: { /* a request */
            const std::uint32_t request = input.Byte() % 32;
            const std::uint32_t flags = input.Byte();
            std::vector<int> descriptors;

            for (unsigned i = 0; i < kind / 8 % 4; ++i)
                descriptors.push_back(kind % 2 == 0 ? memory_.Get() : event_.Get());
            Send(request, flags, input.Bytes(input.Byte()), descriptors);
            break;
        }
        case 2: { /* bytes as they are */
            const auto bytes = input.Bytes(input.Byte());

            if (!bytes.empty())
                SendWith(guest_.Get(), bytes, {});
            break;
        }
        case 3:
        case 4: { /* bytes into the memory */
            const std::size_t at = input.Take<std::uint16_t>();
            const auto bytes = input.Bytes(std::min<std::size_t>(input.Byte(), kMemory - at));

            std::ranges::copy(bytes, bytes_ + at);
            break;
        }
        case 5: { /* an access as a driver makes it: header and data in one part, the answer in another */
            const auto bytes = input.Bytes(input.Byte() % 96U);

            std::ranges::copy(bytes, bytes_ + 2048);
            PutDescriptor(0, 2048, static_cast<std::uint32_t>(bytes.size()), 1, 1);
            PutDescriptor(1, 4096, input.Byte(), 2, 0);
            std::memset(bytes_ + 256 + 4, 0, 32);
            ++*reinterpret_cast<std::uint16_t *>(bytes_ + 256 + 2);
            break;
        }
        case 6:
            device_.Interrupt(kind / 8);
            break;
        default: {
            const std::uint64_t one = 1;

            [[maybe_unused]] const auto written = write(kick_.Get(), &one, sizeof(one));
            break;
        }
        }
        Turn();
    }
    void Leave()
    {
        guest_.Reset();
        Turn();
        if (device_.Memory().Ranges() != 0)
            std::abort();
    }

private:
    void Send(std::uint32_t request, std::uint32_t flags, const std::vector<std::byte> &body,
              const std::vector<int> &descriptors)
    {
        std::vector<std::byte> message;

        Append(message, request);
        Append(message, flags);
        Append(message, static_cast<std::uint32_t>(body.size()));
        message.insert(message.end(), body.begin(), body.end());
        SendWith(guest_.Get(), message, descriptors);
        Turn();
    }
    void PutDescriptor(std::size_t index, std::uint64_t address, std::uint32_t size, std::uint16_t flags,
                       std::uint16_t next)
    {
        std::vector<std::byte> bytes;

        Append(bytes, address);
        Append(bytes, size);
        Append(bytes, flags);
        Append(bytes, next);
        std::ranges::copy(bytes, bytes_ + 16 * index);
    }
    void Turn()
    {
        std::array<char, 4096> replies = {};

        for (int i = 0; i < 4; ++i)
            loop_.RunOnce(Clock::duration::zero());
        while (recv(guest_.Get(), replies.data(), replies.size(), MSG_DONTWAIT) > 0)
            ;
        function_.reads.clear();
        function_.writes.clear();
        function_.registers.clear();
    }

    EventLoop loop_;
    Trace trace_{false};
    RecordingFunction function_;
    VirtioPcidev device_{loop_, trace_, "", false};
    FileDescriptor guest_;
    FileDescriptor memory_ = MakeMemory(kMemory);
    FileDescriptor kick_{eventfd(0, EFD_NONBLOCK)};
    FileDescriptor event_{eventfd(0, EFD_NONBLOCK)};
    std::byte *bytes_ = nullptr;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    const std::size_t before = cx::test::OpenDescriptors(); /* the fuzzer opens some of its own between runs */
    cx::FuzzInput input({data, size});

    {
        Guest guest;

        if (input.Byte() % 8 != 0)
            guest.SetUp();
        while (!input.Empty())
            guest.Step(input);
        guest.Leave();
    }
    if (cx::test::OpenDescriptors() != before)
        std::abort();
    return 0;
}
