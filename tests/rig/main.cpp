// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The rig's command line. tests/run and the root Makefile call it; it is the
 * only program of the rig that people start.
 */
#include "build.h"
#include "host.h"
#include "log.h"
#include "moderation.h"
#include "style.h"
#include "suite.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>

namespace {

using namespace rig;

constexpr int kUsageError = 2;

struct Arguments {
    RunOptions run;
    std::string rig = "uml";
    std::string demo_rig = "qemu";
    std::string kernel = "6.12";
    std::string variant = "release";
    std::vector<std::string> tests;
    bool list = false;
    HandRun by_hand;
    int timeout = 120;
    ModerationBench moderation;
};

Kernel ChosenKernel(const Arguments &arguments)
{
    if (arguments.rig == "uml")
        return UmlKernel(arguments.run.checkout, arguments.variant);
    return StockKernel(arguments.kernel, arguments.run.host_root);
}

/* Tests with modelled cards have a target of their own, but for the few marked short. */
bool IsExtra(const Test &test)
{
    return test.cards > 0 && !test.short_cut;
}

const Test &FindTest(const std::vector<Test> &all, const std::string &name)
{
    const auto found = std::ranges::find_if(all, [&](const Test &test) {
        return test.name == name || fs::path(test.name).stem() == name;
    });

    if (found == all.end())
        Fail("there is no test {}; see --list", name);
    return *found;
}

/* Those named, or all that run on this kernel; the name without its suffix will do. */
std::vector<Test> ChosenTests(const Arguments &arguments, const Kernel &kernel)
{
    const auto all = AllTests(arguments.run.checkout);
    std::vector<Test> chosen;

    if (arguments.tests.empty()) {
        std::ranges::copy_if(all, std::back_inserter(chosen), [&](const Test &test) { return test.RunsOn(kernel); });
        return chosen;
    }
    for (const std::string &name : arguments.tests)
        chosen.push_back(FindTest(all, name));
    return chosen;
}

int Run(Arguments arguments)
{
    if (arguments.list) {
        for (const Test &test : AllTests(arguments.run.checkout))
            fmt::print("{:24} {:4} s  {}\n", test.name, test.timeout.count(), fmt::join(test.kernels, " "));
        return 0;
    }
    NeedRoot();
    arguments.by_hand.timeout = std::chrono::seconds(arguments.timeout);
    const Kernel kernel = ChosenKernel(arguments);

    if (!arguments.by_hand.command.empty())
        return RunCommand(arguments.run, kernel, arguments.by_hand);
    if (arguments.by_hand.cards > 0 || arguments.by_hand.guests > 1)
        Fail("--cards and --guests belong to --exec; what a test has is in tests.list");
    const Totals totals = RunTests(arguments.run, kernel, ChosenTests(arguments, kernel));
    fmt::print("# {} passed, {} failed\n", totals.passed, totals.failed);
    return totals.failed > 0 ? 1 : 0;
}

int Demo(Arguments arguments)
{
    NeedRoot();
    Note("caching in {}", CacheDirectory().string());
    if (arguments.demo_rig == "uml")
        return RunDemo(arguments.run, UmlKernel(arguments.run.checkout, "release"));
    /* The host's own distribution: no root to debootstrap, no kernel to build. */
    arguments.run.host_root = true;
    NeedPackages({"qemu-system-x86"});
    return RunDemo(arguments.run, StockKernel(HostDistribution().version == 12 ? "6.1" : "6.12", true));
}

/* The native attach between two machines, on the kernels of both Debians, then with rdma_rxe in one of them. */
int DemoConnectx(Arguments arguments)
{
    /* A slow machine shall show it, too. */
    constexpr int kPatience = 4;
    struct Part {
        Kernel kernel;
        std::string test;
        std::string what;
    };
    const std::string pair = "connectx_native_pair", both = "rocev2 attached natively to a modelled ConnectX in each";
    const std::string rxe = "connectx_native_rxe", one = "the same in guest a, rdma_rxe on the netdev in guest b";
    std::vector<Part> parts;
    int status = 0;

    NeedRoot();
    arguments.run.stretch = kPatience;
    Note("caching in {}", CacheDirectory().string());
    const auto tests = AllTests(arguments.run.checkout);
    if (arguments.demo_rig == "uml") {
        const Kernel kernel = UmlKernel(arguments.run.checkout, "connectx");

        parts = {{kernel, pair, both}, {kernel, rxe, one}};
    } else {
        const Kernel newer = StockKernel("6.12", false);

        parts = {{newer, pair, both}, {StockKernel("6.1", false), pair, both}, {newer, rxe, one}};
    }
    for (std::size_t i = 0; i < parts.size(); i++) {
        Note("part {} of {}: {}", i + 1, parts.size(), parts[i].what);
        const int failed = RunTestAsDemo(arguments.run, parts[i].kernel, FindTest(tests, parts[i].test));

        Note("part {} of {}: {}", i + 1, parts.size(), failed != 0 ? "failed" : "all worked, and all data were right");
        status = std::max(status, failed);
    }
    return status;
}

/* All kernels whose modules must build and load. */
std::vector<Kernel> CheckedKernels(const Arguments &arguments)
{
    std::vector<Kernel> kernels = {UmlKernel(arguments.run.checkout, "release")};

    for (const std::string &name : StockKernelNames())
        kernels.push_back(StockKernel(name, false));
    return kernels;
}

int Style(const Arguments &arguments)
{
    NeedRoot();
    const Totals totals = CheckStyle(arguments.run.checkout, CheckedKernels(arguments));
    return totals.failed > 0 ? 1 : 0;
}

int Unit(const Arguments &arguments)
{
    return RunUnitTests(arguments.run.checkout).failed > 0 ? 1 : 0;
}

/* A kernel that cannot be prepared fails alone: the others still have something to say. */
Totals RunGuarded(const Arguments &arguments, const Kernel &kernel, const std::vector<Test> &tests)
{
    try {
        return RunTests(arguments.run, kernel, tests);
    } catch (const Error &error) {
        Say(error.what());
        return {0, 1, {fmt::format("{}: {}", kernel.name, error.what())}};
    }
}

int Verdict(const Totals &totals)
{
    for (const std::string &failure : totals.failures)
        fmt::print("failed: {}\n", failure);
    fmt::print("{} passed, {} failed\n", totals.passed, totals.failed);
    return totals.failed > 0 ? 1 : 0;
}

/* Everything, what fails soonest first. */
int Check(Arguments arguments)
{
    Totals totals;

    NeedRoot();
    Note("caching in {}", CacheDirectory().string());
    arguments.run.strict_build = true;
    totals += RunUnitTests(arguments.run.checkout);
    const auto kernels = CheckedKernels(arguments);
    totals += CheckStyle(arguments.run.checkout, kernels);
    for (const Kernel &kernel : kernels) {
        auto tests = ChosenTests(arguments, kernel);

        std::erase_if(tests, IsExtra);
        totals += RunGuarded(arguments, kernel, tests);
    }
    const Kernel debian12 = UmlKernel(arguments.run.checkout, "debian12");
    totals += RunGuarded(arguments, debian12, ChosenTests(arguments, debian12));
    /* The short cut of CheckDebug(): one kernel more to build, and its few quick tests. */
    const Kernel kasan = UmlKernel(arguments.run.checkout, "kasan");
    auto tests = ChosenTests(arguments, kasan);
    std::erase_if(tests, [](const Test &test) { return !test.short_cut; });
    arguments.run.strict_build = false;
    totals += RunGuarded(arguments, kasan, tests);
    return Verdict(totals);
}

/* All selftests on the kernels with sanitizers. */
int CheckDebug(const Arguments &arguments)
{
    Totals totals;

    NeedRoot();
    Note("caching in {}", CacheDirectory().string());
    for (const char *variant : {"kasan", "lockdep"}) {
        const Kernel kernel = UmlKernel(arguments.run.checkout, variant);
        totals += RunGuarded(arguments, kernel, ChosenTests(arguments, kernel));
    }
    return Verdict(totals);
}

/* All selftests with modelled cards, on all kernels that have their driver. */
int CheckConnectx(const Arguments &arguments)
{
    Totals totals;

    NeedRoot();
    Note("caching in {}", CacheDirectory().string());
    std::vector<Kernel> kernels;
    for (const char *variant : {"connectx", "connectx-kasan"})
        kernels.push_back(UmlKernel(arguments.run.checkout, variant));
    for (const std::string &name : StockKernelNames())
        kernels.push_back(StockKernel(name, false));
    for (const Kernel &kernel : kernels) {
        auto tests = ChosenTests(arguments, kernel);

        std::erase_if(tests, [](const Test &test) { return test.cards == 0; });
        totals += RunGuarded(arguments, kernel, tests);
    }
    return Verdict(totals);
}

int BenchModeration(Arguments arguments)
{
    NeedRoot();
    Note("caching in {}", CacheDirectory().string());
    if (arguments.moderation.directory.empty())
        arguments.moderation.directory = arguments.run.checkout / "Documentation";
    return MeasureModeration(arguments.run, UmlKernel(arguments.run.checkout, "connectx"), arguments.moderation);
}

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("rocev2's test rig: boots machines and runs the selftests in them", "rocev2-rig");
    Arguments arguments;
    std::string checkout = ".";

    arguments.run.guest_init = rig::fs::canonical("/proc/self/exe").parent_path() / "guest-init";
    app.require_subcommand(1);
    app.add_option("--checkout", checkout, "the source tree")->check(CLI::ExistingDirectory);

    const auto add_rig = [](CLI::App *command, std::string &which) {
        command->add_option("--rig", which, "uml or qemu")->check(CLI::IsMember({"uml", "qemu"}))->capture_default_str();
    };
    const auto add_link_type = [&](CLI::App *command) {
        command->add_option("--link-type", arguments.run.link_type, "rocev2, or rxe or siw to try the rig on a peer")
            ->capture_default_str();
    };
    const auto add_stretch = [&](CLI::App *command) {
        command->add_option("--stretch", arguments.run.stretch, "multiply all time-outs")
            ->check(CLI::Range(1, 100))
            ->capture_default_str();
    };
    CLI::App *run = app.add_subcommand("run", "run selftests by name (all, if none is named) and print KTAP");
    add_rig(run, arguments.rig);
    run->add_option("--kernel", arguments.kernel, "of the QEMU rig: 6.1, 6.12 or newest")
        ->check(CLI::IsMember(rig::StockKernelNames()))
        ->capture_default_str();
    run->add_option("--variant", arguments.variant,
                    "of the UML kernel: release, kasan, lockdep, connectx, connectx-kasan, "
                    "or debian12 (user land)")
        ->check(CLI::IsMember(rig::UmlVariants()))
        ->capture_default_str();
    run->add_flag("--list", arguments.list, "list the tests, their time-outs and the kernels they run on");
    run->add_flag("--allow-skip", arguments.run.allow_skip, "a skipped test is not a failure");
    run->add_option("-j,--jobs", arguments.run.jobs, "guests at once")->check(CLI::Range(1, 64))->capture_default_str();
    add_link_type(run);
    add_stretch(run);
    run->add_flag("--host-root", arguments.run.host_root, "QEMU and user land of this host instead of a cached Debian root");
    run->add_option("--exec", arguments.by_hand.command, "run this shell command in the guest instead of tests");
    run->add_option("--cards", arguments.by_hand.cards,
                    "of --exec: modelled ConnectX cards of the guest, cabled pairwise")
        ->check(CLI::Range(0, 8));
    run->add_option("--guests", arguments.by_hand.guests,
                    "of --exec: 2 runs it in two, as ROLE a and b, the cards of the one cabled to those of the other")
        ->check(CLI::Range(1, 2));
    run->add_option("--wire", arguments.run.wire,
                    "of a card without another at the end of its cable: connectx-model's --backend")
        ->capture_default_str();
    run->add_option("--cable-mbit", arguments.run.cable_mbit, "Mbit/s of the cables between cards (default: no rate is kept)")
        ->check(CLI::Range(1, 400000));
    run->add_flag("--icount", arguments.run.icount,
                  "of the QEMU rig: the time-stamp counter counts the instructions of its one CPU");
    run->add_flag("--trace-cards", arguments.run.trace_cards, "each command and doorbell goes to the log of its card");
    run->add_option("--timeout", arguments.timeout, "of --exec, in seconds")->check(CLI::PositiveNumber)->capture_default_str();
    run->add_option("TEST", arguments.tests, "names of tests");

    CLI::App *demo = app.add_subcommand("demo", "link two devices and show ib_write_bw between two namespaces");
    add_rig(demo, arguments.demo_rig);
    add_link_type(demo);
    CLI::App *demo_connectx =
        app.add_subcommand("demo-connectx", "the native attach to modelled ConnectX cards, between two guests");
    add_rig(demo_connectx, arguments.demo_rig);
    CLI::App *check = app.add_subcommand("check", "unit tests, style, all selftests on all kernels");
    check->add_option("-j,--jobs", arguments.run.jobs, "guests at once")->check(CLI::Range(1, 64))->capture_default_str();
    CLI::App *check_debug = app.add_subcommand("check-debug", "all selftests on the KASAN and the lockdep kernel");
    check_debug->add_option("-j,--jobs", arguments.run.jobs, "guests at once")->check(CLI::Range(1, 64))->capture_default_str();
    add_stretch(check_debug);
    CLI::App *check_connectx = app.add_subcommand("check-connectx", "all selftests with modelled ConnectX cards");
    check_connectx->add_option("-j,--jobs", arguments.run.jobs, "tests at once")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
    add_stretch(check_connectx);
    CLI::App *bench =
        app.add_subcommand("bench-moderation", "measure the modes of moderation of the native ConnectX attach");
    bench->add_option("--rounds", arguments.moderation.rounds, "how often each is measured")
        ->check(CLI::Range(1, 99))
        ->capture_default_str();
    bench->add_option("--seconds", arguments.moderation.seconds, "how long a measurement takes")
        ->check(CLI::Range(0.01, 60.0))
        ->capture_default_str();
    bench->add_option("--warm-up", arguments.moderation.warm_up, "seconds of the same load before it")
        ->check(CLI::Range(0.0, 60.0))
        ->capture_default_str();
    bench->add_option("--mbit", arguments.moderation.mbit, "rate of the cable, Mbit/s")
        ->check(CLI::Range(1, 400000))
        ->capture_default_str();
    bench->add_option("--seed", arguments.moderation.seed, "of messages and order (default: a new one)");
    bench->add_option("--output", arguments.moderation.directory,
                      "directory with a moderation.md for the tables; .json and .svg go there, too (default: Documentation)")
        ->check(CLI::ExistingDirectory);
    add_stretch(bench);
    CLI::App *style = app.add_subcommand("style", "checkpatch, sparse, builds with W=1");
    CLI::App *unit = app.add_subcommand(
        "unit", "unit tests of the pure protocol files and of connectx-model, and the micro-benchmarks once");
    CLI::App *micro =
        app.add_subcommand("micro", "time and count the instructions of protocol files and stages of the receive path");

    CLI11_PARSE(app, argc, argv);
    try {
        arguments.run.checkout = rig::fs::canonical(checkout);
        if (run->parsed())
            return Run(arguments);
        if (demo->parsed())
            return Demo(arguments);
        if (demo_connectx->parsed())
            return DemoConnectx(arguments);
        if (check->parsed())
            return Check(arguments);
        if (check_debug->parsed())
            return CheckDebug(arguments);
        if (check_connectx->parsed())
            return CheckConnectx(arguments);
        if (bench->parsed())
            return BenchModeration(arguments);
        if (style->parsed())
            return Style(arguments);
        if (unit->parsed())
            return Unit(arguments);
        if (micro->parsed())
            return RunMicro(arguments.run.checkout);
    } catch (const std::exception &error) {
        std::fflush(stdout);
        fmt::print(stderr, "rocev2-rig: {}\n", error.what());
    }
    return kUsageError;
}
