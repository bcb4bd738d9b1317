// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Checks of the source itself, and the unit tests. */
#include "style.h"

#include "build.h"
#include "host.h"
#include "log.h"
#include "model.h"

#include <algorithm>
#include <functional>
#include <regex>

#include <unistd.h>

namespace rig {

namespace {

/* Prints one KTAP document of named checks; a check returns what is wrong. */
class Checks {
public:
    explicit Checks(std::size_t planned)
    {
        fmt::print("KTAP version 1\n1..{}\n", planned);
        std::fflush(stdout);
    }
    void Run(const std::string &name, const std::function<std::string()> &check)
    {
        std::string wrong;

        try {
            wrong = check();
        } catch (const Error &error) {
            wrong = error.what();
        }
        number_++;
        for (const std::string &line : SplitLines(wrong))
            fmt::print("  # {}\n", line);
        fmt::print("{}ok {} {}\n", wrong.empty() ? "" : "not ", number_, name);
        std::fflush(stdout);
        if (wrong.empty()) {
            totals_.passed++;
            return;
        }
        totals_.failed++;
        totals_.failures.push_back("style: " + name);
    }
    Totals totals() const { return totals_; }

private:
    Totals totals_;
    int number_ = 0;
};

std::vector<std::string> KernelSources(const fs::path &checkout)
{
    std::vector<std::string> files;

    for (const char *top : {"drivers", "include", "tests/kmod"}) {
        if (!fs::exists(checkout / top))
            continue;
        for (const auto &entry : fs::recursive_directory_iterator(checkout / top)) {
            const fs::path extension = entry.path().extension();
            const std::string name = entry.path().filename();

            if ((extension == ".c" || extension == ".h") && !name.ends_with(".mod.c") && !name.starts_with(".") &&
                name != "compat_config.h")
                files.push_back(fs::relative(entry.path(), checkout));
        }
    }
    std::ranges::sort(files);
    return files;
}

std::string CheckPatch(const fs::path &checkout)
{
    NeedPackages({"perl"});
    /* A line can be given as checkpatch would have it and still be one the module cannot have:
     * what is out of tree has no MAINTAINERS entry, and compat shims exist for old kernels. */
    Command command{{"perl", UmlSource(checkout) / "scripts/checkpatch.pl", "--no-tree", "--terse", "--no-summary", "--strict",
                     "--max-line-length=100", "--ignore", "FILE_PATH_CHANGES,EMAIL_SUBJECT,LINUX_VERSION_CODE,SPDX_LICENSE_TAG",
                     "-f"}};
    const auto files = KernelSources(checkout);
    const fs::path log = BuildDirectory(checkout) / "log/checkpatch.log";

    if (files.empty())
        return "there are no kernel sources";
    command.argv.insert(command.argv.end(), files.begin(), files.end());
    command.directory = checkout;
    if (RunStatus(command, log) == 0)
        return {};
    return ReadFile(log);
}

/*
 * Debian's headers of 7.x lack the script by which the kernel tries sparse. The UML kernel is of the
 * same sources.
 */
bool HasSparse(const Kernel &kernel)
{
    return kernel.name != "qemu-newest";
}

std::string StrictBuild(const fs::path &checkout, const Kernel &kernel)
{
    const std::vector<std::string> arguments = StrictArguments(checkout, kernel.build_root);
    const fs::path module = BuildModule(checkout, kernel, arguments);
    const std::regex kWarning(R"(\b(warning|error):)");
    const std::string kWithoutSparse = "not available or not up to date";
    std::string found;

    for (const std::string &line : SplitLines(ReadFile(ModuleLog(checkout, kernel, arguments))))
        if (std::regex_search(line, kWarning) ||
            (HasSparse(kernel) && line.find(kWithoutSparse) != std::string::npos))
            found += line + "\n";
    /* The next build would be silent about files that are up to date. */
    if (!found.empty())
        fs::remove_all(BuildDirectory(checkout) / fs::relative(module, BuildDirectory(checkout)).begin()->string());
    return found;
}

std::string CheckLicenceTags(const fs::path &checkout)
{
    std::string wrong;

    for (const std::string &file : KernelSources(checkout))
        if (ReadFile(checkout / file).substr(0, 80).find("SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB") ==
            std::string::npos)
            wrong += file + " does not begin with its SPDX line\n";
    return wrong;
}

} // namespace

Totals CheckStyle(const fs::path &checkout, const std::vector<Kernel> &kernels)
{
    Checks checks(2 + kernels.size());

    checks.Run("SPDX lines", [&] { return CheckLicenceTags(checkout); });
    checks.Run("checkpatch", [&] { return CheckPatch(checkout); });
    for (const Kernel &kernel : kernels)
        checks.Run(fmt::format("W=1{}, {} ({})", HasSparse(kernel) ? " and sparse" : "", kernel.name, kernel.release),
                   [&] { return StrictBuild(checkout, kernel); });
    return checks.totals();
}

namespace {

/* Build what is configured there and run its tests. */
Totals RunCtest(const fs::path &build, const std::string &what, const fs::path &log)
{
    RunStep({{"cmake", "--build", build, "-j", std::to_string(Processors())}}, "building " + what, log);
    const int status = RunStatus({{"ctest", "--test-dir", build, "--output-on-failure"}}, log);
    const std::string text = ReadFile(log);
    std::smatch match;

    if (!std::regex_search(text, match, std::regex(R"((\d+) tests? failed out of (\d+))")))
        Fail("ctest printed no summary; its output:\n{}", text);
    const int failed = std::stoi(match[1]);
    const int all = std::stoi(match[2]);
    if (status != 0 || failed > 0 || all == 0)
        fmt::print("{}", text);
    fmt::print("# {}: {} passed, {} failed\n", what, all - failed, failed);
    std::fflush(stdout);
    if (status == 0 && failed == 0 && all > 0)
        return {all, 0, {}};
    return {all - failed, std::max(failed, 1), {fmt::format("{}: {} of {}", what, std::max(failed, 1), all)}};
}

void ConfigureMicro(const fs::path &checkout, const fs::path &build, const fs::path &log)
{
    NeedPackages({"g++", "cmake", "make", "libbenchmark-dev", "libcli11-dev", "libdeflate-dev", "libfmt-dev",
                  "valgrind"});
    RunStep({{"cmake", "-S", checkout / "tests/micro", "-B", build}}, "configuring the micro-benchmarks", log);
}

} // namespace

Totals RunUnitTests(const fs::path &checkout)
{
    const fs::path build = BuildDirectory(checkout) / "unit";
    const fs::path log = BuildDirectory(checkout) / "log/unit.log";

    if (!fs::exists(checkout / "tests/unit/CMakeLists.txt"))
        Fail("there are no unit tests in tests/unit");
    NeedPackages({"g++", "cmake", "make", "libgtest-dev", "libgmock-dev"});
    RunStep({{"cmake", "-S", checkout / "tests/unit", "-B", build}}, "configuring the unit tests", log);
    Totals totals = RunCtest(build, "unit tests", log);
    const fs::path micro = BuildDirectory(checkout) / "micro", micro_log = log.parent_path() / "micro.log";
    ConfigureMicro(checkout, micro, micro_log);
    totals += RunCtest(micro, "micro-benchmarks", micro_log);
    /* Behind them: it takes root, and the first time downloads and minutes. */
    const fs::path model = ConfigureModel(checkout);
    totals += RunCtest(model, "unit tests of connectx-model", log.parent_path() / "connectx-model-unit.log");
    return totals;
}

int RunMicro(const fs::path &checkout)
{
    const fs::path build = BuildDirectory(checkout) / "micro";
    const fs::path log = BuildDirectory(checkout) / "log/micro.log";

    ConfigureMicro(checkout, build, log);
    RunStep({{"cmake", "--build", build, "-j", std::to_string(Processors())}}, "building the micro-benchmarks", log);
    const Command run{{"cmake", "--build", build, "--target", "run", "--", "--no-print-directory"}};
    return Wait(Spawn(run, {-1, STDOUT_FILENO, STDERR_FILENO}, false));
}

} // namespace rig
