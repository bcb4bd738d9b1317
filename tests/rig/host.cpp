// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The machine the rig runs on. */
#include "host.h"

#include "cache.h"
#include "log.h"
#include "process.h"

#include <unistd.h>

#include <algorithm>
#include <thread>

namespace rig {

namespace {

/* Value of KEY=value or KEY="value" in os-release. */
std::string OsRelease(const std::string &key)
{
    for (const std::string &line : SplitLines(ReadFile("/etc/os-release"))) {
        if (!line.starts_with(key + "="))
            continue;
        std::string value = line.substr(key.size() + 1);
        std::erase(value, '"');
        return value;
    }
    return {};
}

} // namespace

Distribution HostDistribution()
{
    const std::string id = OsRelease("ID");
    const std::string version = OsRelease("VERSION_ID");

    if (id != "debian" || (version != "12" && version != "13"))
        Fail("this is {} {}; the rig runs on Debian 12 or 13", id, version);
    return {OsRelease("VERSION_CODENAME"), std::stoi(version)};
}

Mirror HostMirror()
{
    Mirror mirror;
    const std::string host = OsRelease("VERSION_CODENAME");
    const std::string targets = Capture({{"apt-get", "indextargets", "--format",
                                          "$(CREATED_BY) $(ORIGIN) $(COMPONENT) $(RELEASE) $(SITE)"}});

    for (const std::string &line : SplitLines(targets)) {
        const std::string main = "Packages Debian main " + host + " ";
        const std::string security = "Packages Debian main " + host + "-security ";

        if (line.starts_with(main) && mirror.main.empty())
            mirror.main = line.substr(main.size());
        if (line.starts_with(security) && mirror.security.empty())
            mirror.security = line.substr(security.size());
    }
    if (mirror.main.empty())
        Fail("apt knows no Debian mirror for {}; add one to /etc/apt/sources.list and run apt-get update", host);
    return mirror;
}

bool IsInstalled(const std::string &package)
{
    const auto status = TryCapture({{"dpkg-query", "-W", "-f", "${db:Status-Status}\n", package}});

    return status && status->starts_with("installed");
}

void NeedPackages(const std::vector<std::string> &packages)
{
    std::vector<std::string> missing;

    std::ranges::copy_if(packages, std::back_inserter(missing), [](const auto &name) { return !IsInstalled(name); });
    if (missing.empty())
        return;
    NeedRoot();

    Command install{{"apt-get", "install", "-y", "--no-install-recommends"}};
    install.environment["DEBIAN_FRONTEND"] = "noninteractive";
    install.argv.insert(install.argv.end(), missing.begin(), missing.end());
    const auto log = CacheDirectory() / "log" / "apt-install.log";
    const std::string what = fmt::format("installing {}", fmt::join(missing, " "));

    /* A fresh machine has no package lists, a stale one has wrong ones: try, refresh, try again. */
    if (RunStatus({{"apt-get", "install", "-s", "-y", "--no-install-recommends", missing.front()}}, log) != 0)
        RunStep({{"apt-get", "update"}}, "refreshing the package lists", CacheDirectory() / "log" / "apt-update.log");
    try {
        RunStep(install, what, log);
    } catch (const Error &) {
        RunStep({{"apt-get", "update"}}, "refreshing the package lists", CacheDirectory() / "log" / "apt-update.log");
        RunStep(install, what, log);
    }
}

void NeedRoot()
{
    if (geteuid() != 0)
        Fail("run this as root: it installs packages, makes Debian roots and mounts file systems");
}

unsigned Processors()
{
    return std::max(1U, std::thread::hardware_concurrency());
}

} // namespace rig
