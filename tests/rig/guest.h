// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Boots a guest, runs one script in it, and says how it went. */
#pragma once

#include "kernels.h"

#include <chrono>
#include <functional>

namespace rig {

struct Share {
    fs::path host;
    std::string guest;		/* below /run */
    bool writable = false;
};

struct Boot {
    const Kernel &kernel;
    std::string script = {};
    std::vector<Share> shares = {};
    std::chrono::seconds timeout{60};
    unsigned cpus = 2;
    unsigned memory_mib = 2048;
    std::vector<fs::path> cards = {};	/* sockets of PCI functions outside: vfio-user (QEMU), virtio-pcidev (UML) */
    fs::path directory = {};	/* for the initramfs and the logs; emptied */
    fs::path guest_init = {};
    bool numa = false;		/* two nodes, with half the CPUs and the memory each, the cards at the second; QEMU */
    bool icount = false;	/* the time-stamp counter counts instructions; one CPU, emulated; QEMU */
    bool host_qemu = false;	/* the host's QEMU, not the cached one */
    std::function<void(const std::string &line)> on_output = {};
};

struct Outcome {
    bool token = false;		/* the guest reported a status */
    int status = -1;
    bool timed_out = false;
    std::vector<std::string> complaints;	/* of the kernel */
    std::vector<std::string> output;		/* lines of the script */
    fs::path kmsg;
    double seconds = 0;

    /* One line for a failed run; empty if the guest worked, whatever status the script had. */
    std::string Trouble() const;
};

Outcome BootGuest(const Boot &boot);

/* Lines of a kernel log that make a run a failure. */
std::vector<std::string> KernelComplaints(std::string_view kmsg);

} // namespace rig
