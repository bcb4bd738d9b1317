// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The selftests as the rig runs them. */
#include "suite.h"

#include "build.h"
#include "cards.h"
#include "guest.h"
#include "host.h"
#include "ktap.h"
#include "log.h"
#include "model.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <regex>
#include <sstream>
#include <thread>

namespace rig {

namespace {

constexpr int kKtapSkip = 4;
/* Of a guest under TCG against one under UML, by measure of the stock test. */
constexpr int kTcgStretch = 6;
constexpr auto kQemuBootTime = std::chrono::seconds(60);
constexpr std::size_t kKmsgLinesShown = 60;
constexpr std::size_t kCardLinesShown = 20;

struct Prepared {
    const Kernel &kernel;
    fs::path module;	/* empty: another link type is being tried */
    fs::path selftests;
    fs::path model;	/* of a card; empty: no guest has one */
};

Prepared Prepare(const RunOptions &options, const Kernel &kernel, const std::string &programs, bool cards,
                 ModelBuild model = ModelBuild::kSanitized)
{
    Prepared prepared{kernel, {}, BuildSelftests(options.checkout, kernel.root, programs), {}};

    if (cards)
        prepared.model = BuildModel(options.checkout, model);
    if (options.link_type == "rocev2")
        prepared.module =
            BuildModule(options.checkout, kernel,
                        options.strict_build ? StrictArguments(options.checkout, kernel.build_root) : std::vector<std::string>());
    return prepared;
}

/* What every job in a guest starts and ends with. */
std::string Script(const Prepared &prepared, const RunOptions &options, const std::string &body)
{
    return fmt::format(R"(
export MODPROBE_OPTIONS='-d /run/rocev2/kernel' LINK_TYPE={0} ROCEV2_MODULE={1} ROCEV2_KMOD={4} RIG={2}
printf '#!/bin/sh\nexec /sbin/modprobe -d /run/rocev2/kernel "$@"\n' >/run/rocev2/modprobe
chmod +x /run/rocev2/modprobe
echo /run/rocev2/modprobe >/proc/sys/kernel/modprobe
for knob in panic_on_oops hung_task_panic softlockup_panic; do
    [ ! -e /proc/sys/kernel/$knob ] || echo 1 >/proc/sys/kernel/$knob
done
mkdir -p /run/netns
ip link set lo up
for module in ib_uverbs rdma_ucm ib_umad veth; do
    modprobe "$module" || exit 99
done
[ -z "$ROCEV2_MODULE" ] || {{ modprobe crc32_pclmul 2>/dev/null; modprobe -q -a $(modinfo -F depends "$ROCEV2_MODULE" | tr , ' ') 2>/dev/null; insmod "$ROCEV2_MODULE" || exit 99; }}
cd /run/rocev2/tests || exit 99
leaks=/sys/kernel/debug/kmemleak
# What the boot has left is not the test's. Objects are looked at when they are 5 s old, and reported by the second scan.
find_leaks() {{
    sleep 5
    echo scan >$leaks
    echo scan >$leaks
}}
[ ! -e $leaks ] || {{ echo scan=off >$leaks; find_leaks; echo clear >$leaks; }}
# KASAN keeps what is freed until an allocation that may sleep: packets alone, which have none, fill the memory.
case $RIG in
uml-*kasan) while sleep 0.2; do :; done & ;;
esac
{3}
status=$?
for module in rocev2_mlx5 rocev2; do
    grep -q "^$module " /proc/modules || continue
    rmmod $module || {{ echo "$module cannot be unloaded after the test"; [ $status != 0 ] || status=98; }}
done
if [ -e $leaks ]; then
    find_leaks
    # Not what the kernel made while it booted: UML has places that the scan does not look at.
    # A line at a time, or the log refuses it.
    awk '/^unreferenced/ {{ head = $0; next }} head {{ keep = !/comm "swapper/; if (keep) print head; head = "" }} keep' $leaks |
        while IFS= read -r line; do echo "kmemleak: $line" >/dev/kmsg; done
fi
exit $status
)",
                       options.link_type, prepared.module.empty() ? "" : "/run/rocev2/module/rocev2.ko",
                       prepared.kernel.name, body, prepared.module.empty() ? "" : "/run/rocev2/kmod");
}

fs::path GuestDirectory(const Prepared &prepared, const RunOptions &options, const std::string &name)
{
    return BuildDirectory(options.checkout) / "guests" / (prepared.kernel.name + "-" + name);
}

Boot MakeBoot(const Prepared &prepared, const RunOptions &options, const std::string &name, const std::string &body)
{
    Boot boot{.kernel = prepared.kernel};

    boot.script = Script(prepared, options, body);
    boot.directory = GuestDirectory(prepared, options, name);
    boot.guest_init = options.guest_init;
    boot.host_qemu = options.host_root;
    boot.icount = options.icount;
    boot.shares = {{prepared.selftests, "/run/rocev2/tests"},
                   {prepared.kernel.modules, "/run/rocev2/kernel/lib/modules/" + prepared.kernel.release}};
    if (!prepared.module.empty()) {
        boot.shares.push_back({prepared.module.parent_path(), "/run/rocev2/module"});
        boot.shares.push_back({TestModules(prepared.module), "/run/rocev2/kmod"});
    }
    return boot;
}

std::chrono::seconds Stretched(const Kernel &kernel, const RunOptions &options, std::chrono::seconds timeout)
{
    timeout *= options.stretch;
    if (kernel.rig == Rig::kQemu)
        return timeout * kTcgStretch + kQemuBootTime;
    /* The sanitizers' slow-down. */
    if (kernel.Has("kasan"))
        return timeout * 4;
    if (kernel.Has("lockdep"))
        return timeout * 6;
    return timeout;
}

/* What a test is run in and with, for those that run it to say. */
struct Job {
    std::string name;	/* of the directory with its logs */
    std::string body;	/* shell commands */
    unsigned memory_mib = 0;
    unsigned cards = 0;
    unsigned guests = 1;
    bool numa = false;
    std::chrono::seconds timeout{0};
};

struct JobResult {
    std::vector<Outcome> guests;
    std::vector<CardTrouble> cards;
    fs::path exchange;	/* if there were cards: see cards.h */

    /* One line for a failed run; empty if guests and cards worked, whatever status the script had. */
    std::string Trouble() const
    {
        for (std::size_t i = 0; i < guests.size(); i++)
            if (const std::string trouble = guests[i].Trouble(); !trouble.empty())
                return guests.size() > 1 ? fmt::format("guest {}: {}", GuestRole(static_cast<unsigned>(i)), trouble)
                                         : trouble;
        return cards.empty() ? std::string() : cards.front().what;
    }

    /* The script's; of several, the first failure, or else a skip. */
    int Status() const
    {
        int status = 0;

        for (const Outcome &guest : guests)
            if (guest.status != 0 && (status == 0 || status == kKtapSkip))
                status = guest.status;
        return status;
    }

    /* One line for a failed test, by the scripts' results, too; empty if it passed or was skipped. */
    std::string Flaw() const
    {
        const int status = Status();
        std::string flaw = Trouble();

        if (flaw.empty() && status != 0 && status != kKtapSkip)
            flaw = fmt::format("exit status {}", status);
        for (const Outcome &guest : guests)
            if (flaw.empty() && status == 0)
                flaw = CountKtap(guest.output).Flaw();
        return flaw;
    }

    /* The ends of the logs, for people to read after a failure. */
    std::vector<std::string> Logs() const
    {
        std::vector<std::string> lines;
        const auto add = [&](const std::string &what, const fs::path &log, std::size_t count) {
            lines.push_back(fmt::format("{} ({}):", what, log.string()));
            for (const std::string &line : SplitLines(Tail(log, count)))
                lines.push_back("  " + line);
        };

        for (const CardTrouble &card : cards)
            add(card.what, card.log, kCardLinesShown);
        for (const Outcome &guest : guests)
            add("kernel log", guest.kmsg, kKmsgLinesShown);
        return lines;
    }
};

Job JobOf(const Prepared &prepared, const RunOptions &options, const Test &test)
{
    return {.name = test.name,
            .body = "./" + test.name,
            .memory_mib = test.memory_mib,
            .cards = test.cards,
            .guests = test.guests,
            .numa = test.numa,
            .timeout = Stretched(prepared.kernel, options, test.timeout)};
}

/* How many processes of the host wanted a processor over the last minute. */
double LoadAverage()
{
    return std::stod(ReadFile("/proc/loadavg"));
}

/* Cards, then guests, all at once; `on_output` is told the guest's number, too, and is called by a thread for each. */
JobResult RunJob(const Prepared &prepared, const RunOptions &options, const Job &job,
                 const std::function<void(unsigned, const std::string &)> &on_output)
{
    std::unique_ptr<Cards> cards;
    JobResult result;

    if (job.cards > 0)
        cards = std::make_unique<Cards>(CardSetup{.model = prepared.model,
                                                  .rig = prepared.kernel.rig,
                                                  .guests = job.guests,
                                                  .per_guest = job.cards,
                                                  .wire = options.wire,
                                                  .mbit = options.cable_mbit,
                                                  .trace = options.trace_cards,
                                                  .directory = GuestDirectory(prepared, options, job.name + "-cards")});
    result.guests.resize(job.guests);
    const auto run = [&](unsigned guest) {
        const std::string role = GuestRole(guest);
        Boot boot = MakeBoot(prepared, options, job.guests > 1 ? job.name + "-" + role : job.name,
                             fmt::format("export ROLE={} CARDS={}\n{}", role, job.cards, job.body));

        if (job.memory_mib > 0)
            boot.memory_mib = job.memory_mib;
        boot.numa = job.numa;
        if (cards) {
            boot.cards = cards->Sockets(guest);
            boot.shares.push_back({cards->Exchange(), "/run/rocev2/exchange", true});
        }
        boot.timeout = job.timeout;
        boot.on_output = [&](const std::string &line) { on_output(guest, line); };
        /* However it ends, the other shall not wait for it: cards.sh looks for this file. */
        const auto leave = [&] {
            if (cards)
                WriteFile(cards->Exchange() / (role + ".left"), "");
        };
        try {
            result.guests[guest] = BootGuest(boot);
        } catch (...) {
            leave();
            throw;
        }
        leave();
    };
    {
        std::vector<std::future<void>> others;

        for (unsigned guest = 1; guest < job.guests; guest++)
            others.push_back(std::async(std::launch::async, run, guest));
        run(0);
        for (auto &other : others)
            other.get();
    }
    if (cards) {
        result.exchange = cards->Exchange();
        result.cards = cards->Stop();
    }
    return result;
}

class Printer {
public:
    void Line(const std::string &line)
    {
        const std::scoped_lock guard(lock_);

        Put(line);
    }
    void Block(const std::vector<std::string> &lines)
    {
        const std::scoped_lock guard(lock_);

        for (const std::string &line : lines)
            Put(line);
    }

private:
    void Put(const std::string &line)
    {
        std::fwrite(line.data(), 1, line.size(), stdout);
        std::fputc('\n', stdout);
        std::fflush(stdout);
    }
    std::mutex lock_;
};

/* One test: boot, run, judge; the lines of its result, and its leaves. */
class TestRun {
public:
    TestRun(const Prepared &prepared, const RunOptions &options, const Test &test, std::size_t number)
        : prepared_(prepared), options_(options), test_(test), number_(number)
    {
    }

    Totals Run(Printer &printer, bool live)
    {
        const Job job = JobOf(prepared_, options_, test_);

        live_ = live ? &printer : nullptr;
        /* What the other guests say comes behind: it would cut through the results of the first. */
        const JobResult result = RunJob(prepared_, options_, job, [this](unsigned guest, const std::string &line) {
            if (guest == 0)
                Emit(NestLine(line));
        });
        for (std::size_t i = 1; i < result.guests.size(); i++)
            for (const std::string &line : result.guests[i].output)
                Emit(fmt::format("  # {}| {}", GuestRole(static_cast<unsigned>(i)), line));
        const Totals totals = Judge(result);
        printer.Block(lines_);
        return totals;
    }

private:
    void Emit(const std::string &line)
    {
        if (live_)
            live_->Line(line);
        else
            lines_.push_back(line);
    }

    Totals Judge(const JobResult &result)
    {
        const int status = result.Status();
        std::string trouble = result.Flaw();
        const bool skipped = trouble.empty() && status == kKtapSkip;
        Totals totals;
        double seconds = 0;

        for (const Outcome &guest : result.guests) {
            const KtapCount count = CountKtap(guest.output);

            if (trouble.empty() && (skipped || count.skipped > 0) && !options_.allow_skip)
                trouble = "skipped, and a skip is a failure here (--allow-skip)";
            totals += {count.passed, count.failed, count.failures};
            seconds = std::max(seconds, guest.seconds);
        }

        const std::string tail = fmt::format("{} # {:.1f} s{}{}", test_.name, seconds, skipped ? " SKIP" : "",
                                             trouble.empty() ? "" : ", " + trouble);
        if (trouble.empty()) {
            Emit(fmt::format("ok {} {}", number_, tail));
            return {std::max(1, totals.passed), 0, {}};
        }
        for (const std::string &line : result.Logs())
            Emit("  # " + line);
        Emit(fmt::format("not ok {} {}", number_, tail));
        if (totals.failures.empty())
            totals.failures.push_back(trouble);
        for (std::string &failure : totals.failures)
            failure = fmt::format("{} on {}: {}", test_.name, prepared_.kernel.name, failure);
        return {totals.passed, std::max(1, totals.failed), totals.failures};
    }

    const Prepared &prepared_;
    const RunOptions &options_;
    const Test &test_;
    std::size_t number_;
    Printer *live_ = nullptr;
    std::vector<std::string> lines_;
};

} // namespace

bool Test::RunsOn(const Kernel &kernel) const
{
    return std::ranges::any_of(kernels, [&](const auto &prefix) { return kernel.name.starts_with(prefix); });
}

std::vector<Test> AllTests(const fs::path &checkout)
{
    const fs::path list = checkout / "tests/selftests/tests.list";
    std::vector<Test> tests;

    for (const std::string &line : SplitLines(ReadFile(list))) {
        std::istringstream words(line.substr(0, line.find('#')));
        Test test;
        int seconds = 0;

        if (!(words >> test.name))
            continue;
        words >> seconds;
        for (std::string word; words >> word;) {
            if (word.starts_with("mem="))
                test.memory_mib = static_cast<unsigned>(std::strtoul(word.c_str() + 4, nullptr, 10));
            else if (word.starts_with("cards="))
                test.cards = static_cast<unsigned>(std::strtoul(word.c_str() + 6, nullptr, 10));
            else if (word == "guests=2")
                test.guests = 2;
            else if (word == "numa")
                test.numa = true;
            else if (word == "alone")
                test.alone = true;
            else if (word == "short")
                test.short_cut = true;
            else
                test.kernels.push_back(word);
        }
        if (seconds <= 0 || test.kernels.empty())
            Fail("{}: `{}` is not \"name seconds [mem=MIB] [cards=N] [guests=2] [numa] [alone] [short] kernels...\"",
                 list.string(), line);
        test.timeout = std::chrono::seconds(seconds);
        tests.push_back(std::move(test));
    }
    return tests;
}

Totals &Totals::operator+=(const Totals &other)
{
    passed += other.passed;
    failed += other.failed;
    failures.insert(failures.end(), other.failures.begin(), other.failures.end());
    return *this;
}

Totals RunTests(const RunOptions &options, const Kernel &kernel, const std::vector<Test> &tests)
{
    /* They take minutes to build: only where a test wants one. */
    const std::regex kStartsProgram(R"re("\$\(dirname "\$0"\)/(?![a-z]+\.sh))re");
    const bool programs = std::ranges::any_of(tests, [&](const Test &test) {
        return std::regex_search(ReadFile(options.checkout / "tests/selftests" / test.name), kStartsProgram);
    });
    const bool cards = std::ranges::any_of(tests, [](const Test &test) { return test.cards > 0; });
    const Prepared prepared = Prepare(options, kernel, programs ? kAllPrograms : kNoPrograms, cards);
    const bool live = options.jobs <= 1;
    Printer printer;
    Totals totals;
    std::mutex totals_lock;

    printer.Line("KTAP version 1");
    printer.Line(fmt::format("# {}, kernel {}", kernel.name, kernel.release));
    printer.Line(fmt::format("1..{}", tests.size()));
    /* Those that measure come last, one by one. */
    const auto run = [&](bool alone) {
        std::atomic<std::size_t> next{0};
        const auto work = [&] {
            for (std::size_t i; (i = next++) < tests.size();) {
                if (tests[i].alone != alone)
                    continue;
                const Totals one = TestRun(prepared, options, tests[i], i + 1).Run(printer, live);
                const std::scoped_lock guard(totals_lock);

                totals += one;
            }
        };
        std::vector<std::jthread> workers;

        for (unsigned i = 1; i < options.jobs && !alone; i++)
            workers.emplace_back(work);
        work();
    };
    run(false);
    run(true);
    return totals;
}

int RunCommand(const RunOptions &options, const Kernel &kernel, const HandRun &run)
{
    const Prepared prepared = Prepare(options, kernel, kNoPrograms, run.cards > 0);
    const Job job{.name = "command",
                  .body = "(\n" + run.command + "\n)",
                  .cards = run.cards,
                  .guests = run.guests,
                  .timeout = run.timeout};
    Printer printer;
    const JobResult result = RunJob(prepared, options, job, [&](unsigned guest, const std::string &line) {
        printer.Line(run.guests > 1 ? fmt::format("{}| {}", GuestRole(guest), line) : line);
    });
    const std::string trouble = result.Trouble();

    if (!trouble.empty()) {
        Note("{}; {}", trouble, fmt::join(result.Logs(), "\n"));
        return result.Status() > 0 ? result.Status() : 1;
    }
    return result.Status();
}

BenchResult RunBench(const RunOptions &options, const Kernel &kernel, const Bench &bench)
{
    const Prepared prepared = Prepare(options, kernel, bench.program, true, ModelBuild::kPlain);
    const Job job{.name = "bench",
                  .body = bench.command,
                  .cards = bench.cards,
                  .timeout = Stretched(kernel, options, bench.timeout)};
    BenchResult measured{.text = {}, .load_before = LoadAverage()};
    const JobResult result = RunJob(prepared, options, job, [](unsigned, const std::string &line) { Say(line); });
    const std::string trouble = result.Trouble();

    measured.load_after = LoadAverage();
    if (!trouble.empty() || result.Status() != 0)
        Fail("the measurement failed: {}\n{}",
             trouble.empty() ? fmt::format("exit status {}", result.Status()) : trouble,
             fmt::join(result.Logs(), "\n"));
    measured.text = ReadFile(result.exchange / bench.result);
    return measured;
}

int RunDemo(const RunOptions &options, const Kernel &kernel)
{
    constexpr auto kPatience = std::chrono::seconds(300);
    const Prepared prepared = Prepare(options, kernel, kNoPrograms, false);
    Printer printer;
    Boot boot = MakeBoot(prepared, options, "demo", "./demo.sh");

    boot.timeout = kPatience;
    boot.on_output = [&](const std::string &line) { printer.Line(line); };
    Note("booting {} (Linux {})", kernel.rig == Rig::kUml ? "User-Mode Linux" : "a virtual machine with Debian's own kernel",
         kernel.release);
    const Outcome outcome = BootGuest(boot);
    const std::string trouble = outcome.Trouble();

    if (trouble.empty() && outcome.status == 0)
        return 0;
    Note("the demonstration failed: {}; the end of the kernel log ({}):\n{}",
         trouble.empty() ? fmt::format("exit status {}", outcome.status) : trouble, outcome.kmsg.string(),
         Tail(outcome.kmsg, kKmsgLinesShown));
    return 1;
}

int RunTestAsDemo(const RunOptions &options, const Kernel &kernel, const Test &test)
{
    constexpr std::string_view kComment = "# ";
    const Prepared prepared = Prepare(options, kernel, kNoPrograms, test.cards > 0);
    const Job job = JobOf(prepared, options, test);
    Printer printer;

    Note("booting {} {} (Linux {})", test.guests,
         kernel.rig == Rig::kUml ? "times User-Mode Linux" : "virtual machines with Debian's own kernel",
         kernel.release);
    const JobResult result = RunJob(prepared, options, job, [&](unsigned guest, const std::string &line) {
        if (line.starts_with(kComment))
            printer.Line(fmt::format("{}| {}", GuestRole(guest), line.substr(kComment.size())));
        else if (line.starts_with("not ok "))
            printer.Line(fmt::format("{}| {}", GuestRole(guest), line));
    });
    const std::string flaw = result.Flaw();

    if (flaw.empty() && result.Status() == 0)
        return 0;
    Note("the demonstration failed: {}; {}", flaw.empty() ? "it was skipped" : flaw, fmt::join(result.Logs(), "\n"));
    return 1;
}

} // namespace rig
