// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The initramfs of a boot. */
#include "initramfs.h"

#include "log.h"

#include <algorithm>
#include <functional>
#include <map>

namespace rig {

namespace {

constexpr unsigned kDirectoryMode = 0040755;
constexpr unsigned kRegularFile = 0100000;
constexpr std::size_t kCpioAlignment = 4;

/* "drivers/net/foo-bar.ko.xz" to "foo_bar", as the kernel names it. */
std::string ModuleName(const fs::path &file)
{
    std::string name = file.filename();

    name = name.substr(0, name.find(".ko"));
    std::ranges::replace(name, '-', '_');
    return name;
}

} // namespace

void Initramfs::AddEntry(const std::string &path, std::string_view content, unsigned mode)
{
    const auto pad = [this] { archive_.resize((archive_.size() + kCpioAlignment - 1) / kCpioAlignment * kCpioAlignment); };

    archive_ += fmt::format("070701{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}{:08X}", inode_++, mode, 0,
                            0, 1, 0, content.size(), 0, 0, 0, 0, path.size() + 1, 0);
    archive_ += path;
    archive_ += '\0';
    pad();
    archive_ += content;
    pad();
}

void Initramfs::AddDirectory(const std::string &path)
{
    if (path.empty() || !directories_.insert(path).second)
        return;
    AddDirectory(fs::path(path).parent_path());
    AddEntry(path, "", kDirectoryMode);
}

void Initramfs::AddFile(const std::string &path, std::string_view content, unsigned mode)
{
    AddDirectory(fs::path(path).parent_path());
    AddEntry(path, content, kRegularFile | mode);
}

void Initramfs::WriteTo(const fs::path &file)
{
    AddEntry("TRAILER!!!", "", 0);
    WriteFile(file, archive_);
}

std::vector<fs::path> ModuleClosure(const fs::path &modules, const std::vector<std::string> &names)
{
    struct Entry {
        fs::path file;
        std::vector<std::string> needs;
    };
    std::map<std::string, Entry> known;
    std::set<std::string> builtin;

    for (const std::string &line : SplitLines(ReadFile(modules / "modules.builtin")))
        builtin.insert(ModuleName(line));
    for (const std::string &line : SplitLines(ReadFile(modules / "modules.dep"))) {
        const std::size_t colon = line.find(':');
        const std::string file = line.substr(0, colon);
        Entry entry{modules / file, {}};
        std::string rest = colon == std::string::npos ? "" : line.substr(colon + 1);

        for (std::size_t start = rest.find_first_not_of(' '); start != std::string::npos;) {
            const std::size_t end = rest.find(' ', start);

            entry.needs.push_back(ModuleName(rest.substr(start, end - start)));
            start = end == std::string::npos ? end : rest.find_first_not_of(' ', end);
        }
        known[ModuleName(file)] = std::move(entry);
    }

    std::vector<fs::path> order;
    std::set<std::string> seen;
    const std::function<void(const std::string &)> visit = [&](const std::string &name) {
        if (!seen.insert(name).second || builtin.contains(name))
            return;
        const auto found = known.find(name);
        if (found == known.end())
            Fail("the kernel in {} has no module {}", modules.string(), name);
        for (const std::string &need : found->second.needs)
            visit(need);
        order.push_back(found->second.file);
    };
    for (const std::string &name : names)
        visit(ModuleName(name));
    return order;
}

std::string ModuleContent(const fs::path &file)
{
    if (file.extension() == ".xz")
        return Capture({{"xz", "-dc", file}});
    if (file.extension() == ".zst")
        return Capture({{"zstd", "-dc", file}});
    return ReadFile(file);
}

} // namespace rig
