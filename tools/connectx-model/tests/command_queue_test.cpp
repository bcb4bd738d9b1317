// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The command queue: entries, mailbox chains, delivery status, completion events. */
#include "command_fixture.hpp"

#include <set>

namespace cx::driver {
namespace {

/* Delivery status. */
constexpr unsigned kSignature = 1, kToken = 2, kBlockNumber = 3, kOutputPointer = 4, kInputPointer = 5,
                   kInputLength = 7, kOutputLength = 8, kReserved = 9, kDescriptor = 0x10;

class CommandQueueTest : public CommandTest {
protected:
    /** Delivery status of a QUERY_HCA_CAP with nine output mailboxes that `spoil` spoils. */
    unsigned Delivery(const Driver::Spoil &spoil)
    {
        return driver.Run(CX_INPUT(QUERY_HCA_CAP, query_hca_cap), CX_SIZE(query_hca_cap_out), spoil).delivery;
    }
    /** Of a CREATE_CQ with input mailboxes. */
    unsigned InputDelivery(const Driver::Spoil &spoil)
    {
        return driver.Run(driver.CqInput(1), 16, spoil).delivery;
    }
    std::span<std::byte> Box(std::uint64_t address)
    {
        return machine.At(address, CX_SIZE(cmd_if_box));
    }
};

TEST_F(CommandQueueTest, LongOutputComesInMailboxes)
{
    const Reply reply = driver.Run(CX_INPUT(QUERY_HCA_CAP, query_hca_cap, 1), CX_SIZE(query_hca_cap_out));

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(std::span<const std::byte>(reply.out), query_hca_cap_out,
                     capability.cmd_hca_cap.device_frequency_khz), 1000000U);
}

TEST_F(CommandQueueTest, EntryIsChecked)
{
    EXPECT_EQ(Delivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, type, 6); }), kDescriptor);
    EXPECT_EQ(Delivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, reserved_at_8, 1); }), kReserved);
    EXPECT_EQ(Delivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, status, 1); }), kReserved);
    EXPECT_EQ(Delivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, input_length, 4); }), kInputLength);
    EXPECT_EQ(Delivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, input_length, 0xffffffff); }),
              kInputLength);
    EXPECT_EQ(Delivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, output_length, 4); }), kOutputLength);
    EXPECT_EQ(Delivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, output_length, 0x80000000); }),
              kOutputLength);
    EXPECT_EQ(Delivery({}), 0U);
}

TEST_F(CommandQueueTest, MailboxesAreChecked)
{
    EXPECT_EQ(Delivery([&](auto, auto boxes) { CX_SET(Box(boxes[3]), cmd_if_box, token, 1); }), kToken);
    EXPECT_EQ(Delivery([&](auto, auto boxes) { CX_SET(Box(boxes[3]), cmd_if_box, block_number, 2); }), kBlockNumber);
    EXPECT_EQ(Delivery([&](auto, auto boxes) { CX_SET(Box(boxes[3]), cmd_if_box, next_pointer_31_10, 0); }),
              kOutputPointer);
    EXPECT_EQ(Delivery([&](auto, auto boxes) { CX_SET(Box(boxes[3]), cmd_if_box, next_pointer_63_32, 5); }),
              kDescriptor);
    EXPECT_EQ(Delivery([&](auto, auto boxes) { CX_SET(Box(boxes[3]), cmd_if_box, reserved_at_11b6, 1); }),
              kOutputPointer);
    EXPECT_EQ(InputDelivery([&](auto, auto boxes) { CX_SET(Box(boxes[0]), cmd_if_box, token, 1); }), kToken);
    EXPECT_EQ(InputDelivery([&](auto, auto boxes) { CX_SET(Box(boxes[0]), cmd_if_box, block_number, 1); }),
              kBlockNumber);
    EXPECT_EQ(InputDelivery([](auto entry, auto) { CX_SET(entry, cmd_queue_entry, reserved_at_77, 4); }),
              kInputPointer);
}

/* A chain that leads back to itself ends at its block number, not never. */
TEST_F(CommandQueueTest, LoopInChain)
{
    EXPECT_EQ(Delivery([&](auto, auto boxes) {
        SetField(Box(boxes[1]), { CX_AT(cmd_if_box, next_pointer_63_32) * 8, 64 }, boxes[0]);
    }), kBlockNumber);
}

TEST_F(CommandQueueTest, NotDeliveredIsNotExecuted)
{
    const auto before = Status()["objects"]["pds"];
    const Reply reply = driver.Run(CX_INPUT(ALLOC_PD, alloc_pd), 16,
                                   [](auto entry, auto) { CX_SET(entry, cmd_queue_entry, type, 0); });

    EXPECT_TRUE(reply.completed);
    EXPECT_EQ(reply.delivery, kDescriptor);
    EXPECT_EQ(Status()["objects"]["pds"], before);
}

TEST_F(CommandQueueTest, EntryOfTheDriverIsLeftAlone)
{
    const auto before = Status()["commands"];
    std::uint8_t byte = 0;

    driver.Run(CX_INPUT(NOP, nop), 16, [&](auto entry, auto) {
        CX_SET(entry, cmd_queue_entry, ownership, 0);
        byte = static_cast<std::uint8_t>(CX_GET(entry, cmd_queue_entry, token));
    });
    EXPECT_EQ(Status()["commands"], before);
    EXPECT_GT(Status()["complaints"], 0);
}

/* The command that creates the EQ for commands is polled for: no event for it. */
TEST_F(CommandQueueTest, NoEventForTheFirstEq)
{
    driver.slot = 5;

    Bytes input = driver.EqInput(kCommandEvent, 3);
    const std::uint64_t ring = GetField(input, { CX_AT(create_eq_in, pas) * 8, 64 });
    const std::uint32_t eq = driver.Create(input);

    ASSERT_NE(eq, 0U);
    machine.Write(std::uint64_t{ driver.uar } * 4096 + 0x40, eq << 24); /* arm */
    EXPECT_TRUE(machine.interrupts.empty());
    /* EQE: type in byte 1, the slots in the first dword of its data */
    const auto eqe = machine.At(ring, 64);

    EXPECT_EQ(GetField(eqe, { 8, 8 }), 0U);
    ASSERT_TRUE(driver.Run(CX_INPUT(NOP, nop)).Ok());
    EXPECT_EQ(machine.interrupts, std::vector<unsigned>{ 3 });
    EXPECT_EQ(GetField(eqe, { 8, 8 }), 0x0aU);
    EXPECT_EQ(GetField(eqe, { 32 * 8, 32 }), 1U << 6);
}

TEST_F(CommandQueueTest, DestroyOfTheCommandEqIsPolled)
{
    const std::uint32_t eq = driver.Create(driver.EqInput(kCommandEvent));

    EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DESTROY_EQ, eq).Ok());
    EXPECT_TRUE(driver.Run(CX_INPUT(NOP, nop)).Ok());
}

TEST_F(CommandQueueTest, LateCommand)
{
    std::span<std::byte> late;
    const auto run = [&] {
        return driver.Run(CX_INPUT(NOP, nop), CX_SIZE(nop_out), [&](auto entry, auto) { late = entry; }).completed;
    };

    machine.card->Inject(Fault::kCommandTimeout);
    EXPECT_FALSE(run());
    EXPECT_TRUE(driver.Run(CX_INPUT(NOP, nop)).Ok());
    machine.timers.Advance(std::chrono::seconds(74));
    EXPECT_EQ(CX_GET(late, cmd_queue_entry, ownership), 1U);
    machine.timers.Advance(std::chrono::seconds(1));
    EXPECT_EQ(CX_GET(late, cmd_queue_entry, ownership), 0U);

    machine.card->Inject(Fault::kCommandTimeout);
    EXPECT_FALSE(run());
    machine.card->Inject(Fault::kHealth);
    machine.timers.Advance(std::chrono::seconds(80));
    EXPECT_EQ(CX_GET(late, cmd_queue_entry, ownership), 1U) << "of an ill card: never";
}

TEST_F(CommandQueueTest, WithoutBusMasterNothingIsRead)
{
    machine.card->SetBusMaster(false);
    EXPECT_FALSE(driver.Run(CX_INPUT(NOP, nop)).completed);
    machine.card->SetBusMaster(true);
    EXPECT_TRUE(driver.Run(CX_INPUT(NOP, nop)).Ok());
}

/* Signatures, once they are asked for: XOR over an entry is 0xff. */
TEST(CommandSignature, CheckedAndGiven)
{
    Machine machine;
    Driver driver(machine);

    ASSERT_TRUE(driver.Enable());

    const Reply caps = driver.Run(CX_INPUT(QUERY_HCA_CAP, query_hca_cap, 1), CX_SIZE(query_hca_cap_out));
    Bytes set = CX_INPUT(SET_HCA_CAP, set_hca_cap);
    const std::span<std::byte> in(set);

    std::ranges::copy(CX_PART(std::span<const std::byte>(caps.out), query_hca_cap_out, capability),
                      CX_PART(in, set_hca_cap_in, capability).begin());
    CX_SET(in, set_hca_cap_in, capability.cmd_hca_cap.cmdif_checksum, 3);
    ASSERT_TRUE(driver.Run(set).Ok());

    EXPECT_EQ(driver.Run(CX_INPUT(NOP, nop)).delivery, kSignature);

    std::span<std::byte> seen;
    const Reply reply = driver.Run(CX_INPUT(NOP, nop), 16, [&](auto entry, auto) {
        std::byte sum{ 0 };

        for (const std::byte byte : entry)
            sum ^= byte;
        CX_SET(entry, cmd_queue_entry, signature, std::to_integer<unsigned>(~sum));
        seen = entry;
    });
    std::byte sum{ 0 };

    for (const std::byte byte : seen)
        sum ^= byte;
    EXPECT_TRUE(reply.Ok());
    EXPECT_EQ(sum, std::byte{ 0xff });
}

} // namespace
} // namespace cx::driver
