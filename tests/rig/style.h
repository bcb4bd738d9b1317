// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Checks of the source itself, and the unit tests. */
#pragma once

#include "suite.h"

namespace rig {

/* checkpatch, and for each kernel a build with W=1 and sparse; prints KTAP. */
Totals CheckStyle(const fs::path &checkout, const std::vector<Kernel> &kernels);

/* tests/unit, when there is one; prints its own output on failure. */
Totals RunUnitTests(const fs::path &checkout);

/* tests/micro: prints the tables of times and of instructions; 0 if all answers were right. */
int RunMicro(const fs::path &checkout);

} // namespace rig
