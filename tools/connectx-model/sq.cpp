// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Send queues: from the doorbell to the completion. What a WQE sends: segmentation.cpp.
 * A WQE that is wrong completes in error and stops the queue; all that come after are flushed, until the driver has
 * taken the queue through the reset state.
 */
#include "send.hpp"

namespace cx {
namespace {

/* One queue's share of a turn of the event loop. */
constexpr unsigned kWqesPerTurn = 64;
constexpr std::uint64_t kBytesPerTurn = std::uint64_t{256} * 1024;
/* Until the wire is asked again. */
constexpr auto kPause = std::chrono::microseconds(50);

} // namespace

void DataPath::SqDoorbell(std::uint32_t first, std::uint32_t second)
{
    const std::uint32_t number = second >> 8;
    const auto found = objects_.sqs.find(number);

    if (found == objects_.sqs.end()) {
        trace_.Complain("doorbell of SQ {}, which is not there", number);
        return;
    }
    trace_.Note("SQ {}: doorbell, WQE {}", number, first >> 8 & 0xffff);
    if (found->second.state == WqState::kReset) {
        trace_.Complain("SQ {}: doorbell in the reset state", number);
        return;
    }
    if (!sq_turns_.contains(number)) /* one that is waiting for its turn comes to these WQEs too */
        RunSq(found->second);
}

void DataPath::StopSending()
{
    for (const auto &[number, timer] : sq_turns_)
        timers_.Cancel(timer);
    sq_turns_.clear();
}

bool DataPath::SqOutstanding(const Sq &sq, std::uint16_t &blocks)
{
    std::uint32_t counter = 0;

    if (!ReadRecord(sq.doorbell_record + kSendRecord, counter))
        return false;
    blocks = static_cast<std::uint16_t>(counter - sq.done);
    if (blocks <= sq.ring.Entries())
        return true;
    trace_.Complain("SQ {}: {} blocks posted to a ring of {}", sq.number, blocks, sq.ring.Entries());
    return false;
}

void DataPath::RunSq(Sq &sq)
{
    const std::uint64_t sent_before = sq.bytes;
    std::uint16_t outstanding = 0;

    if (sq.state == WqState::kReset)
        return;
    if (!SqOutstanding(sq, outstanding)) {
        FailSq(sq, nullptr, Syndrome::kLocalOperation);
        return;
    }
    Wqe wqe;
    for (unsigned wqes = 0; outstanding != 0; ++wqes) {
        if (wqes == kWqesPerTurn || sq.bytes - sent_before >= kBytesPerTurn) {
            RunSqLater(sq.number);
            return;
        }
        if (!wire_.Ready() && sq.state == WqState::kReady) {
            RunSqLater(sq.number, kPause);
            return;
        }
        if (!FetchWqe(sq, wqe)) {
            FailSq(sq, nullptr, Syndrome::kLocalOperation);
            return;
        }
        if (wqe.blocks > outstanding) { /* its end is not posted, or the length is nonsense */
            wqe.blocks = outstanding;
            wqe.size = 0;
        }
        if (sq.state == WqState::kError) {
            FailSq(sq, &wqe, Syndrome::kFlushed);
        } else {
            const Syndrome syndrome = ExecuteWqe(sq, wqe);

            if (syndrome != Syndrome::kOk)
                FailSq(sq, &wqe, syndrome);
            else if (!CompleteWqe(sq, wqe))
                FailSq(sq, nullptr, Syndrome::kLocalOperation);
        }
        sq.done = static_cast<std::uint16_t>(sq.done + wqe.blocks);
        outstanding = static_cast<std::uint16_t>(outstanding - wqe.blocks);
    }
}

void DataPath::RunSqLater(std::uint32_t number, Clock::duration pause)
{
    sq_turns_[number] = timers_.After(pause, [this, number] {
        const auto found = objects_.sqs.find(number);

        sq_turns_.erase(number);
        if (found != objects_.sqs.end())
            RunSq(found->second);
    });
}

/* False: the ring is not mapped. What is read is not understood here but for its length. */
bool DataPath::FetchWqe(const Sq &sq, Wqe &wqe)
{
    const auto block = [&sq](std::size_t i) {
        return sq.ring.Address((std::uint64_t{sq.done} + i) << sq.ring.log_stride);
    };

    if (!ReadMemory(block(0), std::span(wqe.bytes).first(kBasicBlock)))
        return false;
    wqe.control = Load<ControlSegment>(wqe.bytes);
    wqe.opcode = static_cast<std::uint8_t>(wqe.control.opmod_idx_opcode);
    wqe.index = sq.done;
    wqe.size = (wqe.control.qpn_ds & 0x3fU) * kSegmentUnit;
    wqe.blocks = static_cast<std::uint16_t>(wqe.size == 0 ? 1 : (wqe.size + kBasicBlock - 1) / kBasicBlock);
    for (std::size_t i = 1; i < wqe.blocks; ++i)
        if (!ReadMemory(block(i), std::span(wqe.bytes).subspan(i * kBasicBlock, kBasicBlock)))
            return false;
    return true;
}

Syndrome DataPath::ExecuteWqe(Sq &sq, const Wqe &wqe)
{
    const std::uint32_t queue = wqe.control.qpn_ds >> 8, index = wqe.control.opmod_idx_opcode >> 8 & 0xffff;

    if (wqe.size == 0 || queue != sq.number || index != wqe.index) {
        trace_.Complain("SQ {}: WQE {} says queue {}, index {}, {} bytes", sq.number, wqe.index, queue, index,
                        wqe.size);
        return Syndrome::kLocalOperation;
    }
    if (wqe.opcode == kOpcodeNop)
        return Syndrome::kOk;
    if (wqe.opcode != kOpcodeSend && wqe.opcode != kOpcodeLso) {
        trace_.Complain("SQ {}: WQE {} has opcode {:#x}, which is not offered", sq.number, wqe.index, wqe.opcode);
        return Syndrome::kLocalOperation;
    }
    if (wqe.size < sizeof(ControlSegment) + sizeof(EthernetSegment))
        return Syndrome::kLocalLength;
    const auto ethernet = Load<EthernetSegment>(wqe.bytes, sizeof(ControlSegment));
    return wqe.opcode == kOpcodeLso ? SendSegments(sq, wqe, ethernet) : SendOne(sq, wqe, ethernet);
}

/* False: a completion was due and could not be written. */
bool DataPath::CompleteWqe(Sq &sq, const Wqe &wqe)
{
    if ((wqe.control.fm_ce_se >> 2 & 3) < kCompletionAlways)
        return true;
    const std::uint64_t now = Timestamp();
    Cqe cqe;
    cqe.timestamp_h = static_cast<std::uint32_t>(now >> 32);
    cqe.timestamp_l = static_cast<std::uint32_t>(now);
    cqe.sop_drop_qpn = static_cast<std::uint32_t>(wqe.opcode) << 24 | sq.number;
    cqe.wqe_counter = wqe.index;
    cqe.op_own = kCqeSend << 4;
    return PostCqe(sq.cq, std::as_bytes(std::span<const Cqe, 1>(&cqe, 1)), (wqe.control.fm_ce_se & 2) != 0);
}

/*
 * To the error state, or on in it. `wqe`: the one that completes so; nullptr, or its completion is lost: an event
 * tells.
 */
void DataPath::FailSq(Sq &sq, const Wqe *wqe, Syndrome syndrome)
{
    const bool fresh = sq.state != WqState::kError;

    sq.state = WqState::kError;
    if (fresh)
        trace_.Complain("SQ {}: error, syndrome {:#x}", sq.number, static_cast<unsigned>(syndrome));
    const bool told = wqe != nullptr &&
                      PostErrorCqe(sq.cq, kCqeSendError, syndrome,
                                   static_cast<std::uint32_t>(wqe->opcode) << 24 | sq.number, 0, wqe->index);
    if (fresh && !told)
        PostWqEvent(kQueueSq, sq.number);
}

void DataPath::SqStateChanged(Sq &sq)
{
    switch (sq.state) {
    case WqState::kReset:
        sq.done = 0;
        break;
    case WqState::kError:
        if (!sq_turns_.contains(sq.number))
            RunSq(sq);
        break;
    case WqState::kReady:
        break;
    }
}

} // namespace cx
