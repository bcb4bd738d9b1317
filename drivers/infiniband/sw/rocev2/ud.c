// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Unreliable datagrams: one packet a message, no connection, no acknowledgment.
 * The address comes with each work request, and anybody may send to us who knows
 * the Q_Key, so nothing that arrives may harm the QP.
 */
#include <linux/if_vlan.h>

#include "ah.h"
#include "mem.h"
#include "qp.h"
#include "req.h"
#include "resp.h"
#include "rq.h"
#include "ud.h"

/* a Q_Key with this bit set stands for the QP's own (10.2.5) */
#define QKEY_OF_QP	0x80000000u

static u32 datagram_mtu(const struct rocev2_qp *qp)
{
	const struct net_device *ndev = rcu_dereference(qp->dev->ndev);

	/* without a netdev the packet is lost, and counted, further down */
	return ndev ? ib_mtu_enum_to_int(rocev2_netdev_mtu(READ_ONCE(ndev->mtu))) : 4096;
}

/* all but the payload; where that goes, or NULL */
static void *make_packet(struct rocev2_qp *qp, const struct rocev2_path *path,
			 const struct rocev2_send_wqe *wqe, bool imm)
{
	u8 opcode = ROCEV2_SVC_UD | (imm ? ROCEV2_OP_SEND_ONLY_IMM : ROCEV2_OP_SEND_ONLY);
	u32 qkey = wqe->ud.qkey & QKEY_OF_QP ? qp->attr.qkey : wqe->ud.qkey;
	u32 qpn = wqe->ud.qpn & ROCEV2_QPN_MASK;
	struct rocev2_deth *deth;
	u32 hdr_len = rocev2_opcodes[opcode].hdr_len;
	struct rocev2_bth *bth;

	/* each has a port, and maybe a QPN, of its own */
	bth = rocev2_tx_begin(qp, path, hdr_len, wqe->length, false);
	if (!bth)
		return NULL;
	udp_hdr(qp->tx.skb)->source = htons(rdma_get_udp_sport(path->flow_label, qp->qpn, qpn));
	rocev2_bth_fill(bth, opcode, -wqe->length & 3,
			wqe->send_flags & IB_SEND_SOLICITED, false, qpn, qp->req.psn);
	deth = (void *)(bth + 1);
	deth->qkey = cpu_to_be32(qkey);
	deth->sqpn = cpu_to_be32(qp->qpn);
	if (imm) {
		struct rocev2_immdt *immdt = (void *)(deth + 1);

		immdt->imm = wqe->imm;
	}
	return (void *)bth + hdr_len;
}

enum ib_wc_status rocev2_ud_send(struct rocev2_qp *qp, const struct rocev2_send_wqe *wqe)
{
	bool imm = wqe->opcode == IB_WR_SEND_WITH_IMM;
	enum rocev2_mr_status status = ROCEV2_MR_OK;
	const struct rocev2_av *av;
	void *payload;

	/* the number is the application's word: it may name anybody's AH */
	av = xa_load(&qp->dev->ahs, wqe->ud.ah);
	if (!av || av->pd != qp->ibqp->pd)
		return IB_WC_LOC_QP_OP_ERR;
	if (wqe->length > datagram_mtu(qp))
		return IB_WC_LOC_LEN_ERR;
	payload = make_packet(qp, &av->path, wqe, imm);
	if (!payload)
		return IB_WC_SUCCESS;
	if (wqe->length)
		status = rocev2_req_gather(qp, wqe, 0, wqe->length, payload);
	if (status != ROCEV2_MR_OK) {
		rocev2_tx_cancel(qp);
		/* it is not sent yet (req.fault_wait), or cannot be */
		return status == ROCEV2_MR_NOT_PRESENT ? IB_WC_SUCCESS : IB_WC_LOC_PROT_ERR;
	}
	rocev2_tx_commit(qp);
	return IB_WC_SUCCESS;
}

/*
 * The receiver sees the network header in front of the payload: an IPv6 header as it
 * came, or 20 bytes of nothing and the IPv4 header (annex A17.4.5.1).
 */
static enum rocev2_mr_status write_grh(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	u8 grh[ROCEV2_GRH_BYTES] = {};
	struct rocev2_src src = { .bytes = grh };

	if (buf->flags & ROCEV2_RX_IPV6)
		memcpy(grh, buf->data, sizeof(struct ipv6hdr));
	else
		memcpy(grh + sizeof(grh) - sizeof(struct iphdr), buf->data, sizeof(struct iphdr));
	return rocev2_recv_write(qp, 0, sizeof(grh), src);
}

static enum rocev2_mr_status place(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	enum rocev2_mr_status status;

	status = write_grh(qp, buf);
	if (status != ROCEV2_MR_OK)
		return status;
	return rocev2_recv_write(qp, ROCEV2_GRH_BYTES, buf->payload_len, rocev2_payload(buf));
}

enum rocev2_rx_verdict rocev2_ud_receive(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	const struct rocev2_deth *deth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	const struct rocev2_opcode_info *info = &rocev2_opcodes[buf->opcode];
	enum rocev2_mr_status status;
	struct rocev2_recv_qp *recv = &qp->recv;
	struct ib_wc wc = {
		.opcode = IB_WC_RECV,
		.byte_len = ROCEV2_GRH_BYTES + buf->payload_len,
		.src_qp = be32_to_cpu(deth->sqpn) & ROCEV2_QPN_MASK,
		.wc_flags = IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE,
		.network_hdr_type = buf->flags & ROCEV2_RX_IPV6 ? RDMA_NETWORK_IPV6 :
								  RDMA_NETWORK_IPV4,
	};

	if (!recv->have_wqe && !rocev2_rq_next(qp))
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_NO_WQE);
	recv->have_wqe = true;
	/* whoever sends too much must not stop a QP that serves others: the WQE stays */
	if (!recv->wqe.bad && wc.byte_len > recv->wqe.length)
		return rocev2_rx_drop(buf, ROCEV2_CNT_RX_TOO_LONG);
	status = recv->wqe.bad ? ROCEV2_MR_OK : place(qp, buf);
	if (unlikely(status == ROCEV2_MR_NOT_PRESENT)) {
		rocev2_resp_fault(qp, buf->psn);
		return ROCEV2_RX_STALLED;
	}
	if (recv->wqe.bad)
		wc.status = IB_WC_LOC_QP_OP_ERR;
	else if (status != ROCEV2_MR_OK)
		wc.status = IB_WC_LOC_PROT_ERR;
	if (info->flags & ROCEV2_F_IMMDT) {
		const struct rocev2_immdt *immdt = rocev2_rx_hdr(buf, info->imm_off);

		wc.wc_flags |= IB_WC_WITH_IMM;
		wc.ex.imm_data = immdt->imm;
	}
	if (buf->vlan_tci & VLAN_VID_MASK) {
		wc.wc_flags |= IB_WC_WITH_VLAN;
		wc.vlan_id = buf->vlan_tci & VLAN_VID_MASK;
		wc.sl = buf->vlan_tci >> VLAN_PRIO_SHIFT;
	}
	rocev2_resp_post(qp, &wc, buf->flags & ROCEV2_RX_SOLICITED);
	return ROCEV2_RX_DONE;
}
