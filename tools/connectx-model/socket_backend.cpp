// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * A cable between two models: a Unix socket of packets, a frame in each. One end listens, the other connects. With a
 * rate, frames come to an end no closer to one another than a wire of that rate brings them.
 */
#include "backend_common.hpp"
#include "message_socket.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace cx {
namespace {

constexpr std::size_t kQueue = 1024;          /* frames that wait for the socket to take them */
constexpr int kFramesATurn = 64;              /* then timers and other descriptors get theirs */
constexpr auto kRetry = std::chrono::milliseconds(100);
constexpr std::uint64_t kMaxMbit = 400000;
constexpr std::size_t kWireBytes = 24;        /* of each frame besides: preamble, check sequence, gap (IEEE 802.3) */

class SocketBackend final : public Backend {
public:
    SocketBackend(EventLoop &loop, Trace &trace, std::string path, bool listen, std::uint64_t mbit)
        : loop_(loop), trace_(trace), path_(std::move(path)), mbit_(mbit)
    {
        if (listen)
            listener_.emplace(loop_, path_, SOCK_SEQPACKET,
                              [this](FileDescriptor peer) { Connected(std::move(peer)); });
    }
    ~SocketBackend() override
    {
        loop_.Cancel(retry_);
        loop_.Cancel(arrival_);
        loop_.Unwatch(peer_.Get());
    }
    SocketBackend(const SocketBackend &) = delete;
    SocketBackend &operator=(const SocketBackend &) = delete;

    void Start(Receiver receiver) override
    {
        receiver_ = std::move(receiver);
        if (!listener_)
            Connect();
    }

    void Send(std::span<const std::byte> frame) override
    {
        if (!peer_ || queue_.size() >= kQueue || frame.empty()) {
            ++counters_.send_dropped;
            return;
        }
        if (queue_.empty() && SendNow(frame))
            return;
        if (!peer_)
            return;
        queue_.emplace_back(frame.begin(), frame.end());
        Await();
    }

    bool Ready() const override
    {
        return queue_.size() < kQueue / 2;
    }

    std::string Status() const override
    {
        nlohmann::json status = CountersJson("socket", counters_);

        status["path"] = path_;
        status["connected"] = static_cast<bool>(peer_);
        status["queued"] = queue_.size();
        if (mbit_ != 0)
            status["mbit"] = mbit_;
        return status.dump();
    }

private:
    void Connect()
    {
        FileDescriptor peer = ConnectUnix(path_, SOCK_SEQPACKET);

        if (peer)
            Connected(std::move(peer));
        else
            retry_ = loop_.After(kRetry, [this] { Connect(); });
    }

    void Connected(FileDescriptor peer)
    {
        trace_.Note("wire: connected at {}", path_);
        peer_ = std::move(peer);
        awaited_ = EPOLLIN;
        loop_.Watch(peer_.Get(), awaited_, [this](std::uint32_t events) { Ready(events); });
    }

    void Disconnected()
    {
        trace_.Note("wire: the peer at {} has gone", path_);
        loop_.Unwatch(peer_.Get());
        if (arrival_ != 0)
            ++counters_.receive_dropped;
        loop_.Cancel(arrival_);
        arrival_ = 0;
        peer_.Reset();
        counters_.send_dropped += queue_.size();
        queue_.clear();
        if (listener_)
            listener_->Resume();
        else
            retry_ = loop_.After(kRetry, [this] { Connect(); });
    }

    /* False: not now, or not ever, then the peer is gone. */
    bool SendNow(std::span<const std::byte> frame)
    {
        if (send(peer_.Get(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
            if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)
                return false;
            ++counters_.send_dropped;
            if (errno == EMSGSIZE) /* larger than the socket's buffer: this frame never goes */
                return true;
            Disconnected();
            return false;
        }
        ++counters_.sent;
        counters_.sent_bytes += frame.size();
        return true;
    }

    void Ready(std::uint32_t events)
    {
        if ((events & EPOLLOUT) != 0) {
            while (!queue_.empty() && SendNow(queue_.front()))
                queue_.pop_front();
            if (!peer_)
                return;
        }
        if (arrival_ == 0)
            Take();
        if (peer_)
            Await();
    }

    void Await()
    {
        const std::uint32_t events = (arrival_ == 0 ? EPOLLIN : 0U) | (queue_.empty() ? 0U : EPOLLOUT);

        if (events != std::exchange(awaited_, events))
            loop_.SetEvents(peer_.Get(), events);
    }

    /* What has come. */
    void Take()
    {
        /* the receiver may send, and so find the peer gone */
        for (int i = 0; i < kFramesATurn && peer_; ++i) {
            const ssize_t size = recv(peer_.Get(), frame_.data(), frame_.size(), MSG_DONTWAIT | MSG_TRUNC);

            if (size < 0 && (errno == EAGAIN || errno == EINTR))
                return;
            if (size <= 0) {
                Disconnected();
                return;
            }
            if (static_cast<std::size_t>(size) > kMaxFrame) {
                ++counters_.receive_dropped;
                continue;
            }
            if (mbit_ != 0) {
                Hold(static_cast<std::size_t>(size));
                return;
            }
            Deliver(static_cast<std::size_t>(size));
        }
    }

    void Deliver(std::size_t size)
    {
        ++counters_.received;
        counters_.received_bytes += size;
        receiver_(std::span(frame_).first(size));
    }

    /* Until the wire has brought it, or at once: no two come closer than that, however late the loop is. */
    void Hold(std::size_t size)
    {
        const Clock::time_point due = arrived_ + std::chrono::nanoseconds((size + kWireBytes) * 8000 / mbit_);

        arrival_ = loop_.After(std::max(due - loop_.Now(), Clock::duration::zero()), [this, size] {
            arrival_ = 0;
            arrived_ = loop_.Now();
            Deliver(size);
            if (!peer_)
                return;
            Take();
            if (peer_ && arrival_ == 0)
                Await();
        });
    }

    EventLoop &loop_;
    Trace &trace_;
    std::string path_;
    std::optional<Listener> listener_;
    FileDescriptor peer_;
    std::uint32_t awaited_ = 0; /* events of peer_ */
    Receiver receiver_;
    std::uint64_t mbit_; /* 0: as fast as frames come */
    Timers::Id retry_ = 0;
    Timers::Id arrival_ = 0; /* of the frame in frame_; 0: there is none */
    Clock::time_point arrived_; /* the last one */
    std::deque<std::vector<std::byte>> queue_;
    std::vector<std::byte> frame_ = std::vector<std::byte>(kMaxFrame);
    WireCounters counters_;
};

} // namespace

std::unique_ptr<Backend> MakeSocketBackend(EventLoop &loop, Trace &trace, const std::string &text, bool listen)
{
    const std::size_t comma = text.find(',');
    BackendOptions options(comma == std::string::npos ? "" : std::string_view(text).substr(comma + 1));
    const std::uint64_t mbit = options.Number("mbit", 0, 1, kMaxMbit);

    options.Finish();
    if (comma == 0)
        throw BackendError("a cable needs the path of its socket");
    return std::make_unique<SocketBackend>(loop, trace, text.substr(0, comma), listen, mbit);
}

} // namespace cx
