// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Orders from outside while the model runs: a Unix stream socket, an order a line, one line of JSON in answer to each.
 * What the orders are: kHelp in control.cpp, which "help" answers with.
 */
#pragma once

#include "backend.hpp"
#include "card.hpp"
#include "message_socket.hpp"
#include "transport.hpp"

#include <list>
#include <string>
#include <string_view>

namespace cx {

class Control {
public:
    /** Listens at `path`; empty: only Execute(). Throws std::system_error. */
    Control(EventLoop &loop, Function &function, Transport &transport, Backend &backend, const std::string &path);
    ~Control();
    Control(const Control &) = delete;
    Control &operator=(const Control &) = delete;

    /** The answer, without the line's end: {"ok": true}, what was asked for, or {"error": "..."}. */
    std::string Execute(std::string_view line);

private:
    struct Client {
        FileDescriptor socket;
        std::string input;
    };

    void Accept(FileDescriptor socket);
    bool Read(Client &client); /* false: it has gone, or is to go */

    EventLoop &loop_;
    Function &function_;
    Transport &transport_;
    Backend &backend_;
    std::list<Client> clients_;
    std::optional<Listener> listener_;
};

} // namespace cx
