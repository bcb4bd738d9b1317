// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// A ConnectX function that rocev2_mlx5 is bound to: its mode of moderation and its counters, see
// Documentation/connectx.md; and how busy the machine is.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rocev2::test {

class Card {
public:
    // The name of its auxiliary device, mlx5_core.rdma.N.
    explicit Card(std::string name);

    // Sets the mode, and fails if it does not read back as it was written.
    void moderate(const std::string &mode) const;

    // The counters of its receive queues by name, each summed up over the queues; and "rebuilds". Not a sum:
    // "profile", the highest step of DIM that a queue is at.
    std::map<std::string, uint64_t> counters() const;

private:
    std::string name_;
};

// Seconds that the processors have been idle since the start, all together; /proc/stat has hundredths.
double idle_seconds();

int online_processors();

} // namespace rocev2::test
