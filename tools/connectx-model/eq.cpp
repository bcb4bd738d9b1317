// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Event queues: entries, arming, interrupts. An interrupt is sent once after each arming: for the first entry that
 * comes, or at once if one is there that the consumer index given with it does not cover.
 */
#include "datapath.hpp"

namespace cx {
namespace {

constexpr std::uint32_t kIndexMask = 0xffffff; /* of the doorbell */

} // namespace

Eq *DataPath::EqFor(EventType type)
{
    const auto bit = static_cast<unsigned>(type);

    for (auto &[number, eq] : objects_.eqs)
        if ((eq.events[bit / 64] >> (bit % 64) & 1) != 0)
            return &eq;
    return nullptr;
}

bool DataPath::PostEqe(Eq &eq, Eqe eqe)
{
    if (((eq.producer - eq.consumer) & kIndexMask) >= eq.ring.Entries()) {
        if (!eq.overrun)
            trace_.Complain("EQ {}: overrun, events are lost", eq.number);
        eq.overrun = true;
        return false;
    }
    eqe.owner = static_cast<std::uint8_t>(eq.producer >> eq.ring.log_entries & 1);
    const auto address = eq.ring.Address(std::uint64_t{eq.producer} << eq.ring.log_stride);
    if (!WriteEntry(address, std::as_bytes(std::span(&eqe, 1))))
        return false;
    ++eq.producer;
    if (!eq.armed)
        return true;
    eq.armed = false;
    if (lose_interrupt_ && eqe.type == static_cast<std::uint8_t>(EventType::kCompletion)) {
        lose_interrupt_ = false;
        trace_.Note("EQ {}: the interrupt is lost, as asked for", eq.number);
        return true;
    }
    bus_.Interrupt(eq.vector);
    return true;
}

bool DataPath::PostCommandEvent(std::uint32_t bits)
{
    Eq *eq = EqFor(EventType::kCommand);
    Eqe eqe;

    if (eq == nullptr)
        return false;
    eqe.type = static_cast<std::uint8_t>(EventType::kCommand);
    eqe.data[kEqeCommandVector] = bits;
    return PostEqe(*eq, eqe);
}

void DataPath::PostPortEvent(bool up)
{
    Eq *eq = EqFor(EventType::kPortChange);
    Eqe eqe;

    if (eq == nullptr)
        return;
    eqe.type = static_cast<std::uint8_t>(EventType::kPortChange);
    eqe.subtype = up ? kPortActive : kPortDown;
    eqe.data[kEqePort] = 1U << 28;
    PostEqe(*eq, eqe);
}

void DataPath::PostWqEvent(std::uint8_t kind, std::uint32_t number)
{
    Eq *eq = EqFor(EventType::kWqCatastrophic);
    Eqe eqe;

    if (eq == nullptr)
        return;
    eqe.type = static_cast<std::uint8_t>(EventType::kWqCatastrophic);
    eqe.data[kEqeWqType] = static_cast<std::uint32_t>(kind) << 24;
    eqe.data[kEqeWqNumber] = number;
    PostEqe(*eq, eqe);
}

void DataPath::EqDoorbell(std::uint32_t number, std::uint32_t consumer, bool arm)
{
    const auto found = objects_.eqs.find(number);

    if (found == objects_.eqs.end()) {
        trace_.Complain("doorbell of EQ {}, which is not there", number);
        return;
    }
    Eq &eq = found->second;
    const std::uint32_t left = (eq.producer - consumer) & kIndexMask;
    if (left > eq.ring.Entries()) {
        trace_.Complain("EQ {}: consumer index {} is ahead of the producer's {}", number, consumer, eq.producer);
        return;
    }
    eq.consumer = consumer & kIndexMask;
    if (!arm)
        return;
    eq.armed = left == 0;
    if (left != 0)
        bus_.Interrupt(eq.vector);
}

} // namespace cx
