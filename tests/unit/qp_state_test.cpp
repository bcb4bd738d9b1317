// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The QP state table against IBA 10.3.1, typed in here state by state.
#include <array>
#include <cstdint>
#include <gtest/gtest.h>

#include "kernel.hpp"

namespace {

struct Row {
    ib_qp_state state;
    bool post_recv, post_send, requests, responses, finishes, begins, flush_recv, flush_send;
};

constexpr std::array<Row, 7> kStates{{
    // state        recv   send   req    resp   fin    begin  fl_rq  fl_sq
    {IB_QPS_RESET, false, false, false, false, false, false, false, false},
    {IB_QPS_INIT, true, false, false, false, false, false, false, false},
    {IB_QPS_RTR, true, false, true, false, false, false, false, false},
    {IB_QPS_RTS, true, true, true, true, true, true, false, false},
    {IB_QPS_SQD, true, true, true, true, true, false, false, false},
    {IB_QPS_SQE, true, true, true, false, false, false, false, true},
    {IB_QPS_ERR, true, true, false, false, false, false, true, true},
}};

TEST(QpState, TableIsTheSpecifications)
{
    for (const Row &row : kStates) {
        const std::uint32_t flags = rocev2_qp_state_flags(row.state);
        EXPECT_EQ(bool(flags & ROCEV2_QPS_POST_RECV), row.post_recv) << row.state;
        EXPECT_EQ(bool(flags & ROCEV2_QPS_POST_SEND), row.post_send) << row.state;
        EXPECT_EQ(bool(flags & ROCEV2_QPS_RX_REQUEST), row.requests) << row.state;
        EXPECT_EQ(bool(flags & ROCEV2_QPS_RX_RESPONSE), row.responses) << row.state;
        EXPECT_EQ(bool(flags & ROCEV2_QPS_TX), row.finishes) << row.state;
        EXPECT_EQ(bool(flags & ROCEV2_QPS_TX_NEW), row.begins) << row.state;
        EXPECT_EQ(bool(flags & ROCEV2_QPS_FLUSH_RECV), row.flush_recv) << row.state;
        EXPECT_EQ(bool(flags & ROCEV2_QPS_FLUSH_SEND), row.flush_send) << row.state;
    }
}

TEST(QpState, NumbersThatAreNoStateMayDoNothing)
{
    EXPECT_EQ(rocev2_qp_state_flags(static_cast<ib_qp_state>(7)), 0u);
}

} // namespace
