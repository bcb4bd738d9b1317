// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on receive queues and send queues. */
#include "command_ring.hpp"

#include <algorithm>
#include <optional>

namespace cx::commands {
namespace {

constexpr std::uint32_t kFirstRq = 0x100;
constexpr std::uint32_t kFirstSq = 0x1000;

/** Values of wq.wq_type. */
enum WqType : unsigned { kLinkedList = 0, kCyclic = 1, kLinkedListStriding = 2, kCyclicStriding = 3 };

/*
 * Of striding receive queues: what 0 in log_wqe_num_of_strides and log_wqe_stride_size stands for (mlx5_ifc.h has
 * offsets).
 */
constexpr unsigned kLogStridesBase = 9;
constexpr unsigned kLogStrideSizeBase = 6;
/* A completion counts them in 15 bits: the 16th says that it is a filler. */
constexpr unsigned kLogMaxStrides = 14;
/* Bits of modify_rq_in.modify_bitmask. */
constexpr std::uint64_t kModifyVlanStrip = 1ULL << 1;
constexpr std::uint64_t kModifyCounterSet = 1ULL << 3;

std::optional<WqState> ToState(std::uint64_t value)
{
    switch (value) {
    case static_cast<unsigned>(WqState::kReset):
        return WqState::kReset;
    case static_cast<unsigned>(WqState::kReady):
        return WqState::kReady;
    case static_cast<unsigned>(WqState::kError):
        return WqState::kError;
    default:
        return std::nullopt;
    }
}

/** The part of rqc and sqc that describes the ring; the type is checked by the caller. */
bool ReadWq(Call &call, std::span<const std::byte> wq, std::size_t pages_at, Ring &ring, std::uint32_t &pd,
            std::uint64_t &doorbell_record)
{
    ring.log_entries = static_cast<unsigned>(CX_GET(wq, wq, log_wq_sz));
    ring.log_stride = static_cast<unsigned>(CX_GET(wq, wq, log_wq_stride));
    ring.log_page = static_cast<unsigned>(CX_GET(wq, wq, log_wq_pg_sz)) + 12;
    pd = static_cast<std::uint32_t>(CX_GET(wq, wq, pd));
    doorbell_record = CX_GET(wq, wq, dbr_addr);
    if (ring.log_entries > kLogMaxWqSize)
        return call.Refuse(Status::kLimit, "log_wq_sz {}", ring.log_entries);
    /* mlx5_core gives none to the RQ that drops all; no buffer's key is good for such a queue */
    if (pd != 0 && !call.objects.pds.contains(pd))
        return call.Refuse(Status::kBadResource, "PD {:#x}", pd);
    return CheckDoorbellRecord(call, doorbell_record) &&
           ReadPages(call, ring, pages_at, static_cast<std::uint32_t>(CX_GET(wq, wq, page_offset)));
}

void WriteWq(std::span<std::byte> wq, const Ring &ring, unsigned type, std::uint32_t pd, std::uint64_t doorbell_record)
{
    CX_SET(wq, wq, wq_type, type);
    CX_SET(wq, wq, page_offset, ring.first_offset / 64);
    CX_SET(wq, wq, pd, pd);
    CX_SET(wq, wq, dbr_addr, doorbell_record);
    CX_SET(wq, wq, log_wq_stride, ring.log_stride);
    CX_SET(wq, wq, log_wq_pg_sz, ring.log_page - 12);
    CX_SET(wq, wq, log_wq_sz, ring.log_entries);
}

/** Is `from` to `to` a transition of a work queue? Only an error is not left but by reset. */
bool CheckTransition(Call &call, WqState from, std::uint64_t said, std::uint64_t to)
{
    if (said != static_cast<unsigned>(from))
        return call.Refuse(Status::kBadResourceState, "it is in state {}, not {}", static_cast<unsigned>(from), said);
    if (!ToState(to))
        return call.Refuse(Status::kBadParameter, "state {}", to);
    if (from == WqState::kError && ToState(to) == WqState::kReady)
        return call.Refuse(Status::kBadResourceState, "from error to ready");
    return true;
}

} // namespace

bool CreateRq(Call &call)
{
    const auto context = CX_PART(call.in, create_rq_in, ctx);
    const auto wq = CX_PART(context, rqc, wq);
    constexpr std::size_t kPages = CX_AT(create_rq_in, ctx.wq.pas);
    const auto type = static_cast<unsigned>(CX_GET(wq, wq, wq_type));
    Rq rq;

    rq.striding = type == kCyclicStriding;
    rq.vlan_strip = CX_GET(context, rqc, vsd) == 0;
    rq.flush_in_error = CX_GET(context, rqc, flush_in_error_en) != 0;
    rq.user_index = static_cast<std::uint32_t>(CX_GET(context, rqc, user_index));
    rq.cq = static_cast<std::uint32_t>(CX_GET(context, rqc, cqn));
    rq.counter_set = static_cast<std::uint32_t>(CX_GET(context, rqc, counter_set_id));
    rq.end_padding = CX_GET(wq, wq, end_padding_mode) != 0;
    rq.two_byte_shift = CX_GET(wq, wq, two_byte_shift_en) != 0;
    if (rq.striding) {
        rq.log_wqe_strides = static_cast<unsigned>(CX_GET(wq, wq, log_wqe_num_of_strides)) + kLogStridesBase;
        rq.log_wqe_stride_size = static_cast<unsigned>(CX_GET(wq, wq, log_wqe_stride_size)) + kLogStrideSizeBase;
    }
    if (type != kCyclic && type != kCyclicStriding)
        return call.Refuse(Status::kBadParameter, "wq_type {}", type);
    if (CX_GET(context, rqc, mem_rq_type) != 0)
        return call.Refuse(Status::kBadParameter, "mem_rq_type {}", CX_GET(context, rqc, mem_rq_type));
    if (CX_GET(context, rqc, state) != 0)
        return call.Refuse(Status::kBadParameter, "state {} of a new RQ", CX_GET(context, rqc, state));
    if (rq.log_wqe_strides > kLogMaxStrides)
        return call.Refuse(Status::kBadParameter, "2^{} strides", rq.log_wqe_strides);
    if (!call.objects.cqs.contains(rq.cq))
        return call.Refuse(Status::kBadResource, "cqn {:#x}", rq.cq);
    if (rq.counter_set != 0 && !call.objects.q_counters.contains(rq.counter_set))
        return call.Refuse(Status::kBadResource, "counter_set_id {:#x}", rq.counter_set);
    if (!ReadWq(call, wq, kPages, rq.ring, rq.pd, rq.doorbell_record))
        return false;
    if (rq.ring.log_stride < kLogMinRqStride || rq.ring.log_stride > kLogMaxRqStride)
        return call.Refuse(Status::kBadParameter, "log_wq_stride {}", rq.ring.log_stride);
    rq.number = FreeNumber(call.objects.rqs, kFirstRq, kFirstRq + (1U << kLogMaxRq) - 1);
    if (rq.number == 0)
        return call.Refuse(Status::kNoResources, "no RQ is left");
    CX_OUT(call, create_rq_out, rqn, rq.number);
    call.Say("{:#x} CQ {:#x} PD {:#x} entries {} of {}{}", rq.number, rq.cq, rq.pd, rq.ring.Entries(),
             1U << rq.ring.log_stride,
             rq.striding ? fmt::format(" striding 2^{} of 2^{}", rq.log_wqe_strides, rq.log_wqe_stride_size) : "");
    call.objects.rqs.emplace(rq.number, std::move(rq));
    return true;
}

bool QueryRq(Call &call)
{
    const std::uint32_t number = CX_IN(call, query_rq_in, rqn);
    const Rq *rq = Find(call.objects.rqs, number);

    if (rq == nullptr)
        return call.Refuse(Status::kBadResource, "rqn {:#x}", number);

    const auto context = CX_PART(call.out, query_rq_out, rq_context);
    const auto wq = CX_PART(context, rqc, wq);

    CX_SET(context, rqc, vsd, !rq->vlan_strip);
    CX_SET(context, rqc, state, static_cast<unsigned>(rq->state));
    CX_SET(context, rqc, flush_in_error_en, rq->flush_in_error);
    CX_SET(context, rqc, user_index, rq->user_index);
    CX_SET(context, rqc, cqn, rq->cq);
    CX_SET(context, rqc, counter_set_id, rq->counter_set);
    WriteWq(wq, rq->ring, rq->striding ? kCyclicStriding : kCyclic, rq->pd, rq->doorbell_record);
    CX_SET(wq, wq, end_padding_mode, rq->end_padding);
    CX_SET(wq, wq, two_byte_shift_en, rq->two_byte_shift);
    CX_SET(wq, wq, hw_counter, rq->consumed);
    if (rq->striding) {
        CX_SET(wq, wq, log_wqe_num_of_strides, rq->log_wqe_strides - kLogStridesBase);
        CX_SET(wq, wq, log_wqe_stride_size, rq->log_wqe_stride_size - kLogStrideSizeBase);
    }
    call.Say("{:#x} state {}", number, static_cast<unsigned>(rq->state));
    return true;
}

bool ModifyRq(Call &call)
{
    const auto context = CX_PART(call.in, modify_rq_in, ctx);
    const std::uint32_t number = CX_IN(call, modify_rq_in, rqn);
    const std::uint64_t fields = CX_GET(call.in, modify_rq_in, modify_bitmask);
    const auto counter_set = static_cast<std::uint32_t>(CX_GET(context, rqc, counter_set_id));
    Rq *rq = Find(call.objects.rqs, number);

    if (rq == nullptr)
        return call.Refuse(Status::kBadResource, "rqn {:#x}", number);
    if ((fields & ~(kModifyVlanStrip | kModifyCounterSet)) != 0)
        return call.Refuse(Status::kBadParameter, "modify_bitmask {:#x}", fields);
    if ((fields & kModifyCounterSet) != 0 && counter_set != 0 && !call.objects.q_counters.contains(counter_set))
        return call.Refuse(Status::kBadResource, "counter_set_id {:#x}", counter_set);
    if (!CheckTransition(call, rq->state, CX_GET(call.in, modify_rq_in, rq_state), CX_GET(context, rqc, state)))
        return false;
    if ((fields & kModifyVlanStrip) != 0)
        rq->vlan_strip = CX_GET(context, rqc, vsd) == 0;
    if ((fields & kModifyCounterSet) != 0)
        rq->counter_set = counter_set;

    const WqState from = rq->state;

    rq->state = *ToState(CX_GET(context, rqc, state));
    call.Say("{:#x} state {} to {}", number, static_cast<unsigned>(from), static_cast<unsigned>(rq->state));
    if (rq->state != from)
        call.data_path.RqStateChanged(*rq);
    return true;
}

bool DestroyRq(Call &call)
{
    const std::uint32_t number = CX_IN(call, destroy_rq_in, rqn);

    if (!call.objects.rqs.contains(number))
        return call.Refuse(Status::kBadResource, "rqn {:#x}", number);
    for (const auto &[tirn, tir] : call.objects.tirs)
        if (!tir.indirect && tir.rq == number)
            return call.Refuse(Status::kBadResourceState, "TIR {:#x} leads to RQ {:#x}", tirn, number);
    for (const auto &[rqtn, rqt] : call.objects.rqts)
        if (std::find(rqt.rqs.begin(), rqt.rqs.end(), number) != rqt.rqs.end())
            return call.Refuse(Status::kBadResourceState, "RQT {:#x} leads to RQ {:#x}", rqtn, number);
    call.objects.rqs.erase(number);
    call.Say("{:#x}", number);
    return true;
}

bool CreateSq(Call &call)
{
    const auto context = CX_PART(call.in, create_sq_in, ctx);
    const auto wq = CX_PART(context, sqc, wq);
    constexpr std::size_t kPages = CX_AT(create_sq_in, ctx.wq.pas);
    Sq sq;

    sq.cq = static_cast<std::uint32_t>(CX_GET(context, sqc, cqn));
    sq.tis = static_cast<std::uint32_t>(CX_GET(context, sqc, tis_num_0));
    sq.min_inline_mode = static_cast<unsigned>(CX_GET(context, sqc, min_wqe_inline_mode));
    sq.uar = static_cast<std::uint32_t>(CX_GET(wq, wq, uar_page));
    if (CX_GET(wq, wq, wq_type) != kCyclic)
        return call.Refuse(Status::kBadParameter, "wq_type {} of an SQ", CX_GET(wq, wq, wq_type));
    if (CX_GET(context, sqc, state) != 0)
        return call.Refuse(Status::kBadParameter, "state {} of a new SQ", CX_GET(context, sqc, state));
    /* none: an SQ that sends no packets, for NOPs and the like */
    if (CX_GET(context, sqc, tis_lst_sz) > 1)
        return call.Refuse(Status::kBadParameter, "tis_lst_sz {}", CX_GET(context, sqc, tis_lst_sz));
    if (CX_GET(context, sqc, tis_lst_sz) == 0 ? sq.tis != 0 : !call.objects.tises.contains(sq.tis))
        return call.Refuse(Status::kBadResource, "tis_num_0 {:#x}", sq.tis);
    if (!call.objects.cqs.contains(sq.cq))
        return call.Refuse(Status::kBadResource, "cqn {:#x}", sq.cq);
    if (!call.objects.uars.contains(sq.uar))
        return call.Refuse(Status::kBadResource, "uar_page {:#x}", sq.uar);
    if (!ReadWq(call, wq, kPages, sq.ring, sq.pd, sq.doorbell_record))
        return false;
    if (sq.ring.log_stride != kLogSqStride)
        return call.Refuse(Status::kBadParameter, "log_wq_stride {} of an SQ", sq.ring.log_stride);
    sq.number = FreeNumber(call.objects.sqs, kFirstSq, kFirstSq + (1U << kLogMaxSq) - 1);
    if (sq.number == 0)
        return call.Refuse(Status::kNoResources, "no SQ is left");
    CX_OUT(call, create_sq_out, sqn, sq.number);
    call.Say("{:#x} CQ {:#x} PD {:#x} TIS {:#x} UAR {:#x} blocks {} inline mode {}", sq.number, sq.cq, sq.pd, sq.tis,
             sq.uar, sq.ring.Entries(), sq.min_inline_mode);
    call.objects.sqs.emplace(sq.number, std::move(sq));
    return true;
}

bool QuerySq(Call &call)
{
    const std::uint32_t number = CX_IN(call, query_sq_in, sqn);
    const Sq *sq = Find(call.objects.sqs, number);

    if (sq == nullptr)
        return call.Refuse(Status::kBadResource, "sqn {:#x}", number);

    const auto context = CX_PART(call.out, query_sq_out, sq_context);
    const auto wq = CX_PART(context, sqc, wq);

    CX_SET(context, sqc, state, static_cast<unsigned>(sq->state));
    CX_SET(context, sqc, min_wqe_inline_mode, sq->min_inline_mode);
    CX_SET(context, sqc, cqn, sq->cq);
    CX_SET(context, sqc, tis_lst_sz, sq->tis != 0);
    CX_SET(context, sqc, tis_num_0, sq->tis);
    WriteWq(wq, sq->ring, kCyclic, sq->pd, sq->doorbell_record);
    CX_SET(wq, wq, uar_page, sq->uar);
    CX_SET(wq, wq, hw_counter, sq->done);
    call.Say("{:#x} state {}", number, static_cast<unsigned>(sq->state));
    return true;
}

bool ModifySq(Call &call)
{
    const auto context = CX_PART(call.in, modify_sq_in, ctx);
    const std::uint32_t number = CX_IN(call, modify_sq_in, sqn);
    const std::uint64_t fields = CX_GET(call.in, modify_sq_in, modify_bitmask);
    Sq *sq = Find(call.objects.sqs, number);

    if (sq == nullptr)
        return call.Refuse(Status::kBadResource, "sqn {:#x}", number);
    if (fields != 0)
        return call.Refuse(Status::kBadParameter, "modify_bitmask {:#x} of an SQ", fields);
    if (!CheckTransition(call, sq->state, CX_GET(call.in, modify_sq_in, sq_state), CX_GET(context, sqc, state)))
        return false;

    const WqState from = sq->state;

    sq->state = *ToState(CX_GET(context, sqc, state));
    call.Say("{:#x} state {} to {}", number, static_cast<unsigned>(from), static_cast<unsigned>(sq->state));
    if (sq->state != from)
        call.data_path.SqStateChanged(*sq);
    return true;
}

bool DestroySq(Call &call)
{
    const std::uint32_t number = CX_IN(call, destroy_sq_in, sqn);

    if (call.objects.sqs.erase(number) == 0)
        return call.Refuse(Status::kBadResource, "sqn {:#x}", number);
    call.Say("{:#x}", number);
    return true;
}

} // namespace cx::commands
