// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Framing of messages with descriptors, and Unix sockets. */
#include "message_socket.hpp"

#include <fmt/format.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace cx {
namespace {

constexpr std::size_t kMaxDescriptors = 253; /* as many as Linux passes in one message */
constexpr auto kAcceptRetry = std::chrono::seconds(1);

/*
 * Reads at most to the end of `into`. Linux ends a read after the bytes that descriptors came with, but glues what came
 * before them to it: a read that never passes a message's end gets each message's descriptors with that message.
 */
ssize_t ReceiveWithDescriptors(int socket, std::span<std::byte> into, std::vector<FileDescriptor> &descriptors,
                               bool &truncated)
{
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxDescriptors)> control = {};
    iovec part = {.iov_base = into.data(), .iov_len = into.size()};
    msghdr message = {};

    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0)
        return count;
    truncated = (message.msg_flags & MSG_CTRUNC) != 0;
    for (cmsghdr *header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        const std::size_t number = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < number; ++i) {
            int fd = -1;

            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            descriptors.emplace_back(fd);
        }
    }
    return count;
}

sockaddr_un UnixAddress(const std::string &path)
{
    sockaddr_un address = {};

    if (path.empty() || path.size() >= sizeof(address.sun_path))
        throw std::system_error(ENAMETOOLONG, std::generic_category(), fmt::format("socket path '{}'", path));
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size());
    return address;
}

} // namespace

MessageSocket::MessageSocket(EventLoop &loop, FileDescriptor socket, Protocol protocol)
    : loop_(loop), socket_(std::move(socket)), protocol_(std::move(protocol))
{
    SetNonBlocking(socket_.Get());
    loop_.Watch(socket_.Get(), EPOLLIN, [this](std::uint32_t events) { Ready(events); });
}

MessageSocket::~MessageSocket()
{
    loop_.Unwatch(socket_.Get());
}

void MessageSocket::Close(std::string reason)
{
    if (closing_)
        return;
    closing_ = true;
    reason_ = std::move(reason);
    shutdown(socket_.Get(), SHUT_RDWR); /* makes the socket ready, and the loop call Ready() */
    UpdateEvents();
}

void MessageSocket::UpdateEvents()
{
    const std::uint32_t wanted = closing_ || output_.empty() ? EPOLLIN : EPOLLOUT;

    if (wanted != watched_)
        loop_.SetEvents(socket_.Get(), wanted);
    watched_ = wanted;
}

void MessageSocket::Ready(std::uint32_t /* events */)
{
    if (!closing_ && !output_.empty())
        Flush();
    if (!closing_ && output_.empty()) {
        /* a few at a time: timers and other descriptors get their turn too */
        constexpr int kMessages = 16;

        for (int i = 0; i < kMessages && !closing_ && output_.empty() && ReadSome() && Handle(); ++i)
            ;
    }
    UpdateEvents();
    if (closing_) {
        loop_.Unwatch(socket_.Get());
        const auto closed = std::move(protocol_.closed); /* the owner may destroy this there */
        const std::string reason = std::move(reason_);

        closed(reason);
    }
}

/* Until the message is complete. False: it is not yet, or the connection is at its end. */
bool MessageSocket::ReadSome()
{
    for (;;) {
        std::size_t wanted = protocol_.header_size;

        if (have_ >= protocol_.header_size) {
            const auto body = protocol_.body_size(std::span(input_).first(protocol_.header_size));

            if (!body) {
                Close("a message's header is malformed");
                return false;
            }
            wanted += *body;
        }
        if (have_ != 0 && have_ == wanted)
            return true;
        if (input_.size() < wanted)
            input_.resize(wanted);

        bool truncated = false;
        const ssize_t count = ReceiveWithDescriptors(socket_.Get(), std::span(input_).subspan(have_, wanted - have_),
                                                     descriptors_, truncated);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0) {
            if (errno != EAGAIN)
                Close(have_ == 0 ? "" : std::strerror(errno));
            return false;
        }
        if (count == 0) {
            Close(have_ == 0 ? "" : "the connection ended within a message");
            return false;
        }
        have_ += static_cast<std::size_t>(count);
        if (truncated || descriptors_.size() > kMaxDescriptors) {
            Close("more descriptors than can be received");
            return false;
        }
    }
}

bool MessageSocket::Handle()
{
    std::vector<FileDescriptor> descriptors = std::exchange(descriptors_, {});
    const std::size_t size = std::exchange(have_, 0);

    protocol_.receive(std::span(input_).first(size), std::move(descriptors));
    constexpr std::size_t kKeep = 64 << 10; /* one large message is no reason to keep its space for ever */
    if (input_.size() > kKeep)
        input_ = {};
    return true;
}

void MessageSocket::Send(std::span<const std::byte> message)
{
    if (closing_)
        return;
    if (output_.empty()) {
        const ssize_t sent = send(socket_.Get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            Close("");
            return;
        }
        if (sent > 0)
            message = message.subspan(static_cast<std::size_t>(sent));
    }
    output_.insert(output_.end(), message.begin(), message.end());
    UpdateEvents();
}

void MessageSocket::Flush()
{
    const ssize_t sent = send(socket_.Get(), output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent > 0)
        output_.erase(output_.begin(), output_.begin() + sent);
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
        Close("");
}

FileDescriptor ConnectUnix(const std::string &path, int type)
{
    const sockaddr_un address = UnixAddress(path);
    FileDescriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

    if (!socket || connect(socket.Get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0)
        return socket;
    const int error = errno;
    socket.Reset();
    errno = error;
    return socket;
}

namespace {

/*
 * Whether no process has the socket at `path` any more. Asked by a connect of a type that none of ours has: the kernel
 * finds the living socket and refuses for its type, which its owner does not notice. A connect of the right type would
 * come to it as a client, after whom it may end.
 */
bool IsDead(const std::string &path)
{
    return !ConnectUnix(path, SOCK_DGRAM) && errno == ECONNREFUSED;
}

} // namespace

Listener::Listener(EventLoop &loop, std::string path, int type, Accept accept)
    : loop_(loop), path_(std::move(path)), accept_(std::move(accept))
{
    const sockaddr_un address = UnixAddress(path_);
    struct stat there = {};

    socket_ = FileDescriptor(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket_)
        throw std::system_error(errno, std::generic_category(), "cannot make a socket");
    if (lstat(path_.c_str(), &there) == 0 && S_ISSOCK(there.st_mode) && IsDead(path_)) /* an earlier process' */
        unlink(path_.c_str());
    if (bind(socket_.Get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) != 0 ||
        listen(socket_.Get(), 1) != 0)
        throw std::system_error(errno, std::generic_category(), fmt::format("cannot listen at '{}'", path_));
    Resume();
}

Listener::~Listener()
{
    loop_.Cancel(retry_);
    loop_.Unwatch(socket_.Get());
    unlink(path_.c_str());
}

void Listener::Resume()
{
    loop_.Unwatch(socket_.Get());
    loop_.Watch(socket_.Get(), EPOLLIN, [this](std::uint32_t) { Ready(); });
}

void Listener::Ready()
{
    FileDescriptor peer(accept4(socket_.Get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));

    if (!peer && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
        return;
    loop_.Unwatch(socket_.Get());
    if (!peer) { /* no descriptor or memory left: not at once again */
        retry_ = loop_.After(kAcceptRetry, [this] { Resume(); });
        return;
    }
    accept_(std::move(peer));
}

} // namespace cx
