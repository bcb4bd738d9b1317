// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Choice of a backend. */
#include "backend.hpp"

#include "backend_common.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace cx {
namespace {

/* A cable that is plugged in at this end only. */
class None final : public Backend {
public:
    void Start(Receiver /* receiver */) override
    {
    }
    void Send(std::span<const std::byte> /* frame */) override
    {
        ++counters_.send_dropped;
    }
    std::string Status() const override
    {
        return CountersJson("none", counters_).dump();
    }

private:
    WireCounters counters_;
};

} // namespace

bool Backend::SetRate(std::uint64_t /* frames_per_second */)
{
    return false;
}

bool Backend::SetRunning(bool /* running */)
{
    return false;
}

nlohmann::json CountersJson(std::string_view kind, const WireCounters &counters)
{
    return {
        {"backend", kind},
        {"sent", counters.sent},
        {"sent_bytes", counters.sent_bytes},
        {"send_dropped", counters.send_dropped},
        {"received", counters.received},
        {"received_bytes", counters.received_bytes},
        {"receive_dropped", counters.receive_dropped},
    };
}

BackendOptions::BackendOptions(std::string_view text)
{
    while (!text.empty()) {
        const std::string_view pair = text.substr(0, text.find(','));
        const std::size_t equals = pair.find('=');

        if (equals == std::string_view::npos || equals == 0)
            throw BackendError(fmt::format("'{}' is not KEY=VALUE", pair));
        if (!values_.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
            throw BackendError(fmt::format("'{}' is given twice", pair.substr(0, equals)));
        text.remove_prefix(std::min(pair.size() + 1, text.size()));
    }
}

std::optional<std::string> BackendOptions::Text(const std::string &key)
{
    const auto node = values_.extract(key);

    return node.empty() ? std::nullopt : std::optional(node.mapped());
}

std::uint64_t BackendOptions::Number(const std::string &key, std::uint64_t absent, std::uint64_t low,
                                     std::uint64_t high)
{
    const auto text = Text(key);
    std::uint64_t value = 0;

    if (!text)
        return absent;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || value < low || value > high)
        throw BackendError(fmt::format("{}={} is no number from {} to {}", key, *text, low, high));
    return value;
}

bool BackendOptions::Flag(const std::string &key, bool absent)
{
    const auto text = Text(key);

    if (text && *text != "yes" && *text != "no")
        throw BackendError(fmt::format("{}={} is neither yes nor no", key, *text));
    return text ? *text == "yes" : absent;
}

void BackendOptions::Finish() const
{
    if (!values_.empty())
        throw BackendError(fmt::format("'{}' is no option of this backend", values_.begin()->first));
}

bool Pace::Take(Clock::time_point now)
{
    if (now < due_)
        return false;
    const auto interval = std::chrono::nanoseconds(std::max<std::uint64_t>(burst_ * 1000000000 / rate_, 1));
    due_ += interval;
    if (now - due_ > kMaxLate) {
        const auto missed = (now - due_) / interval;

        given_up_ += static_cast<std::uint64_t>(missed);
        due_ += missed * interval;
    }
    return true;
}

std::unique_ptr<Backend> MakeBackend(EventLoop &loop, Trace &trace, const std::string &text)
{
    const std::size_t colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    const std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);

    if (kind == "none" && rest.empty())
        return std::make_unique<None>();
    if (kind == "tap" && !rest.empty())
        return MakeTap(loop, rest);
    if ((kind == "socket" || kind == "listen") && !rest.empty())
        return MakeSocketBackend(loop, trace, rest, kind == "listen");
    if (kind == "pcap")
        return MakePcap(loop, rest);
    if (kind == "generator")
        return MakeGenerator(loop, rest);
    throw BackendError(fmt::format("backend '{}' is none of none, tap:NAME, socket:PATH, listen:PATH, pcap:IN,OUT, "
                                   "generator:OPTIONS",
                                   text));
}

} // namespace cx
