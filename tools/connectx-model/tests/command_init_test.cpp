// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Bring-up and removal: order, pages, capabilities, registers of the port, the vport. */
#include "command_fixture.hpp"

namespace cx::driver {
namespace {

using In = std::span<std::byte>;
using Out = std::span<const std::byte>;

TEST(CommandInit, OrderIsKept)
{
    Machine machine;
    Driver driver(machine);

    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(INIT_HCA, init_hca)), Status::kBadSystemState));
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(ALLOC_PD, alloc_pd)), Status::kBadSystemState));
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(QUERY_PAGES, query_pages, 1)), Status::kBadSystemState));
    ASSERT_TRUE(driver.Run(CX_INPUT(ENABLE_HCA, enable_hca)).Ok());
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(ENABLE_HCA, enable_hca)), Status::kBadSystemState));
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(TEARDOWN_HCA, teardown_hca)), Status::kBadSystemState));
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(INIT_HCA, init_hca)), Status::kNoResources));
    ASSERT_TRUE(driver.GivePages(1));
    ASSERT_TRUE(driver.GivePages(2));
    ASSERT_TRUE(driver.Run(CX_INPUT(INIT_HCA, init_hca)).Ok());
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(DISABLE_HCA, disable_hca)), Status::kBadSystemState));
}

TEST(CommandInit, TwiceOver)
{
    Machine machine;
    Driver driver(machine);

    for (unsigned round = 0; round < 2; round++) {
        ASSERT_TRUE(driver.BringUp());
        EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_UAR, driver.uar).Ok());
        EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_PD, driver.pd).Ok());
        EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, driver.domain).Ok());
        ASSERT_TRUE(driver.TearDown());

        const auto status = nlohmann::json::parse(machine.card->Status());

        EXPECT_EQ(status["function"], "disabled");
        EXPECT_EQ(status["complaints"], 0);
        for (const auto &count : status["objects"])
            EXPECT_EQ(count, 0);
    }
}

TEST_F(CommandTest, UnknownCommandAndLengths)
{
    EXPECT_TRUE(Refused(driver.Run(MakeInput(16, 0x7ff)), Status::kBadOperation));
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(QUERY_HCA_CAP, query_hca_cap), 512), Status::kBadOutputLength));
    EXPECT_TRUE(Refused(driver.Run(MakeInput(64, ifc::MLX5_CMD_OP_CREATE_CQ)), Status::kBadInputLength));
    Bytes longer = MakeInput(CX_SIZE(nop_in) + 64, ifc::MLX5_CMD_OP_NOP);
    EXPECT_TRUE(driver.Run(longer).Ok()) << "zeroes after the structure are a newer driver's";
    longer.back() = std::byte{ 1 };
    EXPECT_TRUE(Refused(driver.Run(longer), Status::kBadParameter));
}

TEST_F(CommandTest, ReservedBitIsRefusedAndNamed)
{
    Bytes input = CX_INPUT(ALLOC_PD, alloc_pd);

    CX_SET(In(input), alloc_pd_in, reserved_at_40, 1);

    const Reply reply = driver.Run(input);

    EXPECT_TRUE(Refused(reply, Status::kBadParameter));
    EXPECT_EQ(reply.syndrome >> 16, ifc::MLX5_CMD_OP_ALLOC_PD);
}

TEST_F(CommandTest, SyndromesDifferByCheck)
{
    Bytes bad_eq = driver.CqInput(77);
    const std::uint32_t eq = driver.Create(driver.EqInput(0));
    Bytes bad_uar = driver.CqInput(eq);

    CX_SET(In(bad_uar), create_cq_in, cq_context.uar_page, 1);

    const Reply one = driver.Run(bad_eq);
    const Reply other = driver.Run(bad_uar);

    EXPECT_TRUE(Refused(one, Status::kBadResource));
    EXPECT_TRUE(Refused(other, Status::kBadResource));
    EXPECT_NE(one.syndrome, other.syndrome);
}

TEST(CommandInit, PagesAreChecked)
{
    Machine machine;
    Driver driver(machine);
    Bytes give = CX_INPUT(MANAGE_PAGES, manage_pages, 1, 16);
    const Field first = { CX_AT(manage_pages_in, pas) * 8, 64 };
    const Field second = { first.at + 64, 64 };
    const std::uint64_t pages = machine.Pages(2);

    ASSERT_TRUE(driver.Run(CX_INPUT(ENABLE_HCA, enable_hca)).Ok());
    CX_SET(In(give), manage_pages_in, input_num_entries, 2);
    SetField(give, first, pages);
    SetField(give, second, pages + 8);
    EXPECT_TRUE(Refused(driver.Run(give), Status::kBadParameter)) << "not aligned";
    SetField(give, second, pages);
    EXPECT_TRUE(Refused(driver.Run(give), Status::kBadParameter)) << "given twice";
    SetField(give, second, pages + 4096);
    CX_SET(In(give), manage_pages_in, input_num_entries, 3);
    EXPECT_TRUE(Refused(driver.Run(give), Status::kBadInputLength));
    CX_SET(In(give), manage_pages_in, input_num_entries, 2);
    EXPECT_TRUE(driver.Run(give).Ok());

    Bytes take = CX_INPUT(MANAGE_PAGES, manage_pages, 2);

    CX_SET(In(take), manage_pages_in, input_num_entries, 10);

    const Reply reply = driver.Run(take, CX_SIZE(manage_pages_out) + 80);

    EXPECT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), manage_pages_out, output_num_entries), 2U);
}

TEST(CommandInit, NoMorePagesThanAreWanted)
{
    constexpr std::size_t kAll = kBootPages + kInitPages;
    Machine machine;
    Driver driver(machine);
    Bytes give = CX_INPUT(MANAGE_PAGES, manage_pages, 1, (kAll + 1) * 8);
    const std::uint64_t pages = machine.Pages(kAll + 1);

    for (std::uint64_t page = 0; page <= kAll; page++)
        SetField(give, { (CX_AT(manage_pages_in, pas) + page * 8) * 8, 64 }, pages + page * kPageSize);
    ASSERT_TRUE(driver.Run(CX_INPUT(ENABLE_HCA, enable_hca)).Ok());
    CX_SET(In(give), manage_pages_in, input_num_entries, kAll + 1);
    EXPECT_TRUE(Refused(driver.Run(give), Status::kLimit));
    CX_SET(In(give), manage_pages_in, input_num_entries, kAll);
    EXPECT_TRUE(driver.Run(give).Ok());
    ASSERT_TRUE(driver.Run(CX_INPUT(INIT_HCA, init_hca)).Ok());
    give.resize(CX_SIZE(manage_pages_in) + 8);
    SetField(give, { CX_AT(manage_pages_in, pas) * 8, 64 }, pages + kAll * kPageSize);
    CX_SET(In(give), manage_pages_in, input_num_entries, 1);
    EXPECT_TRUE(Refused(driver.Run(give), Status::kLimit)) << "an initialized function wants none";

    /* and keeps what it has */
    Bytes take = CX_INPUT(MANAGE_PAGES, manage_pages, 2);

    CX_SET(In(take), manage_pages_in, input_num_entries, 10);

    const Reply reply = driver.Run(take, CX_SIZE(manage_pages_out) + 80);

    EXPECT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), manage_pages_out, output_num_entries), 0U);
}

TEST(CommandInit, CapabilitiesAreSetWithinTheirLimits)
{
    Machine machine;
    Driver driver(machine);

    ASSERT_TRUE(driver.Enable());

    const Reply caps = driver.Run(CX_INPUT(QUERY_HCA_CAP, query_hca_cap, 1), CX_SIZE(query_hca_cap_out));
    Bytes set = CX_INPUT(SET_HCA_CAP, set_hca_cap);
    const In in(set);

    ASSERT_TRUE(caps.Ok());
    std::ranges::copy(CX_PART(Out(caps.out), query_hca_cap_out, capability),
                      CX_PART(in, set_hca_cap_in, capability).begin());
    EXPECT_TRUE(driver.Run(set).Ok()) << "as it is";
    CX_SET(in, set_hca_cap_in, capability.cmd_hca_cap.log_max_qp, 30);
    EXPECT_TRUE(Refused(driver.Run(set), Status::kBadParameter)) << "more than the maximum";
    CX_SET(in, set_hca_cap_in, capability.cmd_hca_cap.log_max_qp, 0);
    CX_SET(in, set_hca_cap_in, capability.cmd_hca_cap.roce, 1);
    EXPECT_TRUE(Refused(driver.Run(set), Status::kBadParameter)) << "not to be set";
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(QUERY_HCA_CAP, query_hca_cap, 9), CX_SIZE(query_hca_cap_out)),
                        Status::kBadParameter))
            << "type 4: no RoCE";
}

TEST_F(CommandTest, TeardownWithObjectsComplains)
{
    EXPECT_EQ(Status()["complaints"], 0);
    EXPECT_TRUE(driver.Run(CX_INPUT(TEARDOWN_HCA, teardown_hca)).Ok());
    EXPECT_EQ(Status()["complaints"], 1);
    EXPECT_EQ(Status()["objects"]["pds"], 0);
    EXPECT_EQ(Status()["objects"]["uars"], 0);
}

class RegisterTest : public CommandTest {
protected:
    Reply Access(std::uint32_t number, bool write, const Bytes &data)
    {
        Bytes input = CX_INPUT(ACCESS_REG, access_register, static_cast<std::uint16_t>(write ? 0 : 1));

        input.insert(input.end(), data.begin(), data.end());
        CX_SET(In(input), access_register_in, register_id, number);
        return driver.Run(input, CX_SIZE(access_register_out) + data.size());
    }
    Out Data(const Reply &reply)
    {
        return Out(reply.out).subspan(CX_SIZE(access_register_out));
    }
};

TEST_F(RegisterTest, PortGoesDownAndUp)
{
    constexpr std::uint32_t kPaos = 0x5006;
    Bytes paos(CX_SIZE(paos_reg));

    CX_SET(In(paos), paos_reg, local_port, 1);
    EXPECT_EQ(CX_GET(Data(Access(kPaos, false, paos)), paos_reg, oper_status), 1U);
    CX_SET(In(paos), paos_reg, admin_status, 2);
    CX_SET(In(paos), paos_reg, ase, 1);
    EXPECT_EQ(CX_GET(Data(Access(kPaos, true, paos)), paos_reg, oper_status), 2U);

    const Reply state = driver.Run(CX_INPUT(QUERY_VPORT_STATE, query_vport_state));

    EXPECT_EQ(CX_GET(Out(state.out), query_vport_state_out, state), 0U);
    CX_SET(In(paos), paos_reg, admin_status, 9);
    EXPECT_TRUE(Refused(Access(kPaos, true, paos), Status::kBadParameter));
    CX_SET(In(paos), paos_reg, local_port, 2);
    EXPECT_TRUE(Refused(Access(kPaos, false, paos), Status::kBadParameter));
}

TEST_F(RegisterTest, Mtu)
{
    constexpr std::uint32_t kPmtu = 0x5003;
    Bytes pmtu(CX_SIZE(pmtu_reg));

    CX_SET(In(pmtu), pmtu_reg, local_port, 1);
    CX_SET(In(pmtu), pmtu_reg, admin_mtu, 9000);
    ASSERT_TRUE(Access(kPmtu, true, pmtu).Ok());
    EXPECT_EQ(CX_GET(Data(Access(kPmtu, false, pmtu)), pmtu_reg, oper_mtu), 9000U);
    CX_SET(In(pmtu), pmtu_reg, admin_mtu, 20000);
    EXPECT_TRUE(Refused(Access(kPmtu, true, pmtu), Status::kBadParameter));
}

TEST_F(RegisterTest, OthersAndLengths)
{
    Bytes sixteen(16);

    EXPECT_TRUE(Access(0x7004, true, sixteen).Ok());
    EXPECT_TRUE(Refused(Access(0x7004, true, Bytes(4)), Status::kBadInputLength));
    EXPECT_TRUE(Refused(Access(0x9999, false, sixteen), Status::kBadParameter));
    Bytes ptys(CX_SIZE(ptys_reg));
    CX_SET(In(ptys), ptys_reg, local_port, 1);
    EXPECT_EQ(CX_GET(Data(Access(0x5004, false, ptys)), ptys_reg, eth_proto_oper), 0U) << "no protocol";
    CX_SET(In(ptys), ptys_reg, proto_mask, 4);
    EXPECT_NE(CX_GET(Data(Access(0x5004, false, ptys)), ptys_reg, eth_proto_oper), 0U);
    Bytes ppcnt(CX_SIZE(ppcnt_reg));
    CX_SET(In(ppcnt), ppcnt_reg, local_port, 1);
    EXPECT_TRUE(Access(0x5008, false, ppcnt).Ok());
    Bytes pmlp(CX_SIZE(pmlp_reg));
    CX_SET(In(pmlp), pmlp_reg, local_port, 1);
    EXPECT_EQ(CX_GET(Data(Access(0x5002, false, pmlp)), pmlp_reg, width), 4U);
    EXPECT_TRUE(Refused(Access(0x5002, true, pmlp), Status::kBadParameter));
}

class VportTest : public CommandTest {
protected:
    /** MODIFY_NIC_VPORT_CONTEXT of a list of `entries`. */
    Bytes List(unsigned type, const std::vector<std::uint64_t> &entries)
    {
        constexpr std::size_t kList = CX_AT(modify_nic_vport_context_in, nic_vport_context.current_uc_mac_address);
        Bytes input = CX_INPUT(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context);

        input.resize(std::max(input.size(), kList + entries.size() * 8));
        CX_SET(In(input), modify_nic_vport_context_in, field_select.addresses_list, 1);
        CX_SET(In(input), modify_nic_vport_context_in, nic_vport_context.allowed_list_type, type);
        CX_SET(In(input), modify_nic_vport_context_in, nic_vport_context.allowed_list_size, entries.size());
        for (std::size_t index = 0; index < entries.size(); index++)
            SetField(input, { (kList + index * 8) * 8, 64 }, entries[index]);
        return input;
    }
    Reply Query(unsigned type)
    {
        Bytes input = CX_INPUT(QUERY_NIC_VPORT_CONTEXT, query_nic_vport_context);

        CX_SET(In(input), query_nic_vport_context_in, allowed_list_type, type);
        return driver.Run(input, CX_SIZE(query_nic_vport_context_out) + 64);
    }
};

TEST_F(VportTest, Lists)
{
    constexpr std::size_t kList = CX_AT(query_nic_vport_context_out, nic_vport_context.current_uc_mac_address);

    for (const unsigned type : { 0U, 1U, 2U }) {
        ASSERT_TRUE(driver.Run(List(type, { 0x120 + type, 0x456 })).Ok());

        const Reply reply = Query(type);

        EXPECT_EQ(CX_GET(Out(reply.out), query_nic_vport_context_out, nic_vport_context.allowed_list_size), 2U);
        const std::uint64_t first = GetField(reply.out, { kList * 8, 64 });
        EXPECT_EQ(type == 2 ? first >> 32 : first, type == 2 ? 0U : 0x120U + type);
    }
    EXPECT_TRUE(Refused(driver.Run(List(3, {})), Status::kBadParameter));
    EXPECT_TRUE(Refused(driver.Run(List(0, std::vector<std::uint64_t>(129, 2))), Status::kLimit));
    Bytes cut = List(0, { 2, 4, 6, 8 });
    cut.resize(cut.size() - 8);
    EXPECT_TRUE(Refused(driver.Run(cut), Status::kBadInputLength));
}

TEST_F(VportTest, MacAndMtu)
{
    const Reply reply = Query(0);

    EXPECT_EQ(CX_GET(Out(reply.out), query_nic_vport_context_out,
                     nic_vport_context.permanent_address.mac_addr_47_32), 0x0200U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_nic_vport_context_out,
                     nic_vport_context.permanent_address.mac_addr_31_0), 1U);
    Bytes input = CX_INPUT(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context);
    CX_SET(In(input), modify_nic_vport_context_in, field_select.mtu, 1);
    CX_SET(In(input), modify_nic_vport_context_in, nic_vport_context.mtu, 4200);
    EXPECT_TRUE(driver.Run(input).Ok());
    EXPECT_EQ(CX_GET(Out(Query(0).out), query_nic_vport_context_out, nic_vport_context.mtu), 4200U);
    CX_SET(In(input), modify_nic_vport_context_in, nic_vport_context.mtu, 10);
    EXPECT_TRUE(Refused(driver.Run(input), Status::kBadParameter));
    Bytes roce = CX_INPUT(MODIFY_NIC_VPORT_CONTEXT, modify_nic_vport_context);
    CX_SET(In(roce), modify_nic_vport_context_in, field_select.roce_en, 1);
    CX_SET(In(roce), modify_nic_vport_context_in, nic_vport_context.roce_en, 1);
    EXPECT_TRUE(Refused(driver.Run(roce), Status::kBadParameter));
}

TEST_F(VportTest, CountersAndState)
{
    EXPECT_TRUE(driver.Run(CX_INPUT(QUERY_VPORT_COUNTER, query_vport_counter), CX_SIZE(query_vport_counter_out)).Ok());
    EXPECT_TRUE(driver.Run(CX_INPUT(QUERY_VNIC_ENV, query_vnic_env), CX_SIZE(query_vnic_env_out)).Ok());
    EXPECT_TRUE(driver.Run(CX_INPUT(QUERY_ADAPTER, query_adapter), CX_SIZE(query_adapter_out)).Ok());
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(QUERY_VPORT_STATE, query_vport_state, 1)), Status::kBadParameter));
    machine.card->Inject(Fault::kLinkDown);
    EXPECT_EQ(CX_GET(Out(driver.Run(CX_INPUT(QUERY_VPORT_STATE, query_vport_state)).out), query_vport_state_out,
                     state), 0U);
    machine.card->Inject(Fault::kLinkUp);
    Bytes down = CX_INPUT(MODIFY_VPORT_STATE, modify_vport_state);
    EXPECT_TRUE(driver.Run(down).Ok());
    EXPECT_EQ(CX_GET(Out(driver.Run(CX_INPUT(QUERY_VPORT_STATE, query_vport_state)).out), query_vport_state_out,
                     admin_state), 0U);
    Bytes version = CX_INPUT(SET_DRIVER_VERSION, set_driver_version);
    SetField(version, { CX_FIELD(set_driver_version_in, driver_version).at, 16 }, 0x4c78); /* "Lx" */
    EXPECT_TRUE(driver.Run(version).Ok());
    EXPECT_EQ(Status()["driver"], "Lx");
}

} // namespace
} // namespace cx::driver
