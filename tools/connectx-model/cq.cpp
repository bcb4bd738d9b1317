// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Completion queues: entries, arming, moderation.
 *
 * An armed CQ sends one event, for a CQE past the consumer index that it was armed with: at once without moderation
 * (period 0), else when `max_count` CQEs are unreported or `period_us` has passed since the first of them
 * (period_from_cqe: since the last). A count without a period would leave the last CQEs unreported for ever, so
 * period 0 is no moderation whatever the count.
 */
#include "datapath.hpp"

#include <algorithm>

namespace cx {
namespace {

constexpr std::uint32_t kIndexMask = 0xffffff; /* of doorbell and doorbell record */

/* Syndromes of the CQ error event */
constexpr std::uint8_t kOverrun = 1, kAccessViolation = 2;

bool Armed(const Cq &cq)
{
    return cq.state == CqState::kArmed || cq.state == CqState::kArmedSolicited;
}

/* `index` lies after the consumer index of the last arming */
bool IsNews(const Cq &cq, std::uint32_t end)
{
    const std::uint32_t past = (end - cq.armed_consumer) & kIndexMask;

    return past != 0 && (past <= cq.ring.Entries() || cq.ignore_overrun);
}

} // namespace

bool DataPath::CqFull(Cq &cq)
{
    const auto full = [&cq] { return ((cq.producer - cq.consumer) & kIndexMask) >= cq.ring.Entries(); };
    std::uint32_t consumer = 0;

    if (!full()) /* the record can only be further on */
        return false;
    if (!ReadRecord(cq.doorbell_record + kConsumerRecord, consumer))
        return true;
    cq.consumer = consumer & kIndexMask;
    return full();
}

bool DataPath::PostCqe(std::uint32_t number, std::span<const std::byte, sizeof(Cqe)> cqe, bool solicited)
{
    const auto found = objects_.cqs.find(number);

    if (found == objects_.cqs.end()) {
        trace_.Complain("completion for CQ {}, which is not there", number);
        return false;
    }
    Cq &cq = found->second;
    if (cq.state == CqState::kError)
        return false;
    if (!cq.ignore_overrun && CqFull(cq)) {
        FailCq(cq, kOverrun);
        return false;
    }

    std::array<std::byte, sizeof(Cqe)> entry = {};
    std::copy(cqe.begin(), cqe.end(), entry.begin());
    entry.back() |= static_cast<std::byte>(cq.producer >> cq.ring.log_entries & 1);
    const std::uint64_t skip = cq.cqe_128 ? sizeof(Cqe) : 0; /* the second half is the CQE */
    const auto address = cq.ring.Address((std::uint64_t{cq.producer} << cq.ring.log_stride) + skip);
    if (!WriteEntry(address, entry)) {
        FailCq(cq, kAccessViolation);
        return false;
    }
    ++cq.producer;
    ++cq.completions;
    ++cq.unreported;
    if (solicited)
        cq.solicited_end = cq.producer;
    if (cq.unreported == 1 || cq.period_from_cqe)
        cq.since = timers_.Now();
    ConsiderEvent(cq);
    return true;
}

bool DataPath::PostErrorCqe(std::uint32_t cq, std::uint8_t opcode, Syndrome syndrome, std::uint32_t opcode_queue,
                            std::uint32_t user_index, std::uint16_t wqe_counter)
{
    ErrorCqe cqe;

    cqe.srqn = user_index;
    cqe.syndrome = static_cast<std::uint8_t>(syndrome);
    cqe.wqe_opcode_qpn = opcode_queue;
    cqe.wqe_counter = wqe_counter;
    cqe.op_own = static_cast<std::uint8_t>(opcode << 4);
    return PostCqe(cq, std::as_bytes(std::span<const ErrorCqe, 1>(&cqe, 1)), true);
}

void DataPath::ConsiderEvent(Cq &cq)
{
    if (!Armed(cq) || !IsNews(cq, cq.state == CqState::kArmed ? cq.producer : cq.solicited_end))
        return;
    const auto due = cq.since + std::chrono::microseconds(cq.period_us);
    if (cq.period_us != 0 && (cq.max_count == 0 || cq.unreported < cq.max_count) && timers_.Now() < due) {
        SetTimer(cq, due);
        return;
    }
    CancelTimer(cq);
    cq.state = CqState::kFiring;
    cq.unreported = 0;
    ++cq.events_sent;
    const auto eq = objects_.eqs.find(cq.eq);
    if (eq == objects_.eqs.end()) {
        trace_.Complain("CQ {}: event for EQ {}, which is not there", cq.number, cq.eq);
        return;
    }
    Eqe eqe;
    eqe.type = static_cast<std::uint8_t>(EventType::kCompletion);
    eqe.data[kEqeCompletion] = cq.number;
    PostEqe(eq->second, eqe);
}

/* One that is due sooner is left alone: when it runs, it looks again. */
void DataPath::SetTimer(Cq &cq, Clock::time_point when)
{
    if (cq.timer != 0 && cq.timer_at <= when)
        return;
    CancelTimer(cq);
    cq.timer_at = when;
    cq.timer = timers_.After(when - timers_.Now(), [this, number = cq.number] {
        const auto found = objects_.cqs.find(number);

        if (found == objects_.cqs.end())
            return;
        found->second.timer = 0;
        ConsiderEvent(found->second);
    });
}

void DataPath::CancelTimer(Cq &cq)
{
    if (cq.timer != 0)
        timers_.Cancel(cq.timer);
    cq.timer = 0;
}

void DataPath::CqDoorbell(std::uint32_t first, std::uint32_t second)
{
    const std::uint32_t number = second & kIndexMask, consumer = first & kIndexMask;
    const unsigned sequence = first >> 28 & 3;
    const bool solicited = (first >> 24 & 1) != 0; /* MLX5_CQ_DB_REQ_NOT_SOL */
    const auto found = objects_.cqs.find(number);

    if (found == objects_.cqs.end()) {
        trace_.Complain("doorbell of CQ {}, which is not there", number);
        return;
    }
    Cq &cq = found->second;
    trace_.Note("CQ {}: armed{}, consumer {}, sequence {}", number, solicited ? " solicited" : "", consumer, sequence);
    if (cq.state == CqState::kError)
        return;
    /* The driver counts up with each event: this was written before it saw the last one, which tells it all. */
    if (cq.state == CqState::kFiring && cq.events_sent != 0 && sequence == cq.arm_sequence)
        return;
    const std::uint32_t pending = (cq.producer - consumer) & kIndexMask;
    if (pending > cq.ring.Entries() && !cq.ignore_overrun) {
        trace_.Complain("CQ {}: consumer index {} is ahead of the producer's {}", number, consumer, cq.producer);
        return;
    }
    cq.arm_sequence = sequence;
    cq.armed_consumer = consumer;
    cq.state = solicited ? CqState::kArmedSolicited : CqState::kArmed;
    cq.unreported = pending;
    ConsiderEvent(cq);
}

void DataPath::CqModerationChanged(Cq &cq)
{
    CancelTimer(cq);
    ConsiderEvent(cq);
}

void DataPath::ForgetCq(Cq &cq)
{
    CancelTimer(cq);
}

void DataPath::FailCq(Cq &cq, std::uint8_t syndrome)
{
    if (cq.state == CqState::kError)
        return;
    trace_.Complain("CQ {}: error, syndrome {}", cq.number, syndrome);
    StopCq(cq, syndrome);
}

void DataPath::StopCq(Cq &cq, std::uint8_t syndrome)
{
    CancelTimer(cq);
    cq.state = CqState::kError;
    Eq *eq = EqFor(EventType::kCqError);
    if (eq == nullptr)
        return;
    Eqe eqe;
    eqe.type = static_cast<std::uint8_t>(EventType::kCqError);
    eqe.data[kEqeCqErrorNumber] = cq.number;
    eqe.data[kEqeCqErrorSyndrome] = syndrome;
    PostEqe(*eq, eqe);
}

void DataPath::CqError(Cq &cq)
{
    if (cq.state == CqState::kError)
        return;
    trace_.Note("CQ {}: error, as asked for", cq.number);
    StopCq(cq, kAccessViolation);
}

} // namespace cx
