// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Debian roots. */
#include "roots.h"

#include "host.h"
#include "log.h"

#include <algorithm>
#include <regex>

namespace rig {

namespace {

/* To build kernels, modules and test programs, and to run RDMA programs. */
const std::vector<std::string> kPackages = {
    "bc", "bison", "bzip2", "ca-certificates", "cifs-utils", "cmake", "cpio", "e2fsprogs", "ethtool", "fio", "flex",
    "g++", "gcc", "ibverbs-providers", "ibverbs-utils", "iperf3", "iproute2", "iputils-ping", "kmod", "ksmbd-tools",
    "libcli11-dev", "libelf-dev", "libfabric-bin", "libfmt-dev", "libgtest-dev", "libibverbs-dev", "libmnl-dev",
    "libpcap-dev", "librdmacm-dev", "libssl-dev", "make", "nfs-common", "nfs-kernel-server", "nlohmann-json3-dev",
    "nvme-cli", "openmpi-bin", "pahole", "patch", "perftest", "pkg-config", "procps", "python3-pyverbs", "rdma-core",
    "rdmacm-utils", "sparse", "ucx-utils", "xz-utils"};

/* Of the host, when it plays the guest's root. */
const std::vector<std::string> kHostPackages = {"gcc",  "make",    "libelf1",  "rdma-core", "ibverbs-providers", "ibverbs-utils",
                                                "kmod", "iproute2", "perftest", "xz-utils",  "procps", "pahole"};

fs::path LogFile(const std::string &name)
{
    return CacheDirectory() / "log" / (name + ".log");
}

Command AptGet(const Root &root, std::vector<std::string> arguments)
{
    Command command{{"apt-get", "-o", "Acquire::Retries=3"}};

    command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
    command.environment["DEBIAN_FRONTEND"] = "noninteractive";
    command.jail = root.Enter();
    return command;
}

void WriteSources(const fs::path &root, const std::string &suite, const Mirror &mirror)
{
    std::string sources = fmt::format("deb {0} {1} main\n", mirror.main, suite);

    if (!mirror.security.empty())
        sources += fmt::format("deb {} {}-security main\n", mirror.security, suite);
    if (suite == "trixie")
        sources += fmt::format("deb {} {}-backports main\n", mirror.main, suite);
    WriteFile(root / "etc/apt/sources.list", sources);
}

void MakeRoot(const std::string &suite, const fs::path &path)
{
    NeedRoot();
    NeedPackages({"debootstrap"});
    const Mirror mirror = HostMirror();
    const Root root{path, suite};

    RunStep({{"debootstrap", "--variant=minbase", suite, path.string(), mirror.main}},
            fmt::format("unpacking a Debian {} root (about 70 s)", suite), LogFile("debootstrap-" + suite));
    WriteSources(path, suite, mirror);
    WriteFile(path / "etc/apt/apt.conf.d/90rig", "APT::Install-Recommends \"false\";\nAcquire::Languages \"none\";\n"
              /* Whole or not at all: a half-made root is thrown away. */
              "DPkg::Options { \"--force-unsafe-io\"; };\n");
    fs::copy_file("/etc/resolv.conf", path / "etc/resolv.conf", fs::copy_options::overwrite_existing);
    RunStep(AptGet(root, {"update"}), fmt::format("reading the package lists of {}", suite), LogFile("update-" + suite));

    std::vector<std::string> install = {"install", "-y"};
    install.insert(install.end(), kPackages.begin(), kPackages.end());
    RunStep(AptGet(root, install), fmt::format("installing compilers and RDMA programs into the {} root", suite),
            LogFile("install-" + suite));
    if (suite == "trixie")
        RunStep(AptGet(root, {"install", "-y", "-t", "trixie-backports", "qemu-system-x86"}),
                "installing QEMU from trixie-backports into the trixie root", LogFile("install-qemu"));
    RunStep(AptGet(root, {"clean"}), "cleaning up", LogFile("clean-" + suite));
}

} // namespace

Jail Root::Enter(std::vector<Bind> binds) const
{
    Jail jail{path, {}};

    /* The cache holds what is built; the host as a root sees it anyhow. */
    if (path != "/")
        jail.binds.push_back({CacheDirectory(), CacheDirectory()});
    jail.binds.insert(jail.binds.end(), binds.begin(), binds.end());
    return jail;
}

Root CachedRoot(const std::string &suite)
{
    Key key;

    key.Add("1").Add(suite).Add(fmt::format("{}", fmt::join(kPackages, " ")));
    return {CacheItem("root-" + suite, key, [&](const fs::path &path) { MakeRoot(suite, path); }), suite};
}

Root HostRoot()
{
    NeedPackages(kHostPackages);
    return {"/", HostDistribution().codename};
}

Root RootOf(const std::string &suite, bool prefer_host)
{
    if (prefer_host && HostDistribution().codename == suite)
        return HostRoot();
    return CachedRoot(suite);
}

std::vector<std::string> CachedQemu(std::map<std::string, std::string> &environment)
{
    const fs::path root = CachedRoot("trixie").path;
    const fs::path libraries = root / "usr/lib/x86_64-linux-gnu";

    /* Without this it would load the modules of a QEMU on the host, and abort. */
    environment["QEMU_MODULE_DIR"] = libraries / "qemu";
    return {root / "lib64/ld-linux-x86-64.so.2", "--library-path",       libraries,
            root / "usr/bin/qemu-system-x86_64", "-L",                   root / "usr/share/qemu",
            "-L",                                root / "usr/share/seabios"};
}

namespace {

std::string CandidateVersion(const Root &root, const std::string &release, const std::string &package)
{
    Command policy{{"apt-cache", "policy", "-t", release, package}};
    policy.jail = root.Enter();
    const std::string kCandidate = "Candidate: ";

    for (const std::string &line : SplitLines(Capture(policy))) {
        const std::string text = Trim(line);

        if (text.starts_with(kCandidate) && !text.ends_with("(none)"))
            return text.substr(kCandidate.size());
    }
    return {};
}

/* "linux-a (= 1) | linux-b, kmod" to its first alternatives, as name and version or "". */
std::vector<std::pair<std::string, std::string>> Dependencies(const Root &root, const std::string &package)
{
    Command show{{"apt-cache", "show", package}};
    show.jail = root.Enter();
    const std::string text = Capture(show);
    std::vector<std::pair<std::string, std::string>> result;
    const std::regex item(R"(([a-z0-9][a-z0-9+.-]*)(?: \(= ([^)]+)\))?(?: \([^)]*\))?(?: \| [^,]*)?)");

    for (const std::string &line : SplitLines(text)) {
        if (!line.starts_with("Depends: "))
            continue;
        const std::string list = line.substr(line.find(' ') + 1);

        for (std::sregex_iterator it(list.begin(), list.end(), item), end; it != end; ++it)
            result.emplace_back((*it)[1], (*it)[2]);
    }
    return result;
}

std::vector<std::string> FindClosure(const Root &root, const std::string &release, const std::vector<std::string> &packages,
                                     const std::vector<std::string> &prefixes)
{
    std::vector<std::string> closure;
    std::vector<std::string> names;
    std::vector<std::pair<std::string, std::string>> queue;

    for (const std::string &package : packages)
        queue.emplace_back(package, "");
    while (!queue.empty()) {
        auto [name, version] = queue.back();
        queue.pop_back();
        if (std::ranges::find(names, name) != names.end())
            continue;
        if (version.empty())
            version = CandidateVersion(root, release, name);
        if (version.empty()) {
            RunStep(AptGet(root, {"update"}), "refreshing the package lists", LogFile("update"));
            version = CandidateVersion(root, release, name);
        }
        if (version.empty())
            Fail("{} has no package {}; is {} in the apt sources?", root.suite, name, release);
        names.push_back(name);
        closure.push_back(name + "=" + version);
        for (auto &dependency : Dependencies(root, closure.back())) {
            const auto starts = [&](const auto &prefix) { return dependency.first.starts_with(prefix); };

            if (std::ranges::any_of(prefixes, starts))
                queue.push_back(dependency);
        }
    }
    std::ranges::sort(closure);
    return closure;
}

} // namespace

std::vector<std::string> PackageClosure(const Root &root, const std::string &release, const std::vector<std::string> &packages,
                                        const std::vector<std::string> &prefixes)
{
    /* Dozens of questions to apt, whose answers change only with its package lists. */
    Key key;
    key.Add(root.path.string()).Add(release);
    for (const auto &list : {packages, prefixes})
        key.Add(fmt::format("{}", fmt::join(list, " ")));
    for (const char *state : {"var/lib/apt/lists", "etc/apt"})
        key.Add(std::to_string(fs::last_write_time(root.path / state).time_since_epoch().count()));
    const fs::path remembered = CacheDirectory() / "closures" / key.Hex();

    if (fs::exists(remembered))
        return SplitLines(ReadFile(remembered));
    const auto closure = FindClosure(root, release, packages, prefixes);
    WriteFile(remembered, fmt::format("{}\n", fmt::join(closure, "\n")));
    return closure;
}

void UnpackPackages(const Root &root, const std::vector<std::string> &packages, const fs::path &into, std::string_view what)
{
    fs::path archives = into;
    archives += ".debs";
    fs::remove_all(archives);
    fs::create_directories(archives);
    std::vector<std::string> arguments = {"download", "-o", "APT::Sandbox::User=root"};
    arguments.insert(arguments.end(), packages.begin(), packages.end());
    Command download = AptGet(root, arguments);
    download.directory = archives;

    RunStep(download, what, LogFile("download"));
    Command unpack{{"sh", "-c", "for deb in *.deb; do dpkg-deb -x \"$deb\" \"$0\" || exit 1; done", into}};
    unpack.directory = archives;
    RunStep(unpack, "unpacking it", LogFile("unpack"));
    fs::remove_all(archives);
}

} // namespace rig
