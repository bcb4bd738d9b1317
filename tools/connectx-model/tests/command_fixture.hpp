// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Fixture of the command interface's tests: a card that is brought up, and one of each object. */
#pragma once

#include "driver.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace cx::driver {

/** A refusal has a status, a syndrome of the opcode, and nothing else in the output. */
inline testing::AssertionResult Refused(const Reply &reply, Status status)
{
    if (!reply.completed || reply.delivery != 0)
        return testing::AssertionFailure() << "not executed: delivery " << reply.delivery;
    if (reply.status != status)
        return testing::AssertionFailure() << "status " << static_cast<unsigned>(reply.status);
    if (reply.syndrome == 0)
        return testing::AssertionFailure() << "no syndrome";
    for (std::size_t at = 8; at < reply.out.size(); at++)
        if (reply.out[at] != std::byte{ 0 })
            return testing::AssertionFailure() << "output byte " << at << " is not zero";
    return testing::AssertionSuccess();
}

class CommandTest : public testing::Test {
protected:
    static constexpr std::uint64_t kCommandEvent = 1ULL << 0x0a;
    static constexpr std::uint64_t kAsyncEvents = 1ULL << 0x04 | 1ULL << 0x05 | 1ULL << 0x09;

    void SetUp() override
    {
        ASSERT_TRUE(driver.BringUp());
    }

    nlohmann::json Status() const
    {
        return nlohmann::json::parse(machine.card->Status());
    }

    Machine machine;
    Driver driver{ machine };
};

/** With EQ, CQ, RQ, TIS, SQ, RQT, both TIRs, and a flow table with group and flow. */
class ObjectsTest : public CommandTest {
protected:
    void SetUp() override
    {
        CommandTest::SetUp();
        eq = driver.Create(driver.EqInput(kAsyncEvents));
        cq = driver.Create(driver.CqInput(eq));
        rq = driver.Create(driver.RqInput(cq));
        Bytes tis_input = CX_INPUT(CREATE_TIS, create_tis);
        CX_SET(std::span<std::byte>(tis_input), create_tis_in, ctx.transport_domain, driver.domain);
        tis = driver.Create(tis_input);
        sq = driver.Create(driver.SqInput(cq, tis));
        mkey = driver.Create(driver.MkeyInput());
        rqt = driver.Create(driver.RqtInput({ rq, rq }, 4));
        direct_tir = driver.Create(driver.DirectTirInput(rq));
        tir = driver.Create(driver.IndirectTirInput(rqt));
        table = driver.Create(driver.TableInput(3));
        group = driver.Create(driver.GroupInput(table, 0, 7));
        ASSERT_TRUE(driver.Run(driver.FlowInput(table, group, 2, tir)).Ok());
        ASSERT_TRUE(eq && cq && rq && tis && sq && mkey && rqt && direct_tir && tir && table && group);
    }

    std::uint32_t eq = 0, cq = 0, rq = 0, tis = 0, sq = 0, mkey = 0, rqt = 0, direct_tir = 0, tir = 0, table = 0,
                  group = 0;
};

} // namespace cx::driver
