// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// See peer.hpp.
#include "wire/peer.hpp"

#include "common/ktap.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace rocev2::wire {

using test::fail;
using test::require;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

// Sockets and taps belong to the namespace they were made in: enter, make, return.
template <typename Make>
int made_in(const std::string &netns, Make make)
{
    const int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (!netns.empty()) {
        const int there = open(("/run/netns/" + netns).c_str(), O_RDONLY | O_CLOEXEC);
        require(there >= 0 && !setns(there, CLONE_NEWNET), "cannot enter network namespace {}: {}",
                netns, std::strerror(errno));
        close(there);
    }
    const int fd = make();
    const int error = errno;
    if (!netns.empty() && setns(home, CLONE_NEWNET))
        fail("cannot return from network namespace {}: {}", netns, std::strerror(errno));
    close(home);
    require(fd >= 0, "cannot open the far end: {}", std::strerror(error));
    return fd;
}

int socket_in(const std::string &netns, int protocol)
{
    return made_in(netns, [&] {
        return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(static_cast<std::uint16_t>(protocol)));
    });
}

int tap_in(const std::string &netns, const std::string &name)
{
    return made_in(netns, [&] {
        ifreq request{};
        std::strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
        request.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR;
        const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
        return fd < 0 || ioctl(fd, TUNSETIFF, &request) ? -1 : fd;
    });
}

// A frame, and the VLAN tag that the kernel took off it on the way.
ssize_t receive_frame(int fd, std::span<std::uint8_t> room, std::optional<std::uint16_t> &vlan)
{
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control{};
    iovec part{room.data(), room.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
    if (n <= 0)
        return n;
    for (cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
            continue;
        tpacket_auxdata data{};
        std::memcpy(&data, CMSG_DATA(c), sizeof(data));
        if (data.tp_status & TP_STATUS_VLAN_VALID)
            vlan = data.tp_vlan_tci;
    }
    return n;
}

} // namespace

Peer::Peer(const std::string &netns, const std::string &interface) :
    fd_(socket_in(netns, ETH_P_ALL)), superpackets_(socket_in(netns, 0))
{
    require(!interface.empty(), "no interface of the far end named: give --peer-if");
    ifreq request{};
    std::strncpy(request.ifr_name, interface.c_str(), IFNAMSIZ - 1);
    require(!ioctl(fd_, SIOCGIFINDEX, &request), "no interface {} in namespace \"{}\"", interface,
            netns);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = request.ifr_ifindex;
    require(!bind(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)),
            "cannot bind to {}: {}", interface, std::strerror(errno));
    address.sll_protocol = 0;
    require(!bind(superpackets_, reinterpret_cast<const sockaddr *>(&address), sizeof(address)),
            "cannot bind to {}: {}", interface, std::strerror(errno));
    require(!ioctl(fd_, SIOCGIFHWADDR, &request), "no address of {}", interface);
    std::memcpy(mac_.data(), request.ifr_hwaddr.sa_data, mac_.size());
    const int size = 64 << 20;
    setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    const int one = 1;
    setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one));
    require(!setsockopt(fd_, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)),
            "cannot have VLAN tags told: {}", std::strerror(errno));
    require(!setsockopt(superpackets_, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)),
            "cannot send superpackets: {}", std::strerror(errno));
}

Peer::Peer(const std::string &netns, const std::string &tap, const Mac &mac) :
    fd_(tap_in(netns, tap)), superpackets_(fd_), mac_(mac)
{
}

Peer::~Peer()
{
    if (superpackets_ != fd_)
        close(superpackets_);
    close(fd_);
}

void Peer::send(const Bytes &frame) const
{
    if (superpackets_ == fd_) {
        require(send_superpacket(frame, Offload{.flags = 0, .gso_type = 0, .checksum_offset = 0}), "a frame of {} bytes is refused",
                frame.size());
        return;
    }
    const ssize_t sent = ::send(fd_, frame.data(), frame.size(), 0);
    require(sent == static_cast<ssize_t>(frame.size()), "cannot send a frame of {} bytes: {}",
            frame.size(), std::strerror(errno));
}

bool Peer::send_superpacket(const Bytes &frame, const Offload &how) const
{
    Bytes all(sizeof(how) + frame.size());
    std::memcpy(all.data(), &how, sizeof(how));
    std::copy(frame.begin(), frame.end(), all.begin() + sizeof(how));
    const ssize_t sent = write(superpackets_, all.data(), all.size());
    if (sent < 0 && errno == EINVAL)
        return false;
    require(sent == static_cast<ssize_t>(all.size()), "cannot send a superpacket of {} bytes: {}", frame.size(),
            std::strerror(errno));
    return true;
}

std::optional<Decoded> Peer::receive(const Mac &from, milliseconds limit) const
{
    const auto end = Clock::now() + limit;
    std::array<std::uint8_t, 65536> room;
    for (;;) {
        const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
        pollfd waiting{fd_, POLLIN, 0};
        if (poll(&waiting, 1, std::max(0, static_cast<int>(left.count()))) <= 0)
            return {};
        std::optional<std::uint16_t> vlan;
        const std::size_t before = superpackets_ == fd_ ? sizeof(Offload) : 0;
        const ssize_t n = before ? read(fd_, room.data(), room.size()) : receive_frame(fd_, room, vlan);
        if (n <= static_cast<ssize_t>(before))
            continue;
        auto packet = decode(std::span(room).first(static_cast<std::size_t>(n)).subspan(before));
        if (!packet || packet->smac != from)
            continue;
        if (vlan)
            packet->vlan = vlan;
        require(packet->flaws.empty(), "the device sent a bad packet: {}", packet->text());
        return packet;
    }
}

void Peer::drain() const
{
    std::array<std::uint8_t, 65536> room;
    pollfd waiting{fd_, POLLIN, 0};
    while (poll(&waiting, 1, 0) > 0 && read(fd_, room.data(), room.size()) > 0)
        ;
}

Counters::Counters(std::string device)
    : directory_("/sys/class/infiniband/" + device + "/ports/1/hw_counters")
{
    // ib_core shows values up to this many milliseconds old
    std::ofstream(directory_ + "/lifespan") << 0;
}

std::map<std::string, std::uint64_t> Counters::read() const
{
    // one tick of the oldest clock (100 Hz): a value read in the same tick is a cached one
    std::this_thread::sleep_for(milliseconds(11));
    static const std::array<std::string, 7> moving{"rx_packets", "rx_bytes",  "tx_packets", "tx_bytes",
                                                   "lifespan",   "mr_cache_hit", "mr_cache_miss"};
    std::map<std::string, std::uint64_t> values;
    for (const auto &entry : std::filesystem::directory_iterator(directory_)) {
        const std::string name = entry.path().filename();
        if (std::find(moving.begin(), moving.end(), name) == moving.end())
            std::ifstream(entry.path()) >> values[name];
    }
    require(!values.empty(), "no counters in {}", directory_);
    return values;
}

} // namespace rocev2::wire
