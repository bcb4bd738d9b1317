// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Frames of the model's own making, at a rate: IPv4 and UDP in flows that differ by source port. To port 4791 the
 * payload begins with the headers of a RoCE v2 datagram (BTH, DETH; InfiniBand Architecture 1.4, annex A17); its
 * invariant CRC is left zero, for these frames are for tests of queues, not of the transport. What the card sends is
 * counted.
 */
#include "backend_common.hpp"
#include "mac_address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace cx {
namespace {

constexpr std::size_t kEthernet = 14;
constexpr std::size_t kIp = 20;
constexpr std::size_t kUdp = 8;
constexpr std::size_t kRoce = 12 + 8;    /* BTH and DETH */
constexpr std::size_t kSequence = 8;     /* first in the payload proper: the frame's number, big-endian, from 0 */
constexpr std::size_t kMinFrame = 4 + kEthernet + kIp + kUdp + kRoce + kSequence; /* with the invariant CRC */
constexpr std::uint16_t kRocePort = 4791;
constexpr std::uint8_t kUdSendOnly = 0x64;
constexpr std::uint64_t kFramesATurn = 256; /* then descriptors get theirs */

struct Settings {
    std::uint64_t rate = 0, burst = 0, flows = 0, size = 0, count = 0;
    MacAddress destination_mac = {}, source_mac = {};
    std::uint32_t destination_ip = 0, source_ip = 0; /* in network byte order */
    std::uint16_t destination_port = 0, source_port = 0;
    bool start = true;
};

void Put(std::vector<std::byte> &frame, std::size_t at, std::uint64_t value, std::size_t size)
{
    for (std::size_t i = 0; i < size; ++i)
        frame[at + i] = static_cast<std::byte>(value >> (8 * (size - 1 - i)));
}

MacAddress MacOption(BackendOptions &options, const std::string &key, const char *absent)
{
    const std::string text = options.Text(key).value_or(absent);
    const auto mac = ParseMac(text);

    if (!mac)
        throw BackendError(fmt::format("{}={} is no MAC address", key, text));
    return *mac;
}

std::uint32_t IpOption(BackendOptions &options, const std::string &key, const char *absent)
{
    const std::string text = options.Text(key).value_or(absent);
    in_addr address = {};

    if (inet_pton(AF_INET, text.c_str(), &address) != 1)
        throw BackendError(fmt::format("{}={} is no IPv4 address", key, text));
    return address.s_addr;
}

Settings ParseSettings(const std::string &text)
{
    BackendOptions options(text);
    Settings settings;

    settings.rate = options.Number("rate", 10000, 1, kMaxRate);
    settings.burst = options.Number("burst", 1, 1, 1024);
    settings.flows = options.Number("flows", 1, 1, 16384);
    settings.size = options.Number("size", 256, kMinFrame, kMaxFrame);
    settings.count = options.Number("count", 0, 0, UINT64_MAX);
    settings.destination_mac = MacOption(options, "dmac", "02:00:00:00:00:01");
    settings.source_mac = MacOption(options, "smac", "02:00:00:00:01:01");
    settings.destination_ip = IpOption(options, "dip", "192.0.2.1");
    settings.source_ip = IpOption(options, "sip", "192.0.2.2");
    settings.destination_port = static_cast<std::uint16_t>(options.Number("dport", kRocePort, 1, UINT16_MAX));
    settings.source_port = static_cast<std::uint16_t>(options.Number("sport", 49152, 1, UINT16_MAX));
    settings.start = options.Flag("start", true);
    options.Finish();
    if (settings.source_port + settings.flows - 1 > UINT16_MAX)
        throw BackendError("sport and flows lead past the last port");
    return settings;
}

/* All but the source port and what changes with each frame. */
std::vector<std::byte> BuildFrame(const Settings &settings)
{
    std::vector<std::byte> frame(settings.size);
    const std::size_t udp = kEthernet + kIp;
    const std::size_t payload = udp + kUdp;
    std::uint32_t sum = 0;

    std::memcpy(frame.data(), settings.destination_mac.data(), 6);
    std::memcpy(frame.data() + 6, settings.source_mac.data(), 6);
    Put(frame, 12, 0x0800, 2);
    Put(frame, kEthernet, 0x4500, 2);
    Put(frame, kEthernet + 2, settings.size - kEthernet, 2);
    Put(frame, kEthernet + 6, 0x4000, 2); /* not to be fragmented */
    Put(frame, kEthernet + 8, 64 << 8 | IPPROTO_UDP, 2);
    std::memcpy(frame.data() + kEthernet + 12, &settings.source_ip, 4);
    std::memcpy(frame.data() + kEthernet + 16, &settings.destination_ip, 4);
    for (std::size_t i = 0; i < kIp; i += 2)
        sum += std::to_integer<std::uint32_t>(frame[kEthernet + i]) << 8 |
               std::to_integer<std::uint32_t>(frame[kEthernet + i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    Put(frame, kEthernet + 10, ~((sum & 0xffff) + (sum >> 16)) & 0xffff, 2);
    Put(frame, udp + 2, settings.destination_port, 2);
    Put(frame, udp + 4, settings.size - udp, 2); /* and no checksum, as RoCE v2 has it */
    if (settings.destination_port == kRocePort) {
        Put(frame, payload, kUdSendOnly, 1);
        Put(frame, payload + 2, 0xffff, 2); /* the default partition */
        Put(frame, payload + 4, 1, 4);      /* to the QP for everybody's messages */
    }
    return frame;
}

class Generator final : public Backend {
public:
    Generator(EventLoop &loop, const Settings &settings)
        : loop_(loop), settings_(settings), pace_(settings.rate, settings.burst), frame_(BuildFrame(settings))
    {
    }
    ~Generator() override
    {
        loop_.Cancel(timer_);
    }
    Generator(const Generator &) = delete;
    Generator &operator=(const Generator &) = delete;

    void Start(Receiver receiver) override
    {
        receiver_ = std::move(receiver);
        if (settings_.start)
            SetRunning(true);
    }

    void Send(std::span<const std::byte> frame) override
    {
        ++counters_.sent;
        counters_.sent_bytes += frame.size();
    }

    bool SetRate(std::uint64_t frames_per_second) override
    {
        if (frames_per_second == 0 || frames_per_second > kMaxRate)
            return false;
        given_up_ += pace_.given_up();
        pace_ = Pace(frames_per_second, settings_.burst);
        settings_.rate = frames_per_second;
        if (running_)
            SetRunning(true);
        return true;
    }

    bool SetRunning(bool running) override
    {
        loop_.Cancel(timer_);
        running_ = running;
        if (running) {
            pace_.Start(loop_.Now());
            timer_ = loop_.After(Clock::duration::zero(), [this] { Turn(); });
        }
        return true;
    }

    std::string Status() const override
    {
        nlohmann::json status = CountersJson("generator", counters_);

        status["running"] = running_;
        status["rate"] = settings_.rate;
        status["bursts_given_up"] = given_up_ + pace_.given_up();
        return status.dump();
    }

private:
    void Turn()
    {
        for (std::uint64_t frames = 0; frames < kFramesATurn && running_ && pace_.Take(loop_.Now());) {
            for (std::uint64_t i = 0; i < settings_.burst && running_; ++i, ++frames)
                Emit();
        }
        if (running_)
            timer_ = loop_.After(pace_.Wait(loop_.Now()), [this] { Turn(); });
    }

    void Emit()
    {
        const std::size_t udp = kEthernet + kIp;
        const bool roce = settings_.destination_port == kRocePort;
        const std::uint64_t number = counters_.received;

        Put(frame_, udp, settings_.source_port + number % settings_.flows, 2);
        if (roce)
            Put(frame_, udp + kUdp + 9, number & 0xffffff, 3); /* packet sequence number */
        Put(frame_, udp + kUdp + (roce ? kRoce : 0), number, kSequence);
        ++counters_.received;
        counters_.received_bytes += frame_.size();
        if (counters_.received == settings_.count)
            running_ = false;
        receiver_(frame_);
    }

    EventLoop &loop_;
    Settings settings_;
    Pace pace_;
    std::vector<std::byte> frame_;
    Receiver receiver_;
    bool running_ = false;
    Timers::Id timer_ = 0;
    std::uint64_t given_up_ = 0;
    WireCounters counters_;
};

} // namespace

std::unique_ptr<Backend> MakeGenerator(EventLoop &loop, const std::string &options)
{
    return std::make_unique<Generator>(loop, ParseSettings(options));
}

} // namespace cx
