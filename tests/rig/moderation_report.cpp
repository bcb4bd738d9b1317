// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Tables, plot and verdict of a measurement of the modes of moderation. */
#include "moderation_report.h"

#include "log.h"

#include "bench/statistics.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace rig {

namespace {

using Json = nlohmann::ordered_json;

struct Metric {
    const char *key;
    const char *column;
    const char *title;	/* of its panels in the plot */
    double factor;
};

constexpr std::array kMetrics = {
    Metric{"interrupts_per_s", "interrupts/s", "interrupts per second", 1},
    Metric{"packets_per_interrupt", "packets per interrupt", "packets per interrupt", 1},
    Metric{"latency_median_us", "latency, us", "latency, median, us", 1},
    Metric{"latency_p999_us", "99.9 %, us", "latency, 99.9 %, us", 1},
    Metric{"cpu_s_per_gb", "CPU s/GB", "CPU seconds per GB", 1},
    Metric{"delivered_share", "delivered, %", "", 100},
};

/* DIM may have this share of the interrupts of an interrupt for each packet, and add so much to its latency. */
constexpr double kInterruptShare = 0.2;
constexpr double kLatencyFactor = 1.2;

/* Of the rounds. */
struct Spread {
    double median;
    double least;
    double greatest;
};

std::optional<Spread> SpreadOf(const Json &result, const Metric &metric)
{
    std::vector<double> values;

    if (!result.contains(metric.key))
        return {};
    for (const Json &value : result.at(metric.key))
        values.push_back(value.get<double>() * metric.factor);
    return Spread{rocev2::test::quantile(values, 500), rocev2::test::quantile(values, 0),
                  rocev2::test::quantile(values, 1000)};
}

const Json &ResultOf(const Json &measured, const std::string &load, const std::string &mode)
{
    for (const Json &result : measured.at("results"))
        if (result.at("load") == load && result.at("mode") == mode)
            return result;
    Fail("the measurement has no {} under the {} load", mode, load);
}

/* Three digits or so. */
std::string Number(double value)
{
    return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0);
}

std::string Cell(const std::optional<Spread> &spread)
{
    if (!spread)
        return "none";
    return fmt::format("{} ({}..{})", Number(spread->median), Number(spread->least), Number(spread->greatest));
}

std::string LoadTitle(const Json &load)
{
    const unsigned burst = load.at("burst");
    const unsigned bytes = load.at("message_bytes");
    const double interval = load.at("interval_us").get<double>() / 1000;

    if (interval == 0)
        return fmt::format("messages of {} bytes back to back, {} under way", bytes, load.at("window").get<unsigned>());
    return burst == 1 ? fmt::format("a message of {} bytes every {} ms", bytes, interval)
                      : fmt::format("{} messages of {} bytes every {} ms", burst, bytes, interval);
}

std::string Table(const Json &measured, const Json &load)
{
    const std::string name = load.at("name");
    std::string table = fmt::format("### {}: {}\n\n| moderation |", name, LoadTitle(load));
    std::string line = "\n|---|";

    for (const Metric &metric : kMetrics) {
        table += fmt::format(" {} |", metric.column);
        line += "---|";
    }
    table += line + "\n";
    for (const std::string mode : measured.at("modes")) {
        table += fmt::format("| `{}` |", mode);
        for (const Metric &metric : kMetrics)
            table += fmt::format(" {} |", Cell(SpreadOf(ResultOf(measured, name, mode), metric)));
        table += "\n";
    }
    return table;
}

/* The plot: a column of panels for each load, a row for each metric; a bar for each mode. */
constexpr double kPanelWidth = 320, kLabelWidth = 86, kBarWidth = 130;
constexpr double kBarHeight = 12, kBarPitch = 17, kPanelHeader = 34, kMargin = 12;

std::string Text(double x, double y, const std::string &text, const char *style = "")
{
    return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" {}>{}</text>)", x, y, style, text) + "\n";
}

std::string Bar(double x, double y, const Spread &spread, double scale, bool dim)
{
    const double middle = y + kBarHeight / 2;
    std::string bar = fmt::format(R"(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"/>)", x, y,
                                  spread.median * scale, kBarHeight, dim ? "#d95f02" : "#7a9cc6");

    bar += fmt::format(R"(<path d="M{:.1f} {:.1f}H{:.1f}" stroke="#222"/>)", x + spread.least * scale, middle,
                       x + spread.greatest * scale);
    bar += "\n";
    return bar + Text(x + spread.greatest * scale + 4, y + kBarHeight - 2, Number(spread.median));
}

std::string Panel(double x, double y, const Json &measured, const std::string &load, const Metric &metric)
{
    const std::string title = fmt::format("{}: {}", load, metric.title);
    std::string panel = Text(x, y + kPanelHeader - 10, title, R"(font-weight="bold")");
    double greatest = 0;

    for (const std::string mode : measured.at("modes"))
        if (const auto spread = SpreadOf(ResultOf(measured, load, mode), metric))
            greatest = std::max(greatest, spread->greatest);
    const double scale = greatest > 0 ? kBarWidth / greatest : 0;
    y += kPanelHeader;
    for (const std::string mode : measured.at("modes")) {
        const auto spread = SpreadOf(ResultOf(measured, load, mode), metric);

        panel += Text(x + kLabelWidth - 6, y + kBarHeight - 2, mode, R"(text-anchor="end")");
        panel += spread ? Bar(x + kLabelWidth, y, *spread, scale, mode == "dim")
                        : Text(x + kLabelWidth, y + kBarHeight - 2, "none");
        y += kBarPitch;
    }
    return panel;
}

std::string Verdict(const std::string &what, double ratio, double limit)
{
    return fmt::format("{}: {:.2f} times that of `fixed 0 1`, at most {:.1f} is wanted: {}", what, ratio, limit,
                       ratio <= limit ? "met" : "not met");
}

/* Of medians, DIM's to that of an interrupt for each packet. */
double Ratio(const Json &measured, const std::string &load, const Metric &metric)
{
    const auto dim = SpreadOf(ResultOf(measured, load, "dim"), metric);
    const auto each = SpreadOf(ResultOf(measured, load, "fixed 0 1"), metric);

    if (!dim || !each || each->median <= 0)
        Fail("the measurement has no {} under the {} load", metric.key, load);
    return dim->median / each->median;
}

} // namespace

std::string ModerationTables(const Json &measured)
{
    const Json &machine = measured.at("machine");
    const auto number = [&](const char *key) { return measured.at(key).get<std::uint64_t>(); };
    std::string text =
        fmt::format("Made by `make bench-moderation` on {}: Linux {} (User-Mode Linux, {} processor), path MTU {},\n"
                    "cable of {} Mbit/s, {} rounds of {} s, seed {}. The host: {}, {} processors,\n"
                    "load average {} before and {} after.\n\n"
                    "Each figure is the median of the rounds; in parentheses the least and the greatest.\n\n",
                    machine.at("date").get<std::string>(), measured.at("kernel").get<std::string>(),
                    number("processors"), number("path_mtu"), number("mbit"),
                    number("rounds"), measured.at("seconds").get<double>(),
                    number("seed"), machine.at("cpu").get<std::string>(),
                    machine.at("processors").get<unsigned>(), machine.at("load_before").get<double>(),
                    machine.at("load_after").get<double>());

    for (const Json &load : measured.at("loads"))
        text += Table(measured, load) + "\n";
    text += "DIM:\n\n";
    for (const std::string &line : ModerationVerdict(measured))
        text += fmt::format("- {}\n", line);
    return text;
}

std::string ModerationPlot(const Json &measured)
{
    const double panel_height = kPanelHeader + kBarPitch * static_cast<double>(measured.at("modes").size());
    const double width = 2 * kMargin + kPanelWidth * static_cast<double>(measured.at("loads").size());
    std::string panels;
    double y = kMargin;

    for (const Metric &metric : kMetrics) {
        if (*metric.title == '\0')
            continue;
        double x = kMargin;

        for (const Json &load : measured.at("loads")) {
            panels += Panel(x, y, measured, load.at("name"), metric);
            x += kPanelWidth;
        }
        y += panel_height;
    }
    y += kMargin;
    const std::string head =
        fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
                    R"(viewBox="0 0 {0:.0f} {1:.0f}" )"
                    R"(font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>)",
                    width, y);
    return head + "\n" + panels + "</svg>\n";
}

std::vector<std::string> ModerationVerdict(const Json &measured)
{
    const double interrupts = Ratio(measured, "saturating", kMetrics[0]);
    const double per_packet = 1 / Ratio(measured, "saturating", kMetrics[1]);

    return {Verdict("interrupts per second under the saturating load", interrupts, kInterruptShare),
            Verdict("interrupts per packet under the saturating load", per_packet, kInterruptShare),
            Verdict("median latency under the light load", Ratio(measured, "light", kMetrics[2]), kLatencyFactor)};
}

} // namespace rig
