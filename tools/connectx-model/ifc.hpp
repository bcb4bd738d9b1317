// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Fields by the layouts of linux/mlx5/mlx5_ifc.h: there, `u8 name[n]` in a struct *_bits is a field of n bits, and its
 * offset in bytes is the field's in bits from the most significant bit of the first big-endian dword.
 * The header is found in KERNEL_HEADERS/include/linux/mlx5 (a system include directory of the build).
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

/* What the header takes from the kernel. */
#ifndef BIT
#define BIT(n) (1UL << (n))
#endif
#ifndef BIT_ULL
#define BIT_ULL(n) (1ULL << (n))
#endif
#ifndef DECLARE_FLEX_ARRAY
#define DECLARE_FLEX_ARRAY(type, name) type name[0]
#endif

namespace cx {

namespace ifc {
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
/* A flexible array in the midst of a structure is no C++; the model has no use for it: a pointer instead. */
#define record (*record)
#include <mlx5_ifc.h>
#undef record
#pragma GCC diagnostic pop
} // namespace ifc

/** Where a field lies: bits from the start of its structure. */
struct Field {
    std::size_t at;
    std::size_t bits;
};

/** Field `field` (members and array elements too) of struct mlx5_ifc_<type>_bits. */
#define CX_FIELD(type, field)                                                                        \
    (cx::Field{ offsetof(cx::ifc::mlx5_ifc_##type##_bits, field),                                    \
                sizeof(reinterpret_cast<cx::ifc::mlx5_ifc_##type##_bits *>(0x1000)->field) })
/** Bytes from the start of the structure to `field`, which may be a list without a size. */
#define CX_AT(type, field) (offsetof(cx::ifc::mlx5_ifc_##type##_bits, field) / 8)
/** Bytes of struct mlx5_ifc_<type>_bits. */
#define CX_SIZE(type) (sizeof(cx::ifc::mlx5_ifc_##type##_bits) / 8)

#define CX_GET(from, type, field) cx::GetField(from, CX_FIELD(type, field))
#define CX_SET(into, type, field, value) cx::SetField(into, CX_FIELD(type, field), value)
/** The bytes of a structure within another (which begins at a byte); past the end: empty. */
#define CX_PART(of, type, field) cx::Part(of, CX_FIELD(type, field))

/** Of at most 64 bits. What lies past the end of `from` reads as zero. */
inline std::uint64_t GetField(std::span<const std::byte> from, Field field)
{
    std::uint64_t value = 0;

    for (std::size_t bit = field.at; bit < field.at + field.bits;) {
        const std::size_t in_byte = bit % 8;
        const std::size_t take = in_byte == 0 && field.at + field.bits - bit >= 8 ?
                                         8 :
                                         std::size_t{ 8 } - in_byte < field.at + field.bits - bit ?
                                         std::size_t{ 8 } - in_byte :
                                         field.at + field.bits - bit;
        const auto byte = bit / 8 < from.size() ? std::to_integer<unsigned>(from[bit / 8]) : 0U;

        value = value << take | (byte >> (8 - in_byte - take) & ((1U << take) - 1));
        bit += take;
    }
    return value;
}

/** The field's low bits of `value`. What lies past the end of `into` is dropped. */
inline void SetField(std::span<std::byte> into, Field field, std::uint64_t value)
{
    for (std::size_t left = field.bits; left != 0;) {
        const std::size_t last = field.at + left - 1; /* the least significant bit not written yet */
        const std::size_t end = last % 8 + 1;
        const std::size_t take = end < left ? end : left;
        const auto mask = static_cast<unsigned>(((1U << take) - 1) << (8 - end));

        if (last / 8 < into.size()) {
            const auto old = std::to_integer<unsigned>(into[last / 8]);

            into[last / 8] = static_cast<std::byte>((old & ~mask) |
                                                    (static_cast<unsigned>(value << (8 - end)) & mask));
        }
        value = take < 64 ? value >> take : 0;
        left -= take;
    }
}

template <typename Byte> std::span<Byte> Part(std::span<Byte> of, Field field)
{
    const std::size_t first = field.at / 8;

    if (first >= of.size())
        return {};
    return of.subspan(first, field.bits / 8 < of.size() - first ? field.bits / 8 : of.size() - first);
}

/** From a structure that begins at a byte to the end: it has a list at its end. */
template <typename Byte> std::span<Byte> Rest(std::span<Byte> of, Field field)
{
    return of.subspan(field.at / 8 < of.size() ? field.at / 8 : of.size());
}

} // namespace cx
