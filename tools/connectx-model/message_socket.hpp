// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Messages with descriptors over a Unix stream socket, and the listener for one peer at a time: what the vfio-user and
 * vhost-user protocols have in common. Both have a header of fixed size that tells the size of what follows.
 */
#pragma once

#include "event_loop.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace cx {

/** What stands at the start of a message; nothing if that is shorter. */
template <typename T> std::optional<T> Take(std::span<const std::byte> message)
{
    static_assert(std::is_trivially_copyable_v<T>);
    T value;

    if (message.size() < sizeof(T))
        return std::nullopt;
    std::memcpy(&value, message.data(), sizeof(T));
    return value;
}

class MessageSocket {
public:
    struct Protocol {
        std::size_t header_size = 0;
        /** Bytes that follow the header; nothing: no message has such a header, and the connection ends. */
        std::function<std::optional<std::size_t>(std::span<const std::byte> header)> body_size;
        /** A whole message, and the descriptors that came with it; those that are not taken are closed. */
        std::function<void(std::span<const std::byte> message, std::vector<FileDescriptor> descriptors)> receive;
        /**
         * The connection has ended; `reason` is empty if the peer ended it between messages. Called once, the last
         * call.
         */
        std::function<void(std::string_view reason)> closed;
    };

    /** `socket` is a connected stream socket. */
    MessageSocket(EventLoop &loop, FileDescriptor socket, Protocol protocol);
    ~MessageSocket();
    MessageSocket(const MessageSocket &) = delete;
    MessageSocket &operator=(const MessageSocket &) = delete;

    /** Never blocks: what the socket does not take waits here, and no message is read before it is gone. */
    void Send(std::span<const std::byte> message);
    /** From within `receive` too: no message is handed over after this, and `closed` is called from the event loop. */
    void Close(std::string reason);

private:
    void Ready(std::uint32_t events);
    bool ReadSome();
    bool Handle();
    void Flush();
    void UpdateEvents();

    EventLoop &loop_;
    FileDescriptor socket_;
    Protocol protocol_;
    std::vector<std::byte> input_;
    std::size_t have_ = 0; /* bytes of input_ that are read */
    std::vector<FileDescriptor> descriptors_;
    std::vector<std::byte> output_; /* what the socket did not take */
    bool closing_ = false;
    std::string reason_;
    std::uint32_t watched_ = EPOLLIN;
};

/** Takes one connection at a time at a path of the file system; the next waits until Resume(). */
class Listener {
public:
    using Accept = std::function<void(FileDescriptor socket)>;

    /**
     * `type` is SOCK_STREAM or SOCK_SEQPACKET. A socket that an earlier process left at `path` is replaced, a living
     * one is not. Throws std::system_error.
     */
    Listener(EventLoop &loop, std::string path, int type, Accept accept);
    ~Listener(); /* removes the path */
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;

    /** After `accept` was called: take the next one. */
    void Resume();

private:
    void Ready();

    EventLoop &loop_;
    std::string path_;
    FileDescriptor socket_;
    Accept accept_;
    Timers::Id retry_ = 0;
};

/**
 * Non-blocking, connected; an invalid one, and errno, if nobody listens there. Throws std::system_error of a bad path.
 */
FileDescriptor ConnectUnix(const std::string &path, int type);

} // namespace cx
