// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Debian roots: the user land of the guests and the place where kernels,
 * modules and test programs are built, so that neither depends on the host.
 */
#pragma once

#include "cache.h"
#include "process.h"

#include <string>
#include <vector>

namespace rig {

struct Root {
    fs::path path;
    std::string suite;	/* "bookworm", "trixie" */

    /* A jail in this root with the cache and `binds` visible at their own paths. */
    Jail Enter(std::vector<Bind> binds = {}) const;
};

/* A cached root of that suite, made by debootstrap when absent. */
Root CachedRoot(const std::string &suite);

/* The host itself as a root: nothing to debootstrap, soonest for a newcomer. */
Root HostRoot();

/* The host's or the cached root, whichever is at hand. */
Root RootOf(const std::string &suite, bool prefer_host);

/* A command line that runs QEMU of the cached Debian 13 root from outside that root. */
std::vector<std::string> CachedQemu(std::map<std::string, std::string> &environment);

/* Download packages ("name" or "name=version") and unpack them below `into`. */
void UnpackPackages(const Root &root, const std::vector<std::string> &packages, const fs::path &into,
                    std::string_view what);

/* The packages "name=version" that `release` would install for these, as far as their names start with
 * one of `prefixes`: with their dependencies, whether or not they are installed already. */
std::vector<std::string> PackageClosure(const Root &root, const std::string &release, const std::vector<std::string> &packages,
                                        const std::vector<std::string> &prefixes);

} // namespace rig
