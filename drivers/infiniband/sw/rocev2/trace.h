/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Tracepoints: /sys/kernel/tracing/events/rocev2. Those of packets print QPN, PSN
 * and opcode first; reasons are names of counters, see counters.h.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM rocev2

#if !defined(ROCEV2_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define ROCEV2_TRACE_H

#include <linux/tracepoint.h>

#include "counters.h"

/* tools that read the raw buffer learn the numbers */
#define ROCEV2_COUNTER_TRACE_ENUM(id, str) TRACE_DEFINE_ENUM(ROCEV2_CNT_##id);
ROCEV2_COUNTERS(ROCEV2_COUNTER_TRACE_ENUM)

#define ROCEV2_COUNTER_TRACE(id, str) { ROCEV2_CNT_##id, str },
#define rocev2_show_reason(reason) \
	__print_symbolic(reason, \
			 ROCEV2_COUNTERS(ROCEV2_COUNTER_TRACE) { ROCEV2_CNT_MAX, "unknown" })

DECLARE_EVENT_CLASS(rocev2_packet,
		    TP_PROTO(u32 qpn, u32 psn, u8 opcode, u32 len),
		    TP_ARGS(qpn, psn, opcode, len),
		    TP_STRUCT__entry(__field(u32, qpn)
				     __field(u32, psn)
				     __field(u8, opcode)
				     __field(u32, len)
		    ),
		    TP_fast_assign(__entry->qpn = qpn;
				   __entry->psn = psn;
				   __entry->opcode = opcode;
				   __entry->len = len;
		    ),
		    TP_printk("qpn=0x%06x psn=0x%06x opcode=0x%02x len=%u",
			      __entry->qpn, __entry->psn, __entry->opcode, __entry->len)
);

/* a packet goes to the QP's owner, who holds it against the checks that need the QP */
DEFINE_EVENT(rocev2_packet, rocev2_rx,
	     TP_PROTO(u32 qpn, u32 psn, u8 opcode, u32 len),
	     TP_ARGS(qpn, psn, opcode, len)
);

DEFINE_EVENT(rocev2_packet, rocev2_tx,
	     TP_PROTO(u32 qpn, u32 psn, u8 opcode, u32 len),
	     TP_ARGS(qpn, psn, opcode, len)
);

/* dropped in silence */
TRACE_EVENT(rocev2_rx_drop,
	    TP_PROTO(u32 qpn, u32 psn, u8 opcode, enum rocev2_counter reason),
	    TP_ARGS(qpn, psn, opcode, reason),
	    TP_STRUCT__entry(__field(u32, qpn)
			     __field(u32, psn)
			     __field(u8, opcode)
			     __field(int, reason)
	    ),
	    TP_fast_assign(__entry->qpn = qpn;
			   __entry->psn = psn;
			   __entry->opcode = opcode;
			   __entry->reason = reason;
	    ),
	    TP_printk("qpn=0x%06x psn=0x%06x opcode=0x%02x reason=%s",
		      __entry->qpn, __entry->psn, __entry->opcode,
		      rocev2_show_reason(__entry->reason))
);

/* a NAK goes out */
TRACE_EVENT(rocev2_nak,
	    TP_PROTO(u32 qpn, u32 psn, u8 syndrome),
	    TP_ARGS(qpn, psn, syndrome),
	    TP_STRUCT__entry(__field(u32, qpn)
			     __field(u32, psn)
			     __field(u8, syndrome)
	    ),
	    TP_fast_assign(__entry->qpn = qpn;
			   __entry->psn = psn;
			   __entry->syndrome = syndrome;
	    ),
	    TP_printk("qpn=0x%06x psn=0x%06x syndrome=0x%02x",
		      __entry->qpn, __entry->psn, __entry->syndrome)
);

/* the requester goes back to @psn */
TRACE_EVENT(rocev2_retry,
	    TP_PROTO(u32 qpn, u32 psn, enum rocev2_counter reason),
	    TP_ARGS(qpn, psn, reason),
	    TP_STRUCT__entry(__field(u32, qpn)
			     __field(u32, psn)
			     __field(int, reason)
	    ),
	    TP_fast_assign(__entry->qpn = qpn;
			   __entry->psn = psn;
			   __entry->reason = reason;
	    ),
	    TP_printk("qpn=0x%06x psn=0x%06x reason=%s",
		      __entry->qpn, __entry->psn, rocev2_show_reason(__entry->reason))
);

/* enum ib_qp_state */
TRACE_EVENT(rocev2_qp_state,
	    TP_PROTO(u32 qpn, int from, int to),
	    TP_ARGS(qpn, from, to),
	    TP_STRUCT__entry(__field(u32, qpn)
			     __field(int, from)
			     __field(int, to)
	    ),
	    TP_fast_assign(__entry->qpn = qpn;
			   __entry->from = from;
			   __entry->to = to;
	    ),
	    TP_printk("qpn=0x%06x from=%d to=%d",
		      __entry->qpn, __entry->from, __entry->to)
);

/* enum ib_wc_status, enum ib_wc_opcode */
TRACE_EVENT(rocev2_cqe,
	    TP_PROTO(u32 qpn, u64 wr_id, int status, int opcode),
	    TP_ARGS(qpn, wr_id, status, opcode),
	    TP_STRUCT__entry(__field(u32, qpn)
			     __field(u64, wr_id)
			     __field(int, status)
			     __field(int, opcode)
	    ),
	    TP_fast_assign(__entry->qpn = qpn;
			   __entry->wr_id = wr_id;
			   __entry->status = status;
			   __entry->opcode = opcode;
	    ),
	    TP_printk("qpn=0x%06x wr_id=0x%llx status=%d opcode=%d",
		      __entry->qpn, __entry->wr_id, __entry->status, __entry->opcode)
);

/* a key did not serve; enum rocev2_mr_status */
TRACE_EVENT(rocev2_mr_check,
	    TP_PROTO(u32 key, u64 addr, u64 len, int access, int status),
	    TP_ARGS(key, addr, len, access, status),
	    TP_STRUCT__entry(__field(u32, key)
			     __field(u64, addr)
			     __field(u64, len)
			     __field(int, access)
			     __field(int, status)
	    ),
	    TP_fast_assign(__entry->key = key;
			   __entry->addr = addr;
			   __entry->len = len;
			   __entry->access = access;
			   __entry->status = status;
	    ),
	    TP_printk("key=0x%08x addr=0x%llx len=%llu access=0x%x status=%d",
		      __entry->key, __entry->addr, __entry->len, __entry->access, __entry->status)
);

/* on-demand paging: pages were brought in for a QP, or could not be */
TRACE_EVENT(rocev2_odp_fault,
	    TP_PROTO(u32 qpn, u64 va, u64 len, bool write, int ret),
	    TP_ARGS(qpn, va, len, write, ret),
	    TP_STRUCT__entry(__field(u32, qpn)
			     __field(u64, va)
			     __field(u64, len)
			     __field(bool, write)
			     __field(int, ret)
	    ),
	    TP_fast_assign(__entry->qpn = qpn;
			   __entry->va = va;
			   __entry->len = len;
			   __entry->write = write;
			   __entry->ret = ret;
	    ),
	    TP_printk("qpn=0x%06x va=0x%llx len=%llu write=%d ret=%d",
		      __entry->qpn, __entry->va, __entry->len, __entry->write, __entry->ret)
);

/* enum rocev2_key_verdict: a bind, registration or invalidation was refused */
TRACE_EVENT(rocev2_key_refused,
	    TP_PROTO(u32 qpn, u32 key, int verdict),
	    TP_ARGS(qpn, key, verdict),
	    TP_STRUCT__entry(__field(u32, qpn)
			     __field(u32, key)
			     __field(int, verdict)
	    ),
	    TP_fast_assign(__entry->qpn = qpn;
			   __entry->key = key;
			   __entry->verdict = verdict;
	    ),
	    TP_printk("qpn=0x%06x key=0x%08x verdict=%d",
		      __entry->qpn, __entry->key, __entry->verdict)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
