// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The port as a TAP interface of this host; addresses and state are set by whoever runs the model. */
#include "backend_common.hpp"

#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace cx {
namespace {

constexpr int kFramesATurn = 64; /* then timers and other descriptors get theirs */

class Tap final : public Backend {
public:
    Tap(EventLoop &loop, FileDescriptor tap, std::string name)
        : loop_(loop), tap_(std::move(tap)), name_(std::move(name))
    {
    }
    ~Tap() override
    {
        loop_.Unwatch(tap_.Get());
    }
    Tap(const Tap &) = delete;
    Tap &operator=(const Tap &) = delete;

    void Start(Receiver receiver) override
    {
        receiver_ = std::move(receiver);
        if (!loop_.Watch(tap_.Get(), EPOLLIN, [this](std::uint32_t) { Ready(); }))
            throw BackendError(fmt::format("cannot wait for frames of {}: {}", name_, std::strerror(errno)));
    }

    void Send(std::span<const std::byte> frame) override
    {
        /* refused while the interface is down or its queue is full */
        if (write(tap_.Get(), frame.data(), frame.size()) != static_cast<ssize_t>(frame.size())) {
            ++counters_.send_dropped;
            return;
        }
        ++counters_.sent;
        counters_.sent_bytes += frame.size();
    }

    std::string Status() const override
    {
        nlohmann::json status = CountersJson("tap", counters_);

        status["name"] = name_;
        return status.dump();
    }

private:
    void Ready()
    {
        for (int i = 0; i < kFramesATurn; ++i) {
            const ssize_t size = read(tap_.Get(), frame_.data(), frame_.size());

            if (size < 0 && errno == EBADFD) /* the interface was deleted: nothing comes from it any more */
                loop_.Unwatch(tap_.Get());
            if (size <= 0)
                return;
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
    FileDescriptor tap_;
    std::string name_;
    Receiver receiver_;
    std::vector<std::byte> frame_ = std::vector<std::byte>(64 << 10);
    WireCounters counters_;
};

} // namespace

std::unique_ptr<Backend> MakeTap(EventLoop &loop, const std::string &name)
{
    ifreq request = {};

    if (name.size() >= sizeof(request.ifr_name))
        throw BackendError(fmt::format("'{}' is too long for an interface's name", name));
    FileDescriptor tap(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (!tap)
        throw BackendError(fmt::format("cannot open /dev/net/tun: {}", std::strerror(errno)));
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    std::memcpy(request.ifr_name, name.data(), name.size());
    if (ioctl(tap.Get(), TUNSETIFF, &request) != 0)
        throw BackendError(fmt::format("cannot attach to TAP interface '{}': {}", name, std::strerror(errno)));
    return std::make_unique<Tap>(loop, std::move(tap), static_cast<const char *>(request.ifr_name));
}

} // namespace cx
