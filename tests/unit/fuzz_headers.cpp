// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Any bytes as a received packet: read every header that the opcode table promises, from memory
// that ends where the packet ends. The sanitizers catch a read beyond; the checks here catch a
// table that promises more than its own header length, and fields that exceed their width.
#include "fuzz_headers.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernel.hpp"

namespace {

void require(bool holds, const char* what)
{
    if (holds)
        return;
    std::fprintf(stderr, "fuzz: %s\n", what);
    std::abort();
}

/* reads a header at @offset and moves on, within the bytes the table reserved */
template <typename Header>
Header take(const std::uint8_t* bth, std::size_t& offset, std::size_t hdr_len)
{
    require(offset + sizeof(Header) <= hdr_len, "an extended header lies beyond hdr_len");
    Header h;
    std::memcpy(&h, bth + offset, sizeof(h));
    offset += sizeof(Header);
    return h;
}

std::uint64_t walk(const std::uint8_t* bytes, const rocev2_opcode_info& op)
{
    std::uint64_t sum = 0;
    std::size_t at = sizeof(rocev2_bth);

    if (op.flags & ROCEV2_F_DETH)
        sum += be32_to_cpu(take<rocev2_deth>(bytes, at, op.hdr_len).qkey);
    if (op.flags & ROCEV2_F_FETH)
        sum += be32_to_cpu(take<rocev2_feth>(bytes, at, op.hdr_len).bits);
    if (op.flags & ROCEV2_F_RETH) {
        const auto reth = take<rocev2_reth>(bytes, at, op.hdr_len);
        const std::uint64_t va = be64_to_cpu(reth.va);
        const std::uint32_t len = be32_to_cpu(reth.len);
        if (rocev2_bounds_ok(0x10000, 0x10000, va, len)) {
            require(va >= 0x10000 && va + len <= 0x20000, "bounds let a wild access pass");
            const auto pos = rocev2_block_pos(0x10000, 0x123, 12, va);
            require(pos.offset < 4096 && pos.index <= rocev2_block_count(0x123, 0x10000, 12),
                    "block position out of its table");
        }
        sum += va + len;
    }
    if (op.flags & ROCEV2_F_ATOMICETH)
        sum += be64_to_cpu(take<rocev2_atomiceth>(bytes, at, op.hdr_len).compare);
    if (op.flags & ROCEV2_F_AETH) {
        const auto aeth = take<rocev2_aeth>(bytes, at, op.hdr_len);
        require(rocev2_aeth_msn(&aeth) <= ROCEV2_MSN_MASK, "MSN wider than 24 bits");
        require(rocev2_rnr_timer_ns(rocev2_aeth_syndrome(&aeth) & ROCEV2_AETH_VALUE_MASK) <= 655'360'000,
                "RNR timer above 655.36 ms");
    }
    if (op.flags & ROCEV2_F_ATOMICACK)
        sum += be64_to_cpu(take<rocev2_atomicacketh>(bytes, at, op.hdr_len).orig);
    if (op.flags & (ROCEV2_F_IMMDT | ROCEV2_F_IETH)) {
        require(at == op.imm_off, "imm_off is not where ImmDt or IETH lies");
        sum += be32_to_cpu(take<rocev2_immdt>(bytes, at, op.hdr_len).imm);
    }
    if (op.cls != ROCEV2_CLASS_NONE)
        require(at == op.hdr_len, "the headers do not add up to hdr_len");
    return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size < 1)
        return 0;
    // a heap copy of the exact size, so that one byte too far is seen
    const auto packet = std::make_unique<std::uint8_t[]>(size);
    std::memcpy(packet.get(), data, size);

    const std::size_t ip = packet[0] >> 4 == 4 ? 20 : 40;
    const std::size_t to_bth = ip + 8;
    if (size < to_bth + sizeof(rocev2_bth))
        return 0;

    rocev2_bth bth;
    std::memcpy(&bth, packet.get() + to_bth, sizeof(bth));
    require(rocev2_bth_qpn(&bth) <= ROCEV2_QPN_MASK, "QPN wider than 24 bits");
    require(rocev2_bth_psn(&bth) <= ROCEV2_PSN_MASK, "PSN wider than 24 bits");
    require(rocev2_bth_pad(&bth) <= 3, "more than three pad bytes");
    require(rocev2_bth_tver(&bth) <= 15, "TVer wider than 4 bits");
    const std::uint32_t psn = rocev2_bth_psn(&bth);
    require(rocev2_psn_diff(rocev2_psn_add(psn, 5), psn) == 5, "PSN arithmetic lost five");

    const auto& op = rocev2_opcodes[bth.opcode];
    if (op.cls == ROCEV2_CLASS_NONE)
        return 0;
    const std::size_t need = op.hdr_len + rocev2_bth_pad(&bth) + std::size_t{ROCEV2_ICRC_LEN};
    if (size - to_bth < need)
        return 0;

    const std::uint64_t sum = walk(packet.get() + to_bth, op);
    std::uint32_t crc = rocev2_icrc_headers(packet.get());
    crc = rocev2_crc32(crc, packet.get() + to_bth + sizeof(bth),
                       size - to_bth - sizeof(bth) - ROCEV2_ICRC_LEN);
    // keep the reads: a result nobody uses could be optimized away
    const volatile std::uint64_t sink = sum + crc;
    (void)sink;
    return 0;
}
