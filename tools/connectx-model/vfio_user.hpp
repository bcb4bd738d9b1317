// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The function as a vfio-user server: QEMU's vfio-user-pci connects and gives it to a guest.
 * Protocol: QEMU's docs/interop/vfio-user.rst, version 0.0 and later; structures as linux/vfio.h has them.
 */
#pragma once

#include "message_socket.hpp"
#include "pci.hpp"
#include "trace.hpp"
#include "transport.hpp"

#include <array>
#include <bitset>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cx {

class VfioUser final : public Transport {
public:
    /** With `once`, the loop is stopped when the first client has gone. An empty `path`: only Adopt() (tests). */
    VfioUser(EventLoop &loop, Trace &trace, std::string path, bool once);

    void Start(Function &function) override;
    bool Disconnect() override;
    std::string Status() const override;
    GuestMemory &Memory() override
    {
        return memory_;
    }
    void Interrupt(unsigned vector) override;

    /** A client that is connected already. */
    void Adopt(FileDescriptor socket);

private:
    using Body = std::span<const std::byte>;
    using Descriptors = std::vector<FileDescriptor>;
    /* The reply's body, or the errno of the reply. */
    struct Result {
        int error = 0;
        std::vector<std::byte> body;
    };

    void Receive(std::span<const std::byte> message, Descriptors descriptors);
    void Closed(std::string_view reason);
    void Reply(std::uint16_t id, std::uint16_t command, const Result &result);
    Result Execute(std::uint16_t command, Body body, Descriptors descriptors);

    Result Version(Body body);
    Result DmaMap(Body body, const Descriptors &descriptors);
    Result DmaUnmap(Body body);
    static Result GetInfo(Body body);
    static Result GetRegionInfo(Body body);
    static Result GetIrqInfo(Body body);
    Result SetIrqs(Body body, Descriptors descriptors);
    Result RegionRead(Body body);
    Result RegionWrite(Body body);
    Result Reset();

    EventLoop &loop_;
    Trace &trace_;
    std::string path_;
    bool once_;
    GuestMemory memory_;
    PciEndpoint pci_;
    Function *function_ = nullptr;
    std::optional<Listener> listener_;
    std::unique_ptr<MessageSocket> client_;
    bool negotiated_ = false;
    /* QEMU keeps the MSI-X table and gives an eventfd for each vector in use; while it is set up anew there is none */
    std::array<FileDescriptor, kVectors> events_;
    std::bitset<kVectors> pending_;
    FileDescriptor error_event_; /* asked for by QEMU, which warns if it cannot be had; never signalled */
    std::uint64_t interrupts_ = 0;
    std::uint64_t clients_ = 0;
    std::uint64_t refused_ = 0; /* messages that got an error */
};

} // namespace cx
