// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The card as its two sides see it: registers on the one, frames on the other. */
#pragma once

#include "host.hpp"
#include "timers.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace cx {

constexpr std::uint64_t kBarSize = 32ULL << 20;
constexpr unsigned kVectors = 32; /* as many as UML's PCI has */
constexpr std::uint64_t kMsixTableOffset = 0x2000; /* in BAR 0, past the initialization segment */
constexpr std::uint64_t kMsixPbaOffset = 0x3000;

struct CardOptions {
    std::array<std::uint8_t, 6> mac = {0x02, 0x00, 0x00, 0x00, 0x00, 0x01};
    bool trace = false; /* every command and doorbell, one readable line each, on standard error */
};

/** Faults that the control socket asks for (control.cpp); each acts once unless said otherwise. */
enum class Fault {
    kCommandTimeout, /* the next command is completed when the driver has given it up */
    kCqError,        /* CQ `number` (0: the busiest) goes to the error state, with an async event */
    kRqError,        /* RQ `number` (0: the busiest) goes to the error state; receives complete in error */
    kLostInterrupt,  /* the next completion interrupt is not sent */
    kLinkDown,       /* lasts until kLinkUp */
    kLinkUp,
    kHealth,         /* the health syndrome is set and the health counter stops: the driver recovers the function */
};

/**
 * One PCI function as its transport, wire and control socket use it; their tests put a recorder in the card's place.
 * All calls come from the event loop's thread.
 */
class Function {
public:
    virtual ~Function() = default;

    /**
     * BAR 0, but for the MSI-X table and PBA, which the transport keeps. `size` is 4 or 8; `value` is what the
     * guest's writel()/writeq() gave: little-endian as on the bus (registers are big-endian; the card swaps).
     * Out of range or badly sized: reads as all-ones, writes are ignored.
     */
    virtual std::uint64_t ReadRegister(std::uint64_t offset, unsigned size) = 0;
    virtual void WriteRegister(std::uint64_t offset, unsigned size, std::uint64_t value) = 0;

    /**
     * Function-level reset, machine reset, or the guest is gone: all objects vanish, no interrupt, no DMA from here on.
     */
    virtual void Reset() = 0;

    /** Bus mastering in the PCI command register; without it no DMA and no interrupt. */
    virtual void SetBusMaster(bool on) = 0;

    /** A frame from the wire, without FCS; at most 10 KiB. */
    virtual void Receive(std::span<const std::byte> frame) = 0;

    /** False: there is no such object. */
    virtual bool Inject(Fault fault, std::uint32_t number = 0) = 0;

    /** All counters and objects as JSON, for the control socket. */
    virtual std::string Status() const = 0;
};

/** The ConnectX function. */
class Card final : public Function {
public:
    Card(Bus &bus, Timers &timers, Wire &wire, CardOptions options);
    ~Card() override;
    Card(const Card &) = delete;
    Card &operator=(const Card &) = delete;

    std::uint64_t ReadRegister(std::uint64_t offset, unsigned size) override;
    void WriteRegister(std::uint64_t offset, unsigned size, std::uint64_t value) override;
    void Reset() override;
    void SetBusMaster(bool on) override;
    void Receive(std::span<const std::byte> frame) override;
    bool Inject(Fault fault, std::uint32_t number = 0) override;
    std::string Status() const override;

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace cx
