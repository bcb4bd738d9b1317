// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See card.hpp.
#include "bench/card.hpp"

#include "common/ktap.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

namespace rocev2::test {

Card::Card(std::string name) : name_(std::move(name)) {}

void Card::moderate(const std::string &mode) const
{
    const std::string path = "/sys/bus/auxiliary/devices/" + name_ + "/moderation";
    std::ofstream out(path);
    require(static_cast<bool>(out << mode << std::flush), "{} does not take '{}'", path, mode);
    std::string now;
    std::ifstream in(path);
    std::getline(in, now);
    require(now == mode, "{} is '{}' after '{}' was written", path, now, mode);
}

std::map<std::string, uint64_t> Card::counters() const
{
    const std::string path = "/sys/kernel/debug/rocev2_mlx5/" + name_ + "/rxqs";
    std::ifstream file(path);
    std::map<std::string, uint64_t> sums;
    std::vector<std::string> names;
    std::string line;

    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string first;
        uint64_t value = 0;
        words >> first;
        if (first == "queue") {
            for (std::string name; words >> name;)
                names.push_back(name);
        } else if (first == "rebuilds") {
            words >> sums[first];
        } else {
            for (size_t i = 0; i < names.size() && words >> value; i++) {
                uint64_t &sum = sums[names[i]];
                sum = names[i] == "profile" ? std::max(sum, value) : sum + value;
            }
        }
    }
    for (const char *name : {"packets", "interrupts", "polls", "profile", "rebuilds"})
        require(sums.contains(name), "{} has no {}", path, name);
    return sums;
}

double idle_seconds()
{
    std::ifstream file("/proc/stat");
    std::string cpu;
    double user = 0, nice = 0, system = 0, idle = 0, iowait = 0;
    require(static_cast<bool>(file >> cpu >> user >> nice >> system >> idle >> iowait), "cannot read /proc/stat");
    return (idle + iowait) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

int online_processors()
{
    return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

} // namespace rocev2::test
