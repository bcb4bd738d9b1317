// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The BTH opcode table (IBA table 38; RoCE v2's CNP from annex A17.9).
 *
 * Read by the receive stages and the requester for every packet, in any context;
 * constant. An opcode without a row is all zeros, which is ROCEV2_CLASS_NONE: RD and
 * XRC are services this transport does not offer, and the rest is reserved.
 */
#include "opcode.h"
#include "wire.h"

#define BTH	sizeof(struct rocev2_bth)
#define RETH	sizeof(struct rocev2_reth)
#define ATOMIC	sizeof(struct rocev2_atomiceth)
#define AETH	sizeof(struct rocev2_aeth)
#define ATACK	sizeof(struct rocev2_atomicacketh)
#define IMM	sizeof(struct rocev2_immdt)
#define IETH	sizeof(struct rocev2_ieth)
#define DETH	sizeof(struct rocev2_deth)
#define FETH	sizeof(struct rocev2_feth)

/* the CNP's body: 16 reserved bytes where other packets have extended headers */
#define CNP_RSVD	16

#define S	ROCEV2_F_START
#define E	ROCEV2_F_END
#define P	ROCEV2_F_PAYLOAD
#define R	ROCEV2_F_RESPONSE
#define W	ROCEV2_F_RECV_WQE

#define ROW(svc, op, text, class, flag_bits, len, imm)			\
	[ROCEV2_SVC_##svc | ROCEV2_OP_##op] = {				\
		.name = #svc " " text,					\
		.flags = (flag_bits),					\
		.cls = ROCEV2_CLASS_##class,				\
		.hdr_len = (len),					\
		.imm_off = (imm),					\
	}

const struct rocev2_opcode_info rocev2_opcodes[256] = {
	ROW(RC, SEND_FIRST, "SEND First", SEND,
	    S | P | W, BTH, 0),
	ROW(RC, SEND_MIDDLE, "SEND Middle", SEND,
	    P | W, BTH, 0),
	ROW(RC, SEND_LAST, "SEND Last", SEND,
	    E | P | W, BTH, 0),
	ROW(RC, SEND_LAST_IMM, "SEND Last with Immediate", SEND,
	    E | P | W | ROCEV2_F_IMMDT, BTH + IMM, BTH),
	ROW(RC, SEND_ONLY, "SEND Only", SEND,
	    S | E | P | W, BTH, 0),
	ROW(RC, SEND_ONLY_IMM, "SEND Only with Immediate", SEND,
	    S | E | P | W | ROCEV2_F_IMMDT, BTH + IMM, BTH),
	ROW(RC, WRITE_FIRST, "RDMA WRITE First", WRITE,
	    S | P | ROCEV2_F_RETH, BTH + RETH, 0),
	ROW(RC, WRITE_MIDDLE, "RDMA WRITE Middle", WRITE,
	    P, BTH, 0),
	ROW(RC, WRITE_LAST, "RDMA WRITE Last", WRITE,
	    E | P, BTH, 0),
	ROW(RC, WRITE_LAST_IMM, "RDMA WRITE Last with Immediate", WRITE,
	    E | P | W | ROCEV2_F_IMMDT, BTH + IMM, BTH),
	ROW(RC, WRITE_ONLY, "RDMA WRITE Only", WRITE,
	    S | E | P | ROCEV2_F_RETH, BTH + RETH, 0),
	ROW(RC, WRITE_ONLY_IMM, "RDMA WRITE Only with Immediate", WRITE,
	    S | E | P | W | ROCEV2_F_RETH | ROCEV2_F_IMMDT, BTH + RETH + IMM, BTH + RETH),
	ROW(RC, READ_REQ, "RDMA READ Request", READ_REQ,
	    S | E | ROCEV2_F_RETH, BTH + RETH, 0),
	ROW(RC, READ_RESP_FIRST, "RDMA READ response First", READ_RESP,
	    S | P | R | ROCEV2_F_AETH, BTH + AETH, 0),
	ROW(RC, READ_RESP_MIDDLE, "RDMA READ response Middle", READ_RESP,
	    P | R, BTH, 0),
	ROW(RC, READ_RESP_LAST, "RDMA READ response Last", READ_RESP,
	    E | P | R | ROCEV2_F_AETH, BTH + AETH, 0),
	ROW(RC, READ_RESP_ONLY, "RDMA READ response Only", READ_RESP,
	    S | E | P | R | ROCEV2_F_AETH, BTH + AETH, 0),
	ROW(RC, ACK, "Acknowledge", ACK,
	    S | E | R | ROCEV2_F_AETH, BTH + AETH, 0),
	ROW(RC, ATOMIC_ACK, "ATOMIC Acknowledge", ATOMIC_ACK,
	    S | E | R | ROCEV2_F_AETH | ROCEV2_F_ATOMICACK, BTH + AETH + ATACK, 0),
	ROW(RC, CMP_SWAP, "CmpSwap", ATOMIC,
	    S | E | ROCEV2_F_ATOMICETH, BTH + ATOMIC, 0),
	ROW(RC, FETCH_ADD, "FetchAdd", ATOMIC,
	    S | E | ROCEV2_F_ATOMICETH, BTH + ATOMIC, 0),
	ROW(RC, SEND_LAST_INV, "SEND Last with Invalidate", SEND,
	    E | P | W | ROCEV2_F_IETH, BTH + IETH, BTH),
	ROW(RC, SEND_ONLY_INV, "SEND Only with Invalidate", SEND,
	    S | E | P | W | ROCEV2_F_IETH, BTH + IETH, BTH),

	/* annex A19: answered by an empty READ response */
	ROW(RC, FLUSH, "FLUSH", FLUSH,
	    S | E | ROCEV2_F_FETH | ROCEV2_F_RETH, BTH + FETH + RETH, 0),
	ROW(RC, ATOMIC_WRITE, "ATOMIC WRITE", ATOMIC_WRITE,
	    S | E | P | ROCEV2_F_RETH, BTH + RETH, 0),

	ROW(UC, SEND_FIRST, "SEND First", SEND,
	    S | P | W, BTH, 0),
	ROW(UC, SEND_MIDDLE, "SEND Middle", SEND,
	    P | W, BTH, 0),
	ROW(UC, SEND_LAST, "SEND Last", SEND,
	    E | P | W, BTH, 0),
	ROW(UC, SEND_LAST_IMM, "SEND Last with Immediate", SEND,
	    E | P | W | ROCEV2_F_IMMDT, BTH + IMM, BTH),
	ROW(UC, SEND_ONLY, "SEND Only", SEND,
	    S | E | P | W, BTH, 0),
	ROW(UC, SEND_ONLY_IMM, "SEND Only with Immediate", SEND,
	    S | E | P | W | ROCEV2_F_IMMDT, BTH + IMM, BTH),
	ROW(UC, WRITE_FIRST, "RDMA WRITE First", WRITE,
	    S | P | ROCEV2_F_RETH, BTH + RETH, 0),
	ROW(UC, WRITE_MIDDLE, "RDMA WRITE Middle", WRITE,
	    P, BTH, 0),
	ROW(UC, WRITE_LAST, "RDMA WRITE Last", WRITE,
	    E | P, BTH, 0),
	ROW(UC, WRITE_LAST_IMM, "RDMA WRITE Last with Immediate", WRITE,
	    E | P | W | ROCEV2_F_IMMDT, BTH + IMM, BTH),
	ROW(UC, WRITE_ONLY, "RDMA WRITE Only", WRITE,
	    S | E | P | ROCEV2_F_RETH, BTH + RETH, 0),
	ROW(UC, WRITE_ONLY_IMM, "RDMA WRITE Only with Immediate", WRITE,
	    S | E | P | W | ROCEV2_F_RETH | ROCEV2_F_IMMDT, BTH + RETH + IMM, BTH + RETH),

	/* a datagram is one packet: no FIRST, MIDDLE or LAST, and nothing but SEND */
	ROW(UD, SEND_ONLY, "SEND Only", SEND,
	    S | E | P | W | ROCEV2_F_DETH, BTH + DETH, 0),
	ROW(UD, SEND_ONLY_IMM, "SEND Only with Immediate", SEND,
	    S | E | P | W | ROCEV2_F_DETH | ROCEV2_F_IMMDT, BTH + DETH + IMM, BTH + DETH),

	/*
	 * Known by name for tracing. Its class is NONE as long as no congestion
	 * control acts on it: a notification may always be ignored.
	 */
	[ROCEV2_SVC_CNP | 0x01] = {
		.name = "CNP",
		.flags = S | E | R,
		.cls = ROCEV2_CLASS_NONE,
		.hdr_len = BTH + CNP_RSVD,
	},
};
