// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on TISs, RQ tables and TIRs: how work queues are joined to the network. */
#include "command_call.hpp"

#include <algorithm>

namespace cx::commands {
namespace {

/** Values of tirc.disp_type. */
enum DispatchType : unsigned { kDirect = 0, kIndirect = 1 };

constexpr unsigned kRqtEntryBits = 32;

Field RqtEntry(std::size_t index)
{
    constexpr std::size_t kFirst = CX_AT(rqtc, rq_num) * 8;
    constexpr Field kNumber = CX_FIELD(rq_num, rq_num);

    return { kFirst + index * kRqtEntryBits + kNumber.at, kNumber.bits };
}

/** The list of RQs of an RQ table context; `max_size` is the table's. */
bool ReadRqs(Call &call, std::span<const std::byte> context, unsigned max_size, std::vector<std::uint32_t> &rqs)
{
    const auto size = static_cast<unsigned>(CX_GET(context, rqtc, rqt_actual_size));

    if (size == 0 || size > max_size)
        return call.Refuse(Status::kBadParameter, "rqt_actual_size {} of {}", size, max_size);
    if (context.size() * 8 < RqtEntry(size - 1).at + RqtEntry(size - 1).bits)
        return call.Refuse(Status::kBadInputLength, "input ends before entry {} of the table", size - 1);
    for (unsigned index = 0; index < size; index++) {
        const auto rq = static_cast<std::uint32_t>(GetField(context, RqtEntry(index)));

        if (!call.objects.rqs.contains(rq))
            return call.Refuse(Status::kBadResource, "RQ {:#x} at entry {}", rq, index);
        rqs.push_back(rq);
    }
    return true;
}

/** Everything of tirc that says how packets are spread. */
bool ReadHash(Call &call, std::span<const std::byte> context, Tir &tir)
{
    const auto function = CX_GET(context, tirc, rx_hash_fn);
    const auto selector = CX_PART(context, tirc, rx_hash_field_selector_outer);
    const Field key = CX_FIELD(tirc, rx_hash_toeplitz_key);

    if (function > static_cast<unsigned>(RssFunction::kToeplitz))
        return call.Refuse(Status::kBadParameter, "rx_hash_fn {}", function);
    tir.function = static_cast<RssFunction>(function);
    tir.symmetric = CX_GET(context, tirc, rx_hash_symmetric) != 0;
    for (std::size_t at = 0; at < tir.toeplitz_key.size(); at++)
        tir.toeplitz_key[at] = static_cast<std::uint8_t>(GetField(context, { key.at + at * 8, 8 }));
    tir.ipv6 = CX_GET(selector, rx_hash_field_select, l3_prot_type) != 0;
    tir.udp = CX_GET(selector, rx_hash_field_select, l4_prot_type) != 0;
    tir.fields = static_cast<std::uint32_t>(CX_GET(selector, rx_hash_field_select, selected_fields));
    constexpr std::uint32_t kKnownFields = 0x1f;

    if ((tir.fields & ~kKnownFields) != 0)
        return call.Refuse(Status::kBadParameter, "selected_fields {:#x}", tir.fields);
    return true;
}

} // namespace

bool CreateTis(Call &call)
{
    const auto context = CX_PART(call.in, create_tis_in, ctx);
    Tis tis;

    tis.priority = static_cast<unsigned>(CX_GET(context, tisc, prio));
    tis.transport_domain = static_cast<std::uint32_t>(CX_GET(context, tisc, transport_domain));
    if (!call.objects.transport_domains.contains(tis.transport_domain))
        return call.Refuse(Status::kBadResource, "transport_domain {:#x}", tis.transport_domain);
    tis.number = FreeNumber(call.objects.tises, 1, (1U << kLogMaxTis) - 1);
    if (tis.number == 0)
        return call.Refuse(Status::kNoResources, "no TIS is left");
    call.objects.tises.emplace(tis.number, tis);
    CX_OUT(call, create_tis_out, tisn, tis.number);
    call.Say("{:#x} domain {:#x} priority {}", tis.number, tis.transport_domain, tis.priority);
    return true;
}

bool QueryTis(Call &call)
{
    const std::uint32_t number = CX_IN(call, query_tis_in, tisn);
    const Tis *tis = Find(call.objects.tises, number);

    if (tis == nullptr)
        return call.Refuse(Status::kBadResource, "tisn {:#x}", number);

    const auto context = CX_PART(call.out, query_tis_out, tis_context);

    CX_SET(context, tisc, prio, tis->priority);
    CX_SET(context, tisc, transport_domain, tis->transport_domain);
    call.Say("{:#x}", number);
    return true;
}

bool ModifyTis(Call &call)
{
    const std::uint32_t number = CX_IN(call, modify_tis_in, tisn);
    Tis *tis = Find(call.objects.tises, number);

    if (tis == nullptr)
        return call.Refuse(Status::kBadResource, "tisn {:#x}", number);
    if (CX_IN(call, modify_tis_in, bitmask.prio) != 0)
        tis->priority = CX_IN(call, modify_tis_in, ctx.prio);
    call.Say("{:#x} priority {}", number, tis->priority);
    return true;
}

bool DestroyTis(Call &call)
{
    const std::uint32_t number = CX_IN(call, destroy_tis_in, tisn);

    if (!call.objects.tises.contains(number))
        return call.Refuse(Status::kBadResource, "tisn {:#x}", number);
    for (const auto &[sqn, sq] : call.objects.sqs)
        if (sq.tis == number)
            return call.Refuse(Status::kBadResourceState, "SQ {:#x} is on TIS {:#x}", sqn, number);
    call.objects.tises.erase(number);
    call.Say("{:#x}", number);
    return true;
}

bool CreateRqt(Call &call)
{
    const auto context = Rest(call.in, CX_FIELD(create_rqt_in, rqt_context));
    Rqt rqt;

    rqt.max_size = static_cast<unsigned>(CX_GET(context, rqtc, rqt_max_size));
    if (rqt.max_size == 0 || rqt.max_size > 1U << kLogMaxRqtSize)
        return call.Refuse(Status::kLimit, "rqt_max_size {}", rqt.max_size);
    if (!ReadRqs(call, context, rqt.max_size, rqt.rqs))
        return false;
    rqt.number = FreeNumber(call.objects.rqts, 1, (1U << kLogMaxRqt) - 1);
    if (rqt.number == 0)
        return call.Refuse(Status::kNoResources, "no RQT is left");
    CX_OUT(call, create_rqt_out, rqtn, rqt.number);
    call.Say("{:#x} {} RQs of {}, first {:#x}", rqt.number, rqt.rqs.size(), rqt.max_size, rqt.rqs.front());
    call.objects.rqts.emplace(rqt.number, std::move(rqt));
    return true;
}

bool QueryRqt(Call &call)
{
    const std::uint32_t number = CX_IN(call, query_rqt_in, rqtn);
    const Rqt *rqt = Find(call.objects.rqts, number);

    if (rqt == nullptr)
        return call.Refuse(Status::kBadResource, "rqtn {:#x}", number);

    const auto context = Rest(call.out, CX_FIELD(query_rqt_out, rqt_context));

    CX_SET(context, rqtc, rqt_max_size, rqt->max_size);
    CX_SET(context, rqtc, rqt_actual_size, rqt->rqs.size());
    for (std::size_t index = 0; index < rqt->rqs.size(); index++)
        SetField(context, RqtEntry(index), rqt->rqs[index]);
    call.Say("{:#x}", number);
    return true;
}

bool ModifyRqt(Call &call)
{
    const std::uint32_t number = CX_IN(call, modify_rqt_in, rqtn);
    Rqt *rqt = Find(call.objects.rqts, number);
    std::vector<std::uint32_t> rqs;

    if (rqt == nullptr)
        return call.Refuse(Status::kBadResource, "rqtn {:#x}", number);
    if (CX_IN(call, modify_rqt_in, bitmask.rqn_list) == 0)
        return call.Refuse(Status::kBadParameter, "bitmask without rqn_list: nothing to modify");
    if (!ReadRqs(call, Rest(call.in, CX_FIELD(modify_rqt_in, ctx)), rqt->max_size, rqs))
        return false;
    rqt->rqs = std::move(rqs);
    call.Say("{:#x} {} RQs of {}, first {:#x}", number, rqt->rqs.size(), rqt->max_size, rqt->rqs.front());
    return true;
}

bool DestroyRqt(Call &call)
{
    const std::uint32_t number = CX_IN(call, destroy_rqt_in, rqtn);

    if (!call.objects.rqts.contains(number))
        return call.Refuse(Status::kBadResource, "rqtn {:#x}", number);
    for (const auto &[tirn, tir] : call.objects.tirs)
        if (tir.indirect && tir.rqt == number)
            return call.Refuse(Status::kBadResourceState, "TIR {:#x} leads to RQT {:#x}", tirn, number);
    call.objects.rqts.erase(number);
    call.Say("{:#x}", number);
    return true;
}

bool CreateTir(Call &call)
{
    const auto context = CX_PART(call.in, create_tir_in, ctx);
    const auto type = CX_GET(context, tirc, disp_type);
    Tir tir;

    tir.indirect = type == kIndirect;
    tir.transport_domain = static_cast<std::uint32_t>(CX_GET(context, tirc, transport_domain));
    tir.rq = static_cast<std::uint32_t>(CX_GET(context, tirc, inline_rqn));
    tir.rqt = static_cast<std::uint32_t>(CX_GET(context, tirc, indirect_table));
    tir.self_loopback_block = static_cast<unsigned>(CX_GET(context, tirc, self_lb_block));
    if (type > kIndirect)
        return call.Refuse(Status::kBadParameter, "disp_type {}", type);
    if (!call.objects.transport_domains.contains(tir.transport_domain))
        return call.Refuse(Status::kBadResource, "transport_domain {:#x}", tir.transport_domain);
    if (!tir.indirect && !call.objects.rqs.contains(tir.rq))
        return call.Refuse(Status::kBadResource, "inline_rqn {:#x}", tir.rq);
    if (tir.indirect && !call.objects.rqts.contains(tir.rqt))
        return call.Refuse(Status::kBadResource, "indirect_table {:#x}", tir.rqt);
    if (!ReadHash(call, context, tir))
        return false;
    if (tir.indirect && tir.function == RssFunction::kNone)
        return call.Refuse(Status::kBadParameter, "an indirect TIR without a hash function");
    tir.number = FreeNumber(call.objects.tirs, 1, (1U << kLogMaxTir) - 1);
    if (tir.number == 0)
        return call.Refuse(Status::kNoResources, "no TIR is left");
    CX_OUT(call, create_tir_out, tirn, tir.number);
    call.Say("{:#x} domain {:#x} {} {:#x} hash {} {} {} fields {:#x}", tir.number, tir.transport_domain,
             tir.indirect ? "RQT" : "RQ", tir.indirect ? tir.rqt : tir.rq, static_cast<unsigned>(tir.function),
             tir.ipv6 ? "IPv6" : "IPv4", tir.udp ? "UDP" : "TCP", tir.fields);
    call.objects.tirs.emplace(tir.number, tir);
    return true;
}

bool QueryTir(Call &call)
{
    const std::uint32_t number = CX_IN(call, query_tir_in, tirn);
    const Tir *tir = Find(call.objects.tirs, number);

    if (tir == nullptr)
        return call.Refuse(Status::kBadResource, "tirn {:#x}", number);

    const auto context = CX_PART(call.out, query_tir_out, tir_context);
    const auto selector = CX_PART(context, tirc, rx_hash_field_selector_outer);
    const Field key = CX_FIELD(tirc, rx_hash_toeplitz_key);

    CX_SET(context, tirc, disp_type, tir->indirect ? kIndirect : kDirect);
    CX_SET(context, tirc, inline_rqn, tir->indirect ? 0 : tir->rq);
    CX_SET(context, tirc, indirect_table, tir->indirect ? tir->rqt : 0);
    CX_SET(context, tirc, rx_hash_fn, static_cast<unsigned>(tir->function));
    CX_SET(context, tirc, rx_hash_symmetric, tir->symmetric);
    CX_SET(context, tirc, self_lb_block, tir->self_loopback_block);
    CX_SET(context, tirc, transport_domain, tir->transport_domain);
    for (std::size_t at = 0; at < tir->toeplitz_key.size(); at++)
        SetField(context, { key.at + at * 8, 8 }, tir->toeplitz_key[at]);
    CX_SET(selector, rx_hash_field_select, l3_prot_type, tir->ipv6);
    CX_SET(selector, rx_hash_field_select, l4_prot_type, tir->udp);
    CX_SET(selector, rx_hash_field_select, selected_fields, tir->fields);
    call.Say("{:#x}", number);
    return true;
}

/** Packets are not merged: bitmask.packet_merge may be set, with a merge of nothing. */
bool ModifyTir(Call &call)
{
    const auto context = CX_PART(call.in, modify_tir_in, ctx);
    const std::uint32_t number = CX_IN(call, modify_tir_in, tirn);
    const bool hash = CX_IN(call, modify_tir_in, bitmask.hash) != 0;
    Tir *tir = Find(call.objects.tirs, number);

    if (tir == nullptr)
        return call.Refuse(Status::kBadResource, "tirn {:#x}", number);

    Tir changed = *tir;

    if (hash && !ReadHash(call, context, changed))
        return false;
    if (hash && changed.indirect && changed.function == RssFunction::kNone)
        return call.Refuse(Status::kBadParameter, "an indirect TIR loses its hash function");
    if (CX_IN(call, modify_tir_in, bitmask.self_lb_en) != 0)
        changed.self_loopback_block = static_cast<unsigned>(CX_GET(context, tirc, self_lb_block));
    *tir = changed;
    call.Say("{:#x}{} fields {:#x} self_lb_block {}", number, hash ? " hash" : "", tir->fields,
             tir->self_loopback_block);
    return true;
}

bool DestroyTir(Call &call)
{
    const std::uint32_t number = CX_IN(call, destroy_tir_in, tirn);

    if (!call.objects.tirs.contains(number))
        return call.Refuse(Status::kBadResource, "tirn {:#x}", number);
    for (const auto &[table_id, table] : call.objects.tables)
        for (const auto &[index, entry] : table.entries)
            for (const FlowDestination &to : entry.destinations)
                if (to.kind == FlowDestination::Kind::kTir && to.id == number)
                    return call.Refuse(Status::kBadResourceState, "flow {} of table {:#x} leads to TIR {:#x}", index,
                                       table_id, number);
    call.objects.tirs.erase(number);
    call.Say("{:#x}", number);
    return true;
}

} // namespace cx::commands
