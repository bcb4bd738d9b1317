// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A driver of the card as far as tests need one: guest memory, the command queue, and the usual objects. */
#pragma once

#include "card.hpp"
#include "command_call.hpp"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace cx::driver {

using Bytes = std::vector<std::byte>;

/** Time that passes only when it is told to. */
class ManualTimers : public Timers {
public:
    Clock::time_point Now() const override
    {
        return now_;
    }
    Id After(Clock::duration delay, std::function<void()> action) override;
    void Cancel(Id id) override;
    void Advance(Clock::duration by);

private:
    Clock::time_point now_{ std::chrono::seconds(1) };
    Id last_ = 0;
    std::map<Id, std::pair<Clock::time_point, std::function<void()>>> pending_;
};

/**
 * Guest memory in a memfd, a bus that notes interrupts and a wire that notes frames; the card between them is bus
 * master.
 */
class Machine : public Bus, public Wire {
public:
    static constexpr std::uint64_t kBase = 0x40000000;
    static constexpr std::uint64_t kSize = 16ULL << 20;

    Machine();
    ~Machine() override;
    Machine(const Machine &) = delete;
    Machine &operator=(const Machine &) = delete;

    GuestMemory &Memory() override
    {
        return memory_;
    }
    void Interrupt(unsigned vector) override
    {
        interrupts.push_back(vector);
    }
    void Send(std::span<const std::byte> frame) override
    {
        sent.emplace_back(frame.begin(), frame.end());
    }

    /**
     * DMA address of `count` fresh zeroed pages in a row. The memory is not given back; when it ends, it begins anew.
     */
    std::uint64_t Pages(std::uint64_t count);
    /** Bytes of guest memory. */
    std::span<std::byte> At(std::uint64_t address, std::size_t size);

    /** Registers as a CPU sees them through readl()/writel() of big-endian values. */
    std::uint32_t Read(std::uint64_t offset);
    void Write(std::uint64_t offset, std::uint32_t value);
    void Write64(std::uint64_t offset, std::uint32_t first, std::uint32_t second);

    std::vector<unsigned> interrupts;
    std::vector<Bytes> sent;
    ManualTimers timers;

private:
    GuestMemory memory_;
    std::uint64_t next_ = kBase;

public:
    std::unique_ptr<Card> card;
};

/** Input of a command: all zero but for opcode and op_mod. `extra` bytes follow the structure, for lists. */
Bytes MakeInput(std::size_t size, std::uint16_t opcode, std::uint16_t op_mod = 0, std::size_t extra = 0);
#define CX_INPUT(opcode, type, ...) \
    cx::driver::MakeInput(CX_SIZE(type##_in), cx::ifc::MLX5_CMD_OP_##opcode __VA_OPT__(, ) __VA_ARGS__)

struct Reply {
    bool completed = false;    /* the card has given the entry back */
    unsigned delivery = 0xff;  /* status in the entry; 0: the command was executed */
    Status status = Status::kInternal;
    std::uint32_t syndrome = 0;
    Bytes out;

    bool Ok() const
    {
        return completed && delivery == 0 && status == Status::kOk;
    }
};

class Driver {
public:
    explicit Driver(Machine &machine);

    /** May change the entry and the mailboxes (DMA addresses, input's first) before the doorbell. */
    using Spoil = std::function<void(std::span<std::byte> entry, std::span<const std::uint64_t> boxes)>;

    Reply Run(std::span<const std::byte> in, std::size_t out_size = 16, const Spoil &spoil = {});

    /** ENABLE_HCA to INIT_HCA with a UAR, PD and transport domain. False: something was refused. */
    bool BringUp();
    /** Up to and including pages, before INIT_HCA. */
    bool Enable();
    bool GivePages(std::uint16_t op_mod);
    /** TEARDOWN_HCA, all pages back, DISABLE_HCA. */
    bool TearDown();

    /* Inputs that are accepted as they are; a test spoils them. */
    Bytes EqInput(std::uint64_t events, unsigned vector = 0, unsigned log_size = 7);
    Bytes CqInput(std::uint32_t eq, unsigned log_size = 6);
    Bytes RqInput(std::uint32_t cq, unsigned log_size = 6);
    Bytes SqInput(std::uint32_t cq, std::uint32_t tis, unsigned log_size = 6);
    Bytes MkeyInput();
    Bytes RqtInput(std::vector<std::uint32_t> rqs, unsigned max_size);
    Bytes DirectTirInput(std::uint32_t rq);
    Bytes IndirectTirInput(std::uint32_t rqt);
    Bytes TableInput(unsigned level, unsigned log_size = 4);
    /** A group that matches the UDP destination port. */
    Bytes GroupInput(std::uint32_t table, std::uint32_t start, std::uint32_t end);
    Bytes FlowInput(std::uint32_t table, std::uint32_t group, std::uint32_t index, std::uint32_t tir,
                    std::uint16_t port = 4791);
    /** MODIFY_RQ or MODIFY_SQ of the state. */
    Bytes RqState(std::uint32_t rq, unsigned from, unsigned to);
    Bytes SqState(std::uint32_t sq, unsigned from, unsigned to);

    /** Run a command that makes something; its number, or 0 if it is refused. */
    std::uint32_t Create(std::span<const std::byte> in);
    /** A command with one number in dword 2 (DESTROY_*, DEALLOC_*, QUERY_*). */
    Reply RunOn(std::uint16_t opcode, std::uint32_t number, std::size_t out_size = 16);
    Reply DestroyTable(std::uint32_t table);
    Reply DestroyGroup(std::uint32_t table, std::uint32_t group);
    Reply DeleteFlow(std::uint32_t table, std::uint32_t index);

    Machine &machine;
    std::uint32_t uar = 0;
    std::uint32_t pd = 0;
    std::uint32_t domain = 0;
    unsigned slot = 0; /* the next command's */

private:
    /** A chain of mailboxes for what does not fit into the entry; `addresses` grows. */
    void MakeBoxes(std::size_t size, std::span<const std::byte> data, std::vector<std::uint64_t> &addresses);
    void SetPages(Bytes &in, std::size_t at, std::uint64_t count);

    std::uint64_t queue_;
};

} // namespace cx::driver
