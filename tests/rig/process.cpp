// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Child processes of the rig. */
#include "process.h"

#include "log.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <sstream>

namespace rig {
namespace {

constexpr int kExecFailed = 127;
constexpr auto kTick = std::chrono::seconds(10);

[[noreturn]] void ChildFails(const char *what, const std::string &name)
{
    const std::string text = fmt::format("rig: cannot {} {}: {}\n", what, name, std::strerror(errno));

    [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
    _exit(kExecFailed);
}

void MountOrFail(const char *source, const fs::path &target, const char *type, unsigned long flags)
{
    if (mount(source, target.c_str(), type, flags, nullptr) != 0)
        ChildFails("mount on", target.string());
}

/*
 * In the child: a mount namespace with /proc, /dev, an empty /tmp and the binds, then chroot.
 * /tmp is for this command alone: make names its job server's pipe by its PID, which in a PID
 * namespace is always the same.
 */
void EnterJail(const Jail &jail)
{
    if (unshare(CLONE_NEWNS) != 0)
        ChildFails("make a mount namespace for", jail.root.string());
    MountOrFail("none", "/", nullptr, MS_REC | MS_PRIVATE);
    MountOrFail("proc", jail.root / "proc", "proc", 0);
    MountOrFail("/dev", jail.root / "dev", nullptr, MS_BIND | MS_REC);
    MountOrFail("tmpfs", jail.root / "tmp", "tmpfs", MS_NOSUID | MS_NODEV);
    for (const Bind &bind : jail.binds) {
        const fs::path target = jail.root / bind.target.relative_path();
        std::error_code ignored;

        fs::create_directories(target, ignored);
        MountOrFail(bind.source.c_str(), target, nullptr, MS_BIND | MS_REC);
    }
    if (chroot(jail.root.c_str()) != 0 || chdir("/") != 0)
        ChildFails("chroot to", jail.root.string());
}

[[noreturn]] void ExecChild(const Command &command)
{
    if (command.jail) {
        EnterJail(*command.jail);
        setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
        setenv("HOME", "/root", 1);
        unsetenv("TMPDIR");
    }
    if (!command.directory.empty() && chdir(command.directory.c_str()) != 0)
        ChildFails("enter", command.directory.string());
    setenv("LC_ALL", "C.UTF-8", 1);
    for (const auto &[name, value] : command.environment)
        setenv(name.c_str(), value.c_str(), 1);

    std::vector<char *> argv;
    for (const std::string &word : command.argv)
        argv.push_back(const_cast<char *>(word.c_str()));
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    ChildFails("run", command.argv[0]);
}

/* Process 1 of a PID namespace: starts the real one and takes its exit status along. */
[[noreturn]] void ActAsInit(const Command &command)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A /proc of its own: the sanitizers look their own threads up there. */
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("proc", "/proc", "proc", 0, nullptr) != 0)
        ChildFails("mount /proc for", command.argv[0]);
    const pid_t child = fork();

    if (child == 0)
        ExecChild(command);
    for (;;) {
        int status = 0;
        const pid_t ended = waitpid(-1, &status, 0);

        if (ended == child)
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
        if (ended < 0 && errno != EINTR)
            _exit(kExecFailed);
    }
}

void PlaceDescriptors(const std::vector<int> &descriptors)
{
    /* Move everything out of the way first: a source may be another's target. */
    constexpr int kHigh = 100;
    std::vector<int> moved;

    for (const int fd : descriptors) {
        const int from = fd >= 0 ? fd : open("/dev/null", O_RDWR | O_CLOEXEC);

        moved.push_back(fcntl(from, F_DUPFD_CLOEXEC, kHigh));
    }
    for (std::size_t i = 0; i < moved.size(); i++)
        if (dup2(moved[i], static_cast<int>(i)) < 0)
            _exit(kExecFailed);
}

std::string CommandText(const Command &command)
{
    return fmt::format("{}", fmt::join(command.argv, " "));
}

/* In a PID namespace all that a build has started dies with the rig. */
bool CanIsolate()
{
    return geteuid() == 0;
}

int OpenLog(const fs::path &log, bool append)
{
    fs::create_directories(log.parent_path());
    const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (append ? O_APPEND : O_TRUNC), 0644);

    if (fd < 0)
        Fail("cannot write {}: {}", log.string(), std::strerror(errno));
    return fd;
}

} // namespace

pid_t Spawn(const Command &command, const std::vector<int> &descriptors, bool own_pid_namespace)
{
    std::fflush(nullptr);
    /* The PID namespace is made for the first child only, so a middleman makes it. */
    const pid_t pid = fork();

    if (pid < 0)
        Fail("cannot fork: {}", std::strerror(errno));
    if (pid > 0)
        return pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    PlaceDescriptors(descriptors);
    if (!own_pid_namespace)
        ExecChild(command);
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        ChildFails("make a PID namespace for", command.argv[0]);
    const pid_t init = fork();

    if (init == 0)
        ActAsInit(command);
    int status = 0;
    while (waitpid(init, &status, 0) < 0 && errno == EINTR)
        ;
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int Wait(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            Fail("lost a child process: {}", std::strerror(errno));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int RunStatus(const Command &command, const fs::path &log, bool append)
{
    const int fd = OpenLog(log, append);
    const pid_t pid = Spawn(command, {-1, fd, fd}, CanIsolate());

    close(fd);
    return Wait(pid);
}

void RunStep(const Command &command, std::string_view what, const fs::path &log)
{
    const auto start = std::chrono::steady_clock::now();
    const auto elapsed = [&] {
        return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start).count();
    };
    const int fd = OpenLog(log, false);
    const pid_t pid = Spawn(command, {-1, fd, fd}, CanIsolate());
    auto next_tick = start + kTick;
    int status = 0;

    close(fd);
    Note("{} ...", what);
    for (;;) {
        const pid_t ended = waitpid(pid, &status, WNOHANG);

        if (ended == pid)
            break;
        if (ended < 0 && errno != EINTR)
            Fail("lost a child process: {}", std::strerror(errno));
        usleep(20000);
        if (std::chrono::steady_clock::now() < next_tick)
            continue;
        Note("  ... {} s: {}", elapsed(), Trim(Tail(log, 1)).substr(0, 90));
        next_tick += kTick;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        if (elapsed() >= 2)
            Note("  done in {} s", elapsed());
        return;
    }
    Fail("{} failed (`{}`); the end of {}:\n{}", what, CommandText(command), log.string(), Tail(log, 40));
}

std::optional<std::string> TryCapture(const Command &command)
{
    std::array<int, 2> ends{};

    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        Fail("cannot make a pipe: {}", std::strerror(errno));
    const pid_t pid = Spawn(command, {-1, ends[1], -1}, false);
    std::string output;
    std::array<char, 4096> buffer{};

    close(ends[1]);
    for (;;) {
        const ssize_t got = read(ends[0], buffer.data(), buffer.size());

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        output.append(buffer.data(), static_cast<std::size_t>(got));
    }
    close(ends[0]);
    if (Wait(pid) != 0)
        return std::nullopt;
    return output;
}

std::string Capture(const Command &command)
{
    auto output = TryCapture(command);

    if (!output)
        Fail("`{}` failed; run it by hand to see why", CommandText(command));
    return *std::move(output);
}

std::string ReadFile(const fs::path &path)
{
    std::ifstream file(path, std::ios::binary);

    if (!file)
        Fail("cannot read {}: {}", path.string(), std::strerror(errno));
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

void WriteFile(const fs::path &path, std::string_view text)
{
    fs::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary | std::ios::trunc);

    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.flush())
        Fail("cannot write {}: {}", path.string(), std::strerror(errno));
}

std::vector<std::string> SplitLines(std::string_view text)
{
    std::vector<std::string> lines;

    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        std::string line(text.substr(0, end));

        if (!line.empty() && line.back() == '\r')
            line.pop_back();
        lines.push_back(std::move(line));
        if (end == std::string_view::npos)
            break;
        text.remove_prefix(end + 1);
    }
    return lines;
}

std::string Trim(std::string_view text)
{
    constexpr std::string_view kSpace = " \t\r\n";
    const std::size_t first = text.find_first_not_of(kSpace);

    if (first == std::string_view::npos)
        return {};
    return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

std::string Tail(const fs::path &path, std::size_t count)
{
    /* Enough for any 40 lines of a build; a ticker must not read a whole build log. */
    constexpr std::streamoff kWindow = 16384;
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    std::string text;

    if (!file)
        return {};
    const std::streamoff size = file.tellg();
    file.seekg(size > kWindow ? size - kWindow : 0);
    std::ostringstream stream;
    stream << file.rdbuf();
    const auto lines = SplitLines(stream.str());
    for (std::size_t i = lines.size() > count ? lines.size() - count : 0; i < lines.size(); i++)
        text += lines[i] + "\n";
    return text;
}

} // namespace rig
