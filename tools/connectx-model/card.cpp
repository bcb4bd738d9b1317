// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The card's registers in BAR 0: initialization segment and UAR pages; reset, faults. */
#include "card.hpp"

#include "card_state.hpp"
#include "ifc.hpp"

#include <algorithm>
#include <array>

namespace cx {
namespace {

constexpr std::uint16_t kFirmwareMajor = 16;
constexpr std::uint16_t kFirmwareMinor = 35;
constexpr std::uint16_t kFirmwareSubminor = 1000;
constexpr std::uint16_t kCommandInterface = 5;
/* Of the initialization segment; UAR pages and the MSI-X table come after it. */
constexpr std::uint64_t kSegmentSize = 0x2000;
/* struct mlx5_init_seg of linux/mlx5/device.h: internal_timer_h and _l, which mlx5_ifc.h leaves out. */
constexpr std::uint64_t kTimerHigh = 0x1000;
constexpr std::uint64_t kTimerLow = 0x1004;
constexpr std::uint64_t kAddressHigh = CX_AT(initial_seg, cmdq_phy_addr_63_32);
constexpr std::uint64_t kAddressLow = CX_AT(initial_seg, cmdq_phy_addr_31_12);
constexpr std::uint64_t kCommandDoorbell = CX_AT(initial_seg, command_doorbell_vector);
constexpr std::uint64_t kCommandQueueAlignment = 4096;
/* Low dword of the address: nic_interface from bit 8 (MLX5_NIC_IFC_OFFSET of linux/mlx5/device.h). */
constexpr unsigned kNicInterfaceShift = 8;
constexpr unsigned kNicInterfaceMask = 7;
/* "initializing" dword, bit 30 (MLX5_FW_RESET_SUPPORTED_OFFSET): nic_interface can be set to reset. */
constexpr std::uint32_t kResetSupported = 1U << 30;
/* health_buffer.synd of an internal error. */
constexpr unsigned kInternalError = 1;
constexpr auto kHealthTick = std::chrono::milliseconds(10);

/* A UAR page: linux/mlx5/doorbell.h has the CQ's doorbell and the first send doorbell. */
constexpr std::uint64_t kUarPage = 4096;
constexpr std::uint64_t kCqArm = 0x20;
constexpr std::uint64_t kEqArm = 0x40;
constexpr std::uint64_t kEqUpdate = 0x48;
constexpr std::uint64_t kSendDoorbells = 0x800;
/* Half of a blue flame register: writes past its first 8 bytes are the WQE's, which the card reads from memory. */
constexpr std::uint64_t kSendBuffer = 256;

/** Of what the bus carries (little-endian) the register's value (big-endian), or the other way around. */
std::uint32_t Swap(std::uint32_t value)
{
    return __builtin_bswap32(value);
}

std::uint32_t Word(std::uint64_t value, unsigned index)
{
    return static_cast<std::uint32_t>(value >> (index * 32));
}

} // namespace

Card::State::State(Bus &bus, Timers &clock, Wire &wire, CardOptions given)
    : options(given), gate(bus), timers(clock), trace(given.trace), data_path(objects, gate, clock, wire, trace),
      queue(gate, clock, objects, data_path, trace), started(clock.Now())
{
    objects.vport.permanent_mac = options.mac;
}

void Card::State::ResetFunction()
{
    for (auto &[number, cq] : objects.cqs)
        data_path.ForgetCq(cq);

    Objects fresh;

    fresh.vport.permanent_mac = options.mac;
    fresh.link_up = objects.link_up;
    fresh.steering_generation = objects.steering_generation + 1;
    objects = std::move(fresh);
    queue.SetAddress(0);
    address_high = 0;
    nic_interface = NicInterface::kFull;
    unhealthy = false;
    half_doorbell.reset();
}

std::uint32_t Card::State::ReadSegment(std::uint64_t offset) const
{
    std::array<std::byte, CX_AT(initial_seg, reserved_at_80a0)> bytes = {};
    const std::span<std::byte> segment(bytes);
    const auto elapsed = timers.Now() - started;
    const auto ticks = (unhealthy ? unhealthy_since - started : elapsed) / kHealthTick;
    const auto now = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(timers.Now().time_since_epoch()).count());

    if (offset == kTimerHigh)
        return Word(now, 1);
    if (offset == kTimerLow)
        return Word(now, 0);
    CX_SET(segment, initial_seg, fw_rev_major, kFirmwareMajor);
    CX_SET(segment, initial_seg, fw_rev_minor, kFirmwareMinor);
    CX_SET(segment, initial_seg, fw_rev_subminor, kFirmwareSubminor);
    CX_SET(segment, initial_seg, cmd_interface_rev, kCommandInterface);
    CX_SET(segment, initial_seg, cmdq_phy_addr_63_32, Word(queue.address(), 1));
    SetField(segment, { kAddressLow * 8, 32 },
             Word(queue.address(), 0) | static_cast<unsigned>(nic_interface) << kNicInterfaceShift);
    CX_SET(segment, initial_seg, log_cmdq_size, CommandQueue::kLogSize);
    CX_SET(segment, initial_seg, log_cmdq_stride, CommandQueue::kLogStride);
    SetField(segment, { CX_AT(initial_seg, initializing) * 8, 32 }, kResetSupported);
    CX_SET(segment, initial_seg, health_buffer.valid, unhealthy);
    CX_SET(segment, initial_seg, health_buffer.rfr, unhealthy);
    CX_SET(segment, initial_seg, health_buffer.synd, unhealthy ? kInternalError : 0);
    CX_SET(segment, initial_seg, health_buffer.fw_version,
           kFirmwareMajor << 24 | kFirmwareMinor << 16 | kFirmwareSubminor);
    CX_SET(segment, initial_seg, health_counter, static_cast<std::uint64_t>(ticks));
    return static_cast<std::uint32_t>(GetField(segment, { offset * 8, 32 }));
}

void Card::State::WriteSegment(std::uint64_t offset, std::uint32_t value)
{
    switch (offset) {
    case kAddressHigh:
        address_high = value;
        break;
    case kAddressLow:
        WriteAddressLow(value);
        break;
    case kCommandDoorbell:
        if (unhealthy || nic_interface != NicInterface::kFull)
            trace.Note("command doorbell {:#x}: the interface is down", value);
        else
            queue.Doorbell(value);
        break;
    default:
        trace.Complain("register {:#x} is written with {:#x}", offset, value);
    }
}

/**
 * The address is in force, and so is the state of the interface: a driver that takes it down or resets it loses
 * everything.
 */
void Card::State::WriteAddressLow(std::uint32_t value)
{
    const std::uint64_t address = std::uint64_t{ address_high } << 32 | (value & ~(kCommandQueueAlignment - 1));

    switch (static_cast<NicInterface>(value >> kNicInterfaceShift & kNicInterfaceMask)) {
    case NicInterface::kFull:
        /* After an internal error the firmware comes up anew. */
        if (unhealthy || nic_interface != NicInterface::kFull)
            ResetFunction();
        address_high = Word(address, 1);
        queue.SetAddress(address);
        trace.Note("command queue at {:#x}", address);
        break;
    case NicInterface::kDisabled:
        ResetFunction();
        nic_interface = NicInterface::kDisabled;
        trace.Note("interface disabled");
        break;
    case NicInterface::kReset:
        ResetFunction();
        nic_interface = NicInterface::kDisabled;
        trace.Note("reset by the driver");
        break;
    default:
        trace.Complain("nic_interface {} is written", value >> kNicInterfaceShift & kNicInterfaceMask);
    }
}

void Card::State::WriteUar(std::uint64_t offset, unsigned size, std::uint64_t value)
{
    const auto uar = static_cast<std::uint32_t>(offset / kUarPage);
    const std::uint64_t at = offset % kUarPage;
    const std::uint32_t first = Swap(Word(value, 0));

    /* of a driver that has not stopped its queues yet: it takes the interface down, or resets it, before */
    if (unhealthy || nic_interface != NicInterface::kFull) {
        trace.Note("UAR {:#x} is written at {:#x}: the interface is down", uar, at);
        return;
    }
    if (!objects.uars.contains(uar)) {
        trace.Complain("UAR {:#x} is written at {:#x}, but is not allocated", uar, at);
        return;
    }
    if (at == kEqArm || at == kEqUpdate) {
        trace.Note("EQ {} doorbell, consumer {:#x}{}", first >> 24, first & 0xffffff, at == kEqArm ? ", arm" : "");
        data_path.EqDoorbell(first >> 24, first & 0xffffff, at == kEqArm);
        return;
    }
    if (size == 8) {
        WriteDoorbell(at, first, Swap(Word(value, 1)));
        return;
    }
    /* A doorbell of 8 bytes in two writes of 4: the second one counts. */
    if (offset % 8 == 0) {
        half_doorbell = { offset, first };
    } else if (half_doorbell && half_doorbell->first == offset - 4) {
        WriteDoorbell(at - 4, half_doorbell->second, first);
        half_doorbell.reset();
    }
}

void Card::State::WriteDoorbell(std::uint64_t at, std::uint32_t first, std::uint32_t second)
{
    if (at == kCqArm) {
        trace.Note("CQ {:#x} doorbell {:#x}", second & 0xffffff, first);
        data_path.CqDoorbell(first, second);
    } else if (at >= kSendDoorbells && at % kSendBuffer == 0) {
        trace.Note("SQ {:#x} doorbell {:#x}", second >> 8, first);
        data_path.SqDoorbell(first, second);
    } else if (at < kSendDoorbells) {
        trace.Complain("UAR is written at {:#x}: {:#x} {:#x}", at, first, second);
    }
}

Card::Card(Bus &bus, Timers &timers, Wire &wire, CardOptions options)
    : state_(std::make_unique<State>(bus, timers, wire, options))
{
}

Card::~Card()
{
    state_->ResetFunction();
}

std::uint64_t Card::ReadRegister(std::uint64_t offset, unsigned size)
{
    if ((size != 4 && size != 8) || offset % size != 0 || offset >= kSegmentSize)
        return ~std::uint64_t{ 0 } >> (size >= 8 ? 0 : 64 - size * 8);

    std::uint64_t value = Swap(state_->ReadSegment(offset));

    if (size == 8)
        value |= std::uint64_t{ Swap(state_->ReadSegment(offset + 4)) } << 32;
    return value;
}

void Card::WriteRegister(std::uint64_t offset, unsigned size, std::uint64_t value)
{
    if ((size != 4 && size != 8) || offset % size != 0 || offset >= kBarSize)
        return;
    if (offset >= kSegmentSize) {
        state_->WriteUar(offset, size, value);
        return;
    }
    state_->WriteSegment(offset, Swap(Word(value, 0)));
    if (size == 8)
        state_->WriteSegment(offset + 4, Swap(Word(value, 1)));
}

void Card::Reset()
{
    state_->trace.Note("reset");
    state_->ResetFunction();
}

void Card::SetBusMaster(bool on)
{
    state_->gate.Open(on);
}

void Card::Receive(std::span<const std::byte> frame)
{
    if (!state_->unhealthy)
        state_->data_path.Receive(frame);
}

void Card::State::SetLink(bool up)
{
    if (objects.link_up == up)
        return;
    objects.link_up = up;
    if (objects.admin_up)
        data_path.PostPortEvent(up);
}

namespace {

/** Element `number`, or for 0 the one of which `load` is most. */
template <typename Map, typename Load> auto *Pick(Map &map, std::uint32_t number, Load load)
{
    const auto less = [&](const auto &one, const auto &other) { return load(one.second) < load(other.second); };
    const auto found = number != 0 ? map.find(number) : std::max_element(map.begin(), map.end(), less);

    return found == map.end() ? nullptr : &found->second;
}

} // namespace

bool Card::Inject(Fault fault, std::uint32_t number)
{
    State &state = *state_;

    switch (fault) {
    case Fault::kCommandTimeout:
        state.queue.DelayNext();
        return true;
    case Fault::kCqError: {
        Cq *cq = Pick(state.objects.cqs, number, [](const Cq &each) { return each.completions; });

        if (cq != nullptr)
            state.data_path.CqError(*cq);
        return cq != nullptr;
    }
    case Fault::kRqError: {
        Rq *rq = Pick(state.objects.rqs, number, [](const Rq &each) { return each.packets; });

        if (rq != nullptr)
            state.data_path.RqError(*rq);
        return rq != nullptr;
    }
    case Fault::kLostInterrupt:
        state.data_path.LoseInterrupt();
        return true;
    case Fault::kLinkDown:
    case Fault::kLinkUp:
        state.SetLink(fault == Fault::kLinkUp);
        return true;
    case Fault::kHealth:
        state.unhealthy = true;
        state.unhealthy_since = state.timers.Now();
        state.queue.CancelLate();
        state.data_path.StopSending();
        return true;
    }
    return false;
}

} // namespace cx
