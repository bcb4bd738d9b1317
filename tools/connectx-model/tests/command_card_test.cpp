// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The card's registers, reset, and health. */
#include "command_fixture.hpp"

namespace cx::driver {
namespace {

constexpr std::uint64_t kAddressLow = CX_AT(initial_seg, cmdq_phy_addr_31_12);
constexpr std::uint64_t kHealthCounter = CX_AT(initial_seg, health_syndrome);

TEST(CardRegisters, InitializationSegment)
{
    Machine machine;

    EXPECT_EQ(machine.Read(CX_AT(initial_seg, cmd_interface_rev)) >> 16, 5U);
    EXPECT_EQ(machine.Read(kAddressLow) & 0xff, 0x56U) << "log of size and stride";
    EXPECT_EQ(machine.Read(CX_AT(initial_seg, initializing)) >> 31, 0U);
    EXPECT_EQ(machine.card->ReadRegister(0x200000, 4), 0xffffffffU);
    EXPECT_EQ(machine.card->ReadRegister(2, 4), 0xffffffffU);
    EXPECT_EQ(machine.card->ReadRegister(kBarSize, 8), ~std::uint64_t{ 0 });
    machine.card->WriteRegister(kBarSize, 8, 1);
    machine.card->WriteRegister(0, 3, 1);
}

TEST(CardRegisters, TimersAdvance)
{
    Machine machine;
    const std::uint32_t health = machine.Read(kHealthCounter);
    const std::uint32_t low = machine.Read(0x1004);

    machine.timers.Advance(std::chrono::seconds(1));
    EXPECT_NE(machine.Read(kHealthCounter), health);
    EXPECT_EQ(machine.Read(0x1004) - low, 1000000000U);
}

TEST(CardRegisters, DoorbellWithoutQueue)
{
    Machine machine;

    machine.Write(CX_AT(initial_seg, command_doorbell_vector), 1);
    EXPECT_EQ(nlohmann::json::parse(machine.card->Status())["complaints"], 1);
}

TEST_F(ObjectsTest, UarOfNobodyIsRefused)
{
    const auto before = Status()["complaints"].get<int>();

    machine.Write64(std::uint64_t{ driver.uar + 1 } * 4096 + 0x20, 0, cq);
    machine.Write(0x3ff * 4096ULL + 0x40, 0);
    EXPECT_EQ(Status()["complaints"], before + 2);
}

TEST_F(ObjectsTest, CqDoorbellInOneWriteOrTwo)
{
    const auto st = [&] {
        const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_CQ, cq, CX_SIZE(query_cq_out));

        return CX_GET(std::span<const std::byte>(reply.out), query_cq_out, cq_context.st);
    };
    const std::uint64_t doorbell = std::uint64_t{ driver.uar } * 4096 + 0x20;

    EXPECT_EQ(st(), 0xaU);
    machine.Write(doorbell, 0);
    EXPECT_EQ(st(), 0xaU) << "half of it";
    machine.Write(doorbell + 4, cq);
    EXPECT_EQ(st(), 0x9U);
    machine.Write64(doorbell, 1U << 24, cq);
    EXPECT_EQ(st(), 0x6U) << "armed for solicited";
}

TEST_F(ObjectsTest, ResetForgetsEverything)
{
    machine.card->Reset();

    const auto status = Status();

    EXPECT_EQ(status["function"], "disabled");
    EXPECT_TRUE(status["eqs"].empty() && status["cqs"].empty() && status["rqs"].empty() && status["sqs"].empty());
    EXPECT_FALSE(driver.Run(CX_INPUT(NOP, nop)).completed) << "the queue's address is forgotten too";

    Driver again(machine);

    EXPECT_TRUE(again.BringUp());
}

TEST_F(ObjectsTest, HealthFaultAndRecovery)
{
    machine.card->Inject(Fault::kHealth);

    const std::uint32_t counter = machine.Read(kHealthCounter);

    machine.timers.Advance(std::chrono::seconds(4));
    EXPECT_EQ(machine.Read(kHealthCounter), counter) << "it stands still";
    EXPECT_NE(machine.Read(CX_AT(initial_seg, health_buffer.irisc_index)) >> 16 & 0xff, 0U) << "syndrome";
    EXPECT_FALSE(driver.Run(CX_INPUT(NOP, nop)).completed);

    /* nor does a doorbell get anywhere: that of a healthy card's SQ in the reset state is a complaint */
    const auto complaints = Status()["complaints"].get<int>();

    machine.Write64(std::uint64_t{ driver.uar } * 4096 + 0x800, 1 << 8, sq << 8);
    EXPECT_EQ(Status()["complaints"], complaints);

    /* the driver resets the function by nic_interface, and sees it disabled */
    machine.Write(kAddressLow, 7 << 8);
    EXPECT_EQ(machine.Read(kAddressLow) >> 8 & 7, 1U);
    EXPECT_EQ(machine.Read(CX_AT(initial_seg, health_buffer.irisc_index)) >> 16 & 0xff, 0U);
    machine.Write64(std::uint64_t{ driver.uar } * 4096 + 0x800, 1 << 8, sq << 8);
    EXPECT_EQ(Status()["complaints"], complaints) << "its queues may send yet";

    Driver again(machine);

    EXPECT_TRUE(again.BringUp());
    machine.timers.Advance(std::chrono::seconds(1));
    EXPECT_NE(machine.Read(kHealthCounter), counter);
}

TEST_F(ObjectsTest, FaultsOnObjectsNeedThem)
{
    EXPECT_TRUE(machine.card->Inject(Fault::kRqError));
    EXPECT_FALSE(machine.card->Inject(Fault::kRqError, 0x7777));
    machine.card->Reset();
    EXPECT_FALSE(machine.card->Inject(Fault::kRqError));
    EXPECT_FALSE(machine.card->Inject(Fault::kCqError));
}

} // namespace
} // namespace cx::driver
