// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The command interface: what the driver writes into a command's input and reads from its output. */
#pragma once

#include "datapath.hpp"
#include "objects.hpp"
#include "trace.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace cx {

/** Executes commands on the objects. The queue, mailboxes and delivery around it are command_queue.cpp's. */
class Commands {
public:
    Commands(Objects &objects, DataPath &data_path, Trace &trace);

    /**
     * `input` and `output` are as the entry's lengths say, big-endian, laid out as linux/mlx5/mlx5_ifc.h has it. The
     * output is zeroed first, then status and syndrome (its first two words) and the results are written.
     */
    void Execute(std::span<const std::byte> input, std::span<std::byte> output);

    /** Name of an opcode for people; "0x..." of one that is unknown. */
    static std::string_view OpcodeName(std::uint16_t opcode);

private:
    Objects &objects_;
    DataPath &data_path_;
    Trace &trace_;
};

} // namespace cx
