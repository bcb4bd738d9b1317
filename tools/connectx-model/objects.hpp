// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What the driver has made in the card. The command interface (commands*.cpp) creates, modifies and destroys;
 * the data path (eq.cpp, cq.cpp, sq.cpp, rq.cpp, steering.cpp, rss.cpp) works on it. Plain data: what is checked once,
 * when a command comes in, is not checked again.
 */
#pragma once

#include "timers.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cx {

constexpr unsigned kPageSize = 4096;

/** A ring of 2^log_entries entries of 2^log_stride bytes in pages of 2^log_page bytes. */
struct Ring {
    unsigned log_entries = 0;
    unsigned log_stride = 0;
    unsigned log_page = 12;
    std::uint32_t first_offset = 0; /* of entry 0 in the first page, bytes */
    std::vector<std::uint64_t> pages;

    std::uint32_t Entries() const
    {
        return 1U << log_entries;
    }
    /** DMA address of byte `offset` of the ring; it wraps at the ring's end. */
    std::uint64_t Address(std::uint64_t offset) const
    {
        const std::uint64_t at = first_offset + (offset & ((std::uint64_t{1} << (log_entries + log_stride)) - 1));

        return pages[at >> log_page] + (at & ((std::uint64_t{1} << log_page) - 1));
    }
};

struct Eq {
    std::uint32_t number = 0;
    std::uint32_t uar = 0;
    Ring ring;                         /* 64 bytes an entry */
    unsigned vector = 0;               /* MSI-X */
    std::array<std::uint64_t, 4> events = {}; /* bit n of word n / 64: event type n goes here */
    std::uint32_t producer = 0;
    std::uint32_t consumer = 0;        /* as the last doorbell said, 24 bits */
    bool armed = false;
    bool overrun = false;
};

enum class CqState { kFiring, kArmed, kArmedSolicited, kError };

struct Cq {
    std::uint32_t number = 0;
    Ring ring;                         /* 64 or 128 bytes an entry, see cqe_128 */
    bool cqe_128 = false;
    std::uint32_t eq = 0;
    std::uint32_t uar = 0;
    std::uint64_t doorbell_record = 0; /* DMA address: word 0 consumer index, word 1 arm */
    bool ignore_overrun = false;
    unsigned period_us = 0;            /* moderation; 0: none */
    unsigned max_count = 0;            /* 0: none */
    bool period_from_cqe = false;      /* the timer restarts with every CQE; else it runs from the first event */
    std::uint32_t producer = 0;
    CqState state = CqState::kFiring;
    unsigned arm_sequence = 0;
    std::uint32_t armed_consumer = 0;  /* consumer index given when it was armed */
    unsigned unreported = 0;           /* CQEs since the last event */
    Timers::Id timer = 0;
    std::uint64_t completions = 0;
    std::uint64_t events_sent = 0;
    /* the data path's own */
    std::uint32_t consumer = 0;        /* as the doorbell record said when it was last read */
    std::uint32_t solicited_end = 0;   /* producer index after the last solicited or error CQE */
    Clock::time_point since = {};      /* the period runs from here */
    Clock::time_point timer_at = {};   /* when `timer` is due */
};

enum class WqState { kReset = 0, kReady = 1, kError = 3 }; /* values of rqc.state and sqc.state */

struct Sq {
    std::uint32_t number = 0;
    Ring ring;                         /* of 64-byte basic blocks */
    std::uint32_t cq = 0;
    std::uint32_t pd = 0;
    std::uint32_t tis = 0;
    std::uint32_t uar = 0;
    std::uint64_t doorbell_record = 0; /* word 1 is the send counter */
    unsigned min_inline_mode = 0;
    WqState state = WqState::kReset;
    std::uint16_t done = 0;            /* basic blocks executed, as the send counter counts */
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
};

struct Rq {
    std::uint32_t number = 0;
    Ring ring;                         /* cyclic; entries of 2^log_stride bytes hold data segments */
    bool striding = false;             /* WQE of 2^log_wqe_strides strides of 2^log_wqe_stride_size bytes */
    unsigned log_wqe_strides = 0;
    unsigned log_wqe_stride_size = 0;
    bool two_byte_shift = false;
    bool end_padding = false;
    bool vlan_strip = false;
    bool flush_in_error = false;
    std::uint32_t cq = 0;
    std::uint32_t pd = 0;
    std::uint32_t counter_set = 0;
    std::uint32_t user_index = 0;
    std::uint64_t doorbell_record = 0; /* word 0 is the receive counter */
    WqState state = WqState::kReset;
    std::uint16_t consumed = 0;
    unsigned stride = 0;               /* next free stride of the WQE in use (striding) */
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
    std::uint64_t out_of_buffer = 0;
};

struct Mkey {
    std::uint32_t key = 0;             /* index << 8 | variant */
    std::uint32_t pd = 0;
    bool physical = false;             /* access mode PA: the address is the DMA address */
    bool length64 = false;             /* all of the address space */
    bool local_write = false;
    bool local_read = false;
    std::uint64_t start = 0;
    std::uint64_t length = 0;
    unsigned log_page = 12;
    std::vector<std::uint64_t> pages;  /* MTT */
    bool free = false;                 /* made without translation; a UMR would fill it in */
};

struct Tis {
    std::uint32_t number = 0;
    std::uint32_t transport_domain = 0;
    unsigned priority = 0;
};

struct Rqt {
    std::uint32_t number = 0;
    std::vector<std::uint32_t> rqs;
    unsigned max_size = 0;
};

enum class RssFunction { kNone = 0, kXor8 = 1, kToeplitz = 2 }; /* values of tirc.rx_hash_fn */

struct Tir {
    std::uint32_t number = 0;
    std::uint32_t transport_domain = 0;
    bool indirect = false;             /* else straight to `rq` */
    std::uint32_t rq = 0;
    std::uint32_t rqt = 0;
    RssFunction function = RssFunction::kNone;
    bool symmetric = false;
    std::array<std::uint8_t, 40> toeplitz_key = {};
    bool ipv6 = false;                 /* rx_hash_field_selector_outer.l3_prot_type */
    bool udp = false;                  /* l4_prot_type */
    std::uint32_t fields = 0;          /* selected_fields: bit 0 src IP, 1 dst IP, 2 L4 sport, 3 L4 dport, 4 SPI */
    unsigned self_loopback_block = 0;
};

/** fte_match_param as the command carries it, and its enabled parts. */
constexpr std::size_t kMatchBytes = 512;
using MatchBytes = std::array<std::uint8_t, kMatchBytes>;

struct FlowDestination {
    enum class Kind { kTir, kTable } kind = Kind::kTir;
    std::uint32_t id = 0;
};

struct FlowEntry {
    std::uint32_t index = 0;
    std::uint32_t group = 0;
    MatchBytes value = {};
    std::uint32_t action = 0;          /* bits of flow_context.action */
    std::uint32_t flow_tag = 0;
    std::vector<FlowDestination> destinations;
    std::vector<std::uint32_t> counters;
};

struct FlowGroup {
    std::uint32_t number = 0;
    std::uint32_t start = 0, end = 0;  /* flow indexes, both included */
    std::uint8_t criteria = 0;         /* match_criteria_enable */
    MatchBytes mask = {};
};

struct FlowTable {
    std::uint32_t number = 0;
    unsigned type = 0;                 /* 0: NIC receive, 1: NIC transmit, ... */
    unsigned level = 0;
    unsigned log_size = 0;
    /* when nothing matches: table_miss_action 0 default (drop), 1 go to the table `miss_table` */
    unsigned miss_action = 0;
    std::uint32_t miss_table = 0;
    std::map<std::uint32_t, FlowGroup> groups;
    std::map<std::uint32_t, FlowEntry> entries; /* by flow index: the order of precedence */
};

struct FlowCounter {
    std::uint64_t packets = 0;
    std::uint64_t bytes = 0;
};

struct QCounter {
    std::uint64_t out_of_buffer = 0;
};

/** Of the port, as PPCNT and QUERY_VPORT_COUNTER tell. */
struct PortCounters {
    std::uint64_t rx_packets = 0, rx_bytes = 0, rx_multicast = 0, rx_broadcast = 0;
    std::uint64_t tx_packets = 0, tx_bytes = 0, tx_multicast = 0, tx_broadcast = 0;
    std::uint64_t rx_steering_drops = 0; /* no rule wanted it */
    std::uint64_t rx_link_down = 0;
    std::uint64_t rx_oversize = 0;
    std::uint64_t dma_errors = 0;      /* an address that is not mapped, or a key that does not cover it */
};

struct Vport {
    std::array<std::uint8_t, 6> permanent_mac = {};
    unsigned mtu = 1500;
    bool promiscuous_all = false, promiscuous_unicast = false, promiscuous_multicast = false;
    std::vector<std::array<std::uint8_t, 6>> unicast, multicast;
    std::vector<std::uint16_t> vlans;
    bool disable_local_unicast = false, disable_local_multicast = false;
    bool roce_enabled = false;
};

enum class FunctionState { kDisabled, kEnabled, kInitialized };

struct Objects {
    FunctionState function = FunctionState::kDisabled;
    std::set<std::uint64_t> pages_given;          /* 4 KiB pages of the guest that the card holds */
    std::set<std::uint32_t> uars, pds, transport_domains;
    std::map<std::uint32_t, Mkey> mkeys;          /* by index */
    std::map<std::uint32_t, Eq> eqs;
    std::map<std::uint32_t, Cq> cqs;
    std::map<std::uint32_t, Sq> sqs;
    std::map<std::uint32_t, Rq> rqs;
    std::map<std::uint32_t, Tis> tises;
    std::map<std::uint32_t, Rqt> rqts;
    std::map<std::uint32_t, Tir> tirs;
    std::map<std::uint32_t, FlowTable> tables;
    std::map<std::uint32_t, FlowCounter> flow_counters;
    std::map<std::uint32_t, QCounter> q_counters;
    std::map<unsigned, std::uint32_t> root_tables; /* by table type */
    /* Count up with every change of a table, group or entry: the data path keeps an index of them, built anew then. */
    std::uint64_t steering_generation = 0;
    Vport vport;
    PortCounters port;
    bool link_up = true;                           /* the wire */
    bool admin_up = true;                          /* PAOS */
    unsigned port_mtu = 1522;                      /* PMTU: of a frame with its header and FCS */
    unsigned issi = 0;                             /* version of the command interface in use */
    bool command_signatures = false;               /* commands carry signatures: cmd_hca_cap.cmdif_checksum */
    std::string driver_version;
    std::map<std::uint32_t, std::uint32_t> counter_bulks; /* flow counters allocated at once: first number, how many */
};

} // namespace cx
