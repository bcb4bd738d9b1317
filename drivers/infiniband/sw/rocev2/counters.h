/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Named counters of a port, shown by `rdma statistic` and under
 * /sys/class/infiniband/DEV/ports/1/hw_counters. Names follow mlx5 where the
 * meaning is the same. Every dropped packet, every NAK and every retry counts in
 * exactly one of them.
 */
#ifndef ROCEV2_COUNTERS_H
#define ROCEV2_COUNTERS_H

#include <linux/types.h>

/*
 * A QP counts in those of its port, or in those it is bound to (`rdma statistic qp
 * bind`, or auto): then ib_core adds them to the port's. Multicast packets are
 * received once by each member of the group.
 */

/* op(ENUM, "name") */
#define ROCEV2_COUNTERS(op)						\
	/* traffic */							\
	op(RX_PACKETS,		"rx_packets")				\
	op(RX_BYTES,		"rx_bytes")				\
	op(RX_SUPER,		"rx_superpackets")			\
	op(RX_COPIED,		"rx_copied")				\
	op(TX_PACKETS,		"tx_packets")				\
	op(TX_BYTES,		"tx_bytes")				\
	op(TX_SUPER,		"tx_superpackets")			\
	op(TX_SUPER_CUT,	"tx_superpackets_cut")		\
	/* received packets dropped in silence */			\
	op(RX_LENGTH,		"rx_drop_length")			\
	op(RX_FRAGMENT,		"rx_drop_fragment")			\
	op(RX_CHECKSUM,		"rx_drop_checksum")			\
	op(RX_HEADER,		"rx_drop_header")			\
	op(RX_PKEY,		"rx_drop_pkey")				\
	op(RX_QPN,		"rx_drop_qpn")				\
	op(RX_ICRC,		"rx_icrc_encapsulated")			\
	op(RX_STATE,		"rx_drop_state")			\
	op(RX_SERVICE,		"rx_drop_service")			\
	op(RX_SOURCE,		"rx_drop_source")			\
	op(RX_QKEY,		"rx_drop_qkey")				\
	op(RX_NO_WQE,		"rx_drop_no_recv_wqe")			\
	op(RX_TOO_LONG,		"rx_drop_recv_too_short")		\
	op(RX_LOST,		"rx_drop_incomplete")			\
	op(RX_QUEUE_FULL,	"rx_drop_queue_full")			\
	op(RX_RESPONSE,		"rx_drop_response")			\
	op(RX_NOMEM,		"rx_drop_nomem")			\
	op(RX_ODP_RESPONSE,	"rx_drop_odp_response")			\
	/* responder */							\
	op(OUT_OF_SEQUENCE,	"out_of_sequence")			\
	op(DUPLICATE_REQUEST,	"duplicate_request")			\
	op(RESP_REM_ACCESS,	"resp_remote_access_errors")		\
	op(RESP_REM_INV_REQ,	"resp_remote_invalid_request")		\
	op(RESP_REM_OP,		"resp_remote_op_err")			\
	op(RESP_LOCAL_LENGTH,	"resp_local_length_error")		\
	op(RESP_RNR_NAK,	"resp_rnr_nak")				\
	op(RESP_ODP_RNR_NAK,	"resp_odp_rnr_nak")			\
	/* requester and completer */					\
	op(PACKET_SEQ_ERR,	"packet_seq_err")			\
	op(IMPLIED_NAK_SEQ_ERR,	"implied_nak_seq_err")			\
	op(LOCAL_ACK_TIMEOUT,	"local_ack_timeout_err")		\
	op(RETRY_EXCEEDED,	"req_retries_exceeded")			\
	op(REQ_RNR_NAK,		"req_rnr_nak")				\
	op(RNR_RETRY_EXCEEDED,	"rnr_nak_retry_err")			\
	op(REQ_REM_ACCESS,	"req_remote_access_errors")		\
	op(REQ_REM_INV_REQ,	"req_remote_invalid_request")		\
	op(REQ_REM_OP,		"req_remote_op_err")			\
	op(REQ_MEM_MGMT,	"req_mem_mgmt_errors")			\
	op(TX_DROPPED,		"tx_dropped")				\
	/* on-demand paging */						\
	op(ODP_FAULTS,		"odp_page_faults")			\
	op(ODP_FAULT_ERRORS,	"odp_page_fault_errors")		\
	op(ODP_INVALIDATIONS,	"odp_page_invalidations")		\
	op(ODP_PREFETCHES,	"odp_prefetches")			\
	/* memory translation caches of all QPs */			\
	op(MR_CACHE_HIT,	"mr_cache_hit")				\
	op(MR_CACHE_MISS,	"mr_cache_miss")

enum rocev2_counter {
#define ROCEV2_COUNTER_ENUM(id, name) ROCEV2_CNT_##id,
	ROCEV2_COUNTERS(ROCEV2_COUNTER_ENUM)
#undef ROCEV2_COUNTER_ENUM
	ROCEV2_CNT_MAX
};

struct rocev2_counters {
	u64 value[ROCEV2_CNT_MAX];
};

struct ib_device;
struct ib_qp;
struct rdma_counter;
struct rdma_hw_stats;

/* counters.c */
struct rdma_hw_stats *rocev2_alloc_hw_port_stats(struct ib_device *ibdev, u32 port);
int rocev2_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port, int index);
int rocev2_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port);
int rocev2_counter_unbind_qp(struct ib_qp *ibqp, u32 port);
int rocev2_counter_dealloc(struct rdma_counter *counter);
struct rdma_hw_stats *rocev2_counter_alloc_stats(struct rdma_counter *counter);
int rocev2_counter_update_stats(struct rdma_counter *counter);

#endif
