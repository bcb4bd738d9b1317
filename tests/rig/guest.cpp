// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Boots a guest, runs one script in it, and says how it went. */
#include "guest.h"

#include "host.h"
#include "initramfs.h"
#include "log.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <regex>

namespace rig {

namespace {

using Clock = std::chrono::steady_clock;

/* How long a guest that has panicked gets to print its trace. */
constexpr auto kLastWords = std::chrono::seconds(2);
/* Descriptors of the guest's channels in the emulator. */
constexpr int kKmsgFd = 3;
constexpr int kOutputFd = 4;
constexpr int kTokenFd = 5;

const std::vector<std::string> kQemuBootModules = {"virtio_pci", "virtio_console", "9pnet_virtio", "9p"};

/* A pipe whose read end belongs to the rig and delivers whole lines. */
class LinePipe {
public:
    LinePipe()
    {
        if (pipe2(ends_.data(), O_CLOEXEC) != 0)
            Fail("cannot make a pipe: {}", std::strerror(errno));
        fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    }
    ~LinePipe()
    {
        CloseWriter();
        close(ends_[0]);
    }
    LinePipe(const LinePipe &) = delete;
    LinePipe &operator=(const LinePipe &) = delete;

    int reader() const { return ends_[0]; }
    int writer() const { return ends_[1]; }
    void CloseWriter()
    {
        if (ends_[1] >= 0)
            close(ends_[1]);
        ends_[1] = -1;
    }

    void Drain(const std::function<void(const std::string &)> &on_line)
    {
        std::array<char, 65536> buffer{};

        for (;;) {
            const ssize_t got = read(ends_[0], buffer.data(), buffer.size());

            if (got <= 0)
                return;
            pending_.append(buffer.data(), static_cast<std::size_t>(got));
            for (std::size_t end; (end = pending_.find('\n')) != std::string::npos;) {
                std::string line = pending_.substr(0, end);

                pending_.erase(0, end + 1);
                if (!line.empty() && line.back() == '\r')
                    line.pop_back();
                on_line(line);
            }
        }
    }

    void Finish(const std::function<void(const std::string &)> &on_line)
    {
        Drain(on_line);
        if (!pending_.empty())
            on_line(pending_);
        pending_.clear();
    }

private:
    std::array<int, 2> ends_{};
    std::string pending_;
};

std::string Nonce()
{
    std::random_device random;

    return fmt::format("{:08x}{:08x}", random(), random());
}

/* A machine can have /dev/kvm and be unable to make a virtual machine with it. */
bool KvmMakesMachines()
{
    const int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);

    if (kvm < 0)
        return false;
    const int machine = ioctl(kvm, KVM_CREATE_VM, 0);
    const int cpu = machine < 0 ? -1 : ioctl(machine, KVM_CREATE_VCPU, 0);

    for (const int fd : {cpu, machine, kvm})
        if (fd >= 0)
            close(fd);
    return cpu >= 0;
}

Command UmlCommand(const Boot &boot)
{
    if (boot.numa)
        Fail("User-Mode Linux has no NUMA nodes");
    if (boot.icount)
        Fail("instructions are counted by QEMU: --rig qemu");
    Command command{{boot.kernel.image, fmt::format("mem={}M", boot.memory_mib),
                     fmt::format("ncpus={}", std::min(boot.cpus, boot.kernel.most_cpus)),
                     fmt::format("initrd={}", (boot.directory / "initramfs").string()), "seccomp=auto", "con=null",
                     /*
                      * both ways, though nothing comes in: it cannot wait for input from null, and says so where it may
                      * not sleep
                      */
                     fmt::format("con0=fd:{}", kOutputFd), "ssl=null", fmt::format("ssl0=fd:{}", kKmsgFd),
                     fmt::format("ssl1=fd:{}", kTokenFd), "console=ttyS0", "loglevel=8", "rdinit=/init",
                     fmt::format("uml_dir={}/", boot.directory.string()), "umid=uml"}};

    for (const fs::path &card : boot.cards)
        /* CONFIG_UML_PCI_OVER_VIRTIO_DEVICE_ID */
        command.argv.push_back(fmt::format("virtio_uml.device={}:1234", card.string()));
    if (!boot.cards.empty())
        /*
         * An access to a register is answered by a process that the host may have other plans with; it warns after 40
         * ms.
         */
        command.argv.emplace_back("virtio_pcidev.max_delay_us=5000000");
    return command;
}

/* The guest's memory: a file, which cards map, too. */
void AddMemory(Command &command, const Boot &boot)
{
    const unsigned nodes = boot.numa ? 2 : 1;

    if (boot.cpus % nodes != 0 || boot.memory_mib % nodes != 0)
        Fail("{} CPUs and {} MiB are not for {} NUMA nodes", boot.cpus, boot.memory_mib, nodes);
    for (unsigned node = 0; node < nodes; node++)
        command.argv.insert(command.argv.end(),
                            {"-object", fmt::format("memory-backend-memfd,id=memory{},size={}M,share=on", node,
                                                    boot.memory_mib / nodes)});
    if (!boot.numa)
        command.argv.insert(command.argv.end(), {"-machine", "memory-backend=memory0"});
    for (unsigned node = 0; boot.numa && node < nodes; node++) {
        const unsigned share = boot.cpus / nodes, first = share * node;

        command.argv.insert(command.argv.end(),
                            {"-numa", fmt::format("node,nodeid={0},cpus={1}-{2},memdev=memory{0}", node, first,
                                                  first + share - 1)});
    }
}

void AddCards(Command &command, const Boot &boot)
{
    int slot = 0;

    if (boot.cards.empty())
        return;
    if (boot.host_qemu)
        Fail("cards need vfio-user-pci of the cached QEMU: without --host-root");
    if (boot.numa)
        command.argv.insert(command.argv.end(), {"-device", "pxb-pcie,id=far,bus=pcie.0,bus_nr=64,numa_node=1"});
    for (const fs::path &card : boot.cards) {
        slot++;
        command.argv.insert(
            command.argv.end(),
            {"-device",
             fmt::format("pcie-root-port,id=port{0},bus={1},chassis={0},slot={0}", slot, boot.numa ? "far" : "pcie.0"),
             "-device",
             fmt::format(R"({{"driver":"vfio-user-pci","bus":"port{}","socket":{{"type":"unix","path":"{}"}}}})", slot,
                         card.string())});
    }
}

Command QemuCommand(const Boot &boot, bool kvm)
{
    Command command;

    if (boot.host_qemu)
        command.argv = {"qemu-system-x86_64"};
    else
        command.argv = CachedQemu(command.environment);
    const auto add = [&](std::initializer_list<std::string> words) {
        command.argv.insert(command.argv.end(), words);
    };

    add({"-nodefaults", "-no-user-config", "-display", "none", "-vga", "none", "-no-reboot"});
    add({"-machine", kvm ? "q35,accel=kvm" : "q35,accel=tcg", "-cpu", kvm ? "host" : "max"});
    /* Without shift a counted instruction takes a nanosecond, and of those is the guest's time-stamp counter. */
    if (boot.icount)
        add({"-icount", "shift=0"});
    add({"-smp", std::to_string(boot.icount ? 1 : boot.cpus), "-m", std::to_string(boot.memory_mib)});
    add({"-kernel", boot.kernel.image, "-initrd", boot.directory / "initramfs"});
    add({"-append", "console=ttyS0 loglevel=8 panic=-1 mitigations=off tsc=unstable rdinit=/init"});
    add({"-chardev", fmt::format("file,id=kmsg,path=/proc/self/fd/{}", kKmsgFd), "-serial", "chardev:kmsg"});
    add({"-device", "virtio-serial-pci"});
    add({"-chardev", fmt::format("file,id=output,path=/proc/self/fd/{}", kOutputFd)});
    add({"-device", "virtserialport,chardev=output,name=rocev2.output"});
    add({"-chardev", fmt::format("file,id=token,path=/proc/self/fd/{}", kTokenFd)});
    add({"-device", "virtserialport,chardev=token,name=rocev2.token"});
    int index = 0;
    const auto share = [&](const fs::path &path, bool writable) {
        add({"-fsdev", fmt::format("local,id=fs{},path={},security_model=none,multidevs=remap{}", index, path.string(),
                                   writable ? "" : ",readonly=on")});
        add({"-device", fmt::format("virtio-9p-pci,fsdev=fs{0},mount_tag=share{0}", index)});
        index++;
    };
    share(boot.kernel.root.path, false);
    for (const Share &one : boot.shares)
        share(one.host, one.writable);
    if (boot.numa || !boot.cards.empty())
        AddMemory(command, boot);
    AddCards(command, boot);
    return command;
}

/* "type source target options" lines for guest-init. */
std::string MountTable(const Boot &boot)
{
    std::string table;
    int index = 0;
    const auto add = [&](const fs::path &host, const std::string &guest, bool writable) {
        const std::string access = writable ? "rw" : "ro";

        if (boot.kernel.rig == Rig::kUml)
            /* hostfs takes the host's path as its only option. */
            table += fmt::format("hostfs none {} {},{}\n", guest, access, host.string());
        else
            table += fmt::format("9p share{} {} {},trans=virtio,version=9p2000.L,msize=262144,cache={}\n", index++, guest, access,
                                 writable ? "none" : "loose");
    };

    add(boot.kernel.root.path, "/", false);
    for (const Share &share : boot.shares)
        add(share.host, share.guest, share.writable);
    return table;
}

void MakeInitramfs(const Boot &boot, const std::string &nonce)
{
    const bool uml = boot.kernel.rig == Rig::kUml;
    Initramfs archive;
    std::string modules;

    archive.AddFile("init", ReadFile(boot.guest_init), 0755);
    for (const char *directory : {"dev", "proc", "sys", "root"})
        archive.AddDirectory(directory);
    if (!uml) {
        for (const fs::path &file : ModuleClosure(boot.kernel.modules, kQemuBootModules)) {
            const std::string path = "modules/" + file.filename().string();

            archive.AddFile(path, ModuleContent(file));
            modules += "/" + path + "\n";
        }
    }
    archive.AddFile("job/modules", modules);
    archive.AddFile("job/mounts", MountTable(boot));
    archive.AddFile("job/script", boot.script);
    archive.AddFile("job/nonce", nonce);
    archive.AddFile("job/output", uml ? "/dev/tty0" : "rocev2.output");
    archive.AddFile("job/token", uml ? "/dev/ttyS1" : "rocev2.token");
    if (uml)
        archive.AddFile("job/cpuinfo", ReadFile("/proc/cpuinfo"));
    archive.WriteTo(boot.directory / "initramfs");
}

bool IsPanic(const std::string &line)
{
    return line.find("Kernel panic - not syncing") != std::string::npos;
}

Outcome RunGuest(const Boot &boot, bool kvm)
{
    const std::string nonce = Nonce();
    const auto start = Clock::now();

    fs::remove_all(boot.directory);
    fs::create_directories(boot.directory);
    MakeInitramfs(boot, nonce);

    LinePipe kmsg, output, token;
    Outcome outcome;
    outcome.kmsg = boot.directory / "kmsg";
    std::ofstream kmsg_file(outcome.kmsg);
    std::string kmsg_text;
    auto deadline = start + boot.timeout;
    bool panicked = false;

    const int log = open((boot.directory / "emulator.log").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    Command command = boot.kernel.rig == Rig::kUml ? UmlCommand(boot) : QemuCommand(boot, kvm);
    const pid_t pid = Spawn(command, {-1, log, log, kmsg.writer(), output.writer(), token.writer()}, true);

    close(log);
    for (LinePipe *pipe : {&kmsg, &output, &token})
        pipe->CloseWriter();

    const auto on_kmsg = [&](const std::string &line) {
        kmsg_file << line << '\n' << std::flush;
        kmsg_text += line + "\n";
        if (IsPanic(line) && !panicked) {
            panicked = true;
            deadline = std::min(deadline, Clock::now() + kLastWords);
        }
    };
    const auto on_output = [&](const std::string &line) {
        outcome.output.push_back(line);
        if (boot.on_output)
            boot.on_output(line);
    };
    const auto on_token = [&](const std::string &line) {
        const std::string expected = "rocev2-result " + nonce + " ";

        if (!line.starts_with(expected))
            return;
        outcome.token = true;
        outcome.status = std::stoi(line.substr(expected.size()));
        /* What is left is powering off. */
        deadline = std::min(deadline, Clock::now() + std::chrono::seconds(20));
    };

    std::array<pollfd, 3> polled = {{{kmsg.reader(), POLLIN, 0}, {output.reader(), POLLIN, 0}, {token.reader(), POLLIN, 0}}};
    bool killed = false;
    for (;;) {
        constexpr int kPollMs = 50;

        poll(polled.data(), polled.size(), kPollMs);
        kmsg.Drain(on_kmsg);
        output.Drain(on_output);
        token.Drain(on_token);
        /* Closed pipes poll as ready for ever. */
        for (pollfd &one : polled)
            if ((one.revents & POLLHUP) != 0)
                one.fd = -1;
        if (!killed && Clock::now() > deadline) {
            killed = true;
            outcome.timed_out = !panicked && !outcome.token;
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
        }
        int status = 0;
        if (waitpid(pid, &status, WNOHANG) == pid)
            break;
    }
    kmsg.Finish(on_kmsg);
    output.Finish(on_output);
    token.Finish(on_token);
    outcome.complaints = KernelComplaints(kmsg_text);
    outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    fs::remove(boot.directory / "initramfs");
    return outcome;
}

/* Whether KVM boots this kernel: tried once with an empty job, TCG otherwise. */
bool KvmWorks(const Boot &boot)
{
    static std::mutex lock;
    static int known = -1;
    const std::scoped_lock guard(lock);

    if (known < 0) {
        known = 0;
        if (KvmMakesMachines()) {
            Boot probe = boot;

            probe.script = "exit 0\n";
            probe.shares = {};
            probe.cards = {};
            probe.timeout = std::chrono::seconds(30);
            probe.directory += ".kvm-probe";
            probe.on_output = {};
            known = RunGuest(probe, true).token ? 1 : 0;
        }
        Note("QEMU uses {}", known == 1 ? "KVM" : "TCG (no usable KVM here), which is slow");
    }
    return known == 1;
}

} // namespace

std::string Outcome::Trouble() const
{
    if (timed_out)
        return "timed out";
    if (!complaints.empty())
        return "the kernel complained: " + complaints.front();
    if (!token)
        return "the guest ended without reporting a status";
    return {};
}

std::vector<std::string> KernelComplaints(std::string_view kmsg)
{
    static const std::regex kBad(
        "WARNING:|BUG:|BUG |Oops|Kernel panic|general protection|unregister_netdevice: waiting|blocked for more than|"
        "rcu.*(stall|self-detected)|soft lockup|hard LOCKUP|KASAN|UBSAN|KCSAN|unreferenced object|"
        "refcount_t:|DEBUG_LOCKS_WARN|ODEBUG|INFO: (task|possible|trying|inconsistent)|suspicious RCU|corruption|"
        "scheduling while atomic|sleeping function|Call Trace|segfault at|stalled pool|rocev2-init:|"
        "Restrack|BUGGY|use-after-free|double free");
    /* Of the machine, not of the module; and perftest crashing after a rejection (perftest() in lib.sh). */
    static const std::regex kHarmless("Spectre|Memory corruption check|Kernel command line|"
                                      "ib_[a-z_]+\\[[0-9]+\\]: segfault .* in librdmacm");
    std::vector<std::string> complaints;

    for (std::string &line : SplitLines(kmsg))
        if (std::regex_search(line, kBad) && !std::regex_search(line, kHarmless))
            complaints.push_back(std::move(line));
    return complaints;
}

Outcome BootGuest(const Boot &boot)
{
    const bool kvm = boot.kernel.rig == Rig::kQemu && !boot.icount && KvmWorks(boot);

    return RunGuest(boot, kvm);
}

} // namespace rig
