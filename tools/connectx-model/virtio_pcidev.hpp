// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The function as a vhost-user device of kind "virtio-pcidev", through which User Mode Linux has PCI.
 * Protocol: QEMU's docs/interop/vhost-user.rst; operations: linux/virtio_pcidev.h. Two queues: 0 carries the guest's
 * accesses, 1 the function's interrupts, in buffers that the guest provides.
 */
#pragma once

#include "message_socket.hpp"
#include "pci.hpp"
#include "trace.hpp"
#include "transport.hpp"
#include "vring.hpp"

#include <array>
#include <bitset>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cx {

class VirtioPcidev final : public Transport {
public:
    /*
     * From a removal until the guest is told. It makes its driver let go of the card, but does not tell it that the
     * card is gone (pci_dev_is_disconnected()): one that has not found out by itself waits for the time-out of each
     * command.
     */
    static constexpr auto kRemovalTime = std::chrono::seconds(10);

    /** With `once`, the loop is stopped when the first guest has gone. An empty `path`: only Adopt() (tests). */
    VirtioPcidev(EventLoop &loop, Trace &trace, std::string path, bool once,
                 Clock::duration removal_time = kRemovalTime);
    ~VirtioPcidev() override;
    VirtioPcidev(const VirtioPcidev &) = delete;
    VirtioPcidev &operator=(const VirtioPcidev &) = delete;

    void Start(Function &function) override;
    bool Disconnect() override;
    std::string Status() const override;
    GuestMemory &Memory() override
    {
        return memory_;
    }
    void Interrupt(unsigned vector) override;

    /** A guest that is connected already. */
    void Adopt(FileDescriptor socket);

private:
    static constexpr unsigned kCommandQueue = 0;
    static constexpr unsigned kInterruptQueue = 1;
    static constexpr unsigned kQueues = 2;

    using Body = std::span<const std::byte>;
    using Descriptors = std::vector<FileDescriptor>;
    /* What a message comes to: refused, done, or done with this reply. */
    struct Result {
        bool done = false;
        std::vector<std::byte> reply;
    };
    struct Queue {
        Vring ring;
        FileDescriptor kick, call;
        bool started = false; /* between SET_VRING_KICK and GET_VRING_BASE */
        bool enabled = false;
    };
    /* A region of SET_MEM_TABLE: ring addresses are the guest process' own and are translated by it. */
    struct Region {
        std::uint64_t guest, size, user;
    };
    struct Message {
        std::uint64_t address;
        std::uint32_t data;
    };

    void Receive(std::span<const std::byte> message, Descriptors descriptors);
    void Closed(std::string_view reason);
    void Reply(std::uint32_t request, std::span<const std::byte> body);
    Result Execute(std::uint32_t request, Body body, Descriptors descriptors);
    Result SetMemoryTable(Body body, const Descriptors &descriptors);
    Result SetRing(std::uint32_t request, Body body);
    Result SetRingAddress(Body body);
    Result SetRingDescriptor(std::uint32_t request, Body body, Descriptors descriptors);
    std::optional<std::uint64_t> GuestAddress(std::uint64_t user) const;
    void StopQueue(Queue &queue);
    void StopQueues();

    bool Running(const Queue &queue) const;
    void Kicked(unsigned index);
    void RunCommands();
    std::uint32_t RunCommand(const Vring::Chain &chain);
    void SendInterrupts();
    static void Call(const Queue &queue);

    EventLoop &loop_;
    Trace &trace_;
    std::string path_;
    bool once_;
    Clock::duration removal_time_;
    GuestMemory memory_;
    PciEndpoint pci_;
    Function *function_ = nullptr;
    std::optional<Listener> listener_;
    std::unique_ptr<MessageSocket> guest_;
    std::uint64_t features_ = 0, protocol_features_ = 0;
    std::vector<Region> regions_;
    std::array<Queue, kQueues> queues_;
    /* interrupts that found no buffer; one that comes again meanwhile is the same to the guest */
    std::bitset<kVectors> waiting_;
    std::array<Message, kVectors> messages_ = {};
    /* nothing is ever asked there: that it ends is how UML learns of a removal */
    FileDescriptor requests_;
    bool removed_ = false; /* an empty slot: all-ones is read, and nothing is written */
    Timers::Id hang_up_ = 0;
    Timers::Id more_ = 0; /* commands that wait for the loop's next turn */
    std::uint64_t interrupts_ = 0, queued_interrupts_ = 0, accesses_ = 0, refused_ = 0, guests_ = 0;
};

} // namespace cx
