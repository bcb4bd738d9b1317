// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Receive stage: is this the request the responder expects next (9.7.4.1.3)?
 * Half the PSN space lies behind the expected PSN, half ahead.
 */
#include "psn.h"
#include "qp.h"
#include "resp.h"
#include "rx.h"

enum rocev2_rx_verdict rocev2_rx_check_psn(struct rocev2_qp *qp, struct rocev2_rx_buf *buf)
{
	s32 diff = rocev2_psn_diff(buf->psn, qp->recv.epsn);

	if (likely(!diff)) {
		qp->recv.gap = false;
		return ROCEV2_RX_CONTINUE;
	}
	if (diff < 0)
		return rocev2_resp_duplicate(qp, buf);
	return rocev2_resp_gap(qp, buf);
}
