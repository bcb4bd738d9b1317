// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The machine the rig runs on: which Debian it is, where its apt gets its
 * packages, and what has to be installed before the rig can work.
 */
#pragma once

#include <string>
#include <vector>

namespace rig {

struct Distribution {
    std::string codename;	/* "bookworm" */
    int version = 0;		/* 12 */
};

struct Mirror {
    std::string main;		/* of the Debian archive */
    std::string security;	/* empty: the host has none */
};

/* Fails unless this is Debian 12 or 13. */
Distribution HostDistribution();

/* Taken from the host's own apt set-up, so that the rig works behind any mirror. */
Mirror HostMirror();

/* Install what is missing, as root; says what it installs. */
void NeedPackages(const std::vector<std::string> &packages);

bool IsInstalled(const std::string &package);

void NeedRoot();

/* Number of processors. */
unsigned Processors();

} // namespace rig
