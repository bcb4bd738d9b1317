// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The command queue in the guest's memory: entries, mailboxes, and how their completion is told. */
#pragma once

#include "command.hpp"
#include "host.hpp"
#include "timers.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace cx {

/**
 * The queue's entries are struct mlx5_ifc_cmd_queue_entry_bits, its mailboxes mlx5_ifc_cmd_if_box_bits. An entry whose
 * mailboxes, lengths, token or signature are wrong gets a delivery status and is not executed.
 */
class CommandQueue {
public:
    static constexpr unsigned kLogSize = 5;
    static constexpr unsigned kLogStride = 6;

    CommandQueue(Bus &bus, Timers &timers, Objects &objects, DataPath &data_path, Trace &trace);

    /** DMA address of the queue, 4 KiB aligned; 0: none. What is late is so for ever. */
    void SetAddress(std::uint64_t address)
    {
        CancelLate();
        address_ = address;
    }
    std::uint64_t address() const
    {
        return address_;
    }

    /** The doorbell register: bit n is slot n. Slots are executed at once, lowest first. */
    void Doorbell(std::uint32_t slots);

    /**
     * The next command is executed and completed when the driver has given it up: mlx5_core waits 60 s. It leaves the
     * slot to the card, and until it has it back it can neither unload nor recover from an internal error.
     */
    static constexpr auto kLate = std::chrono::seconds(75);
    void DelayNext()
    {
        delay_next_ = true;
    }
    void CancelLate()
    {
        timers_.Cancel(late_);
    }

    std::uint64_t executed() const
    {
        return executed_;
    }

private:
    /** Values of cmd_queue_entry.status: the delivery of a command. */
    enum class Delivery : std::uint8_t {
        kOk = 0x0,
        kSignature = 0x1,
        kToken = 0x2,
        kBlockNumber = 0x3,
        kOutputPointer = 0x4,
        kInputPointer = 0x5,
        kInputLength = 0x7,
        kOutputLength = 0x8,
        kReserved = 0x9,
        kDescriptor = 0x10, /* entry or mailbox: bad type, or not readable */
    };

    void Run(unsigned slot);
    Delivery Execute(std::span<std::byte> entry);
    Delivery ReadInput(std::span<const std::byte> entry, std::vector<std::byte> &input);
    /** Addresses of the mailboxes for the part of the output that is not in the entry. */
    Delivery FindOutput(std::span<const std::byte> entry, std::size_t size, std::vector<std::uint64_t> &mailboxes);
    /** One mailbox: read and checked. */
    Delivery ReadMailbox(std::uint64_t address, std::uint8_t token, std::uint32_t number, Delivery bad_pointer,
                         std::span<std::byte> box);
    void WriteOutput(std::span<const std::byte> output, std::span<const std::uint64_t> mailboxes);

    Bus &bus_;
    Timers &timers_;
    Objects &objects_;
    DataPath &data_path_;
    Trace &trace_;
    Commands commands_;
    std::uint64_t address_ = 0;
    std::uint64_t executed_ = 0;
    bool delay_next_ = false;
    Timers::Id late_ = 0;
};

} // namespace cx
