// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The control socket. */
#include "control.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <limits>
#include <vector>

namespace cx {
namespace {

constexpr std::size_t kMaxLine = 1024;
constexpr std::size_t kMaxClients = 16;

struct FaultName {
    std::string_view name;
    Fault fault;
    bool numbered; /* takes an object's number, 0 if left out */
};
constexpr std::array kFaults = {
    FaultName{"command-timeout", Fault::kCommandTimeout, false},
    FaultName{"cq-error", Fault::kCqError, true},
    FaultName{"rq-error", Fault::kRqError, true},
    FaultName{"lost-interrupt", Fault::kLostInterrupt, false},
    FaultName{"link-down", Fault::kLinkDown, false},
    FaultName{"link-up", Fault::kLinkUp, false},
    FaultName{"health", Fault::kHealth, false},
};

constexpr std::string_view kHelp =
    "help | status | fault command-timeout | fault cq-error [NUMBER] | fault rq-error [NUMBER] | "
    "fault lost-interrupt | fault link-down | fault link-up | fault health | "
    "rate FRAMES_PER_SECOND | start | stop | remove | quit";

nlohmann::json Ok()
{
    return {{"ok", true}};
}

nlohmann::json Error(std::string text)
{
    return {{"error", std::move(text)}};
}

/* Decimal, or hexadecimal after "0x"; nothing if it is neither or too large. */
template <typename T> std::optional<T> Number(std::string_view text)
{
    int base = 10;
    T value = 0;

    if (text.starts_with("0x")) {
        base = 16;
        text.remove_prefix(2);
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

std::vector<std::string_view> Words(std::string_view line)
{
    constexpr std::string_view kBlank = " \t\r";
    std::vector<std::string_view> words;

    for (;;) {
        const std::size_t start = line.find_first_not_of(kBlank);
        if (start == std::string_view::npos)
            return words;
        line.remove_prefix(start);
        const std::size_t size = std::min(line.find_first_of(kBlank), line.size());
        words.push_back(line.substr(0, size));
        line.remove_prefix(size);
    }
}

nlohmann::json Parse(const std::string &text)
{
    nlohmann::json value = nlohmann::json::parse(text, nullptr, false);

    return value.is_discarded() ? nlohmann::json(text) : value;
}

nlohmann::json Inject(Function &function, const std::vector<std::string_view> &words)
{
    const auto *fault = words.size() < 2 ? kFaults.end() : std::ranges::find(kFaults, words[1], &FaultName::name);

    if (fault == kFaults.end() || words.size() > (fault->numbered ? 3U : 2U))
        return Error(fmt::format("fault: one of {}", kHelp));
    const auto number = words.size() == 3 ? Number<std::uint32_t>(words[2]) : 0U;
    if (!number)
        return Error(fmt::format("'{}' is no object's number", words[2]));
    if (!function.Inject(fault->fault, *number))
        return Error("there is no such object");
    return Ok();
}

} // namespace

Control::Control(EventLoop &loop, Function &function, Transport &transport, Backend &backend, const std::string &path)
    : loop_(loop), function_(function), transport_(transport), backend_(backend)
{
    if (!path.empty())
        listener_.emplace(loop_, path, SOCK_STREAM, [this](FileDescriptor socket) { Accept(std::move(socket)); });
}

Control::~Control()
{
    for (const Client &client : clients_)
        loop_.Unwatch(client.socket.Get());
}

std::string Control::Execute(std::string_view line)
{
    const std::vector<std::string_view> words = Words(line);
    const std::string_view order = words.empty() ? "" : words[0];
    nlohmann::json answer = Error("not an order; \"help\" lists them");

    if (order == "fault") {
        answer = Inject(function_, words);
    } else if (order == "rate" && words.size() == 2) {
        const auto rate = Number<std::uint64_t>(words[1]);

        answer = !rate                     ? Error("rate: frames a second, a number")
                 : backend_.SetRate(*rate) ? Ok()
                                           : Error("this backend makes no frames of its own, or not at this rate");
    } else if (words.size() != 1) {
        /* the rest take no arguments */
    } else if (order == "help") {
        answer = {{"help", kHelp}};
    } else if (order == "status") {
        answer = {{"card", Parse(function_.Status())},
                  {"transport", Parse(transport_.Status())},
                  {"backend", Parse(backend_.Status())}};
    } else if (order == "start" || order == "stop") {
        answer = backend_.SetRunning(order == "start") ? Ok() : Error("this backend makes no frames of its own");
    } else if (order == "remove") {
        answer = transport_.Disconnect() ? Ok() : Error("no guest is connected");
    } else if (order == "quit") {
        loop_.Stop();
        answer = Ok();
    }
    /* words of the caller's may be no UTF-8 */
    return answer.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Control::Accept(FileDescriptor socket)
{
    listener_->Resume();
    if (clients_.size() >= kMaxClients) /* closes it */
        return;
    const auto client = clients_.insert(clients_.end(), Client{.socket = std::move(socket), .input = {}});
    loop_.Watch(client->socket.Get(), EPOLLIN, [this, client](std::uint32_t) {
        if (!Read(*client)) {
            loop_.Unwatch(client->socket.Get());
            clients_.erase(client);
        }
    });
}

bool Control::Read(Client &client)
{
    std::array<char, kMaxLine> bytes = {};
    const ssize_t size = recv(client.socket.Get(), bytes.data(), bytes.size(), MSG_DONTWAIT);

    if (size < 0)
        return errno == EAGAIN || errno == EINTR;
    if (size == 0)
        return false;
    client.input.append(bytes.data(), static_cast<std::size_t>(size));
    for (;;) {
        const std::size_t end = client.input.find('\n');
        const bool too_long = std::min(end, client.input.size()) > kMaxLine;

        if (end == std::string::npos && !too_long)
            return true;
        const std::string answer =
            (too_long ? Error("the line is too long").dump() : Execute(client.input.substr(0, end))) + "\n";
        /* one that does not read its answers is let go */
        if (send(client.socket.Get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT) !=
                static_cast<ssize_t>(answer.size()) ||
            too_long)
            return false;
        client.input.erase(0, end + 1);
    }
}

} // namespace cx
