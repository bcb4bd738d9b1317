// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The fuzz target, for libFuzzer and for the GoogleTest loop alike.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
