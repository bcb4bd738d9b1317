// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Where the card's lines go. */
#include "trace.hpp"

#include <cstdio>

namespace cx {

void Trace::Write(std::string_view line)
{
    /* one call, so that lines of two models on one terminal do not mix */
    fmt::print(stderr, "{}\n", line);
}

} // namespace cx
