// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Commands, registers and frames as the input has them, on a card that is up and has an object of each kind. The input
 * is a list of steps: a byte of what to do, then what it needs.
 */
#include "tests/driver.hpp"

#include <array>
#include <cstring>

namespace {

using namespace cx;
using driver::Bytes;

/** Takes from the front of the input; zeroes when it has ended. */
class Source {
public:
    explicit Source(std::span<const std::byte> input) : input_(input)
    {
    }
    bool Empty() const
    {
        return input_.empty();
    }
    std::uint64_t Number(std::size_t size)
    {
        std::uint64_t value = 0;

        for (; size != 0; size--) {
            value = value << 8 | (input_.empty() ? 0 : std::to_integer<std::uint64_t>(input_.front()));
            input_ = input_.subspan(input_.empty() ? 0 : 1);
        }
        return value;
    }
    Bytes Take(std::size_t size)
    {
        const auto taken = input_.first(std::min(size, input_.size()));

        input_ = input_.subspan(taken.size());
        return { taken.begin(), taken.end() };
    }

private:
    std::span<const std::byte> input_;
};

/** An input that would be accepted, to be spoiled. */
Bytes Template(driver::Driver &on, std::uint64_t which)
{
    switch (which % 12) {
    case 0:
        return on.EqInput(1ULL << 0x0b);
    case 1:
        return on.CqInput(1);
    case 2:
        return on.RqInput(0x40);
    case 3:
        return on.SqInput(0x40, 1);
    case 4:
        return on.MkeyInput();
    case 5:
        return on.RqtInput({ 0x100, 0x100 }, 4);
    case 6:
        return on.DirectTirInput(0x100);
    case 7:
        return on.IndirectTirInput(1);
    case 8:
        return on.TableInput(5);
    case 9:
        return on.GroupInput(1, 8, 15);
    case 10:
        return on.FlowInput(1, 1, 4, 1);
    default:
        return on.RqState(0x100, 0, 1);
    }
}

void MakeObjects(driver::Driver &on)
{
    Bytes tis = CX_INPUT(CREATE_TIS, create_tis);

    CX_SET(std::span<std::byte>(tis), create_tis_in, ctx.transport_domain, on.domain);
    on.Create(on.EqInput(1ULL << 0x0a));
    on.Create(on.CqInput(1));
    on.Create(on.RqInput(0x40));
    on.Create(tis);
    on.Create(on.SqInput(0x40, 1));
    on.Create(on.MkeyInput());
    on.Create(on.RqtInput({ 0x100 }, 2));
    on.Create(on.DirectTirInput(0x100));
    on.Create(on.TableInput(3));
    on.Create(on.GroupInput(1, 0, 7));
    on.Run(on.FlowInput(1, 1, 2, 1));
    on.Run(on.RqState(0x100, 0, 1));
    on.Run(on.SqState(0x1000, 0, 1));
}

/** Change some bytes of what is there: each change is an offset and a value. */
void Spoil(std::span<std::byte> bytes, Source &source)
{
    for (std::uint64_t changes = source.Number(1) % 8; changes != 0 && !bytes.empty(); changes--) {
        const std::uint64_t at = source.Number(2) % bytes.size();

        bytes[at] = static_cast<std::byte>(source.Number(1));
    }
}

void Step(driver::Machine &machine, driver::Driver &on, Source &source)
{
    switch (source.Number(1) % 6) {
    case 0: { /* any command */
        Bytes in = source.Take(source.Number(2) % 1024);

        in.resize(std::max<std::size_t>(16, in.size() / 4 * 4));
        on.Run(in, source.Number(2) % 5000 / 4 * 4);
        break;
    }
    case 1: { /* a good one, spoiled */
        Bytes in = Template(on, source.Number(1));

        Spoil(in, source);
        on.Run(in);
        break;
    }
    case 2: /* a good one with a spoiled entry and mailboxes */
        on.Run(Template(on, source.Number(1)), 16 + source.Number(2) % 4096 / 4 * 4,
               [&](std::span<std::byte> entry, std::span<const std::uint64_t> boxes) {
                   Spoil(entry, source);
                   for (const std::uint64_t box : boxes)
                       Spoil(machine.At(box, CX_SIZE(cmd_if_box)), source);
               });
        break;
    case 3: { /* a known opcode with a number */
        const auto opcode = static_cast<std::uint16_t>(source.Number(2) % 0xb10);

        on.RunOn(opcode, static_cast<std::uint32_t>(source.Number(4)), source.Number(2) % 5000 / 4 * 4);
        break;
    }
    case 4: { /* a register */
        const std::uint64_t offset = source.Number(1) % 2 == 0 ? source.Number(2) : source.Number(4);

        machine.card->ReadRegister(offset, source.Number(1) % 2 == 0 ? 4 : 8);
        machine.card->WriteRegister(offset, source.Number(1) % 2 == 0 ? 4 : 8, source.Number(8));
        break;
    }
    default:
        machine.card->Inject(static_cast<Fault>(source.Number(1) % 7), static_cast<std::uint32_t>(source.Number(2)));
        machine.timers.Advance(std::chrono::microseconds(source.Number(2)));
    }
}

} // namespace

/* libFuzzer's name for it */
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    static driver::Machine machine;

    machine.card->Reset();
    machine.sent.clear();
    machine.interrupts.clear();

    driver::Driver on(machine);
    Source source({ reinterpret_cast<const std::byte *>(data), size });

    on.Run(CX_INPUT(NOP, nop)); /* takes a command timeout that is still to come */
    if (!on.BringUp())
        std::abort();
    MakeObjects(on);
    for (unsigned steps = 0; !source.Empty() && steps < 64; steps++)
        Step(machine, on, source);
    machine.card->Status();
    return 0;
}
