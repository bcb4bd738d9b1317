// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The far end of the cable: a packet socket, or the other side of a tap device, that sends frames as given
// and hands out what the device under test sends, each packet checked.
#pragma once

#include "wire/packet.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>

namespace rocev2::wire {

// How the stack is to cut a frame: what PACKET_VNET_HDR and IFF_VNET_HDR want before it (struct virtio_net_hdr, virtio 1.2, 5.1.6;
// linux/virtio_net.h is no C++). In the byte order of the host.
struct Offload {
    std::uint8_t flags = 1;    // the UDP checksum is not made yet
    std::uint8_t gso_type = 5; // UDP datagrams
    std::uint16_t headers_length = 0;
    std::uint16_t gso_size = 0;
    std::uint16_t checksum_start = 0;
    std::uint16_t checksum_offset = 6;
};
static_assert(sizeof(Offload) == 10);

class Peer {
public:
    // The interface of the far end in its network namespace ("" for the current one).
    Peer(const std::string &netns, const std::string &interface);
    // What is behind a tap device, with this address. Unlike a packet socket, nobody looks at its superpackets.
    Peer(const std::string &netns, const std::string &tap, const Mac &mac);
    ~Peer();
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;

    void send(const Bytes &frame) const;
    // False: the stack refuses it.
    bool send_superpacket(const Bytes &frame, const Offload &how) const;

    // The next RoCE v2 packet from `from`; none when the time is over. A packet that no sender
    // may send fails the case.
    std::optional<Decoded> receive(const Mac &from, std::chrono::milliseconds limit) const;
    void drain() const;

    const Mac &mac() const { return mac_; }

private:
    int fd_ = -1;
    int superpackets_ = -1; // takes an Offload before each frame; a tap: the same as fd_
    Mac mac_{};
};

// hw_counters of a device. Names that move with every packet are left out.
class Counters {
public:
    explicit Counters(std::string device);
    std::map<std::string, std::uint64_t> read() const;

private:
    std::string directory_;
};

} // namespace rocev2::wire
