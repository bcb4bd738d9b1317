// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Builds the module for a kernel and the test programs for a root. */
#include "build.h"

#include "host.h"
#include "log.h"

#include <algorithm>
#include <set>

namespace rig {

namespace {

const fs::path kCheckoutInJail = "/rocev2";
const fs::path kTestModules = "tests/kmod";

/* By what it is, so that what a build in the source tree left there is not taken along. */
bool IsSource(const fs::path &file)
{
    static const std::set<std::string> kExtensions = {".c", ".h", ".S"};
    static const std::set<std::string> kNames = {"Kbuild", "Kconfig", "Makefile"};
    const std::string name = file.filename();

    if (name.starts_with(".") || name.ends_with(".mod.c") || name == "compat_config.h")
        return false;
    return kExtensions.contains(file.extension()) || kNames.contains(name);
}

std::set<fs::path> SourceFiles(const fs::path &tree)
{
    std::set<fs::path> files;

    for (const char *top : {"Kbuild", "Makefile"})
        if (fs::exists(tree / top))
            files.insert(top);
    for (const fs::path &top : {fs::path("drivers"), fs::path("include"), kTestModules}) {
        if (!fs::exists(tree / top))
            continue;
        for (const auto &entry : fs::recursive_directory_iterator(tree / top))
            if (entry.is_regular_file() && IsSource(entry.path()))
                files.insert(fs::relative(entry.path(), tree));
    }
    return files;
}

/* Bring `copy` up to date; an unchanged file keeps its time stamp, so make stays incremental. */
void SyncSources(const fs::path &tree, const fs::path &copy)
{
    const auto files = SourceFiles(tree);

    for (const fs::path &file : files) {
        if (fs::exists(copy / file) && ReadFile(copy / file) == ReadFile(tree / file))
            continue;
        fs::create_directories((copy / file).parent_path());
        fs::copy_file(tree / file, copy / file, fs::copy_options::overwrite_existing);
    }
    for (const fs::path &file : SourceFiles(copy))
        if (!files.contains(file))
            fs::remove(copy / file);
}

/* The checkout as seen from inside a root; the host as a root sees it where it is. */
fs::path InRoot(const Root &root, const fs::path &checkout, const fs::path &path)
{
    if (root.path == "/")
        return path;
    return kCheckoutInJail / fs::relative(path, checkout);
}

Jail JailWithCheckout(const Root &root, const fs::path &checkout, std::vector<Bind> binds)
{
    if (root.path != "/")
        binds.push_back({checkout, kCheckoutInJail});
    return root.Enter(std::move(binds));
}

std::string Flavour(const Kernel &kernel, const std::vector<std::string> &arguments)
{
    std::string flavour = kernel.name;

    if (!arguments.empty()) {
        Key key;
        key.Add(fmt::format("{}", fmt::join(arguments, " ")));
        flavour += "-" + key.Hex().substr(0, 4);
    }
    return flavour;
}

} // namespace

fs::path TestModules(const fs::path &module)
{
    /* CHECKOUT/drivers/infiniband/sw/rocev2/rocev2.ko */
    return fs::weakly_canonical(module.parent_path() / "../../../.." / kTestModules);
}

std::vector<std::string> StrictArguments(const fs::path &checkout, const Root &root)
{
    return {"W=1", "C=1", "CF=-D__CHECK_ENDIAN__",
            fmt::format("CHECK={}", InRoot(root, checkout, checkout / "tests/rig/sparse").string())};
}

fs::path BuildDirectory(const fs::path &checkout)
{
    return checkout / "build";
}

fs::path ModuleLog(const fs::path &checkout, const Kernel &kernel, const std::vector<std::string> &arguments)
{
    return BuildDirectory(checkout) / "log" / ("module-" + Flavour(kernel, arguments) + ".log");
}

fs::path BuildModule(const fs::path &checkout, const Kernel &kernel, const std::vector<std::string> &arguments)
{
    const fs::path copy = BuildDirectory(checkout) / ("module-" + Flavour(kernel, arguments));
    const fs::path module = copy / "drivers/infiniband/sw/rocev2/rocev2.ko";

    if (!fs::exists(checkout / "Kbuild"))
        Fail("{} has no Kbuild: is this a rocev2 source tree?", checkout.string());
    SyncSources(checkout, copy);
    const auto build = [&](const fs::path &directory, const char *what, const fs::path &log) {
        Command make{{"make", "-C", kernel.kdir, fmt::format("M={}", InRoot(kernel.build_root, checkout, directory).string()),
                      fmt::format("-j{}", Processors())}};
        if (kernel.rig == Rig::kUml)
            make.argv.push_back("ARCH=um");
        make.argv.insert(make.argv.end(), arguments.begin(), arguments.end());
        make.argv.push_back("modules");
        make.jail = JailWithCheckout(kernel.build_root, checkout, kernel.binds);
        RunStep(make, fmt::format("building {} for {} ({})", what, kernel.name, kernel.release), log);
    };
    const fs::path log = ModuleLog(checkout, kernel, arguments);
    build(copy, "rocev2.ko", log);
    build(copy / kTestModules, "the test modules", log.parent_path() / ("kmod-" + log.filename().string()));
    if (!fs::exists(module))
        Fail("the build made no {}", module.string());
    return module;
}

fs::path BuildSelftests(const fs::path &checkout, const Root &root, const std::string &programs)
{
    const fs::path source = checkout / "tests/selftests";
    const std::string where = root.path == "/" ? "host" : root.suite;
    const fs::path build = BuildDirectory(checkout) / ("selftests-" + where);
    const fs::path stage = build / "stage";
    const fs::path log = BuildDirectory(checkout) / "log" / ("selftests-" + where + ".log");

    fs::create_directories(stage);
    Command make{{"make", "-C", InRoot(root, checkout, source), "OUTPUT=" + InRoot(root, checkout, stage).string(),
                  "BUILD=" + InRoot(root, checkout, build / "cmake").string(), fmt::format("JOBS={}", Processors()),
                  "PROGRAMS=" + programs, programs == kNoPrograms ? "scripts" : "stage"}};
    make.jail = JailWithCheckout(root, checkout, {});
    const char *what = programs == kNoPrograms ? "laying out the scripts" : "building the test programs";
    RunStep(make, fmt::format("{} in the {} root", what, where), log);
    return stage;
}

} // namespace rig
