// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A fuzzer's bytes, taken from the front; past the end all is zero and empty. */
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace cx {

class FuzzInput {
public:
    explicit FuzzInput(std::span<const std::uint8_t> bytes) : bytes_(bytes)
    {
    }

    bool Empty() const
    {
        return bytes_.empty();
    }
    std::uint8_t Byte()
    {
        return Take<std::uint8_t>();
    }
    template <typename T> T Take()
    {
        const auto bytes = Bytes(sizeof(T));
        T value = {};

        if (!bytes.empty())
            std::memcpy(&value, bytes.data(), bytes.size());
        return value;
    }
    std::vector<std::byte> Bytes(std::size_t size)
    {
        const auto taken = bytes_.first(std::min(size, bytes_.size()));
        const auto bytes = std::as_bytes(taken);

        bytes_ = bytes_.subspan(taken.size());
        return {bytes.begin(), bytes.end()};
    }

private:
    std::span<const std::uint8_t> bytes_;
};

} // namespace cx
