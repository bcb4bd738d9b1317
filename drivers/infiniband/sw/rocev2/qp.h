/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The queue pair: its life, its owner, and the state of its requester, completer
 * and responder.
 *
 * Ownership. All transport state belongs to the QP's owner, of whom there is one
 * at a time (@sched): a receive queue's NAPI poll, post_send running inline, or a
 * verb that changes the QP. So that state needs no lock. Whoever has work for a QP
 * puts it where the owner looks (packet queue, ring, flag) and calls
 * rocev2_qp_kick().
 *
 * Lifetime. ib_core owns struct rocev2_ib_qp and frees it right after destroy_qp.
 * The transport context struct rocev2_qp outlives it:
 *  - @users counts those who may run it: the verbs object, a place on a ready
 *    list, a page fault in progress. destroy_qp waits for it to fall to zero.
 *  - @mem counts those who only need the memory: the verbs object and packets in
 *    the hands of a device. Nobody waits for it; the last one frees by RCU, since
 *    the receive path looks QPs up under RCU.
 */
#ifndef ROCEV2_QP_H
#define ROCEV2_QP_H

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <rdma/ib_verbs.h>

#include "mr_cache.h"
#include "odp.h"
#include "qp_state.h"
#include "ring.h"
#include "rocev2.h"
#include "rx_buf.h"
#include "tx.h"

struct rocev2_cq;
struct rocev2_srq;

/* of the general services interface (IBA 13.2.2), one a port */
#define ROCEV2_GSI_QPN		1
/* packets the requester may have unacknowledged */
#define ROCEV2_WINDOW		256
/* within a long message, ask for an acknowledgment every so many packets */
#define ROCEV2_ACKREQ_EVERY	64
/* packets of one QP that a device may hold at a time */
#define ROCEV2_MAX_INFLIGHT	128
/* ... when the next one is a request */
#define ROCEV2_MAX_INFLIGHT_REQ	(ROCEV2_MAX_INFLIGHT + ROCEV2_MAX_INFLIGHT / 2)
/* packets waiting for the owner; more are dropped */
#define ROCEV2_RX_QUEUE_MAX	4096
/* READ responses asked for in one request; keeps PSNs far from half their space */
#define ROCEV2_MAX_READ_PSNS	65536u
/* RNR timer codes for memory that is not there yet: 0.64 ms, four times as much each time */
#define ROCEV2_FAULT_TIMER_MIN	12
#define ROCEV2_FAULT_TIMER_MAX	28
/* packets sent and received by an owner before it gives others a turn */
#define ROCEV2_RUN_BUDGET	64

/* who owns the QP */
enum rocev2_qp_sched {
	ROCEV2_QP_IDLE,		/* nobody */
	ROCEV2_QP_QUEUED,	/* on a ready list */
	ROCEV2_QP_RUNNING,	/* an owner is at work */
	ROCEV2_QP_AGAIN,	/* ... and more work has come meanwhile */
};

/**
 * struct rocev2_sge - a scatter/gather element, checked
 * @addr: first byte
 * @length: bytes
 * @lkey: key
 */
struct rocev2_sge {
	u64	addr;
	u32	length;
	u32	lkey;
};

/**
 * struct rocev2_send_wqe - private, checked copy of a send WQE
 * @wr_id: the consumer's cookie
 * @raddr: remote address; BIND_MW, REG_MR: address of the first byte
 * @compare_add: compare value of a compare-and-swap, addend of a fetch-and-add, bytes of
 *	an ATOMIC WRITE as they lie in memory, length of a FLUSH
 * @swap: swap value
 * @bind: BIND_MW: bytes from @raddr on, the region's L_Key, and any key that the window had
 * @rkey: remote key; BIND_MW, REG_MR: the key to give; LOCAL_INV: the key to take
 * @imm: immediate data, or the R_Key to invalidate
 * @access: BIND_MW, REG_MR: enum ib_access_flags
 * @length: bytes of the message
 * @first_psn: PSN of its first packet; valid once PSNs are assigned
 * @last_psn: PSN of its last packet or last response
 * @ah: datagrams: number of the AH
 * @qpn: datagrams: destination
 * @qkey: datagrams: Q_Key, or with its high bit set: the QP's
 * @opcode: enum ib_wr_opcode
 * @send_flags: enum ib_send_flags
 * @rd_counted: it is in req.rd_outstanding
 * @status: IB_WC_SUCCESS, or the error it completes with when its turn comes
 * @num_sge: elements of @sge
 * @sge: local memory
 * @inline_data: message bytes instead of @sge with IB_SEND_INLINE
 */
struct rocev2_send_wqe {
	u64			wr_id;
	union {
		struct {
			u64	raddr;
			union {
				struct {
					u64	compare_add;
					u64	swap;
				};
				struct {
					u64	length;
					u32	lkey;
					u32	window;
				} bind;
			};
			u32	rkey;
		};
		struct {
			u32	ah;
			u32	qpn;
			u32	qkey;
		} ud;
	};
	__be32			imm;
	u32			access;
	u32			length;
	u32			first_psn;
	u32			last_psn;
	u32			send_flags;
	u8			opcode;
	u8			status;
	u8			num_sge;
	bool			rd_counted;
	union {
		DECLARE_FLEX_ARRAY(struct rocev2_sge, sge);
		DECLARE_FLEX_ARRAY(u8, inline_data);
	};
};

/**
 * struct rocev2_sq - send queue
 * @ring: shared ring; its consumer index moves when a WQE completes
 * @lock: serializes kernel posters (the owner reads the ring without it)
 * @wqes: private copies, slot i belongs to ring slot i
 * @wqe_size: bytes of one
 * @max_sge: elements a WQE may have
 * @max_inline: inline bytes a WQE may have
 * @sig_all: every WQE is signaled
 * @pull: next ring index to copy. All indices run free and are masked on use
 * @cur: WQE whose packets are being sent
 * @una: oldest WQE not completed
 * @assigned: WQEs before this one have PSNs
 */
struct rocev2_sq {
	struct rocev2_ring	ring;
	spinlock_t		lock;	/* kernel posters */
	void			*wqes;
	u32			wqe_size;
	u32			max_sge;
	u32			max_inline;
	bool			sig_all;
	u32			pull;
	u32			cur;
	u32			una;
	u32			assigned;
};

static inline struct rocev2_send_wqe *rocev2_sq_wqe(const struct rocev2_sq *sq, u32 index)
{
	return sq->wqes + (size_t)(index & sq->ring.mask) * sq->wqe_size;
}

/**
 * struct rocev2_req - requester and completer, the two ends of the send queue
 * @psn: next PSN to send; behind @next_psn while retransmitting
 * @next_psn: PSN the next new message starts with
 * @max_psn: one behind the last PSN ever sent
 * @una_psn: oldest PSN not acknowledged
 * @window: packets that may be unacknowledged: ROCEV2_WINDOW, fewer after an RNR NAK or
 *	a time-out
 * @rd_outstanding: READs and atomics sent and not answered
 * @max_rd_atomic: how many may be
 * @retry_left: retransmissions before the peer counts as unreachable
 * @rnr_left: RNR retries left; 7 in rnr_retry means no limit
 * @rnr_backoff: RNR NAKs in a row; the wait doubles with each
 * @rnr_wait: waiting for @rnr_until after an RNR NAK
 * @fault_wait: waiting for local memory (on-demand paging); nothing is sent meanwhile
 * @fault_again: ... and a response could not be placed: ask for it again then
 * @sqd_notify: raise IB_EVENT_SQ_DRAINED when drained
 * @gap: went back for a lost response at @una_psn; wait for it
 * @acked: an acknowledgment up to @acked_psn waits for a READ or atomic response before it
 * @acked_psn: PSN behind the last one it covers
 * @nak_wait: a reason to go back to @una_psn came within a round trip of the last
 *	time; done at @went_back + @rtt unless @una_psn moves
 * @nak_reason: what that reason was, enum rocev2_counter
 * @fatal_nak: syndrome of a fatal NAK whose turn comes when all before @fatal_psn is
 *	here; 0: none
 * @fatal_psn: the PSN it refuses
 * @read_psn: where the last READ request in the middle of a READ began
 * @rtt_psn: PSN whose round trip is being timed since @rtt_start
 * @rtt_start: 0: none
 * @rtt: shortest round trip seen lately, nanoseconds; 0: unknown
 * @went_back: when the requester last went back for lost packets
 * @ahead: responses whose predecessors are missing, in PSN order
 * @progress: @una_psn moved during this run
 * @rnr_until: when sending may go on
 * @ack_deadline: when the oldest unacknowledged PSN counts as lost; 0 for none
 * @stuck: nothing is sent again yet of what must be, as a rule since the device has no room
 * @stuck_inflight: ... and packets in its hands when @ack_deadline was set
 */
struct rocev2_req {
	u32	psn;
	u32	next_psn;
	u32	max_psn;
	u32	una_psn;
	u32	window;
	u32	rd_outstanding;
	u32	max_rd_atomic;
	u8	retry_left;
	u8	rnr_left;
	u8	rnr_backoff;
	bool	rnr_wait;
	bool	fault_wait;
	bool	fault_again;
	bool	sqd_notify;
	bool	gap;
	bool	progress;
	bool	acked;
	bool	nak_wait;
	u8	nak_reason;
	u8	fatal_nak;
	u32	acked_psn;
	u32	fatal_psn;
	u32	read_psn;
	u32	rtt_psn;
	u64	rtt;
	ktime_t	rtt_start;
	ktime_t	went_back;
	struct list_head ahead;
	ktime_t	rnr_until;
	ktime_t	ack_deadline;
	bool	stuck;
	int	stuck_inflight;
};

/**
 * struct rocev2_recv_wqe - private, checked copy of a receive WQE
 * @wr_id: the consumer's cookie
 * @length: bytes it can take
 * @num_sge: elements of @sge
 * @bad: it was malformed; the message that gets it fails
 * @sge: local memory
 */
struct rocev2_recv_wqe {
	u64			wr_id;
	u64			length;
	u32			num_sge;
	bool			bad;
	struct rocev2_sge	sge[ROCEV2_MAX_SGE];
};

/**
 * struct rocev2_rq - receive queue
 * @ring: shared ring; the owner consumes
 * @lock: serializes kernel posters
 * @max_sge: elements a WQE may have
 */
struct rocev2_rq {
	struct rocev2_ring	ring;
	spinlock_t		lock;	/* kernel posters */
	u32			max_sge;
};

/**
 * struct rocev2_resp_res - responder resource: a READ or atomic that may be asked for again
 * @va: READ: first byte
 * @orig: atomic: the value before
 * @rkey: READ: key
 * @len: READ: bytes
 * @first_psn: first response
 * @last_psn: last response
 * @start_psn: where the current run of responses began (a retry may start in the middle)
 * @cur_psn: next response to send; behind @last_psn while responses are due
 * @msn: MSN of the request
 * @valid: the entry is in use
 * @atomic: atomic, else READ
 * @due: responses remain to be sent
 * @again: they were sent before
 */
struct rocev2_resp_res {
	u64	va;
	u64	orig;
	u32	rkey;
	u32	len;
	u32	first_psn;
	u32	last_psn;
	u32	start_psn;
	u32	cur_psn;
	u32	msn;
	bool	valid;
	bool	atomic;
	bool	due;
	bool	again;
};

/**
 * struct rocev2_recv_qp - responder, the receive side of a QP
 * @epsn: next expected PSN
 * @msn: message sequence number, counts completed requests
 * @nak_psn: PSN of the pending NAK; of a sequence error: the last PSN dropped for the gap
 * @va: WRITE in progress: where its next byte goes
 * @rkey: WRITE in progress: key
 * @resid: WRITE in progress: bytes to come
 * @received: bytes of the message so far
 * @msg: message in progress: ROCEV2_CLASS_SEND, ROCEV2_CLASS_WRITE or ROCEV2_CLASS_NONE
 * @nak: pending NAK syndrome; 0 for none
 * @nak_event: the NAK is fatal: async event to raise, or ROCEV2_NO_EVENT
 * @ack_due: a packet asked for an acknowledgment
 * @gap: a NAK for the gap at @epsn is out; drop what lies ahead in silence
 * @dead: a fatal NAK is pending: take no more requests
 * @established: IB_EVENT_COMM_EST was raised
 * @last_wqe: IB_EVENT_QP_LAST_WQE_REACHED was raised
 * @have_wqe: @wqe is held by the message in progress
 * @min_rnr_timer: RNR timer code we ask for
 * @fault_timer: ... when memory is not there (on-demand paging)
 * @fault_seen: the fault that it was last used for
 * @stalled: UC, UD: the packet at the head of rx_pending waits for memory
 * @res_count: READs and atomics the peer may have outstanding (max_dest_rd_atomic)
 * @res_mask: entries of @res - 1, a power of two - 1
 * @res_head: next entry to use; runs free
 * @res_due: oldest entry with responses due; runs free
 * @res: responder resources, a ring
 * @ahead: requests whose predecessors are missing, in PSN order
 * @wqe: receive WQE of the message in progress
 */
struct rocev2_recv_qp {
	u32			epsn;
	u32			msn;
	u32			nak_psn;
	u64			va;
	u32			rkey;
	u32			resid;
	u32			received;
	u8			msg;
	u8			nak;
	s8			nak_event;
	bool			ack_due;
	bool			gap;
	bool			dead;
	bool			established;
	bool			last_wqe;
	bool			have_wqe;
	bool			stalled;
	u8			min_rnr_timer;
	u8			fault_timer;
	u32			fault_seen;
	u8			res_count;
	u8			res_mask;
	u32			res_head;
	u32			res_due;
	struct rocev2_resp_res	*res;
	struct list_head	ahead;
	struct rocev2_recv_wqe	wqe;
};

#define ROCEV2_NO_EVENT	((s8)-1)

/* bits of rocev2_qp.flags, set by anyone */
enum rocev2_qp_flag {
	ROCEV2_QP_TIMER_FIRED,
	ROCEV2_QP_TX_STOPPED,	/* by rocev2_tx_may_send(); the destructor kicks */
};

/**
 * struct rocev2_qp - transport context of a QP
 * @sched: enum rocev2_qp_sched
 * @ready: place on a receive queue's ready list while QUEUED
 * @rx_queue: packets for the owner; its lock is all that producers take
 * @rx_pending: packets the owner has taken and not handled yet; owner only
 * @rx_pending_detached: none of them holds up a receive ring; owner only
 * @flags: enum rocev2_qp_flag
 * @inflight: packets in the hands of a device, acknowledgments not among them
 * @waiters: verbs that wait for ownership; runners step aside
 * @counters: where it counts: the port's, or those of the rdma_counter it is bound to. Anyone
 *	reads it under RCU; bind and unbind change it
 * @state: enum ib_qp_state; the owner writes, anyone may read
 * @qpn: our number
 * @serial: no other QP has had it; what windows of type 2 are bound to
 * @dest_qpn: the peer's
 * @mtu: payload bytes of a full packet
 * @mtu_shift: log2 of @mtu
 * @ip_id: IPv4 identification of the next packet
 * @tx_cpu: the packets in @inflight were sent from here
 * @path: header template
 * @tx: what is built and not handed over
 * @req: requester and completer
 * @sq: send queue
 * @recv: responder
 * @rq: receive queue; empty with @srq
 * @srq: shared receive queue, or NULL
 * @scq: completions of the send queue
 * @rcq: completions of the receive queue
 * @cache: key translation cache; owner only
 * @cache_mem: its storage
 * @fault: page faults of responder and requester (on-demand paging)
 * @flush_backoff: milliseconds to the next look for WQEs posted in the error state
 * @timer: fires at the earlier of ack_deadline and rnr_until; armed lazily
 * @timer_expires: when @timer will fire; 0 when it is not armed. Owner only
 * @dev: the device
 * @ibqp: the verbs object; valid for owners
 * @user: its rings are mapped into an application
 * @type: service type
 * @service: BTH opcode bits of the service, enum rocev2_service
 * @attr: attributes as set, for query_qp
 * @num_mcgs: multicast groups it is attached to (RTNL)
 * @users: see above
 * @idle: completed when @users drops to 0
 * @mem: see above
 * @rcu: frees the memory
 */
struct rocev2_qp {
	/* receive path, any CPU */
	atomic_t		sched;
	struct llist_node	ready;
	struct rocev2_rx_queue	rx_queue;
	struct list_head	rx_pending;
	bool			rx_pending_detached;
	unsigned long		flags;
	atomic_t		inflight;
	atomic_t		waiters;
	struct rocev2_counters __percpu *counters;

	/* owner */
	enum ib_qp_state	state ____cacheline_aligned;
	u32			qpn;
	u64			serial;
	u32			dest_qpn;
	u32			mtu;
	u32			mtu_shift;
	u16			ip_id;
	int			tx_cpu;
	struct rocev2_path	path;
	struct rocev2_tx	tx;
	struct rocev2_req	req;
	struct rocev2_sq	sq;
	struct rocev2_recv_qp	recv;
	struct rocev2_rq	rq;
	struct rocev2_srq	*srq;
	struct rocev2_cq	*scq;
	struct rocev2_cq	*rcq;
	struct rocev2_mr_cache	cache;
	void			*cache_mem;
	struct rocev2_fault	fault[ROCEV2_FAULT_SIDES];
	u32			flush_backoff;
	struct hrtimer		timer;
	ktime_t			timer_expires;

	/* verbs */
	struct rocev2_dev	*dev;
	struct ib_qp		*ibqp;
	bool			user;
	enum ib_qp_type		type;
	u8			service;
	struct ib_qp_attr	attr;
	u32			num_mcgs;
	refcount_t		users;
	struct completion	idle;
	struct kref		mem;
	struct rcu_head		rcu;
} __aligned(ROCEV2_TX_SEGS_MAX);

/**
 * struct rocev2_ib_qp - what ib_core allocates
 * @ibqp: the verbs object
 * @qp: the transport context; NULL once destroy_qp has begun
 * @lock: @qp, for netlink requests: up to 6.12 nothing keeps `rdma resource` and
 *	`rdma statistic` from running beside destroy_qp. Outside the QP's ownership
 */
struct rocev2_ib_qp {
	struct ib_qp		ibqp;
	struct rocev2_qp	*qp;
	struct mutex		lock;	/* qp */
};

static inline struct rocev2_qp *to_rocev2_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct rocev2_ib_qp, ibqp)->qp;
}

/* process context: keeps destroy_qp from beginning; NULL when it has already */
static inline struct rocev2_qp *rocev2_qp_lock(struct ib_qp *ibqp)
{
	struct rocev2_ib_qp *ib_qp = container_of(ibqp, struct rocev2_ib_qp, ibqp);

	mutex_lock(&ib_qp->lock);
	return ib_qp->qp;
}

static inline void rocev2_qp_unlock(struct ib_qp *ibqp)
{
	mutex_unlock(&container_of(ibqp, struct rocev2_ib_qp, ibqp)->lock);
}

/* under RCU (bottom halves off): one event of the QP */
static inline void rocev2_qp_count(const struct rocev2_qp *qp, enum rocev2_counter counter)
{
	this_cpu_inc(READ_ONCE(qp->counters)->value[counter]);
}

static inline void rocev2_qp_count_add(const struct rocev2_qp *qp, enum rocev2_counter counter,
				       u64 n)
{
	this_cpu_add(READ_ONCE(qp->counters)->value[counter], n);
}

/* verbs, process context */
int rocev2_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int rocev2_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata);
int rocev2_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init);
int rocev2_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

/* verbs, any context */
int rocev2_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad_wr);
int rocev2_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad_wr);

/* any context: there is work for the QP's owner */
void rocev2_qp_kick(struct rocev2_qp *qp);

/* process context, may sleep: become the owner; returns with bottom halves off */
void rocev2_qp_own(struct rocev2_qp *qp);
void rocev2_qp_disown(struct rocev2_qp *qp);

static inline void rocev2_qp_put(struct rocev2_qp *qp)
{
	if (refcount_dec_and_test(&qp->users))
		complete(&qp->idle);
}

void rocev2_qp_mem_release(struct kref *mem);

static inline void rocev2_qp_mem_put(struct rocev2_qp *qp)
{
	kref_put(&qp->mem, rocev2_qp_mem_release);
}

/* any context: run the QP now if nobody else does, else have it run */
void rocev2_qp_doorbell(struct rocev2_qp *qp);

/* owner: one turn of at most @budget packets; returns the packets handled */
int rocev2_qp_run(struct rocev2_qp *qp, int budget);
/* owner: to the error state; all outstanding WQEs flush */
void rocev2_qp_error(struct rocev2_qp *qp);
/* owner: a send WQE has failed: RC to the error state, others to send queue error */
void rocev2_qp_send_error(struct rocev2_qp *qp);
/* owner: an affiliated asynchronous event */
void rocev2_qp_event(struct rocev2_qp *qp, enum ib_event_type event);

static inline u32 rocev2_qp_state(const struct rocev2_qp *qp)
{
	return rocev2_qp_state_flags(READ_ONCE(qp->state));
}

#endif
