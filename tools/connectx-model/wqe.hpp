// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What lies in the rings: event queue entries, completions and work requests. mlx5_ifc.h does not have them; the facts
 * are those of the structures in linux/mlx5/device.h (EQE, CQE) and linux/mlx5/qp.h (send and receive WQE).
 */
#pragma once

#include "bytes.hpp"

namespace cx {

/** struct mlx5_eqe. The owner bit, lowest of the last byte, is that of the index over the ring's size. */
struct Eqe {
    std::uint8_t reserved0 = 0;
    std::uint8_t type = 0;
    std::uint8_t reserved1 = 0;
    std::uint8_t subtype = 0;
    std::array<std::uint8_t, 28> reserved2 = {};
    std::array<Be32, 7> data = {}; /* as the type has it */
    Be16 reserved3;
    std::uint8_t signature = 0;
    std::uint8_t owner = 0;
};
static_assert(sizeof(Eqe) == 64);

/* Words of Eqe::data. */
constexpr std::size_t kEqeCommandVector = 0;  /* mlx5_eqe_cmd */
constexpr std::size_t kEqeCqErrorNumber = 0;  /* mlx5_eqe_cq_err */
constexpr std::size_t kEqeCqErrorSyndrome = 2; /* its low byte */
constexpr std::size_t kEqePort = 2;           /* mlx5_eqe_port_state: the number in bits 31..28 */
constexpr std::size_t kEqeWqType = 5;         /* mlx5_eqe_qp_srq: bits 31..24 */
constexpr std::size_t kEqeWqNumber = 6;
constexpr std::size_t kEqeCompletion = 6;     /* mlx5_eqe_comp */

/* MLX5_PORT_CHANGE_SUBTYPE_*, MLX5_EVENT_QUEUE_TYPE_* */
constexpr std::uint8_t kPortDown = 1, kPortActive = 4;
constexpr std::uint8_t kQueueRq = 1, kQueueSq = 2;

/** struct mlx5_cqe64. */
struct Cqe {
    Be16 reserved0;
    Be16 wqe_id;                     /* striding receive queues: the WQE, wqe_counter being the stride */
    std::array<std::uint8_t, 8> reserved1 = {}; /* LRO */
    Be32 rss_hash_result;
    std::uint8_t rss_hash_type = 0;
    std::array<std::uint8_t, 3> reserved2 = {};
    Be16 check_sum;
    Be16 slid;
    Be32 flags_rqpn;
    std::uint8_t hds_ip_ext = 0;     /* kCqeL2Ok and so on */
    std::uint8_t l4_l3_hdr_type = 0; /* 6..4 kind of L4, 3..2 kind of L3, 0: a VLAN tag was taken out */
    Be16 vlan_info;                  /* that tag's TCI */
    Be32 srqn;                       /* 23..0: the user index, as the CQE's version is 1 */
    Be32 ft_metadata;
    Be32 reserved3;
    Be32 byte_cnt;                   /* striding: 31..16 as struct mpwrq_cqe_bc has it */
    Be32 timestamp_h;
    Be32 timestamp_l;
    Be32 sop_drop_qpn; /* receive: 23..0 flow tag; send: 31..24 the WQE's opcode, 23..0 the queue */
    Be16 wqe_counter;
    std::uint8_t signature = 0;
    std::uint8_t op_own = 0; /* 7..4 opcode, 0 owner */
};
static_assert(sizeof(Cqe) == 64);
static_assert(offsetof(Cqe, hds_ip_ext) == 28 && offsetof(Cqe, byte_cnt) == 44 && offsetof(Cqe, op_own) == 63);

/** struct mlx5_err_cqe. */
struct ErrorCqe {
    std::array<std::uint8_t, 32> reserved0 = {};
    Be32 srqn;
    std::array<std::uint8_t, 18> reserved1 = {};
    std::uint8_t vendor_syndrome = 0;
    std::uint8_t syndrome = 0;
    Be32 wqe_opcode_qpn; /* as Cqe::sop_drop_qpn of a send */
    Be16 wqe_counter;
    std::uint8_t signature = 0;
    std::uint8_t op_own = 0;
};
static_assert(sizeof(ErrorCqe) == 64);
static_assert(offsetof(ErrorCqe, syndrome) == 55 && offsetof(ErrorCqe, wqe_counter) == 60);

/* MLX5_CQE_*: opcodes */
constexpr std::uint8_t kCqeSend = 0, kCqeReceive = 2, kCqeSendError = 13, kCqeReceiveError = 14;
/* mpwrq_cqe_bc: 31 no packet, 30..16 strides that are used up */
constexpr std::uint32_t kFillerStrides = 1U << 31;
/* CQE_L*_OK */
constexpr std::uint8_t kCqeL2Ok = 1, kCqeL3Ok = 2, kCqeL4Ok = 4;
/* l4_l3_hdr_type: MLX5_CQE_ROCE_L3_HEADER_TYPE_* and CQE_L4_HDR_TYPE_* at their place */
constexpr std::uint8_t kCqeVlan = 1, kCqeIpv6 = 1 << 2, kCqeIpv4 = 2 << 2;
constexpr std::uint8_t kCqeTcpNoAck = 1 << 4, kCqeUdp = 2 << 4, kCqeTcpAck = 3 << 4, kCqeTcpAckData = 4 << 4;

/** MLX5_CQE_SYNDROME_* */
enum class Syndrome : std::uint8_t {
    kOk = 0,
    kLocalLength = 0x01,
    kLocalOperation = 0x02,
    kLocalProtection = 0x04,
    kFlushed = 0x05,
};

/** struct mlx5_wqe_ctrl_seg. */
struct ControlSegment {
    Be32 opmod_idx_opcode; /* 31..24 modifier, 23..8 index of the WQE's first basic block, 7..0 opcode */
    Be32 qpn_ds;           /* 31..8 the queue, 5..0 length in 16 bytes */
    std::uint8_t signature = 0;
    std::array<std::uint8_t, 2> reserved = {};
    std::uint8_t fm_ce_se = 0; /* 3..2: when a completion is wanted; 1: solicited */
    Be32 general;
};
static_assert(sizeof(ControlSegment) == 16);

/* MLX5_OPCODE_* */
constexpr std::uint8_t kOpcodeNop = 0x00, kOpcodeSend = 0x0a, kOpcodeLso = 0x0e;
constexpr std::uint8_t kCompletionAlways = 2; /* MLX5_WQE_CTRL_CQ_UPDATE; 3 is that with an event */

/** struct mlx5_wqe_eth_seg, but for the inline header's first bytes that its last two are. */
struct EthernetSegment {
    Be32 parser_offsets;
    std::uint8_t checksum_flags = 0; /* kChecksum* */
    std::uint8_t parser_flags = 0;
    Be16 mss;
    Be32 metadata;
    Be16 inline_size; /* or kInsertVlan, kInsertServiceVlan */
    Be16 tci;         /* of the tag to insert */
};
static_assert(sizeof(EthernetSegment) == 16);
constexpr std::size_t kInlineHeaderOffset = 14; /* in the Ethernet segment */

/* MLX5_ETH_WQE_* */
constexpr std::uint8_t kChecksumL3 = 1 << 6, kChecksumL4 = 1 << 7, kChecksumInner = 3 << 4;
constexpr std::uint16_t kInsertVlan = 1 << 15, kInsertTrailer = 1 << 14, kInsertServiceVlan = 1 << 0;

/** struct mlx5_wqe_data_seg. */
struct DataSegment {
    Be32 byte_count; /* bit 31, send: the data itself follows, MLX5_WQE_INLINE_SEG_BYTE_COUNT_MASK of it */
    Be32 lkey;
    Be64 address;
};
static_assert(sizeof(DataSegment) == 16);
constexpr std::uint32_t kInlineSegment = 1U << 31, kInlineSegmentLength = 0x3ff;
constexpr std::uint32_t kTerminatingKey = 0x100; /* MLX5_INVALID_LKEY: a receive's list ends here */

/* Doorbell records: bytes from their start. MLX5_RCV_DBR, MLX5_SND_DBR; a CQ's: consumer index, arm */
constexpr std::uint64_t kReceiveRecord = 0, kSendRecord = 4, kConsumerRecord = 0;

} // namespace cx
