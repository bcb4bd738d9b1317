// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The data path as the command interface and the registers drive it. */
#pragma once

#include "host.hpp"
#include "objects.hpp"
#include "packet.hpp"
#include "steering.hpp"
#include "trace.hpp"
#include "wqe.hpp"

#include <cstdint>
#include <set>
#include <span>
#include <vector>

namespace cx {

/** Event types the model sends: enum mlx5_event of linux/mlx5/device.h. */
enum class EventType : std::uint8_t {
    kCompletion = 0x00,
    kCqError = 0x04,
    kPortChange = 0x09,
    kCommand = 0x0a,
    kWqCatastrophic = 0x05, /* an RQ or SQ went to error: the queue's kind and number (mlx5_eqe_qp_srq) */
};

class DataPath {
public:
    DataPath(Objects &objects, Bus &bus, Timers &timers, Wire &wire, Trace &trace);
    ~DataPath();
    DataPath(const DataPath &) = delete;
    DataPath &operator=(const DataPath &) = delete;

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
    /** No queue goes on with WQEs that it has begun with; doorbells are the caller's to keep away. */
    void StopSending();

    /* --- receive (rq.cpp, steering.cpp, rss.cpp) --- */
    void Receive(std::span<const std::byte> frame);
    /** To kError: outstanding receives are flushed in error where rq.flush_in_error says so. */
    void RqStateChanged(Rq &rq);
    void RqError(Rq &rq);

    /** The next completion interrupt is not sent. */
    void LoseInterrupt();

private:
    enum class Access { kRead, kWrite };
    struct Wqe;

    /* --- memory (datapath.cpp) --- */
    /**
     * A big-endian word of a doorbell record; false: not mapped (counted). Nothing is read before it that comes after
     * it.
     */
    bool ReadRecord(std::uint64_t address, std::uint32_t &value);
    bool ReadMemory(std::uint64_t address, std::span<std::byte> into);
    bool WriteMemory(std::uint64_t address, std::span<const std::byte> from);
    /** Write an entry whose last byte says that it is there: that one after all others. */
    bool WriteEntry(std::uint64_t address, std::span<const std::byte> entry);
    const Mkey *FindKey(std::uint32_t pd, std::uint32_t key, std::uint64_t address, std::size_t size, Access access);
    /**
     * By local key; false: the key, its protection domain, rights or bounds do not allow it, or it is not mapped
     * (counted).
     */
    bool ReadByKey(std::uint32_t pd, std::uint32_t key, std::uint64_t address, std::span<std::byte> into);
    bool WriteByKey(std::uint32_t pd, std::uint32_t key, std::uint64_t address, std::span<const std::byte> from);
    /** Nanoseconds of the event loop's clock: the time stamp of completions. */
    std::uint64_t Timestamp() const;

    /* --- events (eq.cpp) --- */
    Eq *EqFor(EventType type);
    bool PostEqe(Eq &eq, Eqe eqe);
    void PostWqEvent(std::uint8_t kind, std::uint32_t number);

    /* --- completion queues (cq.cpp) --- */
    /** Owner bit and event are seen to. False: the CQ is not there or in error. */
    bool PostCqe(std::uint32_t number, std::span<const std::byte, sizeof(Cqe)> cqe, bool solicited);
    bool PostErrorCqe(std::uint32_t cq, std::uint8_t opcode, Syndrome syndrome, std::uint32_t opcode_queue,
                      std::uint32_t user_index, std::uint16_t wqe_counter);
    bool CqFull(Cq &cq);
    /** Of a driver that is to blame; StopCq() of nobody. */
    void FailCq(Cq &cq, std::uint8_t syndrome);
    void StopCq(Cq &cq, std::uint8_t syndrome);
    /** Send the event, or set the timer for it, as arming and moderation have it. */
    void ConsiderEvent(Cq &cq);
    void SetTimer(Cq &cq, Clock::time_point when);
    void CancelTimer(Cq &cq);

    /* --- send (sq.cpp, segmentation.cpp) --- */
    void RunSq(Sq &sq);
    void RunSqLater(std::uint32_t number, Clock::duration pause = {});
    bool SqOutstanding(const Sq &sq, std::uint16_t &blocks);
    bool FetchWqe(const Sq &sq, Wqe &wqe);
    Syndrome ExecuteWqe(Sq &sq, const Wqe &wqe);
    bool CompleteWqe(Sq &sq, const Wqe &wqe);
    Syndrome Gather(const Sq &sq, const Wqe &wqe, const EthernetSegment &ethernet, std::size_t limit);
    Syndrome SendOne(Sq &sq, const Wqe &wqe, const EthernetSegment &ethernet);
    Syndrome SendSegments(Sq &sq, const Wqe &wqe, const EthernetSegment &ethernet);
    void Transmit(Sq &sq, const EthernetSegment &ethernet, std::vector<std::byte> &frame);
    void FailSq(Sq &sq, const Wqe *wqe, Syndrome syndrome);

    /* --- receive (rq.cpp, steering.cpp, rss.cpp) --- */
    void Steer(const Packet &packet);
    void Deliver(const Packet &packet, std::uint32_t tir, std::uint32_t flow_tag);
    void ReceiveInto(Rq &rq, const Packet &packet, std::uint32_t flow_tag, std::uint32_t hash, std::uint8_t hash_type);
    /** Receives posted; 0 too where the record makes no sense. */
    std::uint16_t RqOutstanding(const Rq &rq);
    void CountOutOfBuffer(Rq &rq);
    bool FindStrides(Rq &rq, std::size_t size, unsigned &strides);
    static void TakeStrides(Rq &rq, unsigned strides, Cqe &cqe);
    Syndrome Scatter(const Rq &rq, std::span<const std::byte> frame, std::size_t skip);
    bool PostReceive(Rq &rq, const Cqe &cqe);
    /** False: no completion tells of it, but an event. */
    bool FailRq(Rq &rq, Syndrome syndrome);
    bool StopRq(Rq &rq, Syndrome syndrome);
    void FlushRq(Rq &rq);

    Objects &objects_;
    Bus &bus_;
    Timers &timers_;
    Wire &wire_;
    Trace &trace_;
    bool lose_interrupt_ = false;
    SteeringIndex steering_;
    std::map<std::uint32_t, Timers::Id> sq_turns_; /* SQs that run on in a turn of their own */
    std::vector<std::byte> gathered_, segment_;    /* sent: a WQE's data, and a frame made of it */
    std::vector<std::byte> received_;              /* without its VLAN tag */
};

} // namespace cx
