// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What a send WQE puts on the wire: data gathered, checksums filled in, large sends cut into segments. */
#include "send.hpp"

#include <algorithm>

namespace cx {
namespace {

constexpr std::size_t kIpv4Length = 2, kIpv4Id = 4, kIpv6Length = 4, kIpv6HeaderSize = 40;
constexpr std::size_t kTcpSequence = 4, kTcpFlags = 13, kUdpLength = 4;
constexpr std::uint8_t kTcpFin = 0x01, kTcpPsh = 0x08, kTcpCwr = 0x80;

std::size_t RoundUp(std::size_t size)
{
    return (size + kSegmentUnit - 1) / kSegmentUnit * kSegmentUnit;
}

std::size_t InlineSize(const EthernetSegment &ethernet)
{
    const std::uint16_t size = ethernet.inline_size;

    return (size & kInsertVlan) != 0 ? 0U : size;
}

/* Make `frame`, which has the send's headers, segment `number`, whose payload begins `offset` bytes into the send's. */
void PatchHeaders(Packet packet, std::span<std::byte> frame, std::uint16_t number, std::size_t offset, bool last)
{
    const auto ip = frame.subspan(packet.l3);
    const auto l4 = frame.subspan(packet.l4);

    packet.frame = frame;
    packet.end = frame.size();
    if (packet.ip_version == 4) {
        Store16(ip, kIpv4Length, static_cast<std::uint16_t>(ip.size()));
        Store16(ip, kIpv4Id, static_cast<std::uint16_t>(Load16(ip, kIpv4Id) + number));
        FillL3Checksum(packet, frame);
    } else {
        Store16(ip, kIpv6Length, static_cast<std::uint16_t>(ip.size() - kIpv6HeaderSize));
    }
    if (packet.Tcp()) {
        std::uint8_t flags = Load8(l4, kTcpFlags);

        if (!last)
            flags = static_cast<std::uint8_t>(flags & ~(kTcpFin | kTcpPsh));
        if (number != 0)
            flags = static_cast<std::uint8_t>(flags & ~kTcpCwr); /* RFC 3168: once */
        Store8(l4, kTcpFlags, flags);
        Store32(l4, kTcpSequence, Load32(l4, kTcpSequence) + static_cast<std::uint32_t>(offset));
    } else {
        Store16(l4, kUdpLength, static_cast<std::uint16_t>(l4.size()));
    }
    FillL4Checksum(packet, frame);
}

} // namespace

/* Inline header and data segments into gathered_. */
Syndrome DataPath::Gather(const Sq &sq, const Wqe &wqe, const EthernetSegment &ethernet, std::size_t limit)
{
    const auto bytes = wqe.Bytes();
    const std::size_t inline_size = InlineSize(ethernet);
    std::size_t at = sizeof(ControlSegment) + sizeof(EthernetSegment);

    gathered_.clear();
    if (inline_size != 0) {
        constexpr std::size_t kStart = sizeof(ControlSegment) + kInlineHeaderOffset;

        if (kStart + inline_size > bytes.size())
            return Syndrome::kLocalLength;
        const auto header = bytes.subspan(kStart, inline_size);
        gathered_.assign(header.begin(), header.end());
        at = std::max(at, RoundUp(kStart + inline_size));
    }
    while (at < bytes.size()) {
        const auto segment = Load<DataSegment>(bytes, at);
        const std::uint32_t count = segment.byte_count;
        const std::size_t have = gathered_.size();

        if ((count & kInlineSegment) != 0) {
            const std::size_t length = count & kInlineSegmentLength;

            if (sizeof(Be32) + length > bytes.size() - at || length > limit - have)
                return Syndrome::kLocalLength;
            const auto data = bytes.subspan(at + sizeof(Be32), length);
            gathered_.insert(gathered_.end(), data.begin(), data.end());
            at += RoundUp(sizeof(Be32) + length);
            continue;
        }
        if (count == 0 || count > limit - have)
            return Syndrome::kLocalLength;
        gathered_.resize(have + count);
        if (!ReadByKey(sq.pd, segment.lkey, segment.address, std::span(gathered_).subspan(have)))
            return Syndrome::kLocalProtection;
        at += sizeof(DataSegment);
    }
    return Syndrome::kOk;
}

Syndrome DataPath::SendOne(Sq &sq, const Wqe &wqe, const EthernetSegment &ethernet)
{
    const Syndrome syndrome = Gather(sq, wqe, ethernet, kMaxFrame);

    if (syndrome != Syndrome::kOk)
        return syndrome;
    if (gathered_.size() < kEthernetHeader)
        return Syndrome::kLocalLength;
    if ((ethernet.checksum_flags & kChecksumInner) != 0 ||
        (ethernet.inline_size & (kInsertVlan | kInsertTrailer)) == kInsertTrailer)
        return Syndrome::kLocalOperation; /* tunnels and IPsec are not offered */
    if (sq.min_inline_mode != 0 && InlineSize(ethernet) < kEthernetHeader)
        return Syndrome::kLocalOperation;
    if ((ethernet.checksum_flags & (kChecksumL3 | kChecksumL4)) != 0) {
        const Packet packet = Parse(gathered_);

        if ((ethernet.checksum_flags & kChecksumL3) != 0)
            FillL3Checksum(packet, gathered_);
        if ((ethernet.checksum_flags & kChecksumL4) != 0)
            FillL4Checksum(packet, gathered_);
    }
    Transmit(sq, ethernet, gathered_);
    return Syndrome::kOk;
}

Syndrome DataPath::SendSegments(Sq &sq, const Wqe &wqe, const EthernetSegment &ethernet)
{
    const std::size_t header_size = InlineSize(ethernet), mss = ethernet.mss;
    const Syndrome syndrome = Gather(sq, wqe, ethernet, header_size + kMaxLsoData);

    if (syndrome != Syndrome::kOk)
        return syndrome;
    if (header_size < kEthernetHeader || mss == 0 || (ethernet.checksum_flags & kChecksumInner) != 0 ||
        (ethernet.inline_size & kInsertTrailer) != 0)
        return Syndrome::kLocalOperation;
    const auto header = std::span<const std::byte>(gathered_).first(header_size);
    const auto data = std::span<const std::byte>(gathered_).subspan(header_size);
    const Packet packet = Parse(header, IpLength::kFrame);
    if (packet.l4 == 0 || packet.l4 + packet.l4_header != header_size)
        return Syndrome::kLocalOperation;
    if (header_size + std::min(mss, data.size()) > kMaxFrame)
        return Syndrome::kLocalLength;

    std::uint16_t number = 0;
    std::size_t offset = 0;
    do {
        const auto part = data.subspan(offset, std::min(mss, data.size() - offset));

        segment_.assign(header.begin(), header.end());
        segment_.insert(segment_.end(), part.begin(), part.end());
        PatchHeaders(packet, segment_, number, offset, offset + part.size() == data.size());
        Transmit(sq, ethernet, segment_);
        ++number;
        offset += part.size();
    } while (offset < data.size());
    return Syndrome::kOk;
}

void DataPath::Transmit(Sq &sq, const EthernetSegment &ethernet, std::vector<std::byte> &frame)
{
    if ((ethernet.inline_size & kInsertVlan) != 0) {
        constexpr auto kAddresses = std::ptrdiff_t{12};
        std::array<std::byte, kVlanTag> tag = {};

        Store16(tag, 0, (ethernet.inline_size & kInsertServiceVlan) != 0 ? kEthertypeServiceVlan : kEthertypeVlan);
        Store16(tag, 2, ethernet.tci);
        frame.insert(frame.begin() + kAddresses, tag.begin(), tag.end());
    }
    if (frame.size() < kMinFrame)
        frame.resize(kMinFrame);
    ++sq.packets;
    sq.bytes += frame.size();
    if (!objects_.link_up || !objects_.admin_up)
        return;
    PortCounters &port = objects_.port;
    ++port.tx_packets;
    port.tx_bytes += frame.size();
    if (std::all_of(frame.begin(), frame.begin() + 6, [](std::byte byte) { return byte == std::byte{0xff}; }))
        ++port.tx_broadcast;
    else if ((frame[0] & std::byte{1}) != std::byte{0})
        ++port.tx_multicast;
    wire_.Send(frame);
}

} // namespace cx
