// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Modelled ConnectX cards. */
#include "cards.h"

#include "log.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace rig {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kStartTime = std::chrono::seconds(30);
/* Of a control command. */
constexpr auto kAnswerTime = std::chrono::seconds(10);
/* Of a model that was asked to end: on a busy machine its sanitizers take their time to look for leaks. */
constexpr auto kEndTime = std::chrono::seconds(60);
constexpr auto kPause = std::chrono::milliseconds(20);
const std::string kRequest = ".request";
/* Of the directory of sockets; the rig's PID and a random part follow. */
const std::string kSocketsPrefix = "rocev2-cards-";

struct Card {
    std::string name;
    fs::path socket;	/* of its PCI function */
    fs::path control;
    fs::path log;
    pid_t pid = -1;
    int status = -1;	/* when pid is -1 */
    bool stuck = false;	/* it did not end when it was asked to */

    /* Whether it runs; its exit status is noted when it does not. */
    bool Runs()
    {
        int how = 0;

        if (pid > 0 && waitpid(pid, &how, WNOHANG) == pid) {
            pid = -1;
            status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
        }
        return pid > 0;
    }
};

/* A socket that can be connected to, without doing it: a model serves one guest and may end with it. */
bool Listens(const fs::path &socket)
{
    /* Num RefCount Protocol Flags Type St Inode Path; this flag is that of listen(2). */
    constexpr std::string_view kListening = " 00010000 ";

    return std::ranges::any_of(SplitLines(ReadFile("/proc/net/unix")), [&](const std::string &line) {
        return line.ends_with(" " + socket.string()) && line.find(kListening) != std::string::npos;
    });
}

/* As a control socket says it. */
std::string Refusal(std::string_view why)
{
    return fmt::format(R"({{"error":"{}"}})", why);
}

/* Ask a control socket: one line there, one line of JSON back. */
std::string Ask(const fs::path &control, const std::string &command)
{
    const auto refuse = [](const char *what) {
        return Refusal(fmt::format("cannot {} the card: {}", what, std::strerror(errno)));
    };
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience = {std::chrono::seconds(kAnswerTime).count(), 0};
    sockaddr_un address{};
    std::string answer;

    if (fd < 0)
        return refuse("make a socket to");
    address.sun_family = AF_UNIX;
    control.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const std::string line = command + "\n";
    if (connect(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0) {
        answer = refuse("reach");
    } else if (send(fd, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
        answer = refuse("tell");
    } else {
        std::array<char, 4096> buffer{};

        for (ssize_t got;
             answer.find('\n') == std::string::npos && (got = recv(fd, buffer.data(), buffer.size(), 0)) > 0;)
            answer.append(buffer.data(), static_cast<std::size_t>(got));
        if (answer.empty())
            answer = refuse("hear");
    }
    close(fd);
    return Trim(answer);
}

/* What rigs that are no more, killed before they could, have left behind. */
void SweepSockets()
{
    std::error_code ignored;

    for (const auto &entry : fs::directory_iterator(fs::temp_directory_path(), ignored)) {
        const std::string name = entry.path().filename();
        int pid = 0;

        if (!name.starts_with(kSocketsPrefix))
            continue;
        const char *end = name.data() + name.size();
        const auto [after, error] = std::from_chars(name.data() + kSocketsPrefix.size(), end, pid);
        if (error == std::errc() && after != end && *after == '-' && pid > 0 && kill(pid, 0) != 0 && errno == ESRCH)
            fs::remove_all(entry.path(), ignored);
    }
}

std::string Mac(unsigned guest, unsigned number)
{
    return fmt::format("02:c5:00:00:{:02x}:{:02x}", guest, number);
}

} // namespace

std::string GuestRole(unsigned guest)
{
    return {static_cast<char>('a' + guest)};
}

struct Cards::State {
    CardSetup setup;
    fs::path sockets;	/* short: a socket's path has 107 characters at most */
    fs::path exchange;
    std::vector<Card> cards;	/* of all guests, guest after guest */
    std::jthread server;

    void Start(Card &card, unsigned guest, unsigned number, const std::string &backend)
    {
        Command command{{setup.model, setup.rig == Rig::kUml ? "--virtio-pcidev" : "--vfio-user", card.socket,
                         "--control", card.control, "--backend", backend, "--mac", Mac(guest, number)}};

        if (setup.trace)
            command.argv.emplace_back("--trace");
        const int log = open(card.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (log < 0)
            Fail("cannot write {}: {}", card.log.string(), std::strerror(errno));
        card.pid = Spawn(command, {-1, log, log}, false);
        close(log);
        AwaitListening(card, card.socket);
        AwaitListening(card, card.control);
    }

    static void AwaitListening(Card &card, const fs::path &socket)
    {
        const auto deadline = Clock::now() + kStartTime;

        while (!Listens(socket)) {
            if (!card.Runs() || Clock::now() > deadline)
                Fail("the modelled card {} does not start; {} says:\n{}", card.name, card.log.string(),
                     Tail(card.log, 20));
            std::this_thread::sleep_for(kPause);
        }
    }

    /* The partner of a card, as indices into `cards`; itself: it has none. */
    std::size_t Partner(std::size_t index) const
    {
        const std::size_t partner = setup.guests > 1 ? (index + setup.per_guest) % cards.size() : index ^ 1;

        return partner < cards.size() ? partner : index;
    }

    void StartAll()
    {
        for (std::size_t i = 0; i < cards.size(); i++) {
            const std::size_t partner = Partner(i);
            const fs::path wire = sockets / ("wire" + std::to_string(std::min(i, partner)));
            std::string backend = setup.wire;

            if (i != partner) {
                backend = (i < partner ? "listen:" : "socket:") + wire.string();
                if (setup.mbit > 0)
                    backend += fmt::format(",mbit={}", setup.mbit);
            }
            Start(cards[i], static_cast<unsigned>(i) / setup.per_guest, static_cast<unsigned>(i) % setup.per_guest,
                  backend);
        }
    }

    void AnswerRequests()
    {
        std::vector<fs::path> requests;

        for (const auto &entry : fs::directory_iterator(exchange))
            if (entry.path().extension() == kRequest)
                requests.push_back(entry.path());
        for (const fs::path &file : requests) {
            const std::string name = file.stem();
            const auto card = std::ranges::find(cards, name.substr(0, name.find('.')), &Card::name);
            const std::string answer = card == cards.end() ? Refusal("there is no card of this name")
                                                           : Ask(card->control, Trim(ReadFile(file)));

            fs::remove(file);
            WriteFile(exchange / (name + ".tmp"), answer + "\n");
            fs::rename(exchange / (name + ".tmp"), exchange / (name + ".answer"));
        }
    }

    static void End(Card &card)
    {
        const auto deadline = Clock::now() + kEndTime;

        kill(card.pid, SIGTERM);
        while (card.Runs() && Clock::now() < deadline)
            std::this_thread::sleep_for(kPause);
        if (card.pid > 0) {
            card.stuck = true;
            kill(card.pid, SIGKILL);
            card.status = Wait(card.pid);
            card.pid = -1;
        }
    }

    static std::string TroubleOf(Card &card)
    {
        constexpr std::string_view kComplaint = "complaint: ";
        const bool ran = card.Runs();

        if (ran)
            End(card);
        for (const std::string &line : SplitLines(ReadFile(card.log)))
            if (line.find(kComplaint) != std::string::npos)
                return fmt::format("card {}: {}", card.name, Trim(line));
        if (!ran)
            return fmt::format("card {} died during the test, exit status {}", card.name, card.status);
        if (card.stuck)
            return fmt::format("card {} did not end in {} s", card.name, kEndTime.count());
        if (card.status != 0)
            return fmt::format("card {} ended with status {}", card.name, card.status);
        return {};
    }
};

Cards::Cards(const CardSetup &setup) : state_(std::make_unique<State>())
{
    std::string directory = (fs::temp_directory_path() / fmt::format("{}{}-XXXXXX", kSocketsPrefix, getpid())).string();

    SweepSockets();
    if (mkdtemp(directory.data()) == nullptr)
        Fail("cannot make {}: {}", directory, std::strerror(errno));
    state_->setup = setup;
    state_->sockets = directory;
    state_->exchange = setup.directory / "exchange";
    fs::remove_all(setup.directory);
    fs::create_directories(state_->exchange);
    for (unsigned guest = 0; guest < setup.guests; guest++) {
        for (unsigned number = 0; number < setup.per_guest; number++) {
            const std::string name = GuestRole(guest) + std::to_string(number);

            state_->cards.push_back({.name = name,
                                     .socket = state_->sockets / name,
                                     .control = state_->sockets / (name + ".control"),
                                     .log = setup.directory / (name + ".log")});
        }
    }
    try {
        state_->StartAll();
    } catch (...) {
        Stop();
        throw;
    }
    state_->server = std::jthread([state = state_.get()](const std::stop_token &stop) {
        while (!stop.stop_requested()) {
            try {
                state->AnswerRequests();
            } catch (const std::exception &error) {
                /* once: it would be the same the next time */
                Say(error.what());
                return;
            }
            std::this_thread::sleep_for(kPause);
        }
    });
}

Cards::~Cards()
{
    try {
        if (state_)
            Stop();
    } catch (const std::exception &error) {
        Note("cannot end the modelled cards: {}", error.what());
    }
}

std::vector<fs::path> Cards::Sockets(unsigned guest) const
{
    std::vector<fs::path> sockets;

    for (unsigned number = 0; number < state_->setup.per_guest; number++)
        sockets.push_back(state_->cards[guest * state_->setup.per_guest + number].socket);
    return sockets;
}

const fs::path &Cards::Exchange() const
{
    return state_->exchange;
}

std::vector<CardTrouble> Cards::Stop()
{
    std::vector<CardTrouble> troubles;

    state_->server = {};
    for (Card &card : state_->cards) {
        const std::string trouble = card.pid > 0 || card.status >= 0 ? state_->TroubleOf(card) : std::string();

        if (!trouble.empty())
            troubles.push_back({trouble, card.log});
    }
    state_->cards.clear();
    std::error_code ignored;
    fs::remove_all(state_->sockets, ignored);
    return troubles;
}

} // namespace rig
