// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the card's port is plugged into. */
#pragma once

#include "event_loop.hpp"
#include "host.hpp"
#include "trace.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

namespace cx {

/** Frames by the card's view: sent is what the card gave to the wire. */
struct WireCounters {
    std::uint64_t sent = 0, sent_bytes = 0;
    std::uint64_t send_dropped = 0; /* the wire did not take them */
    std::uint64_t received = 0, received_bytes = 0;
    std::uint64_t receive_dropped = 0; /* longer than kMaxFrame, or not a frame */
};

class Backend : public Wire {
public:
    using Receiver = std::function<void(std::span<const std::byte> frame)>;

    /** Frames go to `receiver` from here on, from the event loop. */
    virtual void Start(Receiver receiver) = 0;
    /** Name, state and counters as a JSON object. */
    virtual std::string Status() const = 0;

    /** Frames a second, and whether they flow; false: this backend makes none of its own. */
    virtual bool SetRate(std::uint64_t frames_per_second);
    virtual bool SetRunning(bool running);
};

/** A backend that cannot be had as asked for; what() is one line for the user. */
class BackendError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/**
 * By the text of --backend: "none", "tap:NAME", "socket:PATH[,mbit=N]", "listen:PATH[,mbit=N]",
 * "pcap:IN,OUT[,KEY=VALUE]...", "generator[:KEY=VALUE,...]"; the manual page has the keys. Throws BackendError.
 */
std::unique_ptr<Backend> MakeBackend(EventLoop &loop, Trace &trace, const std::string &text);

/* The kinds, each in a file of its own. */
std::unique_ptr<Backend> MakeTap(EventLoop &loop, const std::string &name);
std::unique_ptr<Backend> MakeSocketBackend(EventLoop &loop, Trace &trace, const std::string &text, bool listen);
std::unique_ptr<Backend> MakePcap(EventLoop &loop, const std::string &options);
std::unique_ptr<Backend> MakeGenerator(EventLoop &loop, const std::string &options);

} // namespace cx
