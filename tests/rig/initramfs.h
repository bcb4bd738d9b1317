// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The initramfs of a boot: guest-init, its job, and the modules it has to load to reach the root. */
#pragma once

#include "process.h"

#include <set>

namespace rig {

/* A cpio archive in the "newc" format, uncompressed. */
class Initramfs {
public:
    /* Makes the directories above it, too. */
    void AddFile(const std::string &path, std::string_view content, unsigned mode = 0644);
    void AddDirectory(const std::string &path);
    void WriteTo(const fs::path &file);

private:
    void AddEntry(const std::string &path, std::string_view content, unsigned mode);

    std::string archive_;
    std::set<std::string> directories_;
    unsigned inode_ = 1;
};

/* Files of the named modules and of those they need, in the order to load them; none for a module
 * that is built into the kernel. `modules` is the directory of modules.dep. */
std::vector<fs::path> ModuleClosure(const fs::path &modules, const std::vector<std::string> &names);

/* Content of a module file, unpacked when it is compressed. */
std::string ModuleContent(const fs::path &file);

} // namespace rig
