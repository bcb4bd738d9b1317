/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * BTH opcodes (IBA table 38): one row of rocev2_opcodes[] holds all that is
 * known of an opcode. Pure, tested in tests/unit.
 */
#ifndef ROCEV2_OPCODE_H
#define ROCEV2_OPCODE_H

#include <linux/types.h>

/* opcode bits 7:5 name the service, bits 4:0 the operation */
enum rocev2_service {
	ROCEV2_SVC_RC	= 0x00,
	ROCEV2_SVC_UC	= 0x20,
	ROCEV2_SVC_RD	= 0x40,
	ROCEV2_SVC_UD	= 0x60,
	ROCEV2_SVC_CNP	= 0x80,
	ROCEV2_SVC_XRC	= 0xa0,
	ROCEV2_SVC_MASK	= 0xe0,
};

enum rocev2_operation {
	ROCEV2_OP_SEND_FIRST		= 0x00,
	ROCEV2_OP_SEND_MIDDLE		= 0x01,
	ROCEV2_OP_SEND_LAST		= 0x02,
	ROCEV2_OP_SEND_LAST_IMM		= 0x03,
	ROCEV2_OP_SEND_ONLY		= 0x04,
	ROCEV2_OP_SEND_ONLY_IMM		= 0x05,
	ROCEV2_OP_WRITE_FIRST		= 0x06,
	ROCEV2_OP_WRITE_MIDDLE		= 0x07,
	ROCEV2_OP_WRITE_LAST		= 0x08,
	ROCEV2_OP_WRITE_LAST_IMM	= 0x09,
	ROCEV2_OP_WRITE_ONLY		= 0x0a,
	ROCEV2_OP_WRITE_ONLY_IMM	= 0x0b,
	ROCEV2_OP_READ_REQ		= 0x0c,
	ROCEV2_OP_READ_RESP_FIRST	= 0x0d,
	ROCEV2_OP_READ_RESP_MIDDLE	= 0x0e,
	ROCEV2_OP_READ_RESP_LAST	= 0x0f,
	ROCEV2_OP_READ_RESP_ONLY	= 0x10,
	ROCEV2_OP_ACK			= 0x11,
	ROCEV2_OP_ATOMIC_ACK		= 0x12,
	ROCEV2_OP_CMP_SWAP		= 0x13,
	ROCEV2_OP_FETCH_ADD		= 0x14,
	ROCEV2_OP_SEND_LAST_INV		= 0x16,
	ROCEV2_OP_SEND_ONLY_INV		= 0x17,
	ROCEV2_OP_FLUSH			= 0x1c,
	ROCEV2_OP_ATOMIC_WRITE		= 0x1d,
};

/* what a packet of this opcode belongs to */
enum rocev2_op_class {
	ROCEV2_CLASS_NONE,		/* not a known opcode: drop */
	ROCEV2_CLASS_SEND,
	ROCEV2_CLASS_WRITE,
	ROCEV2_CLASS_READ_REQ,
	ROCEV2_CLASS_ATOMIC,
	ROCEV2_CLASS_FLUSH,
	ROCEV2_CLASS_ATOMIC_WRITE,
	/* the rest goes to the completer */
	ROCEV2_CLASS_READ_RESP,
	ROCEV2_CLASS_ACK,
	ROCEV2_CLASS_ATOMIC_ACK,
};

enum rocev2_opcode_flags {
	ROCEV2_F_START		= 1 << 0,	/* first or only packet of a message */
	ROCEV2_F_END		= 1 << 1,	/* last or only packet of a message */
	ROCEV2_F_PAYLOAD	= 1 << 2,	/* may carry payload */
	ROCEV2_F_RESPONSE	= 1 << 3,	/* from responder to requester */
	ROCEV2_F_RETH		= 1 << 4,
	ROCEV2_F_ATOMICETH	= 1 << 5,
	ROCEV2_F_AETH		= 1 << 6,
	ROCEV2_F_ATOMICACK	= 1 << 7,
	ROCEV2_F_IMMDT		= 1 << 8,
	ROCEV2_F_IETH		= 1 << 9,
	ROCEV2_F_DETH		= 1 << 10,
	ROCEV2_F_RECV_WQE	= 1 << 11,	/* the message consumes a receive WQE */
	ROCEV2_F_FETH		= 1 << 12,
};

/**
 * struct rocev2_opcode_info - all that is known of one BTH opcode
 * @name: as the specification spells it; NULL in rows of unknown opcodes
 * @flags: enum rocev2_opcode_flags
 * @cls: what the packet belongs to
 * @hdr_len: transport header bytes from the BTH to the payload
 * @imm_off: offset of ImmDt or IETH from the BTH; 0 when there is none
 */
struct rocev2_opcode_info {
	const char		*name;
	u16			flags;
	u8			cls;
	u8			hdr_len;
	u8			imm_off;
};

extern const struct rocev2_opcode_info rocev2_opcodes[256];

#endif
