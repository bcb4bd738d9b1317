// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Frames from a capture file, at the times it says or at a rate; what the card sends goes into another. */
#include "backend_common.hpp"

#include <pcap/pcap.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <vector>

namespace cx {
namespace {

constexpr int kSnapshot = 65535;
constexpr int kFramesATurn = 64; /* then descriptors get theirs */

struct ClosePcap {
    void operator()(pcap_t *pcap) const
    {
        pcap_close(pcap);
    }
};
struct CloseDump {
    void operator()(pcap_dumper_t *dump) const
    {
        pcap_dump_close(dump);
    }
};
using Pcap = std::unique_ptr<pcap_t, ClosePcap>;
using Dump = std::unique_ptr<pcap_dumper_t, CloseDump>;

/* A time of a capture with nanoseconds, whose structure has microseconds in its names. */
std::chrono::nanoseconds Time(const pcap_pkthdr &header)
{
    return std::chrono::seconds(header.ts.tv_sec) + std::chrono::nanoseconds(header.ts.tv_usec);
}

class PcapBackend final : public Backend {
public:
    /* rate 0: the file's times */
    PcapBackend(EventLoop &loop, Pcap in, Pcap format, Dump out, std::uint64_t rate, bool start)
        : loop_(loop), in_(std::move(in)), format_(std::move(format)), out_(std::move(out)), rate_(rate),
          pace_(std::max<std::uint64_t>(rate, 1), 1), start_(start)
    {
    }
    ~PcapBackend() override
    {
        loop_.Cancel(timer_);
    }
    PcapBackend(const PcapBackend &) = delete;
    PcapBackend &operator=(const PcapBackend &) = delete;

    void Start(Receiver receiver) override
    {
        receiver_ = std::move(receiver);
        if (start_)
            SetRunning(true);
    }

    void Send(std::span<const std::byte> frame) override
    {
        if (!out_) {
            ++counters_.send_dropped;
            return;
        }
        timespec now = {};
        pcap_pkthdr header = {};

        clock_gettime(CLOCK_REALTIME, &now);
        header.ts = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec};
        header.caplen = header.len = static_cast<bpf_u_int32>(frame.size());
        pcap_dump(reinterpret_cast<u_char *>(out_.get()), &header, reinterpret_cast<const u_char *>(frame.data()));
        /* now, for who reads it while the model runs */
        if (pcap_dump_flush(out_.get()) != 0) {
            ++counters_.send_dropped;
            return;
        }
        ++counters_.sent;
        counters_.sent_bytes += frame.size();
    }

    bool SetRate(std::uint64_t frames_per_second) override
    {
        if (!in_ || frames_per_second == 0 || frames_per_second > kMaxRate)
            return false;
        rate_ = frames_per_second;
        pace_ = Pace(rate_, 1);
        pace_.Start(loop_.Now());
        return true;
    }

    bool SetRunning(bool running) override
    {
        if (!in_)
            return false;
        loop_.Cancel(timer_);
        running_ = running && !ended_;
        if (running_) {
            /* where it stopped: what lies between two frames does not grow by the time it stood still */
            pace_.Start(loop_.Now());
            shift_.reset();
            timer_ = loop_.After(Clock::duration::zero(), [this] { Turn(); });
        }
        return true;
    }

    std::string Status() const override
    {
        nlohmann::json status = CountersJson("pcap", counters_);

        status["running"] = running_;
        status["ended"] = ended_;
        return status.dump();
    }

private:
    void Turn()
    {
        for (int i = 0; i < kFramesATurn && running_; ++i) {
            if (!Fetch()) {
                running_ = false;
                ended_ = true;
                return;
            }
            const Clock::duration wait = Wait();
            if (wait > Clock::duration::zero()) {
                timer_ = loop_.After(wait, [this] { Turn(); });
                return;
            }
            Emit();
        }
        if (running_)
            timer_ = loop_.After(Clock::duration::zero(), [this] { Turn(); });
    }

    /* The next frame that can be sent, if none waits already; false: the file is at its end, or broken from here on. */
    bool Fetch()
    {
        while (next_.empty()) {
            pcap_pkthdr *header = nullptr;
            const u_char *bytes = nullptr;

            if (pcap_next_ex(in_.get(), &header, &bytes) != 1)
                return false;
            if (header->caplen != header->len || header->len > kMaxFrame || header->len == 0) { /* not whole */
                ++counters_.receive_dropped;
                continue;
            }
            const auto frame = std::as_bytes(std::span(bytes, header->caplen));
            next_.assign(frame.begin(), frame.end());
            next_time_ = Time(*header);
        }
        return true;
    }

    Clock::duration Wait()
    {
        const Clock::time_point now = loop_.Now();

        if (rate_ != 0)
            return pace_.Take(now) ? Clock::duration::zero() : pace_.Wait(now);
        if (!shift_)
            shift_ = now.time_since_epoch() - next_time_;
        /* a file whose times go back is sent as it comes */
        return std::max(*shift_ + next_time_ - now.time_since_epoch(), Clock::duration::zero());
    }

    void Emit()
    {
        const std::vector<std::byte> frame = std::exchange(next_, {});

        ++counters_.received;
        counters_.received_bytes += frame.size();
        receiver_(frame);
    }

    EventLoop &loop_;
    Pcap in_, format_;
    Dump out_;
    std::uint64_t rate_;
    Pace pace_;
    bool start_;
    Receiver receiver_;
    bool running_ = false;
    bool ended_ = false;
    Timers::Id timer_ = 0;
    std::vector<std::byte> next_; /* read, not yet due */
    std::chrono::nanoseconds next_time_ = {};
    std::optional<std::chrono::nanoseconds> shift_; /* from the file's times to the loop's */
    WireCounters counters_;
};

Pcap OpenInput(const std::string &path)
{
    std::array<char, PCAP_ERRBUF_SIZE> error = {};
    Pcap in(pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error.data()));

    if (!in)
        throw BackendError(fmt::format("cannot read capture '{}': {}", path, error.data()));
    if (pcap_datalink(in.get()) != DLT_EN10MB)
        throw BackendError(fmt::format("capture '{}' is not of Ethernet frames", path));
    return in;
}

} // namespace

std::unique_ptr<Backend> MakePcap(EventLoop &loop, const std::string &text)
{
    const std::size_t comma = text.find(',');
    const std::size_t end = comma == std::string::npos ? comma : text.find(',', comma + 1);
    const std::string in_path = text.substr(0, comma);
    const std::string out_path = comma == std::string::npos ? "" : text.substr(comma + 1, end - comma - 1);
    BackendOptions options(end == std::string::npos ? "" : std::string_view(text).substr(end + 1));
    const std::uint64_t rate = options.Number("rate", 0, 1, kMaxRate);
    const bool start = options.Flag("start", true);
    Pcap in;
    Pcap format;
    Dump out;

    options.Finish();
    if (in_path.empty() && out_path.empty())
        throw BackendError("pcap:IN,OUT: at least one of the files is needed");
    if (!in_path.empty())
        in = OpenInput(in_path);
    if (!out_path.empty()) {
        format.reset(pcap_open_dead_with_tstamp_precision(DLT_EN10MB, kSnapshot, PCAP_TSTAMP_PRECISION_NANO));
        if (format)
            out.reset(pcap_dump_open(format.get(), out_path.c_str()));
        if (!out)
            throw BackendError(fmt::format("cannot write capture '{}': {}", out_path,
                                           format ? pcap_geterr(format.get()) : "no memory"));
    }
    return std::make_unique<PcapBackend>(loop, std::move(in), std::move(format), std::move(out), rate, start);
}

} // namespace cx
