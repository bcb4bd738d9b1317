// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The kernels the selftests run on: User-Mode Linux of our own, and Debian's as they are. */
#pragma once

#include "roots.h"

namespace rig {

enum class Rig { kUml, kQemu };

struct Kernel {
    Rig rig = Rig::kUml;
    std::string name;		/* "uml-release", "qemu-6.1" */
    std::vector<std::string> variant;	/* of UML: its configuration fragments */
    unsigned most_cpus = ~0U;	/* that it can use */
    std::string release;	/* as uname -r says */
    fs::path image;
    fs::path modules;		/* the directory that holds modules.dep */
    Root root;			/* user land, and where test programs are built */
    Root build_root;		/* where modules are built */
    fs::path kdir;		/* inside build_root */
    std::vector<Bind> binds;	/* that make kdir visible */

    /* Whether it is a UML kernel with that fragment: "kasan" of connectx-kasan, too. */
    bool Has(std::string_view fragment) const;
};

/*
 * `variant`: release, kasan, lockdep, connectx, connectx-kasan; debian12 is the release kernel over the user land of
 * Debian 12.
 */
Kernel UmlKernel(const fs::path &checkout, const std::string &variant);

/* `name`: 6.1, 6.12 or newest. */
Kernel StockKernel(const std::string &name, bool prefer_host_root);

/* Source of the UML kernel, patched; checkpatch lives there too. */
fs::path UmlSource(const fs::path &checkout);

const std::vector<std::string> &StockKernelNames();
const std::vector<std::string> &UmlVariants();

} // namespace rig
