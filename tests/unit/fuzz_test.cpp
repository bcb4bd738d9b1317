// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The fuzz target without libFuzzer: a fixed seed, random bytes shaped enough to get past the
// first checks, and every opcode with every length around what it needs.
#include "fuzz_headers.hpp"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace {

TEST(Fuzz, EveryOpcodeAtEveryLength)
{
    for (const int version : {0x45, 0x60})
        for (int opcode = 0; opcode < 256; opcode++)
            for (int pad = 0; pad < 4; pad++)
                for (std::size_t size = 0; size < 120; size++) {
                    std::vector<std::uint8_t> p(size, 0xa5);
                    const std::size_t bth = version == 0x45 ? 28 : 48;
                    if (size > 0)
                        p[0] = static_cast<std::uint8_t>(version);
                    if (size > bth + 1) {
                        p[bth] = static_cast<std::uint8_t>(opcode);
                        p[bth + 1] = static_cast<std::uint8_t>(pad << 4);
                    }
                    ASSERT_EQ(LLVMFuzzerTestOneInput(p.data(), p.size()), 0);
                }
}

TEST(Fuzz, RandomPackets)
{
    std::mt19937 random(4791);
    std::vector<std::uint8_t> p;
    for (int i = 0; i < 300'000; i++) {
        p.resize(random() % 160);
        for (auto& byte : p)
            byte = static_cast<std::uint8_t>(random());
        if (!p.empty() && random() % 8)
            p[0] = random() % 2 ? 0x45 : 0x60;
        ASSERT_EQ(LLVMFuzzerTestOneInput(p.data(), p.size()), 0);
    }
}

}  // namespace
