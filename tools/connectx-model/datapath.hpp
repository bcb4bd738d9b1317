// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The data path as the command interface and the registers drive it. */
#pragma once

#include "host.hpp"
#include "objects.hpp"
#include "trace.hpp"

#include <cstdint>
#include <span>

namespace cx {

/** Event types the model sends: enum mlx5_event of linux/mlx5/device.h. */
enum class EventType : std::uint8_t {
    kCompletion = 0x00,
    kCqError = 0x04,
    kPortChange = 0x09,
    kCommand = 0x0a,
    kPageRequest = 0x0b,
    kNicVportChange = 0x0d,
    kSrqLastWqe = 0x13,
    kWqCatastrophic = 0x05, /* an RQ or SQ went to error; which fields it fills: datapath */
};

class DataPath {
public:
    DataPath(Objects &objects, Bus &bus, Timers &timers, Wire &wire, Trace &trace);

    /* --- events (eq.cpp) --- */
    /** Completion of command slots `bits`, to the EQ that takes command events; false if there is none. */
    bool PostCommandEvent(std::uint32_t bits);
    /** Port 1 came up or went down, to the EQ that takes port events. */
    void PostPortEvent(bool up);
    /** The EQ's doorbell: consumer index; `arm` asks for an interrupt at once if more is there. */
    void EqDoorbell(std::uint32_t eq, std::uint32_t consumer, bool arm);

    /* --- completion queues (cq.cpp) --- */
    /** The CQ's arm doorbell in a UAR page: both words as written, in CPU byte order. */
    void CqDoorbell(std::uint32_t first, std::uint32_t second);
    /** After MODIFY_CQ of the moderation; a pending event leaves no later than the new period says. */
    void CqModerationChanged(Cq &cq);
    /** Before DESTROY_CQ and reset: the timer. */
    void ForgetCq(Cq &cq);
    void CqError(Cq &cq);

    /* --- send (sq.cpp) --- */
    /** Doorbell of send queues in a UAR: the control segment's first words, in CPU byte order. */
    void SqDoorbell(std::uint32_t first, std::uint32_t second);
    void SqStateChanged(Sq &sq);

    /* --- receive (rq.cpp, steering.cpp, rss.cpp) --- */
    void Receive(std::span<const std::byte> frame);
    /** To kError: outstanding receives are flushed in error where rq.flush_in_error says so. */
    void RqStateChanged(Rq &rq);
    void RqError(Rq &rq);

    /** The next completion interrupt is not sent. */
    void LoseInterrupt();

private:
    Objects &objects_;
    Bus &bus_;
    Timers &timers_;
    Wire &wire_;
    Trace &trace_;
    bool lose_interrupt_ = false;
};

} // namespace cx
