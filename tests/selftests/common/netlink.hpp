// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// What the rdma tool does, as calls of this thread, not of a program: the kernel
// does the work in the context of the sender, so its allocations can be made to fail.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rocev2::test {

class RdmaNetlink {
public:
    RdmaNetlink();
    ~RdmaNetlink();
    RdmaNetlink(const RdmaNetlink &) = delete;
    RdmaNetlink &operator=(const RdmaNetlink &) = delete;

    // These return an errno. ENOBUFS may also mean that it was done and only the answer is lost.
    int add_link(const std::string &name, const std::string &type, const std::string &netdev);
    int del_link(uint32_t index);

    // A counter for this QP alone, made for it: `rdma statistic qp bind`. It ends with the QP.
    int bind_counter(uint32_t index, uint32_t port, uint32_t qp);

    // The index of a device, none if there is no such device.
    std::optional<uint32_t> device_index(const std::string &name);

private:
    class Message;

    int transact(const Message &message);
    std::span<const std::byte> receive();

    int fd_ = -1;
    // made beforehand: what fails shall be the kernel's
    std::vector<std::byte> answer_;
};

} // namespace rocev2::test
