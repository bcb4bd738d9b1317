// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What the modes of moderation of the native ConnectX attach cost and give, under three loads, all in one boot:
// each round has every mode, in random order. Writes JSON; fails if data is wrong, a mode does not take, or
// packets go astray. Not a test: Documentation/moderation.md says how it is made and read.
#include "bench/card.hpp"
#include "bench/load.hpp"
#include "bench/statistics.hpp"

#include <nlohmann/json.hpp>
#include <sys/utsname.h>

#include <array>
#include <chrono>
#include <fstream>
#include <numeric>
#include <thread>

using namespace rocev2::test;
using namespace std::chrono_literals;
using nlohmann::ordered_json;

namespace {

// Of one 8-byte message, of bursts of 4 KiB ones, of 64 KiB back to back.
const std::vector<Load> loads{
    {.name = "light", .message_bytes = 8, .burst = 1, .interval = 1000us, .window = 64},
    {.name = "bursty", .message_bytes = 4096, .burst = 64, .interval = 10000us, .window = 256},
    {.name = "saturating", .message_bytes = 65536, .burst = 16, .interval = 0us, .window = 16},
};

// As the attribute takes them, and reads back. A fixed count waits 4 us for each of its packets.
const std::vector<std::string> modes{"fixed 0 1", "fixed 32 8", "fixed 64 16", "fixed 256 64", "dim", "poll 100"};

// `poll` may have so many interrupts per packet: those that begin the polling.
constexpr double most_of_poll = 0.02;
// The kernel gives the same value of a counter of `rdma statistic` for so long.
constexpr auto counter_age = 30ms;

struct Settings {
    Options common;
    std::string card_a;
    std::string card_b;
    std::string output;
    unsigned rounds = 5;
    double seconds = 2;
    double warm_up = 1;
};

struct Bench {
    const Settings &settings;
    Sides sides;
    Card card_a;
    Card card_b;

    explicit Bench(const Settings &s)
        : settings(s), sides(open_sides(s.common)), card_a(s.card_a), card_b(s.card_b)
    {
        select_default_gids(sides, s.common);
    }
};

Clock::duration seconds(double count)
{
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
}

// `digits` significant ones: more would only be noise.
double rounded(double value, int digits = 4)
{
    return std::stod(fmt::format("{:.{}g}", value, digits));
}

using Counters = std::map<std::string, uint64_t>;

// What the queues have lost, interrupts too, or how often they were made anew: never, here.
void require_no_loss(const Counters &before, const Counters &after)
{
    for (const char *name : {"no_buffer", "drop_not_ours", "drop_error", "lost_interrupts", "rebuilds"})
        require(after.at(name) == before.at(name), "{} has grown by {}", name, after.at(name) - before.at(name));
}

double microseconds(uint32_t nanoseconds)
{
    return rounded(nanoseconds / 1000.0);
}

// One mode and load, once; `add(name, value)` takes the results.
template <typename Add>
void measure(Bench &bench, const std::string &mode, const Load &load, Receiver receiver, uint64_t seed, Add add)
{
    bench.card_a.moderate(mode);
    bench.card_b.moderate(mode);
    std::this_thread::sleep_for(counter_age);
    const uint64_t sent_before = hw_counter(bench.sides.a, "tx_packets");
    const Counters first = bench.card_b.counters();
    Traffic traffic(bench.sides, load, seed);

    traffic.run(receiver, seconds(bench.settings.warm_up));
    const Counters before = bench.card_b.counters();
    const Counters before_a = bench.card_a.counters();
    const double idle_before = idle_seconds();
    const auto start = Clock::now();
    const Arrivals arrivals = traffic.run(receiver, seconds(bench.settings.seconds));
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    const double idle = idle_seconds() - idle_before;
    const Counters after = bench.card_b.counters();
    const Counters after_a = bench.card_a.counters();
    traffic.drain();
    std::this_thread::sleep_for(counter_age);
    const uint64_t sent = hw_counter(bench.sides.a, "tx_packets") - sent_before;

    const auto grown = [&](const char *name) { return static_cast<double>(after.at(name) - before.at(name)); };
    const double packets = grown("packets");
    const double interrupts = grown("interrupts");
    const double gigabytes = static_cast<double>(arrivals.messages) * load.message_bytes / 1e9;
    const uint64_t needed = traffic.posted() * traffic.packets_per_message();
    require(arrivals.messages > 0, "nothing has arrived");
    require(after.at("packets") - first.at("packets") >= arrivals.messages * traffic.packets_per_message(),
            "packets have not come through our queues");
    require_no_loss(first, after);
    if (mode == "poll 100")
        require(interrupts <= packets * most_of_poll, "{} interrupts for {} packets while polling", interrupts,
                packets);

    if (receiver == Receiver::polls) {
        add("latency_median_us", microseconds(quantile(arrivals.latencies_ns, 500)));
        add("latency_p999_us", microseconds(quantile(arrivals.latencies_ns, 999)));
        add("latency_max_us", microseconds(quantile(arrivals.latencies_ns, 1000)));
        add("latency_samples", static_cast<double>(arrivals.latencies_ns.size()));
        return;
    }
    add("interrupts_per_s", rounded(interrupts / elapsed));
    if (interrupts > 0)
        add("packets_per_interrupt", rounded(packets / interrupts));
    add("cpu_s_per_gb", rounded((elapsed * online_processors() - idle) / gigabytes));
    add("cpu_share", rounded(1 - idle / (elapsed * online_processors())));
    add("delivered_share", rounded(static_cast<double>(needed) / static_cast<double>(sent), 6));
    add("mb_per_s", rounded(gigabytes * 1000 / elapsed));
    add("packets_per_s", rounded(packets / elapsed));
    add("polls_per_s", rounded(grown("polls") / elapsed));
    add("sender_interrupts_per_s",
        rounded(static_cast<double>(after_a.at("interrupts") - before_a.at("interrupts")) / elapsed));
    add("woken_latency_median_us", microseconds(quantile(arrivals.latencies_ns, 500)));
    if (mode == "dim") {
        add("dim_profile", static_cast<double>(after.at("profile")));
        add("dim_profile_changes", grown("profile_changes"));
    }
}

ordered_json describe(const Settings &settings)
{
    utsname system{};
    ordered_json text;

    uname(&system);
    text["kernel"] = system.release;
    text["processors"] = online_processors();
    text["seed"] = settings.common.seed;
    text["rounds"] = settings.rounds;
    text["seconds"] = settings.seconds;
    text["warm_up_seconds"] = settings.warm_up;
    for (const Load &load : loads)
        text["loads"].push_back({{"name", load.name},
                                 {"message_bytes", load.message_bytes},
                                 {"burst", load.burst},
                                 {"interval_us", load.interval.count()},
                                 {"window", load.window}});
    text["modes"] = modes;
    return text;
}

ordered_json run(const Settings &settings)
{
    Bench bench(settings);
    Rng rng(settings.common.seed);
    ordered_json text = describe(settings);

    text["path_mtu"] = mtu_bytes(common_mtu(bench.sides));
    // a member added now would move it
    ordered_json &results = text["results"];
    for (const Load &load : loads)
        for (const std::string &mode : modes)
            results.push_back({{"load", load.name}, {"mode", mode}});
    for (unsigned round = 0; round < settings.rounds; round++) {
        std::vector<size_t> order(results.size());

        std::iota(order.begin(), order.end(), size_t{0});
        for (size_t i = order.size() - 1; i > 0; i--)
            std::swap(order[i], order[rng.between(size_t{0}, i)]);
        fmt::print("# round {} of {}\n", round + 1, settings.rounds);
        std::fflush(stdout);
        for (const size_t i : order) {
            const Load &load = loads[i / modes.size()];
            const std::string &mode = modes[i % modes.size()];
            const auto add = [&](const char *name, double value) { results[i][name].push_back(value); };

            try {
                for (const Receiver receiver : {Receiver::polls, Receiver::sleeps})
                    measure(bench, mode, load, receiver, rng.next(), add);
            } catch (const Failure &failure) {
                fail("{}, {}: {}", load.name, mode, failure.what());
            }
        }
    }
    return text;
}

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("measures the modes of moderation between two modelled ConnectX cards");
    Settings settings;

    add_common_options(app, settings.common);
    app.add_option("--card-a", settings.card_a, "auxiliary device of side A: mlx5_core.rdma.N")->required();
    app.add_option("--card-b", settings.card_b, "of side B, which receives")->required();
    app.add_option("--output", settings.output, "file for the results, JSON")->required();
    app.add_option("--rounds", settings.rounds, "how often each is measured")->check(CLI::Range(1, 99));
    app.add_option("--seconds", settings.seconds, "how long a measurement takes")->check(CLI::Range(0.01, 60.0));
    app.add_option("--warm-up", settings.warm_up, "seconds of the same load before it")->check(CLI::Range(0.0, 60.0));
    CLI11_PARSE(app, argc, argv);
    settle_options("moderation_bench", settings.common);
    try {
        const ordered_json text = run(settings);
        std::ofstream file(settings.output);

        require(!failure_reported(), "an object could not be destroyed");
        require(static_cast<bool>(file << text << std::flush), "cannot write {}", settings.output);
    } catch (const std::exception &error) {
        fmt::print("moderation_bench: {}\n", error.what());
        return 1;
    }
    return 0;
}
