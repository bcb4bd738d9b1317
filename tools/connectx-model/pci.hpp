// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The function's PCI side: configuration space, MSI-X table, and BAR 0 cut into accesses that the card takes.
 * Layouts: PCI Local Bus 3.0 chapter 6, PCI Express Base 3.0 section 7.8, PCI Power Management 1.2 chapter 3; their
 * offsets and bits are those of linux/pci_regs.h. All values are little-endian.
 */
#pragma once

#include "card.hpp"

#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <span>

namespace cx {

constexpr std::size_t kConfigSize = 4096;

class PciConfig {
public:
    /** What a write has asked for, beyond its being stored. */
    struct Change {
        bool bus_master = false;
        bool msix = false;
        bool reset = false; /* function-level reset; the caller does it */
    };

    PciConfig();

    /** Any part of the space; what lies past its end reads as ones and is not written. */
    void Read(std::uint64_t offset, std::span<std::byte> into) const;
    Change Write(std::uint64_t offset, std::span<const std::byte> from);

    /** As after power-on: no addresses, nothing enabled. */
    void Reset();

    bool MemoryEnabled() const;
    bool BusMaster() const;
    bool MsixEnabled() const;
    bool MsixFunctionMasked() const;

private:
    void Set(std::size_t offset, std::uint64_t value, unsigned size, std::uint64_t writable = 0);
    std::uint16_t Word(std::size_t offset) const;

    std::array<std::uint8_t, kConfigSize> bytes_ = {};
    std::array<std::uint8_t, kConfigSize> writable_ = {};
    std::array<std::uint8_t, kConfigSize> initial_ = {};
};

class MsixTable {
public:
    static constexpr std::uint64_t kTableSize = kVectors * 16;
    static constexpr std::uint64_t kPbaSize = (kVectors + 63) / 64 * 8;

    MsixTable();

    void Read(std::uint64_t offset, std::span<std::byte> into) const;
    void Write(std::uint64_t offset, std::span<const std::byte> from);
    void ReadPba(std::uint64_t offset, std::span<std::byte> into) const;
    void Reset(); /* all vectors masked, none pending */

    bool Masked(unsigned vector) const;
    std::uint64_t Address(unsigned vector) const;
    std::uint32_t Data(unsigned vector) const;

    std::bitset<kVectors> pending;

private:
    std::uint32_t Word(unsigned vector, unsigned word) const;

    std::array<std::uint8_t, kTableSize> bytes_ = {};
};

/** Configuration space, MSI-X and BAR 0 of one function, as a transport without PCI of its own needs them. */
class PciEndpoint {
public:
    /** A message-signalled interrupt: a 32-bit write of `data` to `address`. */
    using SendMessage = std::function<void(unsigned vector, std::uint64_t address, std::uint32_t data)>;

    explicit PciEndpoint(SendMessage send);

    void Attach(Function &function);

    void ReadConfig(std::uint64_t offset, std::span<std::byte> into) const;
    void WriteConfig(std::uint64_t offset, std::span<const std::byte> from);

    /**
     * Of any size and alignment. The card gets aligned accesses of 8 and 4 bytes in ascending order; smaller parts read
     * as part of their word and are not written (counted), which is how a device without byte enables behaves.
     */
    void ReadBar(std::uint64_t offset, std::span<std::byte> into);
    void WriteBar(std::uint64_t offset, std::span<const std::byte> from);

    /** To be sent now, or when the guest unmasks it; dropped while MSI-X or bus mastering is off. */
    void Interrupt(unsigned vector);

    /** The function and this: after power-on, function-level reset, or the guest's end. */
    void Reset();

    const PciConfig &config() const
    {
        return config_;
    }
    std::uint64_t bad_accesses() const
    {
        return bad_accesses_;
    }

private:
    void ReadPart(std::uint64_t offset, std::span<std::byte> into);
    void WritePart(std::uint64_t offset, std::span<const std::byte> from);
    void SendPending();

    SendMessage send_;
    Function *function_ = nullptr;
    PciConfig config_;
    MsixTable msix_;
    std::uint64_t bad_accesses_ = 0;
};

} // namespace cx
