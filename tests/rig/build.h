// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Builds the module for a kernel and the test programs for a root, out of the source tree. */
#pragma once

#include "kernels.h"

namespace rig {

/* rocev2.ko for that kernel, and the test modules, built from a copy of the sources so that builds for several kernels
 * do not meet. `arguments` go to make; a build with any is kept apart. */
fs::path BuildModule(const fs::path &checkout, const Kernel &kernel, const std::vector<std::string> &arguments = {});

/* The directory with the test modules (tests/kmod) that were built along with that rocev2.ko. */
fs::path TestModules(const fs::path &module);

/* Arguments of a build with W=1 and sparse. */
std::vector<std::string> StrictArguments(const fs::path &checkout, const Root &root);

/* The directory with all selftests: the scripts, and the programs, built in the root they will run in: all of them,
 * none (which saves minutes), or that one alone. */
fs::path BuildSelftests(const fs::path &checkout, const Root &root, const std::string &programs);

inline const std::string kAllPrograms = "all";
inline const std::string kNoPrograms;

/* Where builds go: below the checkout, ignored by git. */
fs::path BuildDirectory(const fs::path &checkout);

/* Log of the last BuildModule() of that kernel and arguments. */
fs::path ModuleLog(const fs::path &checkout, const Kernel &kernel, const std::vector<std::string> &arguments);

} // namespace rig
