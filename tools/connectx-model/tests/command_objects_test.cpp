// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Objects: made, queried, modified, destroyed; what is refused, with which status. */
#include "command_fixture.hpp"

namespace cx::driver {
namespace {

using In = std::span<std::byte>;
using Out = std::span<const std::byte>;

/** `input` with one field set to `value` is refused with `status`. */
#define EXPECT_REFUSED(input, type, field, value, expected) \
    do { \
        Bytes spoiled = input; \
        CX_SET(In(spoiled), type, field, value); \
        EXPECT_TRUE(Refused(driver.Run(spoiled), expected)) << #field; \
    } while (false)

TEST_F(ObjectsTest, DestroyedInOrderNothingIsLeft)
{
    const auto destroy = [&](std::uint16_t opcode, std::uint32_t number) {
        EXPECT_TRUE(driver.RunOn(opcode, number).Ok()) << opcode;
        EXPECT_TRUE(Refused(driver.RunOn(opcode, number), Status::kBadResource)) << opcode << " again";
    };

    EXPECT_TRUE(driver.DeleteFlow(table, 2).Ok());
    EXPECT_TRUE(driver.DestroyGroup(table, group).Ok());
    EXPECT_TRUE(driver.DestroyTable(table).Ok());
    destroy(ifc::MLX5_CMD_OP_DESTROY_TIR, tir);
    destroy(ifc::MLX5_CMD_OP_DESTROY_TIR, direct_tir);
    destroy(ifc::MLX5_CMD_OP_DESTROY_RQT, rqt);
    destroy(ifc::MLX5_CMD_OP_DESTROY_RQ, rq);
    destroy(ifc::MLX5_CMD_OP_DESTROY_SQ, sq);
    destroy(ifc::MLX5_CMD_OP_DESTROY_TIS, tis);
    destroy(ifc::MLX5_CMD_OP_DESTROY_CQ, cq);
    destroy(ifc::MLX5_CMD_OP_DESTROY_EQ, eq);
    destroy(ifc::MLX5_CMD_OP_DESTROY_MKEY, mkey);
    destroy(ifc::MLX5_CMD_OP_DEALLOC_PD, driver.pd);
    destroy(ifc::MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, driver.domain);
    destroy(ifc::MLX5_CMD_OP_DEALLOC_UAR, driver.uar);

    const auto complaints = Status()["complaints"];

    EXPECT_TRUE(driver.TearDown());
    EXPECT_EQ(Status()["complaints"], complaints) << "nothing left behind";
}

TEST_F(ObjectsTest, InUse)
{
    const auto busy = [&](std::uint16_t opcode, std::uint32_t number) {
        return Refused(driver.RunOn(opcode, number), Status::kBadResourceState);
    };

    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DESTROY_EQ, eq));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DESTROY_CQ, cq));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DESTROY_RQ, rq));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DESTROY_TIS, tis));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DESTROY_RQT, rqt));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DESTROY_TIR, tir));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DEALLOC_PD, driver.pd));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DEALLOC_UAR, driver.uar));
    EXPECT_TRUE(busy(ifc::MLX5_CMD_OP_DEALLOC_TRANSPORT_DOMAIN, driver.domain));
    EXPECT_TRUE(Refused(driver.DestroyTable(table), Status::kBadResourceState));
    EXPECT_TRUE(Refused(driver.DestroyGroup(table, group), Status::kBadResourceState));
}

TEST_F(ObjectsTest, UarsAreWithinReach)
{
    EXPECT_GE(driver.uar, 0x200U);
    for (unsigned more = 0; more < 4000; more++) {
        const std::uint32_t uar = driver.Create(CX_INPUT(ALLOC_UAR, alloc_uar));

        if (uar == 0)
            break;
        ASSERT_LT(uar, 4096U);
    }
    EXPECT_TRUE(Refused(driver.Run(CX_INPUT(ALLOC_UAR, alloc_uar)), Status::kNoResources));
}

TEST_F(ObjectsTest, Eq)
{
    const Bytes good = driver.EqInput(1ULL << 0x0b, 1);

    EXPECT_REFUSED(good, create_eq_in, eq_context_entry.log_eq_size, 31, Status::kLimit);
    EXPECT_REFUSED(good, create_eq_in, eq_context_entry.log_eq_size, 12, Status::kBadInputLength);
    EXPECT_REFUSED(good, create_eq_in, eq_context_entry.intr, 32, Status::kBadParameter);
    EXPECT_REFUSED(good, create_eq_in, eq_context_entry.uar_page, 5, Status::kBadResource);
    EXPECT_REFUSED(good, create_eq_in, event_bitmask[0], 1ULL << 0x09, Status::kBadParameter);
    EXPECT_REFUSED(good, create_eq_in, eq_context_entry.reserved_at_80, 1, Status::kBadParameter);
    Bytes unaligned = good;
    SetField(unaligned, { CX_AT(create_eq_in, pas) * 8, 64 }, Machine::kBase + 512);
    EXPECT_TRUE(Refused(driver.Run(unaligned), Status::kBadParameter));

    const std::uint32_t made = driver.Create(good);
    const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_EQ, made, CX_SIZE(query_eq_out) + 16);

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), query_eq_out, eq_context_entry.log_eq_size), 7U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_eq_out, eq_context_entry.intr), 1U);
    EXPECT_EQ(GetField(reply.out, { CX_AT(query_eq_out, pas) * 8, 64 }),
              GetField(good, { CX_AT(create_eq_in, pas) * 8, 64 }));
    EXPECT_TRUE(Refused(driver.RunOn(ifc::MLX5_CMD_OP_QUERY_EQ, 0, CX_SIZE(query_eq_out)), Status::kBadResource));
}

TEST_F(ObjectsTest, Cq)
{
    Bytes good = driver.CqInput(eq);

    CX_SET(In(good), create_cq_in, cq_context.cq_period, 16);
    CX_SET(In(good), create_cq_in, cq_context.cq_max_count, 32);
    EXPECT_REFUSED(good, create_cq_in, cq_context.log_cq_size, 30, Status::kLimit);
    EXPECT_REFUSED(good, create_cq_in, cq_context.c_eqn_or_apu_element, 44, Status::kBadResource);
    EXPECT_REFUSED(good, create_cq_in, cq_context.uar_page, 44, Status::kBadResource);
    EXPECT_REFUSED(good, create_cq_in, cq_context.cqe_sz, 5, Status::kBadParameter);
    EXPECT_REFUSED(good, create_cq_in, cq_context.cq_period_mode, 2, Status::kBadParameter);
    EXPECT_REFUSED(good, create_cq_in, cq_context.dbr_addr, 0, Status::kBadParameter);
    EXPECT_REFUSED(good, create_cq_in, cq_context.dbr_addr, Machine::kBase + 4, Status::kBadParameter);
    EXPECT_REFUSED(good, create_cq_in, cq_context.log_page_size, 31, Status::kBadParameter);
    EXPECT_REFUSED(good, create_cq_in, cq_context.page_offset, 1, Status::kBadInputLength);
    EXPECT_REFUSED(good, create_cq_in, cq_context.cc, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, create_cq_in, uid, 1, Status::kBadParameter);

    const std::uint32_t made = driver.Create(good);
    Bytes modify = CX_INPUT(MODIFY_CQ, modify_cq);

    CX_SET(In(modify), modify_cq_in, cqn, made);
    CX_SET(In(modify), modify_cq_in, modify_field_select_resize_field_select, 0x13);
    CX_SET(In(modify), modify_cq_in, cq_context.cq_period, 256);
    CX_SET(In(modify), modify_cq_in, cq_context.cq_max_count, 128);
    CX_SET(In(modify), modify_cq_in, cq_context.cq_period_mode, 1);
    ASSERT_TRUE(driver.Run(modify).Ok());
    EXPECT_REFUSED(modify, modify_cq_in, cqn, 0xffffff, Status::kBadResource);
    EXPECT_REFUSED(modify, modify_cq_in, op_mod, 1, Status::kBadParameter);
    EXPECT_REFUSED(modify, modify_cq_in, modify_field_select_resize_field_select, 8, Status::kBadParameter);
    EXPECT_REFUSED(modify, modify_cq_in, cq_context.cq_period_mode, 2, Status::kBadParameter);

    const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_CQ, made, CX_SIZE(query_cq_out) + 8);

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), query_cq_out, cq_context.cq_period), 256U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_cq_out, cq_context.cq_max_count), 128U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_cq_out, cq_context.cq_period_mode), 1U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_cq_out, cq_context.log_cq_size), 6U);
}

TEST_F(ObjectsTest, CqInErrorIsNotModified)
{
    const auto complaints = Status()["complaints"];
    ASSERT_TRUE(machine.card->Inject(Fault::kCqError, cq));
    EXPECT_EQ(Status()["complaints"], complaints) << "nobody is to blame";

    Bytes modify = CX_INPUT(MODIFY_CQ, modify_cq);

    CX_SET(In(modify), modify_cq_in, cqn, cq);
    CX_SET(In(modify), modify_cq_in, modify_field_select_resize_field_select, 1);
    EXPECT_TRUE(Refused(driver.Run(modify), Status::kBadResourceState));
    EXPECT_FALSE(machine.card->Inject(Fault::kCqError, 0xfffff));
}

TEST_F(ObjectsTest, Rq)
{
    const Bytes good = driver.RqInput(cq);

    EXPECT_REFUSED(good, create_rq_in, ctx.cqn, 1, Status::kBadResource);
    EXPECT_REFUSED(good, create_rq_in, ctx.wq.pd, 99, Status::kBadResource);
    EXPECT_REFUSED(good, create_rq_in, ctx.counter_set_id, 9, Status::kBadResource);
    EXPECT_REFUSED(good, create_rq_in, ctx.state, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, create_rq_in, ctx.mem_rq_type, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, create_rq_in, ctx.wq.wq_type, 0, Status::kBadParameter);
    EXPECT_REFUSED(good, create_rq_in, ctx.wq.log_wq_sz, 20, Status::kLimit);
    EXPECT_REFUSED(good, create_rq_in, ctx.wq.log_wq_stride, 3, Status::kBadParameter);
    EXPECT_REFUSED(good, create_rq_in, ctx.wq.dbr_addr, 0, Status::kBadParameter);
    EXPECT_REFUSED(good, create_rq_in, ctx.hairpin, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, create_rq_in, ctx.scatter_fcs, 1, Status::kBadParameter);

    /* reset to ready to error to reset */
    EXPECT_TRUE(Refused(driver.Run(driver.RqState(rq, 1, 1)), Status::kBadResourceState));
    EXPECT_TRUE(Refused(driver.Run(driver.RqState(rq, 0, 2)), Status::kBadParameter));
    EXPECT_TRUE(driver.Run(driver.RqState(rq, 0, 1)).Ok());
    EXPECT_TRUE(driver.Run(driver.RqState(rq, 1, 3)).Ok());
    EXPECT_TRUE(Refused(driver.Run(driver.RqState(rq, 3, 1)), Status::kBadResourceState));
    EXPECT_TRUE(driver.Run(driver.RqState(rq, 3, 0)).Ok());
    EXPECT_TRUE(Refused(driver.Run(driver.RqState(0x99, 0, 1)), Status::kBadResource));
    EXPECT_REFUSED(driver.RqState(rq, 0, 1), modify_rq_in, modify_bitmask, 4, Status::kBadParameter);

    Bytes striding = good;

    CX_SET(In(striding), create_rq_in, ctx.wq.wq_type, 3);
    CX_SET(In(striding), create_rq_in, ctx.wq.log_wqe_num_of_strides, 1);
    CX_SET(In(striding), create_rq_in, ctx.wq.log_wqe_stride_size, 2);
    EXPECT_REFUSED(striding, create_rq_in, ctx.wq.log_wqe_num_of_strides, 6, Status::kBadParameter); /* 2^15 */

    const Reply reply =
            driver.RunOn(ifc::MLX5_CMD_OP_QUERY_RQ, driver.Create(striding), CX_SIZE(query_rq_out));

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), query_rq_out, rq_context.wq.wq_type), 3U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_rq_out, rq_context.wq.log_wqe_num_of_strides), 1U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_rq_out, rq_context.cqn), cq);
}

TEST_F(ObjectsTest, Sq)
{
    const Bytes good = driver.SqInput(cq, tis);

    EXPECT_REFUSED(good, create_sq_in, ctx.cqn, 1, Status::kBadResource);
    EXPECT_REFUSED(good, create_sq_in, ctx.tis_num_0, 77, Status::kBadResource);
    EXPECT_REFUSED(good, create_sq_in, ctx.tis_lst_sz, 2, Status::kBadParameter);
    EXPECT_REFUSED(good, create_sq_in, ctx.wq.uar_page, 7, Status::kBadResource);
    EXPECT_REFUSED(good, create_sq_in, ctx.wq.log_wq_stride, 5, Status::kBadParameter);
    EXPECT_REFUSED(good, create_sq_in, ctx.wq.wq_type, 3, Status::kBadParameter);
    EXPECT_REFUSED(good, create_sq_in, ctx.state, 1, Status::kBadParameter);
    EXPECT_TRUE(driver.Run(driver.SqState(sq, 0, 1)).Ok());
    EXPECT_TRUE(Refused(driver.Run(driver.SqState(sq, 0, 1)), Status::kBadResourceState));
    EXPECT_TRUE(driver.Run(driver.SqState(sq, 1, 3)).Ok());
    EXPECT_TRUE(Refused(driver.Run(driver.SqState(sq, 3, 1)), Status::kBadResourceState));

    const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_SQ, sq, CX_SIZE(query_sq_out));

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), query_sq_out, sq_context.state), 3U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_sq_out, sq_context.tis_num_0), tis);
}

TEST_F(ObjectsTest, Mkey)
{
    const Bytes good = driver.MkeyInput();

    EXPECT_REFUSED(good, create_mkey_in, memory_key_mkey_entry.pd, 99, Status::kBadResource);
    EXPECT_REFUSED(good, create_mkey_in, memory_key_mkey_entry.access_mode_1_0, 2, Status::kBadParameter);
    EXPECT_REFUSED(good, create_mkey_in, memory_key_mkey_entry.qpn, 5, Status::kBadParameter);
    EXPECT_REFUSED(good, create_mkey_in, memory_key_mkey_entry.free, 1, Status::kBadParameter);
    EXPECT_REFUSED(good, create_mkey_in, memory_key_mkey_entry.length64, 0, Status::kBadParameter);

    Bytes mtt = CX_INPUT(CREATE_MKEY, create_mkey, 0, 16);

    CX_SET(In(mtt), create_mkey_in, memory_key_mkey_entry.access_mode_1_0, 1);
    CX_SET(In(mtt), create_mkey_in, memory_key_mkey_entry.qpn, 0xffffff);
    CX_SET(In(mtt), create_mkey_in, memory_key_mkey_entry.mkey_7_0, 0x42);
    CX_SET(In(mtt), create_mkey_in, memory_key_mkey_entry.pd, driver.pd);
    CX_SET(In(mtt), create_mkey_in, memory_key_mkey_entry.len, 8192);
    CX_SET(In(mtt), create_mkey_in, memory_key_mkey_entry.log_page_size, 12);
    CX_SET(In(mtt), create_mkey_in, translations_octword_actual_size, 1);
    SetField(mtt, { CX_AT(create_mkey_in, klm_pas_mtt) * 8, 64 }, Machine::kBase | 3);
    SetField(mtt, { CX_AT(create_mkey_in, klm_pas_mtt) * 8 + 64, 64 }, Machine::kBase + 4096);
    EXPECT_REFUSED(mtt, create_mkey_in, memory_key_mkey_entry.len, 1 << 20, Status::kBadParameter);
    EXPECT_REFUSED(mtt, create_mkey_in, memory_key_mkey_entry.len, UINT64_MAX, Status::kBadParameter);
    EXPECT_REFUSED(mtt, create_mkey_in, memory_key_mkey_entry.log_page_size, 3, Status::kBadParameter);

    const std::uint32_t made = driver.Create(mtt);
    const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_MKEY, made, CX_SIZE(query_mkey_out));

    ASSERT_TRUE(reply.Ok());
    EXPECT_EQ(CX_GET(Out(reply.out), query_mkey_out, memory_key_mkey_entry.mkey_7_0), 0x42U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_mkey_out, memory_key_mkey_entry.len), 8192U);
}

TEST_F(ObjectsTest, TisAndQCounter)
{
    Bytes bad = CX_INPUT(CREATE_TIS, create_tis);

    CX_SET(In(bad), create_tis_in, ctx.transport_domain, 99);
    EXPECT_TRUE(Refused(driver.Run(bad), Status::kBadResource));

    Bytes modify = CX_INPUT(MODIFY_TIS, modify_tis);

    CX_SET(In(modify), modify_tis_in, tisn, tis);
    CX_SET(In(modify), modify_tis_in, bitmask.prio, 1);
    CX_SET(In(modify), modify_tis_in, ctx.prio, 6);
    EXPECT_TRUE(driver.Run(modify).Ok());

    const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_TIS, tis, CX_SIZE(query_tis_out));

    EXPECT_EQ(CX_GET(Out(reply.out), query_tis_out, tis_context.prio), 6U);

    const std::uint32_t set = driver.Create(CX_INPUT(ALLOC_Q_COUNTER, alloc_q_counter));
    Bytes query = CX_INPUT(QUERY_Q_COUNTER, query_q_counter);
    Bytes rq_input = driver.RqInput(cq);

    CX_SET(In(query), query_q_counter_in, counter_set_id, set);
    EXPECT_TRUE(driver.Run(query, CX_SIZE(query_q_counter_out)).Ok());
    CX_SET(In(rq_input), create_rq_in, ctx.counter_set_id, set);

    const std::uint32_t counted = driver.Create(rq_input);

    EXPECT_TRUE(Refused(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_Q_COUNTER, set), Status::kBadResourceState));
    EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DESTROY_RQ, counted).Ok());
    EXPECT_TRUE(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_Q_COUNTER, set).Ok());
    EXPECT_TRUE(Refused(driver.RunOn(ifc::MLX5_CMD_OP_DEALLOC_Q_COUNTER, set), Status::kBadResource));
    EXPECT_TRUE(Refused(driver.Run(query, CX_SIZE(query_q_counter_out)), Status::kBadResource));
}

TEST_F(ObjectsTest, Rqt)
{
    EXPECT_TRUE(Refused(driver.Run(driver.RqtInput({ rq }, 512)), Status::kLimit));
    EXPECT_TRUE(Refused(driver.Run(driver.RqtInput({ rq, rq }, 1)), Status::kBadParameter));
    EXPECT_TRUE(Refused(driver.Run(driver.RqtInput({ rq, 5 }, 2)), Status::kBadResource));
    Bytes cut = driver.RqtInput({ rq, rq, rq }, 4);
    cut.resize(cut.size() - 4);
    EXPECT_TRUE(Refused(driver.Run(cut), Status::kBadInputLength));

    const std::uint32_t other = driver.Create(driver.RqInput(cq));
    Bytes modify = CX_INPUT(MODIFY_RQT, modify_rqt, 0, 4);

    CX_SET(In(modify), modify_rqt_in, rqtn, rqt);
    CX_SET(In(modify), modify_rqt_in, bitmask.rqn_list, 1);
    CX_SET(In(modify), modify_rqt_in, ctx.rqt_actual_size, 1);
    SetField(modify, { CX_AT(modify_rqt_in, ctx.rq_num) * 8, 32 }, other);
    ASSERT_TRUE(driver.Run(modify).Ok());
    EXPECT_REFUSED(modify, modify_rqt_in, bitmask.rqn_list, 0, Status::kBadParameter);
    EXPECT_REFUSED(modify, modify_rqt_in, rqtn, 99, Status::kBadResource);
    EXPECT_REFUSED(modify, modify_rqt_in, ctx.rqt_actual_size, 5, Status::kBadParameter);

    const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_RQT, rqt, CX_SIZE(query_rqt_out) + 16);

    EXPECT_EQ(CX_GET(Out(reply.out), query_rqt_out, rqt_context.rqt_actual_size), 1U);
    EXPECT_EQ(GetField(reply.out, { CX_AT(query_rqt_out, rqt_context.rq_num) * 8, 32 }), other);
}

TEST_F(ObjectsTest, Tir)
{
    const Bytes direct = driver.DirectTirInput(rq);
    const Bytes indirect = driver.IndirectTirInput(rqt);

    EXPECT_REFUSED(direct, create_tir_in, ctx.inline_rqn, 3, Status::kBadResource);
    EXPECT_REFUSED(direct, create_tir_in, ctx.transport_domain, 77, Status::kBadResource);
    EXPECT_REFUSED(direct, create_tir_in, ctx.disp_type, 2, Status::kBadParameter);
    EXPECT_REFUSED(direct, create_tir_in, ctx.tls_en, 1, Status::kBadParameter);
    EXPECT_REFUSED(indirect, create_tir_in, ctx.indirect_table, 77, Status::kBadResource);
    EXPECT_REFUSED(indirect, create_tir_in, ctx.rx_hash_fn, 0, Status::kBadParameter);
    EXPECT_REFUSED(indirect, create_tir_in, ctx.rx_hash_fn, 3, Status::kBadParameter);
    EXPECT_REFUSED(indirect, create_tir_in, ctx.rx_hash_field_selector_outer.selected_fields, 0x20,
                   Status::kBadParameter);

    Bytes modify = CX_INPUT(MODIFY_TIR, modify_tir);

    CX_SET(In(modify), modify_tir_in, tirn, tir);
    CX_SET(In(modify), modify_tir_in, bitmask.hash, 1);
    CX_SET(In(modify), modify_tir_in, ctx.rx_hash_fn, 2);
    CX_SET(In(modify), modify_tir_in, ctx.rx_hash_toeplitz_key[9], 0x12345678);
    CX_SET(In(modify), modify_tir_in, ctx.rx_hash_field_selector_outer.selected_fields, 3);
    ASSERT_TRUE(driver.Run(modify).Ok());
    EXPECT_REFUSED(modify, modify_tir_in, ctx.rx_hash_fn, 0, Status::kBadParameter);
    EXPECT_REFUSED(modify, modify_tir_in, tirn, 99, Status::kBadResource);
    EXPECT_REFUSED(modify, modify_tir_in, ctx.packet_merge_mask, 1, Status::kBadParameter);

    const Reply reply = driver.RunOn(ifc::MLX5_CMD_OP_QUERY_TIR, tir, CX_SIZE(query_tir_out));

    EXPECT_EQ(CX_GET(Out(reply.out), query_tir_out, tir_context.rx_hash_toeplitz_key[9]), 0x12345678U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_tir_out, tir_context.rx_hash_field_selector_outer.selected_fields), 3U);
    EXPECT_EQ(CX_GET(Out(reply.out), query_tir_out, tir_context.indirect_table), rqt);
}

} // namespace
} // namespace cx::driver
