/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * RoCE v2 on the wire: transport headers (InfiniBand Architecture Specification
 * volume 1, chapter 9) as they follow the UDP header (annex A17).
 *
 * Pure protocol: no kernel objects, compiled in user space by tests/unit as well.
 * All fields are big-endian and stay so until an accessor reads them.
 */
#ifndef ROCEV2_WIRE_H
#define ROCEV2_WIRE_H

#include <linux/types.h>
#include <linux/build_bug.h>
#include <asm/byteorder.h>

#define ROCEV2_UDP_DPORT	4791	/* IANA, annex A17.3.1.2 */
#define ROCEV2_ICRC_LEN		4
#define ROCEV2_QPN_MASK		0x00ffffffu
#define ROCEV2_PSN_MASK		0x00ffffffu
#define ROCEV2_MSN_MASK		0x00ffffffu
#define ROCEV2_DEFAULT_PKEY	0xffff

/* Base Transport Header, 9.2 */
struct rocev2_bth {
	u8	opcode;
	u8	flags;		/* SE, MigReq, PadCnt(2), TVer(4) */
	__be16	pkey;
	__be32	qpn;		/* FECN, BECN, resv6, DestQP(24) */
	__be32	apsn;		/* AckReq, resv7, PSN(24) */
} __packed;

#define ROCEV2_BTH_SE		0x80
#define ROCEV2_BTH_MIGREQ	0x40
#define ROCEV2_BTH_PAD_SHIFT	4
#define ROCEV2_BTH_PAD_MASK	0x30
#define ROCEV2_BTH_TVER_MASK	0x0f
#define ROCEV2_BTH_FECN		0x80000000u
#define ROCEV2_BTH_BECN		0x40000000u
#define ROCEV2_BTH_ACKREQ	0x80000000u

/* RDMA Extended Transport Header, 9.3.3 */
struct rocev2_reth {
	__be64	va;
	__be32	rkey;
	__be32	len;
} __packed;

/* Atomic Extended Transport Header, 9.3.4 */
struct rocev2_atomiceth {
	__be64	va;
	__be32	rkey;
	__be64	swap_add;
	__be64	compare;
} __packed;

/* ACK Extended Transport Header, 9.3.5: syndrome(8), MSN(24) */
struct rocev2_aeth {
	__be32	smsn;
} __packed;

/* Atomic ACK Extended Transport Header, 9.3.6 */
struct rocev2_atomicacketh {
	__be64	orig;
} __packed;

/* Immediate data, 9.3.7, and Invalidate Extended Transport Header, 9.3.8 */
struct rocev2_immdt {
	__be32	imm;
} __packed;

struct rocev2_ieth {
	__be32	rkey;
} __packed;

/* Datagram Extended Transport Header, 9.3.2 */
struct rocev2_deth {
	__be32	qkey;
	__be32	sqpn;		/* resv8, SrcQP(24) */
} __packed;

/* Flush Extended Transport Header, annex A19: resv26, selectivity level(2), placement type(4) */
struct rocev2_feth {
	__be32	bits;
} __packed;

/* placement types, any of them */
#define ROCEV2_FLUSH_GLOBAL	0x1u	/* what was written is visible to all */
#define ROCEV2_FLUSH_PERSISTENT	0x2u	/* ... and survives a loss of power */
#define ROCEV2_FLUSH_TYPES	0xfu
/* selectivity levels */
#define ROCEV2_FLUSH_RANGE	0u	/* the bytes that the RETH names */
#define ROCEV2_FLUSH_MR		1u	/* the whole region */
#define ROCEV2_FLUSH_LEVEL_SHIFT 4

static_assert(sizeof(struct rocev2_feth) == 4);
static_assert(sizeof(struct rocev2_bth) == 12);
static_assert(sizeof(struct rocev2_reth) == 16);
static_assert(sizeof(struct rocev2_atomiceth) == 28);
static_assert(sizeof(struct rocev2_aeth) == 4);
static_assert(sizeof(struct rocev2_atomicacketh) == 8);
static_assert(sizeof(struct rocev2_immdt) == 4);
static_assert(sizeof(struct rocev2_ieth) == 4);
static_assert(sizeof(struct rocev2_deth) == 8);

/*
 * AETH syndrome, table 47: bits 6:5 say which kind, bits 4:0 its value
 * (credit count code, RNR timer code, NAK code). Bit 7 is reserved.
 */
enum rocev2_aeth_syndrome {
	ROCEV2_AETH_ACK			= 0x00,
	ROCEV2_AETH_RNR_NAK		= 0x20,
	ROCEV2_AETH_NAK			= 0x60,
	ROCEV2_AETH_KIND_MASK		= 0x60,
	ROCEV2_AETH_VALUE_MASK		= 0x1f,
	/* ACK whose credit field is not valid: no end-to-end flow control */
	ROCEV2_AETH_ACK_UNLIMITED	= 0x1f,
	ROCEV2_AETH_NAK_PSN_SEQ		= 0x60,
	ROCEV2_AETH_NAK_INV_REQ		= 0x61,
	ROCEV2_AETH_NAK_REM_ACC		= 0x62,
	ROCEV2_AETH_NAK_REM_OP		= 0x63,
	ROCEV2_AETH_NAK_INV_RD		= 0x64,
};

static inline u32 rocev2_bth_qpn(const struct rocev2_bth *bth)
{
	return be32_to_cpu(bth->qpn) & ROCEV2_QPN_MASK;
}

static inline u32 rocev2_bth_psn(const struct rocev2_bth *bth)
{
	return be32_to_cpu(bth->apsn) & ROCEV2_PSN_MASK;
}

static inline bool rocev2_bth_ackreq(const struct rocev2_bth *bth)
{
	return be32_to_cpu(bth->apsn) & ROCEV2_BTH_ACKREQ;
}

static inline bool rocev2_bth_solicited(const struct rocev2_bth *bth)
{
	return bth->flags & ROCEV2_BTH_SE;
}

static inline u8 rocev2_bth_pad(const struct rocev2_bth *bth)
{
	return (bth->flags & ROCEV2_BTH_PAD_MASK) >> ROCEV2_BTH_PAD_SHIFT;
}

static inline u8 rocev2_bth_tver(const struct rocev2_bth *bth)
{
	return bth->flags & ROCEV2_BTH_TVER_MASK;
}

/**
 * rocev2_bth_fill() - write a BTH
 * @bth: where to; may be unaligned
 * @opcode: BTH opcode
 * @pad: pad bytes after the payload, 0..3
 * @solicited: set the solicited-event bit
 * @ackreq: ask for an acknowledgment
 * @qpn: destination QP, 24 bits
 * @psn: packet sequence number, 24 bits
 *
 * MigReq is 1 ("migrated"): the state a QP without automatic path migration is
 * always in (17.2.8.1); peers in hardware refuse packets without it.
 */
static inline void rocev2_bth_fill(struct rocev2_bth *bth, u8 opcode, u8 pad, bool solicited,
				   bool ackreq, u32 qpn, u32 psn)
{
	bth->opcode = opcode;
	bth->flags = (solicited ? ROCEV2_BTH_SE : 0) | ROCEV2_BTH_MIGREQ |
		     (u8)(pad << ROCEV2_BTH_PAD_SHIFT);
	bth->pkey = cpu_to_be16(ROCEV2_DEFAULT_PKEY);
	bth->qpn = cpu_to_be32(qpn & ROCEV2_QPN_MASK);
	bth->apsn = cpu_to_be32((psn & ROCEV2_PSN_MASK) | (ackreq ? ROCEV2_BTH_ACKREQ : 0));
}

static inline u8 rocev2_aeth_syndrome(const struct rocev2_aeth *aeth)
{
	return be32_to_cpu(aeth->smsn) >> 24;
}

static inline u32 rocev2_aeth_msn(const struct rocev2_aeth *aeth)
{
	return be32_to_cpu(aeth->smsn) & ROCEV2_MSN_MASK;
}

static inline void rocev2_aeth_fill(struct rocev2_aeth *aeth, u8 syndrome, u32 msn)
{
	aeth->smsn = cpu_to_be32(((u32)syndrome << 24) | (msn & ROCEV2_MSN_MASK));
}

#endif
