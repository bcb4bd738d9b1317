// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Receive: a frame from the wire, and what a receive queue makes of it. Which queue: steering.cpp, rss.cpp. */
#include "datapath.hpp"
#include "rss.hpp"

#include <algorithm>

namespace cx {
namespace {

constexpr std::size_t kMaxSegments = 64; /* of a receive WQE that are looked at */
constexpr std::size_t kFcs = 4;
constexpr std::uint64_t kCacheLine = 64;
constexpr std::size_t kShift = 2; /* wq.two_byte_shift_en: so that what follows the Ethernet header is aligned */

std::uint8_t HeaderTypes(const Packet &packet)
{
    std::uint8_t l3 = 0, l4 = 0;

    if (packet.ip_version != 0)
        l3 = packet.ip_version == 4 ? kCqeIpv4 : kCqeIpv6;
    if (packet.Udp()) {
        l4 = kCqeUdp;
    } else if (packet.Tcp()) {
        const bool ack = (Load8(packet.frame, packet.l4 + 13) & 0x10) != 0;
        const bool data = packet.l4 + packet.l4_header < packet.end;

        l4 = !ack ? kCqeTcpNoAck : data ? kCqeTcpAckData : kCqeTcpAck;
    }
    return l3 | l4;
}

std::uint8_t ChecksOk(const Packet &packet)
{
    std::uint8_t ok = kCqeL2Ok;

    if (packet.l3_valid)
        ok |= kCqeL3Ok;
    if (packet.l4 != 0 && L4ChecksumValid(packet))
        ok |= kCqeL4Ok;
    return ok;
}

} // namespace

void DataPath::Receive(std::span<const std::byte> frame)
{
    PortCounters &port = objects_.port;

    if (!objects_.link_up || !objects_.admin_up) {
        ++port.rx_link_down;
        return;
    }
    if (frame.size() < kEthernetHeader)
        return;
    if (frame.size() + kFcs > objects_.port_mtu) {
        ++port.rx_oversize;
        return;
    }
    ++port.rx_packets;
    port.rx_bytes += frame.size();
    if (std::all_of(frame.begin(), frame.begin() + 6, [](std::byte byte) { return byte == std::byte{0xff}; }))
        ++port.rx_broadcast;
    else if ((frame[0] & std::byte{1}) != std::byte{0})
        ++port.rx_multicast;
    Steer(Parse(frame));
}

void DataPath::Deliver(const Packet &packet, std::uint32_t number, std::uint32_t flow_tag)
{
    const auto tir = objects_.tirs.find(number);
    RssResult rss;

    if (tir == objects_.tirs.end()) {
        trace_.Complain("packet for TIR {}, which is not there", number);
        return;
    }
    std::uint32_t rq = tir->second.rq;
    if (tir->second.indirect) {
        const auto rqt = objects_.rqts.find(tir->second.rqt);

        if (rqt == objects_.rqts.end() || rqt->second.rqs.empty()) {
            trace_.Complain("TIR {}: RQT {} is not there or empty", number, tir->second.rqt);
            return;
        }
        rss = RssHash(tir->second, packet);
        rq = rqt->second.rqs[rss.hash % rqt->second.rqs.size()];
    }
    const auto found = objects_.rqs.find(rq);
    if (found == objects_.rqs.end()) {
        trace_.Complain("TIR {}: RQ {} is not there", number, rq);
        return;
    }
    ReceiveInto(found->second, packet, flow_tag, rss.hash, rss.type);
}

std::uint16_t DataPath::RqOutstanding(const Rq &rq)
{
    std::uint32_t counter = 0;

    if (!ReadRecord(rq.doorbell_record + kReceiveRecord, counter))
        return 0;
    const auto posted = static_cast<std::uint16_t>(counter - rq.consumed);
    if (posted <= rq.ring.Entries())
        return posted;
    trace_.Complain("RQ {}: {} WQEs posted to a ring of {}", rq.number, posted, rq.ring.Entries());
    return 0;
}

void DataPath::CountOutOfBuffer(Rq &rq)
{
    const auto counter = objects_.q_counters.find(rq.counter_set);

    ++rq.out_of_buffer;
    if (counter != objects_.q_counters.end())
        ++counter->second.out_of_buffer;
}

void DataPath::ReceiveInto(Rq &rq, const Packet &packet, std::uint32_t flow_tag, std::uint32_t hash,
                           std::uint8_t hash_type)
{
    if (rq.state != WqState::kReady)
        return;
    if (RqOutstanding(rq) == 0) {
        CountOutOfBuffer(rq);
        return;
    }

    auto frame = packet.frame;
    const bool strip = rq.vlan_strip && packet.tags != 0 && packet.tpid == kEthertypeVlan;
    if (strip) {
        constexpr std::size_t kAddresses = 12;
        const auto rest = frame.subspan(kAddresses + kVlanTag);

        received_.assign(frame.begin(), frame.begin() + kAddresses);
        received_.insert(received_.end(), rest.begin(), rest.end());
        frame = received_;
    }
    unsigned strides = 0;
    if (rq.striding && !FindStrides(rq, frame.size(), strides))
        return;
    const std::size_t skip = rq.striding ? std::size_t{rq.stride} << rq.log_wqe_stride_size : 0;
    const Syndrome syndrome = Scatter(rq, frame, skip + (rq.two_byte_shift ? kShift : 0));
    if (syndrome != Syndrome::kOk) {
        FailRq(rq, syndrome);
        return;
    }

    const std::uint64_t now = Timestamp();
    Cqe cqe;
    cqe.rss_hash_result = hash;
    cqe.rss_hash_type = hash_type;
    /* All that IP says there is, from its header on: padding is not in it (cqe_checksum_full is not offered). */
    cqe.check_sum = Sum(packet.frame.subspan(packet.l3, packet.end - packet.l3));
    cqe.flags_rqpn = rq.number;
    cqe.hds_ip_ext = ChecksOk(packet);
    cqe.l4_l3_hdr_type = HeaderTypes(packet);
    if (strip) {
        cqe.l4_l3_hdr_type |= kCqeVlan;
        cqe.vlan_info = packet.tci;
    }
    cqe.srqn = rq.user_index & 0xffffff;
    cqe.byte_cnt = static_cast<std::uint32_t>(frame.size());
    cqe.wqe_counter = rq.consumed;
    if (rq.striding)
        TakeStrides(rq, strides, cqe);
    else
        ++rq.consumed;
    cqe.timestamp_h = static_cast<std::uint32_t>(now >> 32);
    cqe.timestamp_l = static_cast<std::uint32_t>(now);
    cqe.sop_drop_qpn = flow_tag & 0xffffff;
    cqe.op_own = kCqeReceive << 4;
    ++rq.packets;
    rq.bytes += frame.size();
    PostReceive(rq, cqe);
}

/* False: it could not be written, which leaves the queue in error. */
bool DataPath::PostReceive(Rq &rq, const Cqe &cqe)
{
    if (PostCqe(rq.cq, std::as_bytes(std::span<const Cqe, 1>(&cqe, 1)), false))
        return true;
    rq.state = WqState::kError;
    PostWqEvent(kQueueRq, rq.number);
    return false;
}

/*
 * Strides that lie next to each other for `size` bytes. If the WQE in use has too few left, a completion of its own
 * passes over them and the next WQE takes the packet. False: dropped, or the queue is in error.
 */
bool DataPath::FindStrides(Rq &rq, std::size_t size, unsigned &strides)
{
    const unsigned all = 1U << rq.log_wqe_strides;
    const std::size_t stride_size = std::size_t{1} << rq.log_wqe_stride_size;

    if (rq.two_byte_shift)
        size += kShift;
    strides = static_cast<unsigned>((size + stride_size - 1) / stride_size);
    if (strides > all) {
        FailRq(rq, Syndrome::kLocalLength);
        return false;
    }
    if (strides <= all - rq.stride)
        return true;
    Cqe filler;
    filler.byte_cnt = kFillerStrides;
    filler.op_own = kCqeReceive << 4;
    TakeStrides(rq, all - rq.stride, filler);
    if (!PostReceive(rq, filler))
        return false;
    if (RqOutstanding(rq) != 0)
        return true;
    CountOutOfBuffer(rq);
    return false;
}

/* Into the CQE: which strides of which WQE. */
void DataPath::TakeStrides(Rq &rq, unsigned strides, Cqe &cqe)
{
    cqe.wqe_id = static_cast<std::uint16_t>(rq.consumed & (rq.ring.Entries() - 1));
    cqe.wqe_counter = static_cast<std::uint16_t>(rq.stride);
    cqe.byte_cnt = cqe.byte_cnt | static_cast<std::uint32_t>(strides) << 16;
    rq.stride += strides;
    if (rq.stride >> rq.log_wqe_strides != 0) {
        rq.stride = 0;
        ++rq.consumed;
    }
}

/* Into the data segments of the WQE that is next, `skip` bytes into what they hold together. */
Syndrome DataPath::Scatter(const Rq &rq, std::span<const std::byte> frame, std::size_t skip)
{
    const std::size_t segments =
        std::min(kMaxSegments, (std::size_t{1} << rq.ring.log_stride) / sizeof(DataSegment));
    const std::uint64_t wqe = std::uint64_t{rq.consumed} << rq.ring.log_stride;

    for (std::size_t i = 0; i < segments && !frame.empty(); ++i) {
        std::array<std::byte, sizeof(DataSegment)> bytes = {};

        if (!ReadMemory(rq.ring.Address(wqe + i * sizeof(DataSegment)), bytes))
            return Syndrome::kLocalProtection;
        const auto segment = Load<DataSegment>(bytes);
        const std::size_t whole = segment.byte_count & ~kInlineSegment; /* the bit: MLX5_HW_START_PADDING */
        if (whole == 0 && segment.lkey == kTerminatingKey)
            break;
        if (whole <= skip) {
            skip -= whole;
            continue;
        }
        const std::size_t room = whole - skip, take = std::min(room, frame.size());
        std::uint64_t address = segment.address + skip;
        skip = 0;
        if (!WriteByKey(rq.pd, segment.lkey, address, frame.first(take)))
            return Syndrome::kLocalProtection;
        frame = frame.subspan(take);
        address += take;
        if (!frame.empty() || !rq.end_padding)
            continue;
        /* whole cache lines, which spares the memory a read; never past the buffer */
        static constexpr std::array<std::byte, kCacheLine> kZeros = {};
        const auto padding = std::min<std::uint64_t>((kCacheLine - address % kCacheLine) % kCacheLine, room - take);
        if (padding != 0 && !WriteByKey(rq.pd, segment.lkey, address, std::span(kZeros).first(padding)))
            return Syndrome::kLocalProtection;
    }
    return frame.empty() ? Syndrome::kOk : Syndrome::kLocalLength;
}

/* The WQE that is next completes with `syndrome`, the others are flushed. */
bool DataPath::FailRq(Rq &rq, Syndrome syndrome)
{
    trace_.Complain("RQ {}: error, syndrome {:#x}", rq.number, static_cast<unsigned>(syndrome));
    return StopRq(rq, syndrome);
}

bool DataPath::StopRq(Rq &rq, Syndrome syndrome)
{
    rq.state = WqState::kError;
    const std::uint16_t wqe = rq.consumed++;
    rq.stride = 0;
    const bool told = PostErrorCqe(rq.cq, kCqeReceiveError, syndrome, rq.number, rq.user_index & 0xffffff, wqe);
    if (!told)
        PostWqEvent(kQueueRq, rq.number);
    if (rq.flush_in_error)
        FlushRq(rq);
    return told;
}

void DataPath::FlushRq(Rq &rq)
{
    for (std::uint16_t left = RqOutstanding(rq); left != 0; --left) {
        const std::uint16_t wqe = rq.consumed++;

        if (!PostErrorCqe(rq.cq, kCqeReceiveError, Syndrome::kFlushed, rq.number, rq.user_index & 0xffffff, wqe))
            return;
    }
}

void DataPath::RqStateChanged(Rq &rq)
{
    switch (rq.state) {
    case WqState::kReset:
        rq.consumed = 0;
        rq.stride = 0;
        break;
    case WqState::kError:
        if (rq.flush_in_error)
            FlushRq(rq);
        break;
    case WqState::kReady:
        break;
    }
}

void DataPath::RqError(Rq &rq)
{
    if (rq.state == WqState::kError)
        return;
    trace_.Note("RQ {}: error, as asked for", rq.number);
    const bool posted = RqOutstanding(rq) != 0;
    rq.state = WqState::kError;
    if (!posted || StopRq(rq, Syndrome::kLocalOperation))
        PostWqEvent(kQueueRq, rq.number);
}

} // namespace cx
