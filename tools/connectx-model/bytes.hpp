// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Big-endian numbers, as the card and the wire have them, wherever they lie. */
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace cx {

/** A big-endian number in a layout: no alignment, no padding. */
template <typename T> class BigEndian {
public:
    BigEndian() = default;
    BigEndian(T value)
    {
        *this = value;
    }
    BigEndian &operator=(T value)
    {
        for (std::size_t i = 0; i < sizeof(T); ++i)
            bytes_[i] = static_cast<std::uint8_t>(value >> (8 * (sizeof(T) - 1 - i)));
        return *this;
    }
    operator T() const
    {
        T value = 0;

        for (const std::uint8_t byte : bytes_)
            value = static_cast<T>(static_cast<std::uint64_t>(value) << 8 | byte);
        return value;
    }

private:
    std::array<std::uint8_t, sizeof(T)> bytes_ = {};
};

using Be16 = BigEndian<std::uint16_t>;
using Be32 = BigEndian<std::uint32_t>;
using Be64 = BigEndian<std::uint64_t>;

/** A layout from the bytes at `offset`, which the caller knows to be there. */
template <typename T> T Load(std::span<const std::byte> bytes, std::size_t offset = 0)
{
    T value;

    std::memcpy(static_cast<void *>(&value), bytes.subspan(offset, sizeof(T)).data(), sizeof(T));
    return value;
}

template <typename T> void Store(std::span<std::byte> bytes, std::size_t offset, const T &value)
{
    std::memcpy(bytes.subspan(offset, sizeof(T)).data(), static_cast<const void *>(&value), sizeof(T));
}

inline std::uint8_t Load8(std::span<const std::byte> bytes, std::size_t offset)
{
    return std::to_integer<std::uint8_t>(bytes[offset]);
}

inline std::uint16_t Load16(std::span<const std::byte> bytes, std::size_t offset)
{
    return Load<Be16>(bytes, offset);
}

inline std::uint32_t Load32(std::span<const std::byte> bytes, std::size_t offset)
{
    return Load<Be32>(bytes, offset);
}

inline void Store8(std::span<std::byte> bytes, std::size_t offset, std::uint8_t value)
{
    bytes[offset] = std::byte{value};
}

inline void Store16(std::span<std::byte> bytes, std::size_t offset, std::uint16_t value)
{
    Store(bytes, offset, Be16(value));
}

inline void Store32(std::span<std::byte> bytes, std::size_t offset, std::uint32_t value)
{
    Store(bytes, offset, Be32(value));
}

} // namespace cx
