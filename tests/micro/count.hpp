// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What who counts instructions and who reads the counts agree on. */
#pragma once

#include <cstddef>

namespace micro {

/* Operations that are counted together. A multiple of what those with inputs in turn go through. */
constexpr std::size_t kCounted = 1024;

} // namespace micro
