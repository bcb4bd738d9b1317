// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The command queue in the guest's memory: entries, mailboxes, and how their completion is told. */
#include "command_queue.hpp"

#include "ifc.hpp"

#include <algorithm>
#include <array>
#include <atomic>

namespace cx {
namespace {

constexpr std::size_t kEntrySize = CX_SIZE(cmd_queue_entry);
constexpr std::size_t kBoxSize = CX_SIZE(cmd_if_box);
constexpr std::size_t kBoxData = CX_FIELD(cmd_if_box, mailbox_data).bits / 8;
constexpr std::size_t kBoxControl = CX_AT(cmd_if_box, reserved_at_1000);
constexpr std::size_t kInline = CX_FIELD(cmd_queue_entry, command_input_inline_data).bits / 8;
constexpr std::size_t kInlineInput = CX_AT(cmd_queue_entry, command_input_inline_data);
constexpr std::size_t kInlineOutput = CX_AT(cmd_queue_entry, command_output_inline_data);
/* The last byte of an entry: status and ownership. It is written after everything else. */
constexpr std::size_t kOwnerByte = kEntrySize - 1;
/* Opcode and op_mod of the input, status and syndrome of the output. */
constexpr std::size_t kLeast = 8;
constexpr std::size_t kMost = 1U << 20;
/* cmd_queue_entry.type: PCI */
constexpr std::uint64_t kTransport = 7;
/* A mailbox in the entry lies on 512 bytes, the next one on 1024, as the widths of the pointers have it. */
constexpr std::uint64_t kFirstBoxAlignment = 512;
constexpr std::uint64_t kNextBoxAlignment = 1024;

std::uint8_t Xor(std::span<const std::byte> bytes)
{
    std::byte all{ 0 };

    for (const std::byte byte : bytes)
        all ^= byte;
    return std::to_integer<std::uint8_t>(all);
}

std::size_t BoxesOf(std::size_t size)
{
    return size > kInline ? (size - kInline + kBoxData - 1) / kBoxData : 0;
}

/** Pointers are a high dword and the high bits of a low one. */
std::uint64_t Pointer(std::span<const std::byte> in, std::size_t high_at)
{
    return GetField(in, { high_at * 8, 64 });
}

bool LengthFits(std::uint64_t length)
{
    return length >= kLeast && length <= kMost && length % 4 == 0;
}

bool HasCommandEq(const Objects &objects)
{
    constexpr auto kEvent = static_cast<unsigned>(EventType::kCommand);

    return std::any_of(objects.eqs.begin(), objects.eqs.end(),
                       [](const auto &eq) { return (eq.second.events[kEvent / 64] >> (kEvent % 64) & 1) != 0; });
}

} // namespace

CommandQueue::CommandQueue(Bus &bus, Timers &timers, Objects &objects, DataPath &data_path, Trace &trace)
    : bus_(bus), timers_(timers), objects_(objects), data_path_(data_path), trace_(trace),
      commands_(objects, data_path, trace)
{
}

void CommandQueue::Doorbell(std::uint32_t slots)
{
    if (address_ == 0) {
        trace_.Complain("command doorbell {:#x} without a command queue", slots);
        return;
    }
    for (unsigned slot = 0; slot < 1U << kLogSize; slot++)
        if ((slots >> slot & 1) != 0)
            Run(slot);
}

void CommandQueue::Run(unsigned slot)
{
    const std::uint64_t at = address_ + (std::uint64_t{ slot } << kLogStride);
    std::array<std::byte, kEntrySize> entry;

    if (!bus_.Memory().Read(at, entry)) {
        objects_.port.dma_errors++;
        trace_.Complain("command slot {} at {:#x} is not mapped", slot, at);
        return;
    }
    if (CX_GET(std::span<const std::byte>(entry), cmd_queue_entry, ownership) == 0) {
        trace_.Complain("command slot {} is rung, but not given to the card", slot);
        return;
    }
    if (delay_next_) {
        delay_next_ = false;
        trace_.Note("command slot {} is late", slot);
        CancelLate();
        late_ = timers_.After(kLate, [this, slot] { Run(slot); });
        return;
    }

    /* The driver waits by polling for a command that was given before there was an EQ for it: CREATE_EQ above all. */
    const bool event = HasCommandEq(objects_);
    const Delivery delivery = Execute(entry);
    const std::span<std::byte> out(entry);

    executed_++;
    if (delivery != Delivery::kOk)
        trace_.Complain("command slot {}: not delivered, status {:#x}", slot, static_cast<unsigned>(delivery));
    CX_SET(out, cmd_queue_entry, status, static_cast<unsigned>(delivery));
    CX_SET(out, cmd_queue_entry, ownership, 0);
    CX_SET(out, cmd_queue_entry, signature, 0);
    CX_SET(out, cmd_queue_entry, signature, static_cast<std::uint8_t>(~Xor(entry)));

    bool written = bus_.Memory().Write(at, out.first(kOwnerByte));

    std::atomic_thread_fence(std::memory_order_release);
    written = bus_.Memory().Write(at + kOwnerByte, out.subspan(kOwnerByte)) && written;
    if (!written) {
        objects_.port.dma_errors++;
        trace_.Complain("command slot {} at {:#x} cannot be written", slot, at);
    } else if (event) {
        data_path_.PostCommandEvent(1U << slot);
    }
}

CommandQueue::Delivery CommandQueue::Execute(std::span<std::byte> entry)
{
    const auto input_length = CX_GET(entry, cmd_queue_entry, input_length);
    const auto output_length = CX_GET(entry, cmd_queue_entry, output_length);

    if (objects_.command_signatures && Xor(entry) != 0xff)
        return Delivery::kSignature;
    if (CX_GET(entry, cmd_queue_entry, type) != kTransport)
        return Delivery::kDescriptor;
    if (CX_GET(entry, cmd_queue_entry, reserved_at_8) != 0 || CX_GET(entry, cmd_queue_entry, reserved_at_1f0) != 0 ||
        CX_GET(entry, cmd_queue_entry, status) != 0)
        return Delivery::kReserved;
    if (!LengthFits(input_length))
        return Delivery::kInputLength;
    if (!LengthFits(output_length))
        return Delivery::kOutputLength;

    std::vector<std::byte> input(input_length);
    std::vector<std::byte> output(output_length);
    std::vector<std::uint64_t> mailboxes;

    if (const Delivery delivery = ReadInput(entry, input); delivery != Delivery::kOk)
        return delivery;
    if (const Delivery delivery = FindOutput(entry, output.size(), mailboxes); delivery != Delivery::kOk)
        return delivery;
    commands_.Execute(input, output);
    std::copy_n(output.begin(), std::min(output.size(), kInline), entry.subspan(kInlineOutput).begin());
    WriteOutput(output, mailboxes);
    return Delivery::kOk;
}

CommandQueue::Delivery CommandQueue::ReadMailbox(std::uint64_t address, std::uint8_t token, std::uint32_t number,
                                                 Delivery bad_pointer, std::span<std::byte> box)
{
    const std::span<const std::byte> control = box.subspan(kBoxControl);

    if (address == 0 || address % (number == 0 ? kFirstBoxAlignment : kNextBoxAlignment) != 0)
        return bad_pointer;
    if (!bus_.Memory().Read(address, box)) {
        objects_.port.dma_errors++;
        return Delivery::kDescriptor;
    }
    /* The control signature is over the bytes after the data up to itself, the other over all. */
    if (objects_.command_signatures &&
        (Xor(control.first(control.size() - 1)) != 0xff || Xor(box) != 0xff))
        return Delivery::kSignature;
    if (CX_GET(box, cmd_if_box, token) != token)
        return Delivery::kToken;
    if (CX_GET(box, cmd_if_box, block_number) != number)
        return Delivery::kBlockNumber;
    return Delivery::kOk;
}

CommandQueue::Delivery CommandQueue::ReadInput(std::span<const std::byte> entry, std::vector<std::byte> &input)
{
    const auto token = static_cast<std::uint8_t>(CX_GET(entry, cmd_queue_entry, token));
    std::uint64_t address = Pointer(entry, CX_AT(cmd_queue_entry, input_mailbox_pointer_63_32));
    std::array<std::byte, kBoxSize> box;
    std::size_t done = std::min(input.size(), kInline);

    std::copy_n(entry.subspan(kInlineInput).begin(), done, input.begin());
    for (std::uint32_t number = 0; number < BoxesOf(input.size()); number++) {
        const Delivery delivery = ReadMailbox(address, token, number, Delivery::kInputPointer, box);

        if (delivery != Delivery::kOk)
            return delivery;

        const std::size_t take = std::min(kBoxData, input.size() - done);

        std::copy_n(box.begin(), take, input.begin() + static_cast<std::ptrdiff_t>(done));
        done += take;
        address = Pointer(box, CX_AT(cmd_if_box, next_pointer_63_32));
    }
    return Delivery::kOk;
}

CommandQueue::Delivery CommandQueue::FindOutput(std::span<const std::byte> entry, std::size_t size,
                                                std::vector<std::uint64_t> &mailboxes)
{
    const auto token = static_cast<std::uint8_t>(CX_GET(entry, cmd_queue_entry, token));
    std::uint64_t address = Pointer(entry, CX_AT(cmd_queue_entry, output_mailbox_pointer_63_32));
    std::array<std::byte, kBoxSize> box;

    for (std::uint32_t number = 0; number < BoxesOf(size); number++) {
        const Delivery delivery = ReadMailbox(address, token, number, Delivery::kOutputPointer, box);

        if (delivery != Delivery::kOk)
            return delivery;
        mailboxes.push_back(address);
        address = Pointer(box, CX_AT(cmd_if_box, next_pointer_63_32));
    }
    return Delivery::kOk;
}

void CommandQueue::WriteOutput(std::span<const std::byte> output, std::span<const std::uint64_t> mailboxes)
{
    std::array<std::byte, kBoxSize> box;
    std::size_t done = kInline;

    for (const std::uint64_t address : mailboxes) {
        const std::size_t take = std::min(kBoxData, output.size() - done);
        const std::span<std::byte> all(box);
        const std::span<const std::byte> control = all.subspan(kBoxControl);

        /* What the command does not fill stays as the driver has it. */
        bool written = bus_.Memory().Read(address, box);

        std::copy_n(output.begin() + static_cast<std::ptrdiff_t>(done), take, box.begin());
        CX_SET(all, cmd_if_box, ctrl_signature, 0);
        CX_SET(all, cmd_if_box, signature, 0);
        CX_SET(all, cmd_if_box, ctrl_signature, static_cast<std::uint8_t>(~Xor(control.first(control.size() - 1))));
        CX_SET(all, cmd_if_box, signature, static_cast<std::uint8_t>(~Xor(box)));
        written = written && bus_.Memory().Write(address, box);
        if (!written) {
            objects_.port.dma_errors++;
            trace_.Complain("output mailbox at {:#x} cannot be written", address);
        }
        done += take;
    }
}

} // namespace cx
