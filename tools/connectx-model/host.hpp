// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The two sides of the card: the bus it sits on, and the wire its port leads to. */
#pragma once

#include "memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace cx {

/** What a transport (vfio-user, virtio-pcidev) gives to the card. */
class Bus {
public:
    virtual ~Bus() = default;
    virtual GuestMemory &Memory() = 0;
    /**
     * Send MSI-X message `vector`; one that the guest has masked or not set up is kept pending as PCI has it, or
     * dropped.
     */
    virtual void Interrupt(unsigned vector) = 0;
};

constexpr std::size_t kMaxFrame = 10 << 10; /* that the card sends and takes, with all headers, without FCS */

/** What a backend (TAP, socket, generator, pcap) gives to the card's port. */
class Wire {
public:
    virtual ~Wire() = default;
    /** An Ethernet frame without FCS. One that the wire cannot take is dropped and counted there. */
    virtual void Send(std::span<const std::byte> frame) = 0;
    /** False: send queues wait, as for the other end's pause frames (802.3 annex 31B). A WQE's worth is taken still. */
    virtual bool Ready() const
    {
        return true;
    }
};

} // namespace cx
