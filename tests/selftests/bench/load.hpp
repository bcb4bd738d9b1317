// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Load on a connection: A sends messages to B as a plan says, each is checked when it arrives and the time
// from its posting to its completion at B is kept. Both ends are this thread.
#pragma once

#include "common/memory.hpp"
#include "common/random.hpp"
#include "common/verbs.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace rocev2::test {

struct Load {
    std::string name;
    uint32_t message_bytes; // 8 at least: the first are its number, in a way
    uint32_t burst;         // messages posted at once
    // From one burst to the next, on average: each interval is random, from half of it to one and a half,
    // so that it keeps no step with the kernel's ticks. 0: as soon as there is room.
    std::chrono::microseconds interval;
    uint32_t window; // messages under way at most
};

// What B does while there is no completion.
enum class Receiver {
    polls,  // looks again and again, and yields the processor in between: it may be the only one
    sleeps, // until the completion queue's event wakes it
};

struct Arrivals {
    uint64_t messages = 0;
    std::vector<uint32_t> latencies_ns;
};

class Traffic {
public:
    Traffic(const Sides &sides, const Load &load, uint64_t seed);

    // Sends and receives for so long, and leaves under way what is. Wrong data fails the case.
    Arrivals run(Receiver receiver, Clock::duration length);

    // Waits until everything has arrived and A knows it.
    void drain();

    uint64_t posted() const { return posted_; }
    uint32_t packets_per_message() const;

private:
    bool post(Clock::time_point now);
    void post_chain(uint32_t count);
    bool take_received(Arrivals &arrivals);
    bool take_sent();
    void check(const ibv_wc &wc);
    void post_receive(uint64_t slot);
    void sleep(Clock::time_point until, Arrivals &arrivals);
    uint32_t room() const;
    std::span<std::byte> pattern_of(uint64_t message) const;
    uint64_t header_of(uint64_t message) const;

    Load load_;
    uint64_t seed_;
    Rng rng_;
    uint32_t mtu_;
    Channel channel_;
    Channel channel_a_;
    Cq cq_a_;
    Cq cq_b_;
    Cq unused_;
    Qp a_;
    Qp b_;
    Buffer headers_;
    Buffer pattern_;
    Buffer received_bytes_;
    Mr headers_mr_;
    Mr pattern_mr_;
    Mr received_mr_;
    std::vector<Clock::time_point> posted_at_;
    Clock::time_point next_;
    uint64_t posted_ = 0;
    uint64_t sent_ = 0;
    uint64_t received_ = 0;
    bool armed_ = false;
    bool armed_a_ = false;
};

} // namespace rocev2::test
