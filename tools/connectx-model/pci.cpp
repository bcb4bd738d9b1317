// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Configuration space, MSI-X and BAR 0. */
#include "pci.hpp"

#include <linux/pci_regs.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace cx {
namespace {

static_assert(std::endian::native == std::endian::little, "values go to and from the guest by memcpy");

constexpr unsigned kVendor = 0x15b3;
constexpr unsigned kDevice = 0x1017; /* ConnectX-5 */
constexpr unsigned kSubsystem = 0x0020;
constexpr unsigned kClass = 0x020000; /* network controller, Ethernet */

constexpr unsigned kExpress = 0x60; /* capabilities, in the order they are chained */
constexpr unsigned kMsix = 0x9c;
constexpr unsigned kPower = 0x40;
constexpr unsigned kExpressControl = kExpress + PCI_EXP_DEVCTL;

/* Bits that Linux' header has no names for together. */
constexpr unsigned kCommandWritable = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY |
                                      PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE;
constexpr unsigned kExpressControlWritable = 0x7fff; /* all but "initiate function-level reset", which reads as 0 */
constexpr unsigned kLink = PCI_EXP_LNKCAP_SLS_8_0GB | (8 << 4); /* 8 GT/s, 8 lanes */
constexpr unsigned kLinkSpeeds = 0x0e;                          /* 2.5, 5 and 8 GT/s, in link capabilities 2 */

bool Overlap(std::uint64_t offset, std::size_t size, std::uint64_t start, std::uint64_t length)
{
    return offset < start + length && start < offset + size;
}

/*
 * Cuts [offset, offset + size) into aligned parts of 8 and 4 bytes, and what is left at its ends into parts within
 * one word; calls `each` with a part's start in the access and its size.
 */
template <typename Each> void ForParts(std::uint64_t offset, std::size_t size, Each each)
{
    std::size_t done = 0;

    while (done < size) {
        const std::uint64_t at = offset + done;
        std::size_t part = std::min<std::size_t>(size - done, 4 - at % 4);

        if (at % 8 == 0 && size - done >= 8)
            part = 8;
        each(done, part);
        done += part;
    }
}

} // namespace

PciConfig::PciConfig()
{
    Set(PCI_VENDOR_ID, kVendor, 2);
    Set(PCI_DEVICE_ID, kDevice, 2);
    Set(PCI_COMMAND, 0, 2, kCommandWritable);
    Set(PCI_STATUS, PCI_STATUS_CAP_LIST, 2);
    Set(PCI_CLASS_PROG, kClass, 3);
    Set(PCI_CACHE_LINE_SIZE, 0, 1, 0xff);
    Set(PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH, 8, ~(kBarSize - 1));
    Set(PCI_SUBSYSTEM_VENDOR_ID, kVendor, 2);
    Set(PCI_SUBSYSTEM_ID, kSubsystem, 2);
    Set(PCI_CAPABILITY_LIST, kExpress, 1);
    Set(PCI_INTERRUPT_LINE, 0, 1, 0xff); /* and no pin: the model has no INTx */

    Set(kExpress, PCI_CAP_ID_EXP | kMsix << 8, 2);
    Set(kExpress + PCI_EXP_FLAGS, 2 | PCI_EXP_TYPE_ENDPOINT << 4, 2);
    Set(kExpress + PCI_EXP_DEVCAP, PCI_EXP_DEVCAP_FLR | PCI_EXP_DEVCAP_RBER | 1 /* payload of 256 bytes */, 4);
    Set(kExpressControl, PCI_EXP_DEVCTL_RELAX_EN | PCI_EXP_DEVCTL_NOSNOOP_EN | PCI_EXP_DEVCTL_READRQ_512B, 2,
        kExpressControlWritable);
    Set(kExpress + PCI_EXP_LNKCAP, kLink, 4);
    Set(kExpress + PCI_EXP_LNKCTL, 0, 2, PCI_EXP_LNKCTL_ASPMC | PCI_EXP_LNKCTL_CCC | PCI_EXP_LNKCTL_ES);
    Set(kExpress + PCI_EXP_LNKSTA, kLink, 2);
    Set(kExpress + PCI_EXP_DEVCTL2, 0, 2, PCI_EXP_DEVCTL2_COMP_TIMEOUT | PCI_EXP_DEVCTL2_COMP_TMOUT_DIS);
    Set(kExpress + PCI_EXP_LNKCAP2, kLinkSpeeds, 4);
    Set(kExpress + PCI_EXP_LNKCTL2, PCI_EXP_LNKCTL2_TLS_8_0GT, 2, PCI_EXP_LNKCTL2_TLS);

    Set(kMsix, PCI_CAP_ID_MSIX | kPower << 8, 2);
    Set(kMsix + PCI_MSIX_FLAGS, kVectors - 1, 2, PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
    Set(kMsix + PCI_MSIX_TABLE, kMsixTableOffset, 4); /* low bits 0: BAR 0 */
    Set(kMsix + PCI_MSIX_PBA, kMsixPbaOffset, 4);

    Set(kPower, PCI_CAP_ID_PM, 2);
    Set(kPower + PCI_PM_PMC, 3, 2);
    Set(kPower + PCI_PM_CTRL, PCI_PM_CTRL_NO_SOFT_RESET, 2, PCI_PM_CTRL_STATE_MASK);
    initial_ = bytes_;
}

void PciConfig::Set(std::size_t offset, std::uint64_t value, unsigned size, std::uint64_t writable)
{
    std::memcpy(&bytes_[offset], &value, size);
    std::memcpy(&writable_[offset], &writable, size);
}

std::uint16_t PciConfig::Word(std::size_t offset) const
{
    std::uint16_t value = 0;

    std::memcpy(&value, &bytes_[offset], sizeof(value));
    return value;
}

void PciConfig::Read(std::uint64_t offset, std::span<std::byte> into) const
{
    std::ranges::fill(into, std::byte{0xff});
    if (offset < kConfigSize)
        std::memcpy(into.data(), &bytes_[offset], std::min<std::uint64_t>(into.size(), kConfigSize - offset));
}

PciConfig::Change PciConfig::Write(std::uint64_t offset, std::span<const std::byte> from)
{
    const bool was_master = BusMaster();
    Change change;

    for (std::size_t i = 0; i < from.size() && offset < kConfigSize && offset + i < kConfigSize; ++i) {
        const std::size_t at = offset + i;
        const auto value = std::to_integer<std::uint8_t>(from[i]);

        bytes_[at] = static_cast<std::uint8_t>((bytes_[at] & ~writable_[at]) | (value & writable_[at]));
        if (at == kExpressControl + 1 && (value & PCI_EXP_DEVCTL_BCR_FLR >> 8) != 0)
            change.reset = true;
        if (at == kMsix + PCI_MSIX_FLAGS + 1)
            change.msix = true;
    }
    change.bus_master = BusMaster() != was_master;
    return change;
}

void PciConfig::Reset()
{
    bytes_ = initial_;
}

bool PciConfig::MemoryEnabled() const
{
    return (Word(PCI_COMMAND) & PCI_COMMAND_MEMORY) != 0;
}

bool PciConfig::BusMaster() const
{
    return (Word(PCI_COMMAND) & PCI_COMMAND_MASTER) != 0;
}

bool PciConfig::MsixEnabled() const
{
    return (Word(kMsix + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_ENABLE) != 0;
}

bool PciConfig::MsixFunctionMasked() const
{
    return (Word(kMsix + PCI_MSIX_FLAGS) & PCI_MSIX_FLAGS_MASKALL) != 0;
}

MsixTable::MsixTable()
{
    Reset();
}

void MsixTable::Reset()
{
    bytes_ = {};
    for (unsigned vector = 0; vector < kVectors; ++vector)
        bytes_[vector * PCI_MSIX_ENTRY_SIZE + PCI_MSIX_ENTRY_VECTOR_CTRL] = PCI_MSIX_ENTRY_CTRL_MASKBIT;
    pending.reset();
}

/* The caller has cut the access so that it begins and ends in the table. */
void MsixTable::Read(std::uint64_t offset, std::span<std::byte> into) const
{
    std::memcpy(into.data(), &bytes_[offset], into.size());
}

void MsixTable::Write(std::uint64_t offset, std::span<const std::byte> from)
{
    std::memcpy(&bytes_[offset], from.data(), from.size());
}

void MsixTable::ReadPba(std::uint64_t offset, std::span<std::byte> into) const
{
    const std::uint64_t bits = pending.to_ullong();

    std::memcpy(into.data(), reinterpret_cast<const char *>(&bits) + offset, into.size());
}

std::uint32_t MsixTable::Word(unsigned vector, unsigned word) const
{
    std::uint32_t value = 0;

    std::memcpy(&value, &bytes_[vector * PCI_MSIX_ENTRY_SIZE + word], sizeof(value));
    return value;
}

bool MsixTable::Masked(unsigned vector) const
{
    return (Word(vector, PCI_MSIX_ENTRY_VECTOR_CTRL) & PCI_MSIX_ENTRY_CTRL_MASKBIT) != 0;
}

std::uint64_t MsixTable::Address(unsigned vector) const
{
    return std::uint64_t{Word(vector, PCI_MSIX_ENTRY_UPPER_ADDR)} << 32 | Word(vector, PCI_MSIX_ENTRY_LOWER_ADDR);
}

std::uint32_t MsixTable::Data(unsigned vector) const
{
    return Word(vector, PCI_MSIX_ENTRY_DATA);
}

PciEndpoint::PciEndpoint(SendMessage send) : send_(std::move(send))
{
}

void PciEndpoint::Attach(Function &function)
{
    function_ = &function;
}

void PciEndpoint::ReadConfig(std::uint64_t offset, std::span<std::byte> into) const
{
    config_.Read(offset, into);
}

void PciEndpoint::WriteConfig(std::uint64_t offset, std::span<const std::byte> from)
{
    const PciConfig::Change change = config_.Write(offset, from);

    if (change.bus_master)
        function_->SetBusMaster(config_.BusMaster());
    if (change.reset)
        Reset();
    else if (change.msix || change.bus_master)
        SendPending();
}

void PciEndpoint::ReadBar(std::uint64_t offset, std::span<std::byte> into)
{
    if (offset >= kBarSize) { /* also lest the address wraps below */
        std::ranges::fill(into, std::byte{0xff});
        ++bad_accesses_;
        return;
    }
    ForParts(offset, into.size(), [&](std::size_t start, std::size_t size) {
        ReadPart(offset + start, into.subspan(start, size));
    });
}

void PciEndpoint::WriteBar(std::uint64_t offset, std::span<const std::byte> from)
{
    if (offset >= kBarSize) {
        ++bad_accesses_;
        return;
    }
    ForParts(offset, from.size(), [&](std::size_t start, std::size_t size) {
        WritePart(offset + start, from.subspan(start, size));
    });
}

/* Table and PBA begin and end at multiples of 8: a part lies in one of them or outside. */
void PciEndpoint::ReadPart(std::uint64_t offset, std::span<std::byte> into)
{
    static_assert(kMsixTableOffset % 8 == 0 && kMsixPbaOffset % 8 == 0);

    if (offset >= kBarSize || into.size() > kBarSize - offset) {
        std::ranges::fill(into, std::byte{0xff});
        ++bad_accesses_;
    } else if (Overlap(offset, into.size(), kMsixTableOffset, MsixTable::kTableSize)) {
        msix_.Read(offset - kMsixTableOffset, into);
    } else if (Overlap(offset, into.size(), kMsixPbaOffset, MsixTable::kPbaSize)) {
        msix_.ReadPba(offset - kMsixPbaOffset, into);
    } else if (into.size() == 8) {
        const std::uint64_t value = function_->ReadRegister(offset, 8);

        std::memcpy(into.data(), &value, 8);
    } else {
        const auto value = static_cast<std::uint32_t>(function_->ReadRegister(offset - offset % 4, 4));

        std::memcpy(into.data(), reinterpret_cast<const char *>(&value) + offset % 4, into.size());
    }
}

void PciEndpoint::WritePart(std::uint64_t offset, std::span<const std::byte> from)
{
    std::uint64_t value = 0;

    std::memcpy(&value, from.data(), from.size());
    if (offset >= kBarSize || from.size() > kBarSize - offset || (from.size() != 4 && from.size() != 8)) {
        ++bad_accesses_;
    } else if (Overlap(offset, from.size(), kMsixTableOffset, MsixTable::kTableSize)) {
        msix_.Write(offset - kMsixTableOffset, from);
        SendPending();
    } else if (!Overlap(offset, from.size(), kMsixPbaOffset, MsixTable::kPbaSize)) { /* the PBA is read-only */
        function_->WriteRegister(offset, static_cast<unsigned>(from.size()), value);
    }
}

void PciEndpoint::Interrupt(unsigned vector)
{
    if (vector >= kVectors || !config_.MsixEnabled() || !config_.BusMaster())
        return;
    msix_.pending.set(vector);
    if (!config_.MsixFunctionMasked() && !msix_.Masked(vector)) {
        msix_.pending.reset(vector);
        send_(vector, msix_.Address(vector), msix_.Data(vector));
    }
}

void PciEndpoint::SendPending()
{
    if (msix_.pending.none() || !config_.MsixEnabled() || config_.MsixFunctionMasked() || !config_.BusMaster())
        return;
    for (unsigned vector = 0; vector < kVectors; ++vector) {
        if (msix_.pending.test(vector) && !msix_.Masked(vector)) {
            msix_.pending.reset(vector);
            send_(vector, msix_.Address(vector), msix_.Data(vector));
        }
    }
}

void PciEndpoint::Reset()
{
    config_.Reset();
    msix_.Reset();
    function_->SetBusMaster(false);
    function_->Reset();
}

} // namespace cx
