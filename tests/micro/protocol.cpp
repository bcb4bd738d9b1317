// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The pure protocol files, as tests/unit has them. */
#include "kernel.hpp"
#include "operations.hpp"
#include "packets.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace micro {

namespace {

using rocev2::wire::Bytes;

constexpr std::size_t kUdpLength = 8;

std::size_t BthOffset(bool ipv6)
{
    return (ipv6 ? 40 : 20) + kUdpLength;
}

void AddPsn(Operations &operations)
{
    operations.Add(
        "psn/diff", [a = 0x000003U, b = 0xfffffeU] { return rocev2_psn_diff(a, b); }, Is<std::int32_t>(5));
    operations.Add(
        "psn/between", [psn = 0x000001U, first = 0xfffff0U, last = 0x00000fU] {
            return rocev2_psn_between(psn, first, last);
        },
        Is(true));
}

void AddBounds(Operations &operations)
{
    /* the last byte of the region, and the one behind it */
    operations.Add(
        "bounds/inside", [start = 0x1000ULL, length = 0x10000ULL, address = 0x10000ULL, bytes = 0x1000ULL] {
            return rocev2_mr_allows(IB_ACCESS_REMOTE_WRITE, IB_ACCESS_REMOTE_WRITE, start, length, address, bytes);
        },
        Is(ROCEV2_MR_OK));
    operations.Add(
        "bounds/outside", [start = 0x1000ULL, length = 0x10000ULL, address = 0x10000ULL, bytes = 0x1001ULL] {
            return rocev2_mr_allows(IB_ACCESS_REMOTE_WRITE, IB_ACCESS_REMOTE_WRITE, start, length, address, bytes);
        },
        Is(ROCEV2_MR_OUT_OF_BOUNDS));
    operations.Add(
        "bounds/block",
        [start = 0x7f0000001080ULL, first = 0x80ULL, shift = std::uint8_t{12}, address = 0x7f0000003123ULL] {
            const auto position = rocev2_block_pos(start, first, shift, address);

            return position.index << 32 | position.offset;
        },
        /* 0x2123 bytes behind the beginning of the first block */
        Is<u64>(2ULL << 32 | 0x123));
}

void AddOpcode(Operations &operations)
{
    operations.Add(
        "opcode", [opcode = std::uint8_t{ROCEV2_OP_WRITE_ONLY_IMM}] {
            const rocev2_opcode_info &info = rocev2_opcodes[opcode];

            return info.cls << 16 | info.hdr_len << 8 | info.imm_off;
        },
        /* BTH, RETH, immediate data */
        Is<int>(ROCEV2_CLASS_WRITE << 16 | (12 + 16 + 4) << 8 | (12 + 16)));
}

/* So many bytes of an IPv4 packet, from the BTH on. */
Bytes TransportHeaders(const rocev2::wire::Packet &packet, std::size_t length)
{
    const Bytes bytes = IpPacket(packet);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(BthOffset(false));

    return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

/* For `right`: these bytes are there. */
auto Starts(const Bytes &wanted)
{
    return [wanted](const std::uint8_t *bytes) { return std::memcmp(bytes, wanted.data(), wanted.size()) == 0; };
}

void AddHeaders(Operations &operations)
{
    constexpr std::size_t kWriteHeaders = sizeof(rocev2_bth) + sizeof(rocev2_reth);
    constexpr std::size_t kAckHeaders = sizeof(rocev2_bth) + sizeof(rocev2_aeth);
    constexpr std::uint64_t kAddress = 0x7f0123456789;
    constexpr std::uint32_t kKey = 0x00abcd12, kLength = 4096;
    constexpr std::uint32_t kMsn = 0x345678;

    /* what the wire selftests' builder makes of the same values */
    const Bytes write = TransportHeaders(WritePacket(false, kLength, kAddress, kKey), kWriteHeaders);
    const auto room = std::make_shared<std::array<std::uint8_t, kWriteHeaders>>();

    operations.Add(
        "build/write_only",
        [bytes = room->data(), room, qpn = kQpn, psn = kPsn, address = kAddress, key = kKey, length = kLength] {
            auto *bth = reinterpret_cast<rocev2_bth *>(bytes);
            auto *reth = reinterpret_cast<rocev2_reth *>(bth + 1);

            rocev2_bth_fill(bth, ROCEV2_OP_WRITE_ONLY, 0, false, true, qpn, psn);
            reth->va = cpu_to_be64(address);
            reth->rkey = cpu_to_be32(key);
            reth->len = cpu_to_be32(length);
            return bytes;
        },
        Starts(write));

    rocev2::wire::Packet ack = WritePacket(false, 0, 0, 0);
    ack.opcode = rocev2::wire::acknowledge;
    ack.ackreq = false;
    ack.extended = rocev2::wire::aeth(ROCEV2_AETH_ACK_UNLIMITED, kMsn);
    const Bytes acknowledge = TransportHeaders(ack, kAckHeaders);

    operations.Add(
        "build/ack",
        [bytes = room->data(), room, qpn = kQpn, psn = kPsn, syndrome = std::uint8_t{ROCEV2_AETH_ACK_UNLIMITED},
         msn = kMsn] {
            auto *bth = reinterpret_cast<rocev2_bth *>(bytes);

            rocev2_bth_fill(bth, ROCEV2_OP_ACK, 0, false, false, qpn, psn);
            rocev2_aeth_fill(reinterpret_cast<rocev2_aeth *>(bth + 1), syndrome, msn);
            return bytes;
        },
        Starts(acknowledge));
}

/* The ICRC of a whole packet, as who receives it computes it. */
void AddIcrc(Operations &operations, bool ipv6, std::size_t payload)
{
    const auto packet = std::make_shared<Bytes>(IpPacket(WritePacket(ipv6, payload, 0, 0)));
    const std::size_t covered = packet->size() - ROCEV2_ICRC_LEN;
    __le32 wanted = 0;

    std::memcpy(&wanted, packet->data() + covered, sizeof(wanted));
    operations.Add(
        fmt::format("icrc/{}/{}", ipv6 ? "ipv6" : "ipv4", payload),
        [packet, ip = packet->data(), from = BthOffset(ipv6) + sizeof(rocev2_bth), covered] {
            return rocev2_icrc_final(rocev2_crc32(rocev2_icrc_headers(ip), ip + from, covered - from));
        },
        Is(wanted), covered);
}

/* The CRC engine alone, to be told from what is ours. */
void AddCrc(Operations &operations)
{
    constexpr std::size_t kLength = 4096;
    const auto bytes = std::make_shared<Bytes>(kLength);

    for (std::size_t i = 0; i < kLength; i++)
        (*bytes)[i] = static_cast<std::uint8_t>(i * 13);
    operations.Add(
        "crc32/4096", [bytes, first = bytes->data(), length = kLength] { return ~rocev2_crc32(~0U, first, length); },
        Is(rocev2::wire::crc32(*bytes)), kLength);
}

} // namespace

void AddProtocol(Operations &operations)
{
    /* what the loop around each of them costs */
    operations.Add(
        "nothing", [answer = 1] { return answer; }, Is(1));
    AddPsn(operations);
    AddBounds(operations);
    AddOpcode(operations);
    AddHeaders(operations);
    for (const std::size_t payload : {0U, 64U, 256U, 1024U, 4096U})
        AddIcrc(operations, false, payload);
    AddIcrc(operations, true, 0);
    AddCrc(operations);
}

} // namespace micro
