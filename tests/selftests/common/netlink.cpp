// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See netlink.hpp.
#include "common/netlink.hpp"

#include "common/ktap.hpp"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rocev2::test {

namespace {

constexpr size_t message_room = 512;
constexpr size_t receive_room = 32768;

constexpr uint16_t type_of(int command)
{
    return static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
}

} // namespace

class RdmaNetlink::Message {
public:
    Message(int command, int flags)
    {
        header()->nlmsg_type = type_of(command);
        header()->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
        header()->nlmsg_len = NLMSG_HDRLEN;
    }

    void add(int type, const void *data, size_t size)
    {
        const size_t at = NLMSG_ALIGN(header()->nlmsg_len);
        nlattr attribute{};
        require(at + NLA_HDRLEN + size <= message_room, "a netlink attribute of {} bytes", size);
        attribute.nla_type = static_cast<uint16_t>(type);
        attribute.nla_len = static_cast<uint16_t>(NLA_HDRLEN + size);
        std::memcpy(bytes_ + at, &attribute, sizeof(attribute));
        std::memcpy(bytes_ + at + NLA_HDRLEN, data, size);
        header()->nlmsg_len = static_cast<uint32_t>(at + NLA_ALIGN(NLA_HDRLEN + size));
    }

    void add(int type, const std::string &text) { add(type, text.c_str(), text.size() + 1); }
    void add(int type, uint32_t number) { add(type, &number, sizeof(number)); }

    const void *data() const { return bytes_; }
    size_t size() const { return reinterpret_cast<const nlmsghdr *>(bytes_)->nlmsg_len; }
    uint16_t type() const { return reinterpret_cast<const nlmsghdr *>(bytes_)->nlmsg_type; }

private:
    nlmsghdr *header() { return reinterpret_cast<nlmsghdr *>(bytes_); }

    alignas(nlmsghdr) std::byte bytes_[message_room] = {};
};

RdmaNetlink::RdmaNetlink()
    : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)), answer_(receive_room)
{
    if (fd_ < 0)
        fail("socket(NETLINK_RDMA): {}", std::strerror(errno));
}

RdmaNetlink::~RdmaNetlink()
{
    close(fd_);
}

std::span<const std::byte> RdmaNetlink::receive()
{
    const ssize_t size = recv(fd_, answer_.data(), answer_.size(), 0);
    return std::span(answer_).first(size < 0 ? 0 : static_cast<size_t>(size));
}

int RdmaNetlink::transact(const Message &message)
{
    if (send(fd_, message.data(), message.size(), 0) < 0)
        return errno;
    const auto answer = receive();
    if (answer.empty())
        return errno;
    const auto *header = reinterpret_cast<const nlmsghdr *>(answer.data());
    if (header->nlmsg_type == message.type())
        return 0;
    require(header->nlmsg_type == NLMSG_ERROR && answer.size() >= NLMSG_LENGTH(sizeof(nlmsgerr)),
            "netlink answered with a message of type {}", header->nlmsg_type);
    return -static_cast<const nlmsgerr *>(NLMSG_DATA(header))->error;
}

int RdmaNetlink::add_link(const std::string &name, const std::string &type,
                          const std::string &netdev)
{
    Message message(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);
    message.add(RDMA_NLDEV_ATTR_DEV_NAME, name);
    message.add(RDMA_NLDEV_ATTR_LINK_TYPE, type);
    message.add(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
    return transact(message);
}

int RdmaNetlink::del_link(uint32_t index)
{
    Message message(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);
    message.add(RDMA_NLDEV_ATTR_DEV_INDEX, index);
    return transact(message);
}

int RdmaNetlink::bind_counter(uint32_t index, uint32_t port, uint32_t qp)
{
    Message message(RDMA_NLDEV_CMD_STAT_SET, 0);
    message.add(RDMA_NLDEV_ATTR_DEV_INDEX, index);
    message.add(RDMA_NLDEV_ATTR_PORT_INDEX, port);
    message.add(RDMA_NLDEV_ATTR_STAT_MODE, RDMA_COUNTER_MODE_MANUAL);
    message.add(RDMA_NLDEV_ATTR_STAT_RES, RDMA_NLDEV_ATTR_RES_QP);
    message.add(RDMA_NLDEV_ATTR_RES_LQPN, qp);
    return transact(message);
}

std::optional<uint32_t> RdmaNetlink::device_index(const std::string &name)
{
    const Message message(RDMA_NLDEV_CMD_GET, NLM_F_DUMP);
    std::optional<uint32_t> found;

    require(send(fd_, message.data(), message.size(), 0) >= 0, "cannot ask for the devices: {}",
            std::strerror(errno));
    for (;;) {
        const auto answer = receive();
        require(!answer.empty(), "cannot list the devices: {}", std::strerror(errno));
        auto left = static_cast<int>(answer.size());
        for (const auto *header = reinterpret_cast<const nlmsghdr *>(answer.data());
             NLMSG_OK(header, static_cast<uint32_t>(left)); header = NLMSG_NEXT(header, left)) {
            require(header->nlmsg_type != NLMSG_ERROR, "the kernel does not list its devices");
            if (header->nlmsg_type == NLMSG_DONE)
                return found;
            std::optional<uint32_t> index;
            std::string device;
            const auto *at = static_cast<const std::byte *>(NLMSG_DATA(header));
            const std::byte *end = reinterpret_cast<const std::byte *>(header) + header->nlmsg_len;
            while (at + NLA_HDRLEN <= end) {
                const auto *attribute = reinterpret_cast<const nlattr *>(at);
                const std::byte *value = at + NLA_HDRLEN;
                const int type = attribute->nla_type & NLA_TYPE_MASK;
                if (type == RDMA_NLDEV_ATTR_DEV_INDEX)
                    std::memcpy(&index.emplace(), value, sizeof(uint32_t));
                else if (type == RDMA_NLDEV_ATTR_DEV_NAME)
                    device = reinterpret_cast<const char *>(value);
                at += NLA_ALIGN(attribute->nla_len);
            }
            if (device == name)
                found = index;
        }
    }
}

} // namespace rocev2::test
