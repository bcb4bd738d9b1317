// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The kernels the selftests run on. */
#include "kernels.h"

#include "host.h"
#include "log.h"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>

namespace rig {

namespace {

const fs::path kSourceInJail = "/uml/src";
const fs::path kBuildInJail = "/uml/build";
const std::string kCpus = "CONFIG_NR_CPUS";

fs::path LogFile(const std::string &name)
{
    return CacheDirectory() / "log" / (name + ".log");
}

/* The symbol a .config line is about. */
std::string SymbolOf(const std::string &line)
{
    static const std::regex kSymbol("CONFIG_[A-Za-z0-9_]+");
    std::smatch match;

    return std::regex_search(line, match, kSymbol) ? match.str() : std::string();
}

bool IsSetting(const std::string &line)
{
    return line.starts_with("CONFIG_") || (line.starts_with("# CONFIG_") && line.ends_with(" is not set"));
}

/* What a variant is made of beside kernel.config: "connectx-kasan" of both, "release" of nothing. */
std::vector<std::string> Fragments(const std::string &variant)
{
    std::vector<std::string> fragments;
    std::istringstream words(variant);

    for (std::string word; std::getline(words, word, '-');)
        if (word != "release")
            fragments.push_back(word);
    return fragments;
}

/* kernel.config with the variant's fragments laid over it, by symbol. */
std::map<std::string, std::string> WantedConfig(const fs::path &checkout, const std::string &variant)
{
    std::map<std::string, std::string> wanted;
    auto names = Fragments(variant);

    names.insert(names.begin(), "kernel");
    for (const std::string &name : names) {
        const fs::path fragment = checkout / "tests/rig/uml" / (name + ".config");

        for (const std::string &line : SplitLines(ReadFile(fragment)))
            if (IsSetting(line))
                wanted[SymbolOf(line)] = line;
    }
    return wanted;
}

/* A setting that Kconfig dropped means a test that silently does not test: refuse. */
void CheckConfig(const fs::path &config, const std::map<std::string, std::string> &wanted)
{
    const auto lines = SplitLines(ReadFile(config));
    std::string lost;

    for (const auto &[symbol, line] : wanted) {
        const bool off = line.starts_with("#");
        const auto sets = [&symbol = symbol](const std::string &have) { return have.starts_with(symbol + "="); };
        const bool kept = off ? std::ranges::none_of(lines, sets) : std::ranges::find(lines, line) != lines.end();

        if (!kept)
            lost += " " + line;
    }
    if (!lost.empty())
        Fail("this kernel source does not take these settings of tests/rig/uml/*.config:{}", lost);
}

/* What an external module build needs stays; the rest is a gigabyte of objects. */
void PruneBuild(const fs::path &build)
{
    std::vector<fs::path> doomed;

    for (auto it = fs::recursive_directory_iterator(build); it != fs::recursive_directory_iterator(); ++it) {
        const fs::path relative = fs::relative(it->path(), build);
        const std::string top = relative.begin()->string();
        const std::string name = it->path().filename();

        if (top == "scripts" || top == "include") {
            it.disable_recursion_pending();
            continue;
        }
        if (it->is_regular_file() && (name.ends_with(".o") || name.ends_with(".a") || name.ends_with(".cmd") ||
                                      name.ends_with(".ko") || name.ends_with(".mod.c") || name == "vmlinux"))
            doomed.push_back(it->path());
    }
    for (const fs::path &file : doomed)
        fs::remove(file);
}

fs::path PatchDirectory(const fs::path &checkout)
{
    return checkout / "tests/rig/uml/patches";
}

std::vector<fs::path> Patches(const fs::path &directory)
{
    std::vector<fs::path> patches;

    for (const auto &entry : fs::directory_iterator(directory))
        if (entry.path().extension() == ".patch")
            patches.push_back(entry.path());
    std::ranges::sort(patches);
    return patches;
}

void ApplyPatches(const fs::path &source, const std::vector<fs::path> &patches)
{
    for (const fs::path &patch : patches)
        RunStep({{"patch", "-p1", "-d", source, "-i", patch}}, "applying " + patch.filename().string(), LogFile("patch"));
}

/*
 * A fragment can have patches of its own, over those of all: then its source is a copy, so that
 * the others need not be built again. Of hard links: patch(1) replaces a file, and nothing else
 * writes to a source tree.
 */
fs::path VariantSource(const fs::path &checkout, const std::string &variant)
{
    const fs::path source = UmlSource(checkout);
    std::vector<fs::path> patches;
    std::string name = "uml-source";
    Key key;

    key.Add(source.filename().string());
    for (const std::string &fragment : Fragments(variant)) {
        const fs::path directory = PatchDirectory(checkout) / fragment;

        if (!fs::exists(directory))
            continue;
        name += "-" + fragment;
        for (const fs::path &patch : Patches(directory)) {
            key.AddFile(patch);
            patches.push_back(patch);
        }
    }
    if (patches.empty())
        return source;
    return CacheItem(name, key, [&](const fs::path &path) {
        fs::remove(path);
        RunStep({{"cp", "-al", source, path}}, "linking the kernel source", LogFile("link"));
        ApplyPatches(path, patches);
    });
}

} // namespace

bool Kernel::Has(std::string_view fragment) const
{
    return std::ranges::find(variant, fragment) != variant.end();
}

const std::vector<std::string> &StockKernelNames()
{
    static const std::vector<std::string> kNames = {"6.1", "6.12", "newest"};
    return kNames;
}

const std::vector<std::string> &UmlVariants()
{
    static const std::vector<std::string> kVariants = {"release", "kasan", "lockdep", "debian12", "connectx",
                                                       "connectx-kasan"};
    return kVariants;
}

fs::path UmlSource(const fs::path &checkout)
{
    const Root root = CachedRoot("trixie");
    /* The package that the newest linux-source stands for. */
    auto closure = PackageClosure(root, "trixie-backports", {"linux-source"}, {"linux-source-"});
    std::erase_if(closure, [](const std::string &package) { return package.starts_with("linux-source="); });
    if (closure.size() != 1)
        Fail("trixie-backports has no linux-source package");
    const std::string package = closure.front().substr(0, closure.front().find('='));
    const auto patches = Patches(PatchDirectory(checkout));
    Key key;

    key.Add(fmt::format("{}", fmt::join(closure, " ")));
    for (const fs::path &patch : patches)
        key.AddFile(patch);
    return CacheItem("uml-source", key, [&](const fs::path &path) {
        const fs::path unpacked = path / "deb";

        UnpackPackages(root, closure, unpacked, "downloading the kernel source (150 MB)");
        RunStep({{"tar", "--strip-components=1", "-C", path, "-xf", unpacked / "usr/src" / (package + ".tar.xz")}},
                "unpacking the kernel source", LogFile("unpack"));
        fs::remove_all(unpacked);
        ApplyPatches(path, patches);
    });
}

Kernel UmlKernel(const fs::path &checkout, const std::string &variant)
{
    if (variant == "debian12") {
        Kernel kernel = UmlKernel(checkout, "release");

        kernel.name = "debian12-uml";
        kernel.root = CachedRoot("bookworm");
        return kernel;
    }
    const Root root = CachedRoot("trixie");
    const fs::path source = VariantSource(checkout, variant);
    const auto wanted = WantedConfig(checkout, variant);
    std::string config;
    Key key;

    for (const auto &[symbol, line] : wanted)
        config += line + "\n";
    key.Add("1").Add(source.filename().string()).Add(root.path.filename().string()).Add(config);
    const fs::path item = CacheItem("uml-" + variant, key, [&](const fs::path &path) {
        fs::create_directories(path / "build");
        WriteFile(path / "wanted.config", config);
        const Jail jail = root.Enter({{source, kSourceInJail}, {path / "build", kBuildInJail}, {path, "/uml/item"}});
        const auto make = [&](std::vector<std::string> arguments) {
            Command command{{"make", "-C", kSourceInJail, "ARCH=um", "O=" + kBuildInJail.string()}};

            command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
            command.jail = jail;
            command.environment["KCONFIG_ALLCONFIG"] = "/uml/item/wanted.config";
            return command;
        };

        RunStep(make({"allnoconfig"}), "configuring the UML kernel", LogFile("uml-config"));
        CheckConfig(path / "build/.config", wanted);
        RunStep(make({fmt::format("-j{}", Processors() + 1), "linux", "modules"}),
                fmt::format("building the UML kernel, variant {} (minutes)", variant), LogFile("uml-build-" + variant));
        RunStep(make({"modules_install", "INSTALL_MOD_PATH=/uml/item/modules"}), "installing its modules",
                LogFile("uml-modules"));
        PruneBuild(path / "build");
    });

    Kernel kernel;
    kernel.rig = Rig::kUml;
    kernel.name = "uml-" + variant;
    kernel.variant = Fragments(variant);
    kernel.most_cpus = static_cast<unsigned>(std::stoul(wanted.at(kCpus).substr(kCpus.size() + 1)));
    kernel.release = Trim(ReadFile(item / "build/include/config/kernel.release"));
    kernel.image = item / "build/linux";
    kernel.modules = item / "modules/lib/modules" / kernel.release;
    kernel.root = root;
    kernel.build_root = root;
    kernel.kdir = kBuildInJail;
    kernel.binds = {{source, kSourceInJail}, {item / "build", kBuildInJail}};
    return kernel;
}

Kernel StockKernel(const std::string &name, bool prefer_host_root)
{
    const Root root = RootOf(name == "6.1" ? "bookworm" : "trixie", prefer_host_root);
    const std::string release = name == "newest" ? "trixie-backports" : "";
    const auto closure =
        PackageClosure(root, release, {"linux-image-amd64", "linux-headers-amd64"},
                       {"linux-image-", "linux-headers-", "linux-modules-", "linux-binary-", "linux-kbuild-", "linux-base-"});
    Key key;

    key.Add("1").Add(fmt::format("{}", fmt::join(closure, " ")));
    const fs::path item = CacheItem("kernel-" + name, key, [&](const fs::path &path) {
        UnpackPackages(root, closure, path, fmt::format("downloading Debian's kernel {} and its headers (120 MB)", name));
        if (!fs::exists(path / "lib"))
            fs::create_directory_symlink("usr/lib", path / "lib");
        const auto versions = fs::directory_iterator(path / "lib/modules");
        const std::string version = versions->path().filename();
        Command depmod{{"/sbin/depmod", "-b", path, version}};

        /* the host may have no kmod */
        depmod.jail = root.Enter();
        RunStep(depmod, "indexing its modules", LogFile("depmod"));
    });

    Kernel kernel;
    kernel.rig = Rig::kQemu;
    kernel.name = "qemu-" + name;
    for (const auto &entry : fs::directory_iterator(item / "lib/modules"))
        if (fs::exists(entry.path() / "modules.dep"))
            kernel.release = entry.path().filename();
    kernel.modules = item / "lib/modules" / kernel.release;
    for (const fs::path &image :
         {item / "boot" / ("vmlinuz-" + kernel.release), kernel.modules / "vmlinuz", kernel.modules / "vmlinux"})
        if (kernel.image.empty() && fs::exists(image))
            kernel.image = image;
    if (kernel.release.empty() || kernel.image.empty())
        Fail("{} holds no kernel; remove it and run again", item.string());
    kernel.root = root;
    kernel.build_root = root;
    kernel.kdir = "/usr/src/linux-headers-" + kernel.release;
    kernel.binds = {{item / "usr/src", "/usr/src"}};
    for (const auto &entry : fs::directory_iterator(item / "usr/lib"))
        if (entry.path().filename().string().starts_with("linux-kbuild-"))
            kernel.binds.push_back({entry.path(), fs::path("/usr/lib") / entry.path().filename()});
    return kernel;
}

} // namespace rig
