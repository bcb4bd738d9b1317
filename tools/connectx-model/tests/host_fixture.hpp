// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A function that records, guest memory in a memfd, and helpers, for tests of the host side. */
#pragma once

#include "card.hpp"
#include "event_loop.hpp"

#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cx::test {

class RecordingFunction final : public Function {
public:
    struct Access {
        std::uint64_t offset;
        unsigned size;
        std::uint64_t value;

        bool operator==(const Access &) const = default;
    };

    std::uint64_t ReadRegister(std::uint64_t offset, unsigned size) override
    {
        reads.push_back({offset, size, 0});
        return registers.contains(offset) ? registers[offset] : 0x1111222233334444;
    }
    void WriteRegister(std::uint64_t offset, unsigned size, std::uint64_t value) override
    {
        writes.push_back({offset, size, value});
        registers[offset] = value;
    }
    void Reset() override
    {
        ++resets;
    }
    void SetBusMaster(bool on) override
    {
        bus_master = on;
    }
    void Receive(std::span<const std::byte> frame) override
    {
        frames.emplace_back(frame.begin(), frame.end());
    }
    bool Inject(Fault fault, std::uint32_t number) override
    {
        faults.emplace_back(fault, number);
        return inject;
    }
    std::string Status() const override
    {
        return R"({"resets":)" + std::to_string(resets) + "}";
    }

    std::map<std::uint64_t, std::uint64_t> registers;
    std::vector<Access> reads, writes;
    std::vector<std::vector<std::byte>> frames;
    std::vector<std::pair<Fault, std::uint32_t>> faults;
    bool inject = true;
    bool bus_master = false;
    int resets = 0;
};

inline std::vector<std::byte> ToBytes(const std::string &text)
{
    const auto bytes = std::as_bytes(std::span(text));

    return {bytes.begin(), bytes.end()};
}

/** A memfd of `size` bytes. */
inline FileDescriptor MakeMemory(std::uint64_t size)
{
    FileDescriptor memory(memfd_create("guest", MFD_CLOEXEC));

    if (ftruncate(memory.Get(), static_cast<off_t>(size)) != 0)
        memory.Reset();
    return memory;
}

inline std::pair<FileDescriptor, FileDescriptor> MakePair(int type)
{
    std::array<int, 2> ends = {-1, -1};

    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0)
        return {};
    return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

inline std::size_t OpenDescriptors()
{
    const std::filesystem::directory_iterator all("/proc/self/fd");

    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/** Turns of the loop until `done`, or a while has passed; returns done(). */
template <typename Done> bool RunUntil(EventLoop &loop, Done done)
{
    const Clock::time_point end = Clock::now() + std::chrono::seconds(10);

    while (!done() && Clock::now() < end)
        loop.RunOnce(std::chrono::milliseconds(10));
    return done();
}

/** Turns until nothing is ready. Only where no timer runs. */
inline void RunAll(EventLoop &loop)
{
    for (int i = 0; i < 20; ++i)
        loop.RunOnce(Clock::duration::zero());
}

/** Sends `bytes` with `descriptors` as one piece of a stream. */
inline bool SendWith(int socket, std::span<const std::byte> bytes, const std::vector<int> &descriptors)
{
    std::vector<char> control(descriptors.empty() ? 0 : CMSG_SPACE(sizeof(int) * descriptors.size()));
    iovec part = {.iov_base = const_cast<std::byte *>(bytes.data()), .iov_len = bytes.size()};
    msghdr message = {};

    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
        std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * descriptors.size());
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(bytes.size());
}

template <typename T> void Append(std::vector<std::byte> &into, const T &value)
{
    const auto bytes = std::as_bytes(std::span(&value, 1));

    into.insert(into.end(), bytes.begin(), bytes.end());
}

template <typename T> T At(std::span<const std::byte> bytes, std::size_t offset)
{
    T value = {};

    if (offset + sizeof(T) <= bytes.size())
        std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

} // namespace cx::test
