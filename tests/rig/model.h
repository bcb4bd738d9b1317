// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Builds tools/connectx-model, out of tree. */
#pragma once

#include "process.h"

namespace rig {

/*
 * Its build directory, configured with the sanitizers: what a guest's driver makes it do wrong is to be seen.
 * Needs root.
 */
fs::path ConfigureModel(const fs::path &checkout);

/* The program. */
fs::path BuildModel(const fs::path &checkout);

} // namespace rig
