// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* connectx-model: command line, and the parts put together. */
#include "backend.hpp"
#include "card.hpp"
#include "control.hpp"
#include "event_loop.hpp"
#include "mac_address.hpp"
#include "trace.hpp"
#include "vfio_user.hpp"
#include "virtio_pcidev.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sys/signalfd.h>

#include <cerrno>
#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <system_error>

namespace cx {
namespace {

struct Options {
    std::string vfio_user, virtio_pcidev;
    std::string backend = "none";
    std::string mac = "02:00:00:00:00:01";
    std::string control;
    bool trace = false;
    bool once = false;
};

constexpr const char *kFooter =
    "Examples:\n"
    "  connectx-model --vfio-user cx.sock --backend tap:cx0\n"
    "    for a QEMU that has vfio-user-pci, with its memory in a shared memory-backend-memfd and\n"
    "    -device '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"cx.sock\"}}'\n"
    "  connectx-model --virtio-pcidev cx.sock --backend listen:wire.sock\n"
    "    for User Mode Linux with virtio_uml.device=cx.sock:1234\n"
    "  connectx-model --vfio-user b.sock --mac 02:00:00:00:00:02 --backend socket:wire.sock\n"
    "    a second card at the other end of that wire\n"
    "  connectx-model --vfio-user cx.sock --backend generator:rate=20000,size=256 --control cx.control\n"
    "    with orders, one a line, to cx.control: \"help\" lists them\n"
    "See connectx-model(1).";

/* SIGINT and SIGTERM end the loop: sockets are removed and the guest sees the connection end. */
FileDescriptor StopBySignal(EventLoop &loop)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    FileDescriptor descriptor(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor || !loop.Watch(descriptor.Get(), EPOLLIN, [&loop](std::uint32_t) { loop.Stop(); }))
        throw std::system_error(errno, std::generic_category(), "cannot wait for signals");
    std::signal(SIGPIPE, SIG_IGN); /* an interrupt may go into a pipe whose reader is gone */
    return descriptor;
}

void Serve(const Options &options, const MacAddress &mac)
{
    EventLoop loop;
    Trace trace(options.trace);
    const FileDescriptor signals = StopBySignal(loop);
    const std::unique_ptr<Backend> backend = MakeBackend(loop, trace, options.backend);
    std::unique_ptr<Transport> transport;

    if (options.vfio_user.empty())
        transport = std::make_unique<VirtioPcidev>(loop, trace, options.virtio_pcidev, options.once);
    else
        transport = std::make_unique<VfioUser>(loop, trace, options.vfio_user, options.once);
    Card card(*transport, loop, *backend, CardOptions{.mac = mac, .trace = options.trace});
    Control control(loop, card, *transport, *backend, options.control);
    backend->Start([&card](std::span<const std::byte> frame) { card.Receive(frame); });
    transport->Start(card);
    loop.Run();
}

int Main(int argc, char **argv)
{
    CLI::App app("A model of a ConnectX PCI function, for the stock mlx5_core of a guest to drive.", "connectx-model");
    Options options;

    app.set_version_flag("--version", CX_VERSION);
    app.footer(kFooter);
    auto *transports = app.add_option_group("transport", "how the function gets to the guest");
    transports->add_option("--vfio-user", options.vfio_user, "serve vfio-user at this socket, for QEMU")
        ->type_name("PATH");
    transports
        ->add_option("--virtio-pcidev", options.virtio_pcidev,
                     "serve virtio-pcidev over vhost-user at this socket, for User Mode Linux")
        ->type_name("PATH");
    transports->require_option(1);
    app.add_option("--backend", options.backend,
                   "what the port is plugged into: none, tap:NAME, socket:PATH, listen:PATH, pcap:IN,OUT, "
                   "generator:KEY=VALUE,...")
        ->type_name("KIND")
        ->capture_default_str();
    app.add_option("--mac", options.mac, "the port's permanent MAC address")->type_name("MAC")->capture_default_str();
    app.add_option("--control", options.control, "take orders at this socket: status, faults, traffic")
        ->type_name("PATH");
    app.add_flag("--trace", options.trace, "every command and doorbell, a line each, on standard error");
    app.add_flag("--once", options.once, "end when the first guest has gone");
    CLI11_PARSE(app, argc, argv);

    const auto mac = ParseMac(options.mac);
    if (!mac || ((*mac)[0] & 1) != 0 || *mac == MacAddress{}) {
        fmt::print(stderr, "connectx-model: '{}' is no unicast MAC address\n", options.mac);
        return 1;
    }
    Serve(options, *mac);
    return 0;
}

} // namespace
} // namespace cx

int main(int argc, char **argv)
{
    try {
        return cx::Main(argc, argv);
    } catch (const std::exception &error) {
        fmt::print(stderr, "connectx-model: {}\n", error.what());
        return 1;
    }
}
