// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Configuration space, MSI-X and BAR 0. */
#include "pci.hpp"

#include "host_fixture.hpp"

#include <gtest/gtest.h>
#include <linux/pci_regs.h>

#include <array>
#include <set>

namespace cx::test {
namespace {

class PciTest : public testing::Test {
protected:
    struct Message {
        unsigned vector;
        std::uint64_t address;
        std::uint32_t data;

        bool operator==(const Message &) const = default;
    };

    PciTest()
    {
        pci_.Attach(function_);
    }
    template <typename T> T Config(std::uint64_t offset) const
    {
        std::array<std::byte, sizeof(T)> bytes = {};

        pci_.ReadConfig(offset, bytes);
        return At<T>(bytes, 0);
    }
    template <typename T> void SetConfig(std::uint64_t offset, T value)
    {
        pci_.WriteConfig(offset, std::as_bytes(std::span(&value, 1)));
    }
    template <typename T> T Bar(std::uint64_t offset)
    {
        std::array<std::byte, sizeof(T)> bytes = {};

        pci_.ReadBar(offset, bytes);
        return At<T>(bytes, 0);
    }
    template <typename T> void SetBar(std::uint64_t offset, T value)
    {
        pci_.WriteBar(offset, std::as_bytes(std::span(&value, 1)));
    }
    unsigned Capability(unsigned id) const
    {
        std::set<unsigned> seen;

        for (unsigned at = Config<std::uint8_t>(PCI_CAPABILITY_LIST); at != 0; at = Config<std::uint8_t>(at + 1)) {
            if (Config<std::uint8_t>(at) == id)
                return at;
            if (!seen.insert(at).second)
                break;
        }
        return 0;
    }
    void EnableVector(unsigned vector)
    {
        SetConfig<std::uint16_t>(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
        SetConfig<std::uint16_t>(Capability(PCI_CAP_ID_MSIX) + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE);
        SetBar<std::uint64_t>(kMsixTableOffset + vector * 16, 0x1fee00000);
        SetBar<std::uint32_t>(kMsixTableOffset + vector * 16 + 8, 100 + vector);
        SetBar<std::uint32_t>(kMsixTableOffset + vector * 16 + 12, 0);
    }

    RecordingFunction function_;
    std::vector<Message> messages_;
    PciEndpoint pci_{[this](unsigned vector, std::uint64_t address, std::uint32_t data) {
        messages_.push_back({vector, address, data});
    }};
};

TEST_F(PciTest, Identity)
{
    EXPECT_EQ(Config<std::uint32_t>(0), 0x101715b3U);
    EXPECT_EQ(Config<std::uint32_t>(PCI_CLASS_REVISION) >> 8, 0x020000U);
    EXPECT_EQ(Config<std::uint8_t>(PCI_HEADER_TYPE), 0);
    EXPECT_TRUE(Config<std::uint16_t>(PCI_STATUS) & PCI_STATUS_CAP_LIST);
    EXPECT_EQ(Config<std::uint32_t>(0x100), 0U); /* no extended capabilities */
}

TEST_F(PciTest, Capabilities)
{
    const unsigned express = Capability(PCI_CAP_ID_EXP);
    const unsigned msix = Capability(PCI_CAP_ID_MSIX);

    ASSERT_NE(express, 0U);
    ASSERT_NE(msix, 0U);
    ASSERT_NE(Capability(PCI_CAP_ID_PM), 0U);
    EXPECT_EQ(Config<std::uint16_t>(express + PCI_EXP_FLAGS), 0x0002); /* version 2, endpoint */
    EXPECT_TRUE(Config<std::uint32_t>(express + PCI_EXP_DEVCAP) & PCI_EXP_DEVCAP_FLR);
    EXPECT_EQ(Config<std::uint16_t>(msix + PCI_MSIX_FLAGS), kVectors - 1);
    EXPECT_EQ(Config<std::uint32_t>(msix + PCI_MSIX_TABLE), kMsixTableOffset);
    EXPECT_EQ(Config<std::uint32_t>(msix + PCI_MSIX_PBA), kMsixPbaOffset);
}

TEST_F(PciTest, BarTellsItsSize)
{
    SetConfig<std::uint32_t>(PCI_BASE_ADDRESS_0, 0xffffffff);
    SetConfig<std::uint32_t>(PCI_BASE_ADDRESS_1, 0xffffffff);
    EXPECT_EQ(Config<std::uint32_t>(PCI_BASE_ADDRESS_0), 0xfe00000cU);
    EXPECT_EQ(Config<std::uint32_t>(PCI_BASE_ADDRESS_1), 0xffffffffU);
    SetConfig<std::uint32_t>(PCI_BASE_ADDRESS_2, 0xffffffff);
    EXPECT_EQ(Config<std::uint32_t>(PCI_BASE_ADDRESS_2), 0U);
    SetConfig<std::uint64_t>(PCI_BASE_ADDRESS_0, 0x812345678);
    EXPECT_EQ(Config<std::uint64_t>(PCI_BASE_ADDRESS_0), 0x81200000cU);
}

TEST_F(PciTest, ReadOnlyStaysAndThePastEndIsOnes)
{
    SetConfig<std::uint32_t>(0, 0);
    EXPECT_EQ(Config<std::uint32_t>(0), 0x101715b3U);
    EXPECT_EQ(Config<std::uint64_t>(kConfigSize - 4), 0xffffffff00000000U);
    EXPECT_EQ(Config<std::uint32_t>(kConfigSize), 0xffffffffU);
    EXPECT_EQ(Config<std::uint32_t>(UINT64_MAX - 1), 0xffffffffU);
    SetConfig<std::uint64_t>(kConfigSize - 4, 0);
    SetConfig<std::uint64_t>(UINT64_MAX - 1, 0);
}

TEST_F(PciTest, CommandRegister)
{
    SetConfig<std::uint16_t>(PCI_COMMAND, 0xffff);
    EXPECT_EQ(Config<std::uint16_t>(PCI_COMMAND), PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER | PCI_COMMAND_PARITY |
                                                      PCI_COMMAND_SERR | PCI_COMMAND_INTX_DISABLE);
    EXPECT_TRUE(function_.bus_master);
    EXPECT_TRUE(pci_.config().MemoryEnabled());
    SetConfig<std::uint16_t>(PCI_COMMAND, PCI_COMMAND_MEMORY);
    EXPECT_FALSE(function_.bus_master);
}

TEST_F(PciTest, FunctionLevelReset)
{
    const unsigned control = Capability(PCI_CAP_ID_EXP) + PCI_EXP_DEVCTL;

    EnableVector(3);
    SetConfig<std::uint32_t>(PCI_BASE_ADDRESS_0, 0xf0000000);
    SetConfig<std::uint16_t>(control, 0x7fff);
    EXPECT_EQ(function_.resets, 0);
    SetConfig<std::uint16_t>(control, PCI_EXP_DEVCTL_BCR_FLR);
    EXPECT_EQ(function_.resets, 1);
    EXPECT_FALSE(function_.bus_master);
    EXPECT_EQ(Config<std::uint16_t>(PCI_COMMAND), 0);
    EXPECT_EQ(Config<std::uint32_t>(PCI_BASE_ADDRESS_0), 0xcU);
    EXPECT_EQ(Config<std::uint16_t>(control) & PCI_EXP_DEVCTL_BCR_FLR, 0);
    EXPECT_EQ(Bar<std::uint32_t>(kMsixTableOffset + 3 * 16 + 12), 1U);
}

TEST_F(PciTest, InterruptGoesWhereTheTableSays)
{
    EnableVector(5);
    pci_.Interrupt(5);
    ASSERT_EQ(messages_.size(), 1U);
    EXPECT_EQ(messages_[0], (Message{5, 0x1fee00000, 105}));
    pci_.Interrupt(kVectors);
    EXPECT_EQ(messages_.size(), 1U);
}

TEST_F(PciTest, MaskedInterruptIsPendingThenSentOnce)
{
    const std::uint64_t mask = kMsixTableOffset + 5 * 16 + 12;

    EnableVector(5);
    SetBar<std::uint32_t>(mask, 1);
    pci_.Interrupt(5);
    pci_.Interrupt(5);
    EXPECT_TRUE(messages_.empty());
    EXPECT_EQ(Bar<std::uint64_t>(kMsixPbaOffset), 1U << 5);
    SetBar<std::uint64_t>(kMsixPbaOffset, 0); /* read-only */
    SetBar<std::uint32_t>(mask, 0);
    EXPECT_EQ(messages_.size(), 1U);
    EXPECT_EQ(Bar<std::uint64_t>(kMsixPbaOffset), 0U);
}

TEST_F(PciTest, FunctionMaskHoldsAllBack)
{
    const unsigned flags = Capability(PCI_CAP_ID_MSIX) + PCI_MSIX_FLAGS;

    EnableVector(0);
    EnableVector(31);
    SetConfig<std::uint16_t>(flags, PCI_MSIX_FLAGS_ENABLE | PCI_MSIX_FLAGS_MASKALL);
    pci_.Interrupt(0);
    pci_.Interrupt(31);
    EXPECT_TRUE(messages_.empty());
    SetConfig<std::uint16_t>(flags, PCI_MSIX_FLAGS_ENABLE);
    EXPECT_EQ(messages_.size(), 2U);
}

TEST_F(PciTest, NoInterruptWithoutBusMasterOrMsix)
{
    EnableVector(1);
    SetConfig<std::uint16_t>(PCI_COMMAND, PCI_COMMAND_MEMORY);
    pci_.Interrupt(1);
    SetConfig<std::uint16_t>(PCI_COMMAND, PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
    SetConfig<std::uint16_t>(Capability(PCI_CAP_ID_MSIX) + PCI_MSIX_FLAGS, 0);
    pci_.Interrupt(1);
    SetConfig<std::uint16_t>(Capability(PCI_CAP_ID_MSIX) + PCI_MSIX_FLAGS, PCI_MSIX_FLAGS_ENABLE);
    EXPECT_TRUE(messages_.empty());
}

TEST_F(PciTest, BarAccessesAreCutForTheCard)
{
    using Accesses = std::vector<RecordingFunction::Access>;
    std::array<std::byte, 24> bytes = {};

    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(i + 1);
    pci_.WriteBar(0x800, std::span(bytes).first(16));
    EXPECT_EQ(function_.writes, (Accesses{{0x800, 8, 0x0807060504030201}, {0x808, 8, 0x100f0e0d0c0b0a09}}));
    function_.writes.clear();
    pci_.WriteBar(0x804, std::span(bytes).first(16));
    EXPECT_EQ(function_.writes,
              (Accesses{{0x804, 4, 0x04030201}, {0x808, 8, 0x0c0b0a0908070605}, {0x810, 4, 0x100f0e0d}}));
    function_.writes.clear();
    pci_.WriteBar(0x802, std::span(bytes).first(5)); /* no byte enables: only whole words, of which there is none */
    EXPECT_TRUE(function_.writes.empty());
    EXPECT_EQ(pci_.bad_accesses(), 2U);

    function_.registers[0x20] = 0xaabbccdd;
    EXPECT_EQ(Bar<std::uint8_t>(0x21), 0xcc);
    EXPECT_EQ(Bar<std::uint16_t>(0x22), 0xaabb);
    EXPECT_EQ(Bar<std::uint64_t>(0x40), 0x1111222233334444U);
}

TEST_F(PciTest, BarEnds)
{
    EXPECT_EQ(Bar<std::uint32_t>(kBarSize), 0xffffffffU);
    EXPECT_EQ(Bar<std::uint64_t>(UINT64_MAX - 3), UINT64_MAX);
    SetBar<std::uint64_t>(UINT64_MAX - 3, 0);
    SetBar<std::uint32_t>(kBarSize, 0);
    EXPECT_TRUE(function_.reads.empty());
    EXPECT_TRUE(function_.writes.empty());
    EXPECT_EQ(pci_.bad_accesses(), 4U);
    EXPECT_EQ(Bar<std::uint64_t>(kBarSize - 4) >> 32, 0xffffffffU);
    EXPECT_EQ(function_.reads.size(), 1U);
}

TEST_F(PciTest, TableIsNotTheCards)
{
    std::array<std::byte, 64> bytes = {};

    /* one access across the table's end: the card gets what is past it */
    pci_.ReadBar(kMsixTableOffset + MsixTable::kTableSize - 32, bytes);
    EXPECT_EQ(function_.reads.size(), 4U);
    EXPECT_EQ(function_.reads.front().offset, kMsixTableOffset + MsixTable::kTableSize);
}

} // namespace
} // namespace cx::test
