// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// RDS sockets over RDMA (rds_rdma, a kernel user of the devices): messages of all sizes
// in order and without loss, RDMA between two applications' memory, and a
// stream that outlasts whatever is done to the devices meanwhile. Both ends are in this
// process; which device each one uses follows from its address. Started by rds.sh.
#include "common/ktap.hpp"
#include "common/options.hpp"
#include "common/random.hpp"
#include "common/system.hpp"

#include <arpa/inet.h>
#include <linux/rds.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

using namespace rocev2::test;

namespace {

constexpr size_t kMaxMessage = 1 << 20;
constexpr size_t kPage = 4096;

// Messages under way one way: less than the receiving socket has room for. Else it would be marked
// as congested in a map that is exchanged by messages, and two ends in one kernel have that map in
// common: an old copy of it, arriving late, brings back a mark that nobody removes.
constexpr uint64_t kUnderWay = 16;

// The first bytes of each message; the rest is a pattern of the seed.
struct Header {
    uint64_t number;
    uint64_t seed;
    uint64_t last;
};

sockaddr_in address_of(const std::string &ip, uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    require(inet_pton(AF_INET, ip.c_str(), &address.sin_addr) == 1, "{} is no IPv4 address", ip);
    return address;
}

class Socket {
public:
    Socket(const std::string &ip, uint16_t port) : address_(address_of(ip, port))
    {
        fd_ = socket(AF_RDS, SOCK_SEQPACKET, 0);
        require(fd_ >= 0, "socket(AF_RDS): {}", std::strerror(errno));
        set(SOL_RDS, SO_RDS_TRANSPORT, static_cast<int>(RDS_TRANS_IB));
        const timeval limit{.tv_sec = 20, .tv_usec = 0};
        set(SOL_SOCKET, SO_RCVTIMEO, limit);
        set(SOL_SOCKET, SO_SNDTIMEO, limit);
        set(SOL_SOCKET, SO_SNDBUFFORCE, 4 << 20);
        set(SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20);
        const int error = bind(fd_, reinterpret_cast<const sockaddr *>(&address_), sizeof(address_));
        require(!error, "bind to {}: {}", ip, std::strerror(errno));
    }
    ~Socket() { close(fd_); }
    Socket(const Socket &) = delete;
    Socket &operator=(const Socket &) = delete;

    int fd() const { return fd_; }
    const sockaddr_in &address() const { return address_; }

    template <typename Value>
    void set(int level, int option, const Value &value)
    {
        const int error = setsockopt(fd_, level, option, &value, sizeof(value));
        require(!error, "socket option {} of level {}: {}", option, level, std::strerror(errno));
    }

    // With a control message if @type is one.
    template <typename Control = int>
    void send(const Socket &to, std::span<const std::byte> bytes, int type = 0, Control control = {})
    {
        alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(Control))> buffer{};
        sockaddr_in target = to.address();
        iovec part{const_cast<std::byte *>(bytes.data()), bytes.size()};
        msghdr message{};
        message.msg_name = &target;
        message.msg_namelen = sizeof(target);
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        if (type) {
            message.msg_control = buffer.data();
            message.msg_controllen = buffer.size();
            cmsghdr *head = CMSG_FIRSTHDR(&message);
            head->cmsg_level = SOL_RDS;
            head->cmsg_type = type;
            head->cmsg_len = CMSG_LEN(sizeof(control));
            std::memcpy(CMSG_DATA(head), &control, sizeof(control));
        }
        const ssize_t sent = sendmsg(fd_, &message, 0);
        require(sent == static_cast<ssize_t>(bytes.size()), "sendmsg of {} bytes: {}, {}", bytes.size(), sent,
                std::strerror(errno));
    }

    // The bytes received, and the control message of @type. A status of an RDMA operation comes
    // without bytes.
    template <typename Control = int>
    size_t receive(std::span<std::byte> bytes, int type = 0, Control *control = nullptr)
    {
        alignas(cmsghdr) std::array<char, 256> buffer{};
        sockaddr_in from{};
        iovec part{bytes.data(), bytes.size()};
        msghdr message{};
        message.msg_name = &from;
        message.msg_namelen = sizeof(from);
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = buffer.data();
        message.msg_controllen = buffer.size();
        const ssize_t got = recvmsg(fd_, &message, 0);
        require(got >= 0, "recvmsg: {}", std::strerror(errno));
        for (cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head))
            if (control && head->cmsg_level == SOL_RDS && head->cmsg_type == type)
                std::memcpy(control, CMSG_DATA(head), sizeof(*control));
        return static_cast<size_t>(got);
    }

private:
    sockaddr_in address_;
    int fd_;
};

struct Ends {
    std::string ip_a, ip_b;
    uint64_t seed;
    int stream_s;
    std::atomic<uint16_t> next_port{4000};
};

struct Pair {
    explicit Pair(Ends &ends) : a(ends.ip_a, ends.next_port++), b(ends.ip_b, ends.next_port++) {}
    Socket a, b;
};

void send_numbered(Socket &from, const Socket &to, const Header &header, std::span<std::byte> bytes)
{
    std::memcpy(bytes.data(), &header, sizeof(header));
    fill_pattern(bytes.subspan(sizeof(header)), header.seed);
    from.send(to, bytes);
}

Header receive_numbered(Socket &at, uint64_t number, std::vector<std::byte> &room)
{
    const size_t got = at.receive(room);
    require(got >= sizeof(Header), "message {} has {} bytes", number, got);
    Header header;
    std::memcpy(&header, room.data(), sizeof(header));
    require(header.number == number, "message {} instead of {}", header.number, number);
    std::vector<std::byte> want(got - sizeof(header));
    fill_pattern(want, header.seed);
    require(!std::memcmp(want.data(), room.data() + sizeof(header), want.size()), "message {} of {} bytes is damaged",
            number, got);
    return header;
}

void sizes(Ends &ends)
{
    Pair pair(ends);
    std::vector<std::byte> bytes(kMaxMessage), room(kMaxMessage);
    uint64_t number = 0;
    for (const size_t size : {sizeof(Header), size_t{100}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{65535},
                              size_t{65536}, size_t{500001}, kMaxMessage}) {
        const Header header{number, mix64(ends.seed + number), 0};
        send_numbered(pair.a, pair.b, header, std::span(bytes).first(size));
        receive_numbered(pair.b, number, room);
        send_numbered(pair.b, pair.a, header, std::span(bytes).first(size));
        receive_numbered(pair.a, number, room);
        number++;
    }
}

// Sends until @more says no; the last message says so. @arrived is how many have.
template <typename More>
uint64_t send_all(Socket &from, const Socket &to, Rng rng, size_t most, const std::atomic<uint64_t> &arrived, More more)
{
    std::vector<std::byte> bytes(most);
    for (uint64_t number = 0;; number++) {
        require(wait_until(std::chrono::seconds(20), [&] { return number < arrived + kUnderWay; }),
                "{} messages sent, {} arrived", number, arrived.load());
        const bool last = !more(number);
        send_numbered(from, to, {number, rng.next(), last}, std::span(bytes).first(rng.between(sizeof(Header), most)));
        if (last)
            return number + 1;
    }
}

void receive_all(Socket &at, size_t most, std::atomic<uint64_t> &arrived)
{
    std::vector<std::byte> room(most);
    for (bool last = false; !last; arrived++)
        last = receive_numbered(at, arrived, room).last;
}

// Both ways at once.
template <typename More>
uint64_t exchange(Ends &ends, size_t most, More more)
{
    Pair pair(ends);
    std::atomic<uint64_t> sent = 0, at_a = 0, at_b = 0;
    const auto run = [&](auto body) {
        return std::thread([body] {
            try {
                body();
            } catch (const std::exception &error) {
                report_failure(error.what());
            }
        });
    };
    std::array threads{run([&] { sent += send_all(pair.a, pair.b, Rng(ends.seed), most, at_b, more); }),
                       run([&] { sent += send_all(pair.b, pair.a, Rng(~ends.seed), most, at_a, more); }),
                       run([&] { receive_all(pair.a, most, at_a); }), run([&] { receive_all(pair.b, most, at_b); })};
    for (std::thread &thread : threads)
        thread.join();
    require(failure_reported() || sent == at_a + at_b, "{} messages sent, {} received", sent.load(), at_a + at_b);
    return sent;
}

void both_ways(Ends &ends)
{
    exchange(ends, 65536, [](uint64_t number) { return number < 400; });
}

// For so many seconds; rds.sh takes devices away meanwhile.
void stream(Ends &ends)
{
    const auto end = Clock::now() + std::chrono::seconds(ends.stream_s);
    const uint64_t count = exchange(ends, 20000, [&](uint64_t) { return Clock::now() < end; });
    diag(fmt::format("{} messages", count));
}

// Page-aligned memory of B that A may read and write: registered with a message to A, which
// brings the key. (The socket options that register are not for devices with fast registration.)
class Shared {
public:
    Shared(Pair &pair, size_t bytes) : owner_(pair.b), bytes_(bytes)
    {
        std::array<std::byte, 64> word{};
        // the registration needs a connection
        pair.b.send(pair.a, word);
        pair.a.receive(word);
        memory_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        require(memory_ != MAP_FAILED, "mmap: {}", std::strerror(errno));
        rds_get_mr_args args{};
        args.vec = {reinterpret_cast<uint64_t>(memory_), bytes};
        args.cookie_addr = reinterpret_cast<uint64_t>(&mine_);
        args.flags = RDS_RDMA_READWRITE;
        pair.b.send(pair.a, word, RDS_CMSG_RDMA_MAP, args);
        pair.a.receive(word, RDS_CMSG_RDMA_DEST, &cookie_);
        require(cookie_ && cookie_ == mine_, "cookie {:#x} arrived, {:#x} was sent", cookie_, mine_);
    }
    ~Shared()
    {
        const rds_free_mr_args args{mine_, RDS_RDMA_INVALIDATE};
        if (setsockopt(owner_.fd(), SOL_RDS, RDS_FREE_MR, &args, sizeof(args)))
            report_failure(fmt::format("RDS_FREE_MR: {}", std::strerror(errno)));
        munmap(memory_, bytes_);
    }
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;

    std::span<std::byte> bytes() const { return {static_cast<std::byte *>(memory_), bytes_}; }
    rds_rdma_cookie_t cookie() const { return cookie_; }

private:
    const Socket &owner_;
    size_t bytes_;
    void *memory_;
    rds_rdma_cookie_t mine_ = 0;
    rds_rdma_cookie_t cookie_ = 0;
};

void await_status(Socket &at)
{
    std::array<std::byte, 64> room{};
    rds_rdma_notify notify{0, -1};
    at.receive(room, RDS_CMSG_RDMA_STATUS, &notify);
    require(notify.user_token == 71 && notify.status == RDS_RDMA_SUCCESS, "RDMA ended with status {}, token {}",
            notify.status, uint64_t{notify.user_token});
}

// A writes to B's memory and reads it back; the message behind says that it is done.
void rdma(Ends &ends)
{
    Pair pair(ends);
    std::array<std::byte, 64> word{};
    std::vector<std::byte> room(64);
    const size_t bytes = 64 * kPage;
    const Shared shared(pair, bytes);
    std::vector<std::byte> mine(bytes), want(bytes);
    for (int round = 0; round < 8; round++) {
        const size_t length = round ? bytes >> round : bytes;
        fill_pattern(want, ends.seed + static_cast<uint64_t>(round));
        std::memcpy(mine.data(), want.data(), bytes);
        std::memset(shared.bytes().data(), 0, bytes);
        rds_iovec local{reinterpret_cast<uint64_t>(mine.data()), length};
        rds_rdma_args args{};
        args.cookie = shared.cookie();
        args.remote_vec = {0, length};
        args.local_vec_addr = reinterpret_cast<uint64_t>(&local);
        args.nr_local = 1;
        args.flags = RDS_RDMA_READWRITE | RDS_RDMA_NOTIFY_ME;
        args.user_token = 71;
        pair.a.send(pair.b, word, RDS_CMSG_RDMA_ARGS, args);
        pair.b.receive(room);
        require(!std::memcmp(shared.bytes().data(), want.data(), length), "RDMA write of {} bytes: wrong data", length);
        require(length == bytes || shared.bytes()[length] == std::byte{0}, "RDMA write went beyond {} bytes", length);
        await_status(pair.a);

        std::memset(mine.data(), 0, bytes);
        args.flags = RDS_RDMA_NOTIFY_ME;
        pair.a.send(pair.b, word, RDS_CMSG_RDMA_ARGS, args);
        await_status(pair.a);
        pair.b.receive(room);
        require(!std::memcmp(mine.data(), want.data(), length), "RDMA read of {} bytes: wrong data", length);
    }
}

} // namespace

int main(int argc, char **argv)
{
    Ends ends{};
    std::vector<std::string> filters;
    bool list = false;
    CLI::App app("RDS sockets over RDMA.");
    app.add_option("--address-a", ends.ip_a, "IPv4 address of one device")->required();
    app.add_option("--address-b", ends.ip_b, "IPv4 address of the other")->required();
    app.add_option("--seed", ends.seed, "seed of every random choice");
    app.add_option("--stream-s", ends.stream_s, "only a stream both ways for so many seconds");
    app.add_option("--filter", filters, "run only cases whose name contains this text")->delimiter(',');
    app.add_flag("--list", list, "print the names of the cases and stop");
    CLI11_PARSE(app, argc, argv);

    Ktap ktap;
    if (ends.stream_s) {
        ktap.add("stream", [&] { stream(ends); });
    } else {
        ktap.add("sizes", [&] { sizes(ends); });
        ktap.add("both_ways", [&] { both_ways(ends); });
        ktap.add("rdma", [&] { rdma(ends); });
    }
    return ktap.run(filters, list, 60);
}
