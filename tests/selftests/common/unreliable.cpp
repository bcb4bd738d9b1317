// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "common/unreliable.hpp"

#include <cerrno>
#include <cstring>

namespace rocev2::test {

static Qp make_unreliable_qp(const Side &side, ibv_qp_type type, ibv_cq *send_cq, ibv_cq *recv_cq)
{
    ibv_qp_init_attr attr{};
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.qp_type = type;
    attr.cap.max_send_wr = 128;
    attr.cap.max_recv_wr = 128;
    attr.cap.max_send_sge = 4;
    attr.cap.max_recv_sge = 4;
    attr.cap.max_inline_data = 128;
    Qp qp(ibv_create_qp(side.pd.get(), &attr));
    if (!qp)
        fail("ibv_create_qp({}): {}", side.device, std::strerror(errno));
    return qp;
}

Endpoint make_unreliable_endpoint(const Side &side, ibv_qp_type type)
{
    Endpoint end;
    end.side = &side;
    end.send_cq = make_cq(side, 512);
    end.recv_cq = make_cq(side, 512);
    end.qp = make_unreliable_qp(side, type, end.send_cq.get(), end.recv_cq.get());
    return end;
}

void ud_to_rts(const Endpoint &end, uint32_t key)
{
    Modify step;
    step.attr.qp_state = IBV_QPS_INIT;
    step.attr.port_num = end.side->port;
    step.attr.qkey = key;
    step.mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
    must_modify(end.qp.get(), step, "INIT");
    must_modify(end.qp.get(), state_step(IBV_QPS_RTR), "RTR");
    step = state_step(IBV_QPS_RTS);
    step.attr.sq_psn = 0xfffffe; // wraps soon
    step.mask |= IBV_QP_SQ_PSN;
    must_modify(end.qp.get(), step, "RTS");
}

Endpoint make_ud(const Side &side, uint32_t key)
{
    Endpoint end = make_unreliable_endpoint(side, IBV_QPT_UD);
    ud_to_rts(end, key);
    return end;
}

Ah make_ah(const Side &from, const ibv_gid &to, ibv_pd *pd)
{
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = from.port;
    attr.grh.dgid = to;
    attr.grh.sgid_index = from.gid_index;
    attr.grh.hop_limit = 64; // the core puts the route's here
    attr.grh.traffic_class = 0x28;
    Ah ah(ibv_create_ah(pd ? pd : from.pd.get(), &attr));
    if (!ah)
        fail("ibv_create_ah({} to {}): {}", from.device, to_string(to), std::strerror(errno));
    return ah;
}

void uc_connect(const Endpoint &a, const Endpoint &b, const Link &link)
{
    const auto rtr = [&](const Endpoint &self, const Endpoint &peer, uint32_t psn) {
        Modify step = rtr_step(*self.side, link, peer.qp->qp_num, peer.side->gid, psn);
        step.mask &= ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        must_modify(self.qp.get(), step, "RTR");
    };
    const auto rts = [&](const Endpoint &self, uint32_t psn) {
        Modify step = state_step(IBV_QPS_RTS);
        step.attr.sq_psn = psn;
        step.mask |= IBV_QP_SQ_PSN;
        must_modify(self.qp.get(), step, "RTS");
    };
    for (const Endpoint *end : {&a, &b}) {
        Modify step = init_step(*end->side, link);
        step.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        must_modify(end->qp.get(), step, "INIT");
    }
    rtr(a, b, link.psn_b);
    rtr(b, a, link.psn_a);
    rts(a, link.psn_a);
    rts(b, link.psn_b);
}

} // namespace rocev2::test
