// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A send WQE as sq.cpp fetches and segmentation.cpp sends it. */
#pragma once

#include "datapath.hpp"

namespace cx {

constexpr std::size_t kBasicBlock = 64, kSegmentUnit = 16;
constexpr std::size_t kMaxWqe = 63 * kSegmentUnit; /* as much as the control segment can tell */
constexpr std::size_t kMinFrame = 60;   /* IEEE 802.3: shorter ones are padded on the wire */
constexpr std::size_t kMaxLsoData = 256 * 1024;

struct DataPath::Wqe {
    ControlSegment control;
    std::uint8_t opcode = 0;
    std::uint16_t index = 0;  /* of the first basic block, as the queue counts */
    std::uint16_t blocks = 1;
    std::size_t size = 0;     /* of `bytes` */
    std::array<std::byte, (kMaxWqe + kBasicBlock - 1) / kBasicBlock * kBasicBlock> bytes = {};

    std::span<const std::byte> Bytes() const
    {
        return std::span(bytes).first(size);
    }
};

} // namespace cx
