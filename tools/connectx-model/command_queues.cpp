// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on event queues and completion queues. */
#include "command_ring.hpp"

#include "card.hpp"

#include <algorithm>

namespace cx::commands {
namespace {

constexpr unsigned kLogEqeSize = 6;
constexpr std::uint32_t kFirstEq = 1;
constexpr std::uint32_t kFirstCq = 0x40;

/** Values of cqc.cqe_sz: enum of linux/mlx5/cq.h. */
enum CqeSize : unsigned { kStride64 = 0, kStride128 = 1, kStride128Padded = 2 };

/**
 * Bits of modify_field_select, as MLX5_CQ_MODIFY_* of linux/mlx5/cq.h has them; the last two are of newer headers only.
 */
enum ModifyCqField : std::uint32_t {
    kModifyPeriod = 1,
    kModifyCount = 2,
    kModifyOverrun = 4,
    kModifyEq = 8,
    kModifyPeriodMode = 16
};

/** An event other than a completion that both masks have, or 0. */
unsigned CommonEvent(const std::array<std::uint64_t, 4> &one, const std::array<std::uint64_t, 4> &other)
{
    for (unsigned event = 1; event < 256; event++)
        if ((one[event / 64] & other[event / 64]) >> (event % 64) & 1)
            return event;
    return 0;
}

void WriteCq(std::span<std::byte> context, const Cq &cq)
{
    CX_SET(context, cqc, status, cq.state == CqState::kError ? 0xa : 0);
    CX_SET(context, cqc, cqe_sz, cq.cqe_128 ? kStride128 : kStride64);
    CX_SET(context, cqc, oi, cq.ignore_overrun);
    CX_SET(context, cqc, cq_period_mode, cq.period_from_cqe);
    /* cqc.st: 6 armed for solicited, 9 armed, 10 fired */
    CX_SET(context, cqc, st, cq.state == CqState::kArmed ? 0x9 : cq.state == CqState::kArmedSolicited ? 0x6 : 0xa);
    CX_SET(context, cqc, page_offset, cq.ring.first_offset / 64);
    CX_SET(context, cqc, log_cq_size, cq.ring.log_entries);
    CX_SET(context, cqc, uar_page, cq.uar);
    CX_SET(context, cqc, cq_period, cq.period_us);
    CX_SET(context, cqc, cq_max_count, cq.max_count);
    CX_SET(context, cqc, c_eqn_or_apu_element, cq.eq);
    CX_SET(context, cqc, log_page_size, cq.ring.log_page - 12);
    CX_SET(context, cqc, consumer_counter, cq.armed_consumer);
    CX_SET(context, cqc, producer_counter, cq.producer);
    CX_SET(context, cqc, dbr_addr, cq.doorbell_record);
}

} // namespace

bool CreateEq(Call &call)
{
    const auto context = CX_PART(call.in, create_eq_in, eq_context_entry);
    constexpr std::size_t kPages = CX_AT(create_eq_in, pas);
    Eq eq;

    eq.ring.log_entries = static_cast<unsigned>(CX_GET(context, eqc, log_eq_size));
    eq.ring.log_stride = kLogEqeSize;
    eq.ring.log_page = static_cast<unsigned>(CX_GET(context, eqc, log_page_size)) + 12;
    eq.uar = static_cast<std::uint32_t>(CX_GET(context, eqc, uar_page));
    eq.vector = static_cast<unsigned>(CX_GET(context, eqc, intr));
    for (unsigned word = 0; word < eq.events.size(); word++)
        eq.events[word] = GetField(call.in, { CX_FIELD(create_eq_in, event_bitmask).at + word * 64U, 64 });
    if (eq.ring.log_entries > kLogMaxEqSize)
        return call.Refuse(Status::kLimit, "log_eq_size {}", eq.ring.log_entries);
    if (eq.vector >= kVectors)
        return call.Refuse(Status::kBadParameter, "intr {}, but the card has {} vectors", eq.vector, kVectors);
    if (!call.objects.uars.contains(eq.uar))
        return call.Refuse(Status::kBadResource, "uar_page {:#x}", eq.uar);
    for (const auto &[number, other] : call.objects.eqs)
        if (const unsigned event = CommonEvent(eq.events, other.events); event != 0)
            return call.Refuse(Status::kBadParameter, "event {:#x} is EQ {}'s already", event, number);
    if (!ReadPages(call, eq.ring, kPages, static_cast<std::uint32_t>(CX_GET(context, eqc, page_offset))))
        return false;
    eq.number = FreeNumber(call.objects.eqs, kFirstEq, kMaxEqs);
    if (eq.number == 0)
        return call.Refuse(Status::kNoResources, "no EQ is left");
    CX_OUT(call, create_eq_out, eq_number, eq.number);
    call.Say("{} entries {} vector {} UAR {:#x} events {:#x}", eq.number, eq.ring.Entries(), eq.vector, eq.uar,
             eq.events[0]);
    call.objects.eqs.emplace(eq.number, std::move(eq));
    return true;
}

bool QueryEq(Call &call)
{
    const std::uint32_t number = CX_IN(call, query_eq_in, eq_number);
    const Eq *eq = Find(call.objects.eqs, number);

    if (eq == nullptr)
        return call.Refuse(Status::kBadResource, "eq_number {}", number);

    const auto context = CX_PART(call.out, query_eq_out, eq_context_entry);

    CX_SET(context, eqc, status, eq->overrun ? 0xa : 0);
    CX_SET(context, eqc, st, eq->armed ? 0x9 : 0xa); /* armed, fired */
    CX_SET(context, eqc, page_offset, eq->ring.first_offset / 64);
    CX_SET(context, eqc, log_eq_size, eq->ring.log_entries);
    CX_SET(context, eqc, uar_page, eq->uar);
    CX_SET(context, eqc, intr, eq->vector);
    CX_SET(context, eqc, log_page_size, eq->ring.log_page - 12);
    CX_SET(context, eqc, consumer_counter, eq->consumer);
    CX_SET(context, eqc, producer_counter, eq->producer);
    SetField(call.out, CX_FIELD(query_eq_out, event_bitmask), eq->events[0]);
    WritePages(call.out, eq->ring, CX_AT(query_eq_out, pas));
    call.Say("{}", number);
    return true;
}

bool DestroyEq(Call &call)
{
    const std::uint32_t number = CX_IN(call, destroy_eq_in, eq_number);

    if (!call.objects.eqs.contains(number))
        return call.Refuse(Status::kBadResource, "eq_number {}", number);
    for (const auto &[cq_number, cq] : call.objects.cqs)
        if (cq.eq == number)
            return call.Refuse(Status::kBadResourceState, "CQ {:#x} reports to EQ {}", cq_number, number);
    call.objects.eqs.erase(number);
    call.Say("{}", number);
    return true;
}

bool CreateCq(Call &call)
{
    const auto context = CX_PART(call.in, create_cq_in, cq_context);
    constexpr std::size_t kPages = CX_AT(create_cq_in, pas);
    const auto cqe_size = static_cast<unsigned>(CX_GET(context, cqc, cqe_sz));
    const auto period_mode = CX_GET(context, cqc, cq_period_mode);
    Cq cq;

    cq.ring.log_entries = static_cast<unsigned>(CX_GET(context, cqc, log_cq_size));
    cq.cqe_128 = cqe_size != kStride64;
    cq.ring.log_stride = cq.cqe_128 ? 7 : 6;
    cq.ring.log_page = static_cast<unsigned>(CX_GET(context, cqc, log_page_size)) + 12;
    cq.eq = static_cast<std::uint32_t>(CX_GET(context, cqc, c_eqn_or_apu_element));
    cq.uar = static_cast<std::uint32_t>(CX_GET(context, cqc, uar_page));
    cq.doorbell_record = CX_GET(context, cqc, dbr_addr);
    cq.ignore_overrun = CX_GET(context, cqc, oi) != 0;
    cq.period_us = static_cast<unsigned>(CX_GET(context, cqc, cq_period));
    cq.max_count = static_cast<unsigned>(CX_GET(context, cqc, cq_max_count));
    cq.period_from_cqe = period_mode == 1;
    if (cqe_size > kStride128Padded)
        return call.Refuse(Status::kBadParameter, "cqe_sz {}", cqe_size);
    if (period_mode > 1)
        return call.Refuse(Status::kBadParameter, "cq_period_mode {}", period_mode);
    if (cq.ring.log_entries > kLogMaxCqSize)
        return call.Refuse(Status::kLimit, "log_cq_size {}", cq.ring.log_entries);
    if (!call.objects.eqs.contains(cq.eq))
        return call.Refuse(Status::kBadResource, "c_eqn {:#x}", cq.eq);
    if (!call.objects.uars.contains(cq.uar))
        return call.Refuse(Status::kBadResource, "uar_page {:#x}", cq.uar);
    if (!CheckDoorbellRecord(call, cq.doorbell_record) ||
        !ReadPages(call, cq.ring, kPages, static_cast<std::uint32_t>(CX_GET(context, cqc, page_offset))))
        return false;
    cq.number = FreeNumber(call.objects.cqs, kFirstCq, (1U << kLogMaxCq) - 1);
    if (cq.number == 0)
        return call.Refuse(Status::kNoResources, "no CQ is left");
    CX_OUT(call, create_cq_out, cqn, cq.number);
    call.Say("{:#x} entries {} of {} EQ {} UAR {:#x} period {} us count {}{}", cq.number, cq.ring.Entries(),
             cq.cqe_128 ? 128 : 64, cq.eq, cq.uar, cq.period_us, cq.max_count, cq.period_from_cqe ? " from CQE" : "");
    call.objects.cqs.emplace(cq.number, std::move(cq));
    return true;
}

bool QueryCq(Call &call)
{
    const std::uint32_t number = CX_IN(call, query_cq_in, cqn);
    const Cq *cq = Find(call.objects.cqs, number);

    if (cq == nullptr)
        return call.Refuse(Status::kBadResource, "cqn {:#x}", number);
    WriteCq(CX_PART(call.out, query_cq_out, cq_context), *cq);
    WritePages(call.out, cq->ring, CX_AT(query_cq_out, pas));
    call.Say("{:#x}", number);
    return true;
}

bool ModifyCq(Call &call)
{
    const auto context = CX_PART(call.in, modify_cq_in, cq_context);
    const std::uint32_t number = CX_IN(call, modify_cq_in, cqn);
    const std::uint32_t fields = CX_IN(call, modify_cq_in, modify_field_select_resize_field_select);
    const auto period_mode = CX_GET(context, cqc, cq_period_mode);
    Cq *cq = Find(call.objects.cqs, number);

    if (call.op_mod != 0)
        return call.Refuse(Status::kBadParameter, "op_mod {}: CQs are not resized", call.op_mod);
    if (cq == nullptr)
        return call.Refuse(Status::kBadResource, "cqn {:#x}", number);
    if ((fields & ~(kModifyPeriod | kModifyCount | kModifyOverrun | kModifyPeriodMode)) != 0)
        return call.Refuse(Status::kBadParameter, "modify_field_select {:#x}", fields);
    if ((fields & kModifyPeriodMode) != 0 && period_mode > 1)
        return call.Refuse(Status::kBadParameter, "cq_period_mode {}", period_mode);
    if (cq->state == CqState::kError)
        return call.Refuse(Status::kBadResourceState, "CQ {:#x} is in error", number);
    if ((fields & kModifyPeriod) != 0)
        cq->period_us = static_cast<unsigned>(CX_GET(context, cqc, cq_period));
    if ((fields & kModifyCount) != 0)
        cq->max_count = static_cast<unsigned>(CX_GET(context, cqc, cq_max_count));
    if ((fields & kModifyOverrun) != 0)
        cq->ignore_overrun = CX_GET(context, cqc, oi) != 0;
    if ((fields & kModifyPeriodMode) != 0)
        cq->period_from_cqe = period_mode == 1;
    if ((fields & (kModifyPeriod | kModifyCount | kModifyPeriodMode)) != 0)
        call.data_path.CqModerationChanged(*cq);
    call.Say("{:#x} fields {:#x} period {} us count {}", number, fields, cq->period_us, cq->max_count);
    return true;
}

bool DestroyCq(Call &call)
{
    const std::uint32_t number = CX_IN(call, destroy_cq_in, cqn);
    Cq *cq = Find(call.objects.cqs, number);
    const auto uses = [&](const auto &each) { return each.second.cq == number; };

    if (cq == nullptr)
        return call.Refuse(Status::kBadResource, "cqn {:#x}", number);
    if (std::any_of(call.objects.rqs.begin(), call.objects.rqs.end(), uses) ||
        std::any_of(call.objects.sqs.begin(), call.objects.sqs.end(), uses))
        return call.Refuse(Status::kBadResourceState, "CQ {:#x} has work queues", number);
    call.data_path.ForgetCq(*cq);
    call.objects.cqs.erase(number);
    call.Say("{:#x}", number);
    return true;
}

} // namespace cx::commands
