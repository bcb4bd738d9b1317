// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Process 1 of a guest, UML or QEMU, from the initramfs the rig makes for each
 * boot: load the modules listed, mount the root and the shared directories,
 * run the job, and report its exit status over a channel of its own, so that
 * nothing a test or the kernel prints can be taken for success.
 *
 * The initramfs holds, below /job:
 *   modules  paths of modules to load, in order
 *   mounts   lines "type source target options"; target below the new root
 *   script   shell script to run in the new root
 *   nonce    to be sent back with the status
 *   output, token   where to write: a device, or the name of a virtio port
 *   cpuinfo  (UML) what /proc/cpuinfo should say
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

[[noreturn]] void PowerOff()
{
    sync();
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

/* To the kernel log, which is what the rig shows when no token arrives. */
void Log(const std::string &text)
{
    std::ofstream("/dev/kmsg") << "rocev2-init: " << text << std::endl;
}

[[noreturn]] void Die(const std::string &what)
{
    Log(what + ": " + std::strerror(errno));
    PowerOff();
}

std::string Slurp(const fs::path &path)
{
    std::ifstream file(path);
    std::ostringstream text;

    text << file.rdbuf();
    return std::move(text).str();
}

std::string Line(const fs::path &path)
{
    std::string text = Slurp(path);

    while (!text.empty() && text.back() == '\n')
        text.pop_back();
    return text;
}

void Mount(const std::string &type, const std::string &source, const fs::path &target, const std::string &options)
{
    unsigned long flags = 0;
    std::string data;
    std::istringstream list(options);

    for (std::string option; std::getline(list, option, ',');) {
        if (option == "ro")
            flags |= MS_RDONLY;
        else if (option == "bind")
            flags |= MS_BIND;
        else if (option != "rw")
            data += (data.empty() ? "" : ",") + option;
    }
    std::error_code ignored;
    fs::create_directories(target, ignored);
    if (mount(source.c_str(), target.c_str(), type.c_str(), flags, data.c_str()) != 0)
        Die("mount " + type + " " + source + " on " + target.string());
}

void LoadModules()
{
    std::istringstream list(Slurp("/job/modules"));

    for (std::string path; std::getline(list, path);) {
        const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);

        if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST))
            Die("load " + path);
        close(fd);
    }
}

/* A device path as it is; or the /dev/vportNpM whose name is `channel`. */
int OpenChannel(const std::string &channel)
{
    constexpr int kAttempts = 500;
    constexpr useconds_t kPause = 10000;

    for (int attempt = 0; attempt < kAttempts; attempt++) {
        fs::path device;

        if (channel.starts_with("/")) {
            device = channel;
        } else if (fs::exists("/sys/class/virtio-ports")) {
            for (const auto &entry : fs::directory_iterator("/sys/class/virtio-ports"))
                if (Line(entry.path() / "name") == channel)
                    device = "/dev" / entry.path().filename();
        }
        const int fd = device.empty() ? -1 : open(device.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
        if (fd >= 0) {
            struct termios settings {};
            /* A terminal would turn \n into \r\n. */
            if (tcgetattr(fd, &settings) == 0) {
                cfmakeraw(&settings);
                tcsetattr(fd, TCSANOW, &settings);
            }
            return fd;
        }
        usleep(kPause);
    }
    Die("open the channel " + channel);
}

void MountRoot(const fs::path &root)
{
    std::istringstream list(Slurp("/job/mounts"));

    for (std::string line; std::getline(list, line);) {
        std::istringstream words(line);
        std::string type, source, target, options;

        words >> type >> source >> target >> options;
        Mount(type, source, root / fs::path(target).relative_path(), options);
        if (target != "/")
            continue;
        /* The root is read only; everything else lives in these. */
        for (const char *directory : {"proc", "sys", "dev"})
            Mount("none", fs::path("/") / directory, root / directory, "bind");
        for (const char *directory : {"run", "tmp", "var/tmp", "dev/shm"})
            Mount("tmpfs", "tmpfs", root / directory, "");
        Mount("devpts", "devpts", root / "dev/pts", "");
    }
}

int RunScript(int output)
{
    const pid_t child = fork();

    if (child < 0)
        Die("fork");
    if (child == 0) {
        const int null = open("/dev/null", O_RDWR);

        setsid();
        dup2(null, STDIN_FILENO);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
        setenv("HOME", "/tmp", 1);
        setenv("LC_ALL", "C.UTF-8", 1);
        execl("/bin/sh", "sh", "/run/rocev2/script", nullptr);
        _exit(127);
    }
    int status = 0;
    for (;;) {
        const pid_t ended = waitpid(-1, &status, 0);

        if (ended == child)
            break;
        if (ended < 0 && errno != EINTR)
            Die("wait");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

} // namespace

int main()
{
    const fs::path root = "/root";

    Mount("devtmpfs", "dev", "/dev", "");
    Mount("proc", "proc", "/proc", "");
    Mount("sysfs", "sys", "/sys", "");
    LoadModules();
    mkdir("/dev/shm", 01777);
    mkdir("/dev/pts", 0755);

    const int output = OpenChannel(Line("/job/output"));
    const int token = OpenChannel(Line("/job/token"));
    const std::string nonce = Line("/job/nonce");

    if (!Slurp("/job/mounts").empty()) {
        const std::string script = Slurp("/job/script");
        const std::string cpuinfo = Slurp("/job/cpuinfo");

        MountRoot(root);
        mkdir((root / "run/rocev2").c_str(), 0755);
        std::ofstream(root / "run/rocev2/script") << script;
        if (!cpuinfo.empty()) {
            std::ofstream(root / "run/rocev2/cpuinfo") << cpuinfo;
            Mount("none", root / "run/rocev2/cpuinfo", "/proc/cpuinfo", "bind");
            Mount("none", root / "run/rocev2/cpuinfo", root / "proc/cpuinfo", "bind");
        }
        /* Sub-mounts of /sys are per mount point, so they come last. */
        mount("debugfs", (root / "sys/kernel/debug").c_str(), "debugfs", 0, nullptr);
        mount("tracefs", (root / "sys/kernel/tracing").c_str(), "tracefs", 0, nullptr);
        if (chdir(root.c_str()) != 0 || chroot(".") != 0 || chdir("/") != 0)
            Die("enter the root");
    }
    /* Registering memory is what the tests do. */
    const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &unlimited);

    const int status = fs::exists("/run/rocev2/script") ? RunScript(output) : 0;
    const std::string report = "rocev2-result " + nonce + " " + std::to_string(status) + "\n";

    if (write(token, report.data(), report.size()) != static_cast<ssize_t>(report.size()))
        Die("send the token");
    tcdrain(output);
    tcdrain(token);
    PowerOff();
}
