// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See faults.hpp.
#include "common/faults.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace rocev2::test {

namespace {

const std::string slab_directory = "/sys/kernel/debug/failslab/";
const std::string page_directory = "/sys/kernel/debug/fail_page_alloc/";
constexpr const char *nth_file = "/proc/thread-self/fail-nth";
constexpr const char *task_file = "/proc/thread-self/make-it-fail";
// What may fail, counted down by each fault.
constexpr long many = 1000000000;

void set(const std::string &file, const std::string &value)
{
    std::ofstream out(file);
    out << value << std::flush;
    require(out.good(), "cannot write {} to {}", value, file);
}

long get(const std::string &file)
{
    long value = 0;
    require(static_cast<bool>(std::ifstream(file) >> value), "cannot read {}", file);
    return value;
}

void set_both(const std::string &knob, const std::string &value)
{
    set(slab_directory + knob, value);
    set(page_directory + knob, value);
}

} // namespace

bool faults_available()
{
    return access(nth_file, R_OK | W_OK) == 0 && access(slab_directory.c_str(), F_OK) == 0 &&
        access(page_directory.c_str(), F_OK) == 0;
}

void allow_faults()
{
    set_both("probability", "0");
    set_both("interval", "1");
    set_both("verbose", "0");
    set_both("ignore-gfp-wait", "N");
    set(page_directory + "ignore-gfp-highmem", "N");
    set(page_directory + "min-order", "0");
}

FaultPoint::FaultPoint() : fd_(open(nth_file, O_RDWR | O_CLOEXEC))
{
    if (fd_ < 0)
        fail("open({}): {}", nth_file, std::strerror(errno));
}

FaultPoint::~FaultPoint()
{
    if (pwrite(fd_, "0", 1, 0) != 1)
        report_failure("cannot disarm the fault injection");
    close(fd_);
}

void FaultPoint::write(unsigned nth)
{
    char text[16];
    const auto end = fmt::format_to_n(text, sizeof(text), "{}", nth).out;
    if (pwrite(fd_, text, static_cast<size_t>(end - text), 0) < 0)
        fail("write to {}: {}", nth_file, std::strerror(errno));
}

void FaultPoint::arm(unsigned nth)
{
    write(nth);
}

unsigned FaultPoint::disarm()
{
    char text[16] = "";
    const ssize_t size = pread(fd_, text, sizeof(text) - 1, 0);
    write(0);
    require(size > 0, "cannot read {}", nth_file);
    return static_cast<unsigned>(std::strtoul(text, nullptr, 10));
}

unsigned next_allocation(unsigned nth, unsigned total)
{
    constexpr unsigned head = 120;
    constexpr unsigned tail = 800; // the total differs by hundreds from call to call
    constexpr unsigned between = 60;

    if (total <= head + tail + between || nth < head)
        return nth + 1;
    return nth + (nth + tail < total ? (total - head - tail) / between : 4);
}

RandomFaults::RandomFaults(const Odds &odds) : task_fd_(open(task_file, O_WRONLY | O_CLOEXEC))
{
    require(task_fd_ >= 0, "cannot open {}", task_file);
    set_both("times", std::to_string(many));
    set_both("ignore-gfp-wait", odds.atomic_only ? "Y" : "N");
    set_both("task-filter", odds.this_thread ? "Y" : "N");
    set(slab_directory + "probability", std::to_string(odds.slab));
    set(page_directory + "probability", std::to_string(odds.page));
    fail_this_thread(odds.this_thread);
}

void RandomFaults::fail_this_thread(bool on)
{
    require(pwrite(task_fd_, on ? "1" : "0", 1, 0) == 1, "cannot write to {}: {}", task_file,
            std::strerror(errno));
}

// From here on files can be opened again.
void RandomFaults::stop()
{
    fail_this_thread(false);
    set_both("probability", "0");
}

RandomFaults::~RandomFaults()
{
    try {
        stop();
        set_both("task-filter", "N");
        set_both("ignore-gfp-wait", "N");
    } catch (const std::exception &error) {
        report_failure(error.what());
    }
    close(task_fd_);
}

long RandomFaults::slab_faults() const
{
    return many - get(slab_directory + "times");
}

long RandomFaults::page_faults() const
{
    return many - get(page_directory + "times");
}

} // namespace rocev2::test
