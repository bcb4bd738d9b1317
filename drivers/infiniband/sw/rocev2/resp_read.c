// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Responder: READs, and the responder resources. A request that returns data
 * takes an entry of qp->recv.res, from which its responses are sent in order, a
 * few at a time, and sent again when the requester asks anew. The ring holds as
 * many as the requester may have outstanding (max_dest_rd_atomic, 9.4.5).
 */
#include "mem.h"
#include "psn.h"
#include "qp.h"
#include "resp.h"
#include "trace.h"

static struct rocev2_resp_res *res_at(const struct rocev2_recv_qp *recv, u32 index)
{
	return &recv->res[index & recv->res_mask];
}

/**
 * rocev2_resp_res_alloc() - an entry for a new request that has responses
 * @qp: the QP
 * @packets: how many
 *
 * The request takes effect: its responses have the PSNs from the expected one on, which
 * moves behind them.
 *
 * The oldest entry goes; the requester has its answer, or it would not ask for
 * more than we granted. A repeat of that entry still being sent is given up.
 *
 * Return: the entry, due; NULL: more requests outstanding than granted, refused.
 */
struct rocev2_resp_res *rocev2_resp_res_alloc(struct rocev2_qp *qp, u32 packets)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	struct rocev2_resp_res *res;

	if (!recv->res_count)
		goto refuse;
	while (recv->res_head - recv->res_due >= recv->res_count) {
		res = res_at(recv, recv->res_due);
		if (res->due && !res->again)
			goto refuse;
		res->due = false;
		recv->res_due++;
	}
	res = res_at(recv, recv->res_head++);
	*res = (struct rocev2_resp_res){
		.valid		= true,
		.due		= true,
		.first_psn	= recv->epsn,
		.start_psn	= recv->epsn,
		.cur_psn	= recv->epsn,
		.last_psn	= rocev2_psn_add(recv->epsn, packets - 1),
	};
	recv->epsn = rocev2_psn_add(res->last_psn, 1);
	recv->msn = rocev2_psn_add(recv->msn, 1);
	res->msn = recv->msn;
	/* the responses acknowledge what came before */
	recv->ack_due = false;
	return res;

refuse:
	rocev2_resp_nak_invalid(qp, recv->epsn);
	return NULL;
}

/* the entry that @psn belongs to, or NULL */
struct rocev2_resp_res *rocev2_resp_res_find(struct rocev2_qp *qp, u32 psn)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	u32 i;

	if (!recv->res_count)
		return NULL;
	/* newest first: an old entry may have the same PSNs, 2^24 packets ago */
	for (i = 0; i < recv->res_count; i++) {
		struct rocev2_resp_res *res = res_at(recv, recv->res_head - 1 - i);

		if (res->valid && rocev2_psn_between(psn, res->first_psn, res->last_psn))
			return res;
	}
	return NULL;
}

/**
 * rocev2_resp_res_due() - send an entry's responses again
 * @qp: the QP
 * @res: the entry
 * @psn: from here on
 */
void rocev2_resp_res_due(struct rocev2_qp *qp, struct rocev2_resp_res *res, u32 psn)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	u32 newest = recv->res_head - 1;
	/* its free-running index: at most res_mask behind the newest */
	u32 index = newest - ((newest - (u32)(res - recv->res)) & recv->res_mask);

	/* on its way already */
	if (res->due && !rocev2_psn_after(res->cur_psn, psn))
		return;
	res->start_psn = psn;
	res->cur_psn = psn;
	res->again = true;
	res->due = true;
	if ((s32)(index - recv->res_due) < 0)
		recv->res_due = index;
}

/* a READ request with the expected PSN */
void rocev2_resp_read(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	const struct rocev2_reth *reth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	struct rocev2_recv_qp *recv = &qp->recv;
	u64 va = be64_to_cpu(reth->va);
	u32 rkey = be32_to_cpu(reth->rkey);
	u32 len = be32_to_cpu(reth->len);
	enum rocev2_mr_status status;
	struct rocev2_resp_res *res;

	if (!(qp->attr.qp_access_flags & IB_ACCESS_REMOTE_READ) || len > ROCEV2_MAX_MSG) {
		rocev2_resp_nak_invalid(qp, recv->epsn);
		return;
	}
	if (len) {
		status = rocev2_mem_readable(qp, rkey, va, len, min(len, qp->mtu),
					     IB_ACCESS_REMOTE_READ);
		if (unlikely(status == ROCEV2_MR_NOT_PRESENT)) {
			rocev2_resp_fault(qp, recv->epsn);
			return;
		}
		if (status != ROCEV2_MR_OK) {
			rocev2_resp_nak_access(qp, recv->epsn);
			return;
		}
	}
	res = rocev2_resp_res_alloc(qp, len ? ((len - 1) >> qp->mtu_shift) + 1 : 1);
	if (!res)
		return;
	res->va = va;
	res->rkey = rkey;
	res->len = len;
}

/*
 * A READ seen before, or the rest of one: the requester missed responses. It must
 * ask for what it asked for then (9.7.4.1.4); other requests are left unanswered.
 */
void rocev2_resp_read_again(struct rocev2_qp *qp, const struct rocev2_rx_buf *buf)
{
	const struct rocev2_reth *reth = rocev2_rx_hdr(buf, sizeof(struct rocev2_bth));
	struct rocev2_resp_res *res = rocev2_resp_res_find(qp, buf->psn);
	u64 skip;

	if (!res || res->atomic)
		return;
	skip = (u64)(u32)rocev2_psn_diff(buf->psn, res->first_psn) << qp->mtu_shift;
	if (be64_to_cpu(reth->va) != res->va + skip || be32_to_cpu(reth->rkey) != res->rkey ||
	    be32_to_cpu(reth->len) != res->len - skip)
		return;
	rocev2_resp_res_due(qp, res, buf->psn);
}

static u8 read_opcode(const struct rocev2_resp_res *res)
{
	bool first = res->cur_psn == res->start_psn;
	bool last = res->cur_psn == res->last_psn;

	if (first)
		return last ? ROCEV2_OP_READ_RESP_ONLY : ROCEV2_OP_READ_RESP_FIRST;
	return last ? ROCEV2_OP_READ_RESP_LAST : ROCEV2_OP_READ_RESP_MIDDLE;
}

/*
 * Return: ROCEV2_MR_OK; ROCEV2_MR_NOT_PRESENT: it cannot be sent yet, and none behind it;
 * else the memory is gone and the request was refused.
 */
static enum rocev2_mr_status send_read_response(struct rocev2_qp *qp, struct rocev2_resp_res *res)
{
	u64 off = (u64)(u32)rocev2_psn_diff(res->cur_psn, res->first_psn) << qp->mtu_shift;
	u8 opcode = read_opcode(res);
	const struct rocev2_opcode_info *info = &rocev2_opcodes[opcode];
	u32 len = min_t(u64, res->len - off, qp->mtu);
	enum rocev2_mr_status status = ROCEV2_MR_OK;
	struct rocev2_bth *bth;

	bth = rocev2_tx_begin(qp, &qp->path, info->hdr_len, len, !res->again);
	if (!bth)
		return ROCEV2_MR_OK;	/* counted; the requester asks again */
	rocev2_bth_fill(bth, opcode, -len & 3, false, false, qp->dest_qpn, res->cur_psn);
	if (info->flags & ROCEV2_F_AETH)
		rocev2_aeth_fill((void *)(bth + 1), rocev2_resp_ack_syndrome(qp), res->msn);
	if (len)
		status = rocev2_mem_read(qp, res->rkey, res->va + off, len, res->len - off,
					 IB_ACCESS_REMOTE_READ, (void *)bth + info->hdr_len);
	if (status != ROCEV2_MR_OK) {
		rocev2_tx_cancel(qp);
		if (status != ROCEV2_MR_NOT_PRESENT)
			rocev2_resp_nak_access(qp, res->cur_psn);
		return status;
	}
	rocev2_tx_commit(qp);
	return ROCEV2_MR_OK;
}

static void send_atomic_response(struct rocev2_qp *qp, struct rocev2_resp_res *res)
{
	const struct rocev2_opcode_info *info = &rocev2_opcodes[ROCEV2_OP_ATOMIC_ACK];
	struct rocev2_atomicacketh *ack;
	struct rocev2_aeth *aeth;
	struct rocev2_bth *bth;

	bth = rocev2_tx_begin(qp, &qp->path, info->hdr_len, 0, !res->again);
	if (!bth)
		return;
	rocev2_bth_fill(bth, ROCEV2_OP_ATOMIC_ACK, 0, false, false, qp->dest_qpn, res->cur_psn);
	aeth = (void *)(bth + 1);
	rocev2_aeth_fill(aeth, rocev2_resp_ack_syndrome(qp), res->msn);
	ack = (void *)(aeth + 1);
	ack->orig = cpu_to_be64(res->orig);
	rocev2_tx_commit(qp);
}

int rocev2_resp_read_run(struct rocev2_qp *qp, int budget)
{
	struct rocev2_recv_qp *recv = &qp->recv;
	enum rocev2_mr_status status;
	int sent = 0;

	while (sent < budget && rocev2_resp_reads_due(qp)) {
		struct rocev2_resp_res *res = res_at(recv, recv->res_due);

		if (!res->due) {
			recv->res_due++;
			continue;
		}
		if (!rocev2_tx_may_send(qp, ROCEV2_MAX_INFLIGHT))
			break;
		if (res->atomic) {
			send_atomic_response(qp, res);
		} else {
			status = send_read_response(qp, res);
			/* on-demand paging: we are kicked when the page is there */
			if (unlikely(status == ROCEV2_MR_NOT_PRESENT))
				break;
			if (status != ROCEV2_MR_OK) {
				/* nothing may follow the NAK */
				recv->res_due = recv->res_head;
				break;
			}
		}
		sent++;
		res->due = res->cur_psn != res->last_psn;
		res->cur_psn = rocev2_psn_add(res->cur_psn, 1);
	}
	return sent;
}
