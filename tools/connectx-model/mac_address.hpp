// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* MAC addresses as people write them. */
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cx {

using MacAddress = std::array<std::uint8_t, 6>;

/** Six pairs of hexadecimal digits with colons between; nothing if `text` is anything else. */
inline std::optional<MacAddress> ParseMac(std::string_view text)
{
    constexpr std::size_t kDigits = 2;
    MacAddress mac = {};

    if (text.size() != 17)
        return std::nullopt;
    for (std::size_t i = 0; i < mac.size(); ++i) {
        const char *first = text.data() + i * 3;
        const auto [end, error] = std::from_chars(first, first + kDigits, mac[i], 16);

        if (error != std::errc() || end != first + kDigits || (i + 1 < mac.size() && *end != ':'))
            return std::nullopt;
    }
    return mac;
}

} // namespace cx
