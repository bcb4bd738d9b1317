// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands on UARs, protection domains, transport domains, memory keys and Q counters. */
#include "command_call.hpp"

#include <algorithm>

namespace cx::commands {
namespace {

/** Is there an element for which `uses` holds? */
template <typename Map, typename Uses> bool Any(const Map &map, Uses uses)
{
    return std::any_of(map.begin(), map.end(), [&](const auto &each) { return uses(each.second); });
}

/** Remove `number` from a set of plain numbers. */
bool Remove(Call &call, std::set<std::uint32_t> &from, std::uint32_t number)
{
    if (from.erase(number) == 0)
        return call.Refuse(Status::kBadResource, "there is no number {:#x}", number);
    call.Say("{:#x}", number);
    return true;
}

/** Values of mkc.access_mode_1_0 with access_mode_4_2 above. */
enum AccessMode : unsigned { kPhysical = 0, kMtt = 1 };

constexpr unsigned kMaxMkeyLogPage = 30;
constexpr Field kMttEntry = { 0, 64 };
/* The low bits of an MTT entry are access flags, not address. */
constexpr std::uint64_t kMttFlags = 7;

bool ReadMtts(Call &call, Mkey &key)
{
    const std::uint64_t octwords = CX_IN(call, create_mkey_in, translations_octword_actual_size);
    constexpr std::size_t kAt = CX_AT(create_mkey_in, klm_pas_mtt);

    if (key.log_page < 12 || key.log_page > kMaxMkeyLogPage)
        return call.Refuse(Status::kBadParameter, "log_page_size {}", key.log_page);

    const std::uint64_t page_mask = (std::uint64_t{ 1 } << key.log_page) - 1;
    const std::uint64_t first = key.start & page_mask;

    if (key.length > UINT64_MAX - first - page_mask)
        return call.Refuse(Status::kBadParameter, "len {:#x}", key.length);

    const std::uint64_t pages = (first + key.length + page_mask) >> key.log_page;

    if (octwords * 2 < pages)
        return call.Refuse(Status::kBadParameter, "translations_octword_actual_size {} for {} pages", octwords, pages);
    if (call.in.size() < kAt || (call.in.size() - kAt) / 8 < pages)
        return call.Refuse(Status::kBadInputLength, "input of {} bytes for {} pages", call.in.size(), pages);
    for (std::uint64_t page = 0; page < pages; page++) {
        const std::uint64_t address = GetField(call.in.subspan(kAt + page * 8), kMttEntry) & ~kMttFlags;

        if ((address & page_mask) != 0)
            return call.Refuse(Status::kBadParameter, "page {} at {:#x} is not aligned to 2^{}", page, address,
                               key.log_page);
        key.pages.push_back(address);
    }
    return true;
}

} // namespace

bool AllocUar(Call &call)
{
    const std::uint32_t uar = FreeNumber(call.objects.uars, kFirstUar, kUars - 1);

    if (uar == 0)
        return call.Refuse(Status::kNoResources, "no UAR is left");
    call.objects.uars.insert(uar);
    CX_OUT(call, alloc_uar_out, uar, uar);
    call.Say("{:#x}", uar);
    return true;
}

bool DeallocUar(Call &call)
{
    const std::uint32_t uar = CX_IN(call, dealloc_uar_in, uar);
    const auto uses = [&](const auto &each) { return each.uar == uar; };

    if (call.objects.uars.contains(uar) &&
        (Any(call.objects.eqs, uses) || Any(call.objects.cqs, uses) || Any(call.objects.sqs, uses)))
        return call.Refuse(Status::kBadResourceState, "UAR {:#x} is in use", uar);
    return Remove(call, call.objects.uars, uar);
}

bool AllocPd(Call &call)
{
    const std::uint32_t pd = FreeNumber(call.objects.pds, 1, (1U << kLogMaxPd) - 1);

    if (pd == 0)
        return call.Refuse(Status::kNoResources, "no PD is left");
    call.objects.pds.insert(pd);
    CX_OUT(call, alloc_pd_out, pd, pd);
    call.Say("{:#x}", pd);
    return true;
}

bool DeallocPd(Call &call)
{
    const std::uint32_t pd = CX_IN(call, dealloc_pd_in, pd);
    const auto uses = [&](const auto &each) { return each.pd == pd; };

    if (call.objects.pds.contains(pd) &&
        (Any(call.objects.mkeys, uses) || Any(call.objects.rqs, uses) || Any(call.objects.sqs, uses)))
        return call.Refuse(Status::kBadResourceState, "PD {:#x} is in use", pd);
    return Remove(call, call.objects.pds, pd);
}

bool AllocTransportDomain(Call &call)
{
    const std::uint32_t domain =
            FreeNumber(call.objects.transport_domains, 1, (1U << kLogMaxTransportDomain) - 1);

    if (domain == 0)
        return call.Refuse(Status::kNoResources, "no transport domain is left");
    call.objects.transport_domains.insert(domain);
    CX_OUT(call, alloc_transport_domain_out, transport_domain, domain);
    call.Say("{:#x}", domain);
    return true;
}

bool DeallocTransportDomain(Call &call)
{
    const std::uint32_t domain = CX_IN(call, dealloc_transport_domain_in, transport_domain);
    const auto uses = [&](const auto &each) { return each.transport_domain == domain; };

    if (call.objects.transport_domains.contains(domain) &&
        (Any(call.objects.tirs, uses) || Any(call.objects.tises, uses)))
        return call.Refuse(Status::kBadResourceState, "transport domain {:#x} is in use", domain);
    return Remove(call, call.objects.transport_domains, domain);
}

bool CreateMkey(Call &call)
{
    const auto context = CX_PART(call.in, create_mkey_in, memory_key_mkey_entry);
    const auto mode = static_cast<unsigned>(CX_GET(context, mkc, access_mode_4_2) << 2 |
                                            CX_GET(context, mkc, access_mode_1_0));
    Mkey key;

    key.pd = static_cast<std::uint32_t>(CX_GET(context, mkc, pd));
    key.physical = mode == kPhysical;
    key.length64 = CX_GET(context, mkc, length64) != 0;
    key.local_read = CX_GET(context, mkc, lr) != 0;
    key.local_write = CX_GET(context, mkc, lw) != 0;
    key.start = CX_GET(context, mkc, start_addr);
    key.length = CX_GET(context, mkc, len);
    key.log_page = static_cast<unsigned>(CX_GET(context, mkc, log_page_size));
    key.free = CX_GET(context, mkc, free) != 0;
    if (mode != kPhysical && mode != kMtt)
        return call.Refuse(Status::kBadParameter, "access mode {}", mode);
    if (CX_GET(context, mkc, qpn) != 0xffffff)
        return call.Refuse(Status::kBadParameter, "qpn {:#x}: a key for one QP", CX_GET(context, mkc, qpn));
    if (!call.objects.pds.contains(key.pd))
        return call.Refuse(Status::kBadResource, "PD {:#x}", key.pd);
    if (key.free && CX_GET(context, mkc, umr_en) == 0)
        return call.Refuse(Status::kBadParameter, "a free key without umr_en");
    if (!key.length64 && !key.free && key.length == 0)
        return call.Refuse(Status::kBadParameter, "len 0");
    if (mode == kMtt && !key.free && !ReadMtts(call, key))
        return false;

    const std::uint32_t index = FreeNumber(call.objects.mkeys, 1, (1U << kLogMaxMkey) - 1);

    if (index == 0)
        return call.Refuse(Status::kNoResources, "no memory key is left");
    key.key = index << 8 | static_cast<std::uint32_t>(CX_GET(context, mkc, mkey_7_0));
    CX_OUT(call, create_mkey_out, mkey_index, index);
    call.Say("{:#x} PD {:#x} {} start {:#x} length {:#x}{}", key.key, key.pd, key.physical ? "PA" : "MTT", key.start,
             key.length, key.length64 ? " (all)" : "");
    call.objects.mkeys.emplace(index, std::move(key));
    return true;
}

bool QueryMkey(Call &call)
{
    const std::uint32_t index = CX_IN(call, query_mkey_in, mkey_index);
    const Mkey *key = Find(call.objects.mkeys, index);

    if (key == nullptr)
        return call.Refuse(Status::kBadResource, "mkey_index {:#x}", index);

    const auto context = CX_PART(call.out, query_mkey_out, memory_key_mkey_entry);

    CX_SET(context, mkc, free, key->free);
    CX_SET(context, mkc, lw, key->local_write);
    CX_SET(context, mkc, lr, key->local_read);
    CX_SET(context, mkc, access_mode_1_0, key->physical ? kPhysical : kMtt);
    CX_SET(context, mkc, qpn, 0xffffff);
    CX_SET(context, mkc, mkey_7_0, key->key & 0xff);
    CX_SET(context, mkc, length64, key->length64);
    CX_SET(context, mkc, pd, key->pd);
    CX_SET(context, mkc, start_addr, key->start);
    CX_SET(context, mkc, len, key->length);
    CX_SET(context, mkc, log_page_size, key->log_page);
    call.Say("{:#x}", key->key);
    return true;
}

bool DestroyMkey(Call &call)
{
    const std::uint32_t index = CX_IN(call, destroy_mkey_in, mkey_index);

    if (call.objects.mkeys.erase(index) == 0)
        return call.Refuse(Status::kBadResource, "mkey_index {:#x}", index);
    call.Say("{:#x}", index);
    return true;
}

bool AllocQCounter(Call &call)
{
    const std::uint32_t set = FreeNumber(call.objects.q_counters, 1, 0xff);

    if (set == 0)
        return call.Refuse(Status::kNoResources, "no Q counter is left");
    call.objects.q_counters[set] = {};
    CX_OUT(call, alloc_q_counter_out, counter_set_id, set);
    call.Say("{:#x}", set);
    return true;
}

bool DeallocQCounter(Call &call)
{
    const std::uint32_t set = CX_IN(call, dealloc_q_counter_in, counter_set_id);

    if (!call.objects.q_counters.contains(set))
        return call.Refuse(Status::kBadResource, "counter_set_id {:#x}", set);
    if (Any(call.objects.rqs, [&](const Rq &rq) { return rq.counter_set == set; }))
        return call.Refuse(Status::kBadResourceState, "counter set {:#x} is in use", set);
    call.objects.q_counters.erase(set);
    call.Say("{:#x}", set);
    return true;
}

bool QueryQCounter(Call &call)
{
    const std::uint32_t set = CX_IN(call, query_q_counter_in, counter_set_id);
    QCounter *counter = Find(call.objects.q_counters, set);

    if (counter == nullptr)
        return call.Refuse(Status::kBadResource, "counter_set_id {:#x}", set);
    CX_OUT(call, query_q_counter_out, out_of_buffer, counter->out_of_buffer);
    if (CX_IN(call, query_q_counter_in, clear) != 0)
        *counter = {};
    call.Say("{:#x}", set);
    return true;
}

} // namespace cx::commands
