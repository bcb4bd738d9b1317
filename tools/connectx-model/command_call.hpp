// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* One command while it is executed, and the table of all commands. Private to commands.cpp and command_*.cpp. */
#pragma once

#include "datapath.hpp"
#include "ifc.hpp"
#include "objects.hpp"
#include "trace.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace cx {

/** Status of a command: enum mlx5_cmd_status of linux/mlx5/device.h. */
enum class Status : std::uint8_t {
    kOk = 0x0,
    kInternal = 0x1,
    kBadOperation = 0x2,
    kBadParameter = 0x3,
    kBadSystemState = 0x4,
    kBadResource = 0x5,
    kBusy = 0x6,
    kLimit = 0x8,
    kBadResourceState = 0x9,
    kBadIndex = 0xa,
    kNoResources = 0xf,
    kBadInputLength = 0x50,
    kBadOutputLength = 0x51,
};

/** What a handler gets, and gives back. */
struct Call {
    std::span<const std::byte> in;
    std::span<std::byte> out;
    Objects &objects;
    DataPath &data_path;
    Trace &trace;
    std::string_view name;
    std::uint16_t opcode = 0;
    std::uint16_t op_mod = 0;
    Status status = Status::kOk;
    std::uint32_t syndrome = 0;
    std::string note; /* for the trace: the fields that matter */

    /**
     * Refuse the command: status, a syndrome of the opcode and a hash of the words of `format` (so unique to the check
     * and steady from build to build), and one line of complaint. Always false.
     */
    template <typename... Args> bool Refuse(Status with, fmt::format_string<Args...> format, Args &&...args)
    {
        const fmt::string_view words = format;

        status = with;
        syndrome = Syndrome(opcode, { words.data(), words.size() });
        trace.Complain("{}: {} (status {:#x}, syndrome {:#x})", name,
                       fmt::format(format, std::forward<Args>(args)...), static_cast<unsigned>(with), syndrome);
        return false;
    }

    template <typename... Args> void Say(fmt::format_string<Args...> format, Args &&...args)
    {
        note = fmt::format(format, std::forward<Args>(args)...);
    }

    /** High half the opcode, low half FNV-1a of the words, folded. */
    static constexpr std::uint32_t Syndrome(std::uint16_t opcode, std::string_view words)
    {
        std::uint32_t hash = 0x811c9dc5;

        for (const char letter : words)
            hash = (hash ^ static_cast<std::uint8_t>(letter)) * 0x01000193;
        return static_cast<std::uint32_t>(opcode) << 16 | ((hash >> 16 ^ hash) & 0xffff);
    }
};

/** A field of the input, 32 bits or less. */
#define CX_IN(call, type, field) static_cast<std::uint32_t>(CX_GET((call).in, type, field))
/** A field of the output. */
#define CX_OUT(call, type, field, value) CX_SET((call).out, type, field, value)

/** True: done. False: refused, and Call::Refuse() has been called. */
using Handler = bool (*)(Call &call);

/** States of the function in which a command is allowed. */
enum : unsigned {
    kInDisabled = 1U << static_cast<unsigned>(FunctionState::kDisabled),
    kInEnabled = 1U << static_cast<unsigned>(FunctionState::kEnabled),
    kInInitialized = 1U << static_cast<unsigned>(FunctionState::kInitialized),
};

struct CommandRow {
    std::uint16_t opcode;
    std::string_view name;
    std::size_t input;  /* bytes at least */
    std::size_t output; /* bytes at least */
    unsigned states;
    Handler handler;
    /* What the input may hold besides opcode and op_mod: everything else must be zero. */
    std::span<const Field> known;
};

/** nullptr: the card knows no such command. */
const CommandRow *FindCommand(std::uint16_t opcode);

/**
 * Lowest number from `first` to `last` that is not a key of `taken` (a map or set); 0 if there is none. `first` is not
 * 0.
 */
template <typename Taken> std::uint32_t FreeNumber(const Taken &taken, std::uint32_t first, std::uint32_t last)
{
    for (std::uint32_t number = first; number <= last; number++)
        if (!taken.contains(number))
            return number;
    return 0;
}

/** The element, or nullptr. */
template <typename Map> auto *Find(Map &map, std::uint32_t number)
{
    const auto found = map.find(number);

    return found == map.end() ? nullptr : &found->second;
}

/**
 * Set all fields of a capability page that the card has: type 0 general, 1 Ethernet offloads, 7 flow tables; false:
 * others.
 */
bool FillCapabilities(std::span<std::byte> page, unsigned type, bool maximum, const Objects &objects);

/** Limits, as the capabilities tell them. */
constexpr unsigned kLogMaxEqSize = 22;
constexpr unsigned kMaxEqs = 64;
constexpr unsigned kLogMaxCqSize = 22;
constexpr unsigned kLogMaxCq = 16;
constexpr unsigned kLogMaxWqSize = 15;
constexpr unsigned kLogMaxRq = 12;
constexpr unsigned kLogMaxSq = 12;
constexpr unsigned kLogMinRqStride = 4;
constexpr unsigned kLogMaxRqStride = 13;
constexpr unsigned kLogSqStride = 6;
constexpr unsigned kLogMaxTir = 12;
constexpr unsigned kLogMaxTis = 10;
constexpr unsigned kLogMaxRqt = 10;
constexpr unsigned kLogMaxRqtSize = 8;
constexpr unsigned kLogMaxPd = 10;
constexpr unsigned kLogMaxTransportDomain = 8;
constexpr unsigned kLogMaxMkey = 16;
constexpr unsigned kLogMaxAddressList = 7; /* unicast, multicast; */
constexpr unsigned kLogMaxVlanList = 7;
constexpr unsigned kMaxTableLevel = 128;
constexpr unsigned kLogMaxTableSize = 20;
constexpr unsigned kLogMaxTables = 10;
constexpr unsigned kLogMaxDestinations = 5;
constexpr unsigned kLogMaxFlowCounters = 16;
constexpr unsigned kLogMaxCounterQuery = 10;
constexpr unsigned kCounterBulk = 128; /* counters of the only bulk size offered */
constexpr std::uint32_t kFirstUar = 0x200;
constexpr std::uint32_t kUars = 4096;
constexpr std::uint32_t kBootPages = 16;
constexpr std::uint32_t kInitPages = 64;

/** The match fields that steering knows, as a mask over fte_match_param. */
const MatchBytes &SupportedMatch();

namespace commands {

/* command_init.cpp */
bool EnableHca(Call &call);
bool DisableHca(Call &call);
bool QueryIssi(Call &call);
bool SetIssi(Call &call);
bool QueryPages(Call &call);
bool ManagePages(Call &call);
bool QueryHcaCap(Call &call);
bool SetHcaCap(Call &call);
bool InitHca(Call &call);
bool TeardownHca(Call &call);
bool SetDriverVersion(Call &call);
bool QueryAdapter(Call &call);
bool Nop(Call &call);
/* command_register.cpp */
bool AccessRegister(Call &call);
/* command_objects.cpp */
bool AllocUar(Call &call);
bool DeallocUar(Call &call);
bool AllocPd(Call &call);
bool DeallocPd(Call &call);
bool AllocTransportDomain(Call &call);
bool DeallocTransportDomain(Call &call);
bool CreateMkey(Call &call);
bool QueryMkey(Call &call);
bool DestroyMkey(Call &call);
bool AllocQCounter(Call &call);
bool DeallocQCounter(Call &call);
bool QueryQCounter(Call &call);
/* command_queues.cpp */
bool CreateEq(Call &call);
bool QueryEq(Call &call);
bool DestroyEq(Call &call);
bool CreateCq(Call &call);
bool QueryCq(Call &call);
bool ModifyCq(Call &call);
bool DestroyCq(Call &call);
/* command_work_queues.cpp */
bool CreateRq(Call &call);
bool QueryRq(Call &call);
bool ModifyRq(Call &call);
bool DestroyRq(Call &call);
bool CreateSq(Call &call);
bool QuerySq(Call &call);
bool ModifySq(Call &call);
bool DestroySq(Call &call);
/* command_transport.cpp */
bool CreateTis(Call &call);
bool QueryTis(Call &call);
bool ModifyTis(Call &call);
bool DestroyTis(Call &call);
bool CreateRqt(Call &call);
bool QueryRqt(Call &call);
bool ModifyRqt(Call &call);
bool DestroyRqt(Call &call);
bool CreateTir(Call &call);
bool QueryTir(Call &call);
bool ModifyTir(Call &call);
bool DestroyTir(Call &call);
/* command_flow.cpp */
bool CreateFlowTable(Call &call);
bool QueryFlowTable(Call &call);
bool ModifyFlowTable(Call &call);
bool DestroyFlowTable(Call &call);
bool SetFlowTableRoot(Call &call);
bool CreateFlowGroup(Call &call);
bool QueryFlowGroup(Call &call);
bool DestroyFlowGroup(Call &call);
bool SetFlowEntry(Call &call);
bool QueryFlowEntry(Call &call);
bool DeleteFlowEntry(Call &call);
/* command_flow_counter.cpp */
bool AllocFlowCounter(Call &call);
bool DeallocFlowCounter(Call &call);
bool QueryFlowCounter(Call &call);
/* command_vport.cpp */
bool QueryVportState(Call &call);
bool ModifyVportState(Call &call);
bool QueryNicVportContext(Call &call);
bool ModifyNicVportContext(Call &call);
bool QueryVportCounter(Call &call);
bool QueryVnicEnv(Call &call);

} // namespace commands
} // namespace cx
