// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Execution of a command: what is checked for all of them, then its handler. */
#include "command.hpp"

#include "command_call.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace cx {
namespace {

/* Of every command's input and output. */
constexpr Field kOpcode = CX_FIELD(nop_in, opcode);
constexpr Field kOpMod = CX_FIELD(nop_in, op_mod);
constexpr Field kStatus = CX_FIELD(nop_out, status);
constexpr Field kSyndrome = CX_FIELD(nop_out, syndrome);

/** First bit that is set outside of opcode, op_mod and `known`. */
std::optional<std::size_t> ReservedBit(std::span<const std::byte> in, std::span<const Field> known)
{
    std::vector<std::byte> left(in.begin(), in.end());
    const auto clear = [&](Field field) {
        /* a list goes on to the end of the input */
        std::size_t bits = std::min(field.bits, left.size() * 8 > field.at ? left.size() * 8 - field.at : 0);

        for (std::size_t at = field.at; bits != 0;) {
            const std::size_t take = std::min<std::size_t>(bits, 64);

            SetField(left, { at, take }, 0);
            at += take;
            bits -= take;
        }
    };

    clear(kOpcode);
    clear(kOpMod);
    for (const Field &field : known)
        clear(field);

    const auto set = std::find_if(left.begin(), left.end(), [](std::byte byte) { return byte != std::byte{ 0 }; });

    if (set == left.end())
        return std::nullopt;

    std::size_t bit = 0;

    while ((std::to_integer<unsigned>(*set) << bit & 0x80) == 0)
        bit++;
    return static_cast<std::size_t>(set - left.begin()) * 8 + bit;
}

bool Check(Call &call, const CommandRow &row)
{
    if (call.in.size() < row.input)
        return call.Refuse(Status::kBadInputLength, "input of {} bytes, at least {} needed", call.in.size(),
                           row.input);
    if (call.out.size() < row.output)
        return call.Refuse(Status::kBadOutputLength, "output of {} bytes, at least {} needed", call.out.size(),
                           row.output);
    if ((row.states >> static_cast<unsigned>(call.objects.function) & 1) == 0)
        return call.Refuse(Status::kBadSystemState, "not allowed when the function is {}",
                           call.objects.function == FunctionState::kDisabled ? "disabled" :
                           call.objects.function == FunctionState::kEnabled  ? "enabled" :
                                                                               "initialized");
    if (const auto bit = ReservedBit(call.in, row.known); bit)
        return call.Refuse(Status::kBadParameter,
                           "bit {:#x} of the input is set: reserved, or not offered (value {:#x})", *bit,
                           GetField(call.in, { *bit / 32 * 32, 32 }));
    return true;
}

} // namespace

Commands::Commands(Objects &objects, DataPath &data_path, Trace &trace)
    : objects_(objects), data_path_(data_path), trace_(trace)
{
}

void Commands::Execute(std::span<const std::byte> input, std::span<std::byte> output)
{
    const auto opcode = static_cast<std::uint16_t>(GetField(input, kOpcode));
    const std::string name(OpcodeName(opcode));
    const CommandRow *row = FindCommand(opcode);
    Call call = { input, output, objects_, data_path_, trace_, name, opcode,
                  static_cast<std::uint16_t>(GetField(input, kOpMod)), Status::kOk, 0, {} };

    std::fill(output.begin(), output.end(), std::byte{ 0 });

    bool done = false;

    if (row == nullptr)
        call.Refuse(Status::kBadOperation, "unknown command");
    else
        done = Check(call, *row) && row->handler(call);
    if (!done) {
        std::fill(output.begin(), output.end(), std::byte{ 0 });
        SetField(output, kStatus, static_cast<unsigned>(call.status));
        SetField(output, kSyndrome, call.syndrome);
    }
    trace_.Note("command {} {}: {}", name, call.note,
                done ? std::string("ok") : fmt::format("status {:#x}", static_cast<unsigned>(call.status)));
}

std::string_view Commands::OpcodeName(std::uint16_t opcode)
{
    static std::map<std::uint16_t, std::string> unknown;

    if (const CommandRow *row = FindCommand(opcode); row != nullptr)
        return row->name;
    return unknown.try_emplace(opcode, fmt::format("{:#x}", opcode)).first->second;
}

} // namespace cx
