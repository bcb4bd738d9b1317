// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a card is made of. Private to card.cpp and card_status.cpp. */
#pragma once

#include "card.hpp"
#include "command_queue.hpp"

#include <optional>
#include <utility>

namespace cx {

/** The bus as long as the function is bus master; else nothing is mapped, and interrupts are lost. */
class BusGate : public Bus {
public:
    explicit BusGate(Bus &bus) : bus_(bus)
    {
    }

    void Open(bool open)
    {
        open_ = open;
    }

    GuestMemory &Memory() override
    {
        return open_ ? bus_.Memory() : nothing_;
    }

    void Interrupt(unsigned vector) override
    {
        if (open_)
            bus_.Interrupt(vector);
    }

private:
    Bus &bus_;
    GuestMemory nothing_;
    bool open_ = false;
};

/** nic_interface in the initialization segment. */
enum class NicInterface : unsigned { kFull = 0, kDisabled = 1, kReset = 7 };

struct Card::State {
    State(Bus &bus, Timers &clock, Wire &wire, CardOptions given);

    /** Everything the driver has made vanishes; the wire's state stays. */
    void ResetFunction();
    /** A dword of the initialization segment, in CPU byte order. */
    std::uint32_t ReadSegment(std::uint64_t offset) const;
    void WriteSegment(std::uint64_t offset, std::uint32_t value);
    void WriteAddressLow(std::uint32_t value);
    void WriteUar(std::uint64_t offset, unsigned size, std::uint64_t value);
    /** Of 8 bytes, at `at` of a UAR page; words in CPU byte order. */
    void WriteDoorbell(std::uint64_t at, std::uint32_t first, std::uint32_t second);
    void SetLink(bool up);

    CardOptions options;
    BusGate gate;
    Timers &timers;
    Objects objects;
    Trace trace;
    DataPath data_path;
    CommandQueue queue;
    Clock::time_point started;
    std::uint32_t address_high = 0;
    NicInterface nic_interface = NicInterface::kFull;
    bool unhealthy = false; /* an internal error: no command and no packet until the driver has reset the function */
    Clock::time_point unhealthy_since = {};
    std::optional<std::pair<std::uint64_t, std::uint32_t>> half_doorbell; /* offset in the BAR, first word */
};

} // namespace cx
