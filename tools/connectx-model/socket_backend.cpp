// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A cable between two models: a Unix socket of packets, a frame in each. One end listens, the other connects. */
#include "backend_common.hpp"
#include "message_socket.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

namespace cx {
namespace {

constexpr std::size_t kQueue = 1024;          /* frames that wait for the socket to take them */
constexpr int kFramesATurn = 64;              /* then timers and other descriptors get theirs */
constexpr auto kRetry = std::chrono::milliseconds(100);

class SocketBackend final : public Backend {
public:
    SocketBackend(EventLoop &loop, Trace &trace, std::string path, bool listen)
        : loop_(loop), trace_(trace), path_(std::move(path))
    {
        if (listen)
            listener_.emplace(loop_, path_, SOCK_SEQPACKET,
                              [this](FileDescriptor peer) { Connected(std::move(peer)); });
    }
    ~SocketBackend() override
    {
        loop_.Cancel(retry_);
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
        loop_.SetEvents(peer_.Get(), EPOLLIN | EPOLLOUT);
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
        loop_.Watch(peer_.Get(), EPOLLIN, [this](std::uint32_t events) { Ready(events); });
    }

    void Disconnected()
    {
        trace_.Note("wire: the peer at {} has gone", path_);
        loop_.Unwatch(peer_.Get());
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
            if (queue_.empty())
                loop_.SetEvents(peer_.Get(), EPOLLIN);
        }
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
            ++counters_.received;
            counters_.received_bytes += static_cast<std::uint64_t>(size);
            receiver_(std::span(frame_).first(static_cast<std::size_t>(size)));
        }
    }

    EventLoop &loop_;
    Trace &trace_;
    std::string path_;
    std::optional<Listener> listener_;
    FileDescriptor peer_;
    Receiver receiver_;
    Timers::Id retry_ = 0;
    std::deque<std::vector<std::byte>> queue_;
    std::vector<std::byte> frame_ = std::vector<std::byte>(kMaxFrame);
    WireCounters counters_;
};

} // namespace

std::unique_ptr<Backend> MakeSocketBackend(EventLoop &loop, Trace &trace, const std::string &path, bool listen)
{
    return std::make_unique<SocketBackend>(loop, trace, path, listen);
}

} // namespace cx
