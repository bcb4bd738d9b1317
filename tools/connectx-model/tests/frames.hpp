// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Frames for the tests, written byte by byte and summed up in the plainest way. */
#pragma once

#include "data_path_fixture.hpp"

#include <string>

namespace cx {

/** "02 00 ab": bytes in hexadecimal, blanks between. */
inline Bytes Hex(const std::string &text)
{
    Bytes bytes;

    for (std::size_t at = 0; at + 1 < text.size();) {
        if (text[at] == ' ') {
            ++at;
            continue;
        }
        bytes.push_back(static_cast<std::byte>(std::stoul(text.substr(at, 2), nullptr, 16)));
        at += 2;
    }
    return bytes;
}

inline Bytes operator+(Bytes a, const Bytes &b)
{
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

inline Bytes Payload(std::size_t size, unsigned seed = 1)
{
    Bytes bytes;

    for (std::size_t i = 0; i < size; ++i)
        bytes.push_back(static_cast<std::byte>((i * 7 + seed + (i >> 8)) & 0xff));
    return bytes;
}

struct FrameSpec {
    bool ipv6 = false;
    bool udp = false;
    unsigned id = 0x1234;         /* IPv4 */
    std::uint32_t sequence = 1000; /* TCP */
    unsigned flags = 0x10;        /* TCP */
    std::string options = {};        /* TCP, hexadecimal, whole words */
    unsigned source_port = 0x1111, destination_port = 0x2222;
    Bytes vlan = {};                /* tags after the MAC addresses */
    bool checksums = true;        /* else zero */
};

/** A whole frame with right lengths and checksums. Addresses: 192.0.2.1 and .2, 2001:db8::1 and ::2. */
inline Bytes MakeFrame(const FrameSpec &spec, const Bytes &payload)
{
    const Bytes options = Hex(spec.options);
    Bytes l4(spec.udp ? 8 : 20);
    SetNumber(l4, 0, 2, spec.source_port);
    SetNumber(l4, 2, 2, spec.destination_port);
    if (!spec.udp) {
        SetNumber(l4, 4, 4, spec.sequence);
        SetNumber(l4, 8, 4, 0x55667788);
        SetNumber(l4, 12, 1, (20 + options.size()) / 4 << 4);
        SetNumber(l4, 13, 1, spec.flags);
        SetNumber(l4, 14, 2, 0x4000);
        l4 = l4 + options;
    }
    l4 = l4 + payload;
    if (spec.udp)
        SetNumber(l4, 4, 2, l4.size());
    const Bytes addresses = spec.ipv6 ? Hex("20010db8000000000000000000000001 20010db8000000000000000000000002") :
                                        Hex("c0000201 c0000202");
    const unsigned protocol = spec.udp ? 17 : 6;
    if (spec.checksums) {
        unsigned sum = ~PlainSum(l4, PlainSum(addresses, protocol + static_cast<unsigned>(l4.size()))) & 0xffff;

        if (spec.udp && sum == 0)
            sum = 0xffff;
        SetNumber(l4, spec.udp ? 6 : 16, 2, sum);
    }

    Bytes ip;
    if (spec.ipv6) {
        ip = Hex("60000000 0000 00 40");
        SetNumber(ip, 4, 2, l4.size());
        SetNumber(ip, 6, 1, protocol);
        ip = ip + addresses;
    } else {
        ip = Hex("45000000 0000 4000 40 00 0000") + addresses;
        SetNumber(ip, 2, 2, 20 + l4.size());
        SetNumber(ip, 4, 2, spec.id);
        SetNumber(ip, 9, 1, protocol);
        if (spec.checksums)
            SetNumber(ip, 10, 2, ~PlainSum(ip) & 0xffff);
    }
    return Hex("020000000002 020000000001") + spec.vlan + Hex(spec.ipv6 ? "86dd" : "0800") + ip + l4;
}

} // namespace cx
