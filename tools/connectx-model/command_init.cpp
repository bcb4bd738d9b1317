// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Commands that bring the function up and down: HCA, ISSI, pages, capabilities, driver version, adapter. */
#include "command_call.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace cx::commands {
namespace {

/** What the card asks for in all, before it is initialized; it asks for none later. */
constexpr std::uint32_t kAllPages = kBootPages + kInitPages;

constexpr std::uint32_t kSupportedIssi = 0x3; /* bit n: version n */
constexpr Field kPageAddress = { 0, 64 };

/** capability.cmd_hca_cap.<field> of set_hca_cap_in that a driver may change before INIT_HCA. */
constexpr Field kSettable[] = {
    CX_FIELD(cmd_hca_cap, pkey_table_size), CX_FIELD(cmd_hca_cap, log_max_qp),
    CX_FIELD(cmd_hca_cap, cmdif_checksum),  CX_FIELD(cmd_hca_cap, log_uar_page_sz),
    CX_FIELD(cmd_hca_cap, cache_line_128byte),
};

std::uint32_t Wanted(const Call &call, std::uint32_t upto)
{
    const std::size_t held = call.objects.pages_given.size();

    return held < upto ? upto - static_cast<std::uint32_t>(held) : 0;
}

bool GivePages(Call &call)
{
    const std::uint32_t count = CX_IN(call, manage_pages_in, input_num_entries);
    constexpr std::size_t kList = CX_AT(manage_pages_in, pas);
    std::set<std::uint64_t> pages;

    if (call.in.size() < kList || (call.in.size() - kList) / 8 < count)
        return call.Refuse(Status::kBadInputLength, "input of {} bytes for {} pages", call.in.size(), count);
    if (count > Wanted(call, kAllPages))
        return call.Refuse(Status::kLimit, "{} pages given, {} are wanted", count, Wanted(call, kAllPages));
    for (std::uint32_t index = 0; index < count; index++) {
        const std::uint64_t page = GetField(call.in.subspan(kList + index * 8, 8), kPageAddress);

        if (page == 0 || page % kPageSize != 0)
            return call.Refuse(Status::kBadParameter, "page {:#x} is not aligned", page);
        if (call.objects.pages_given.contains(page) || !pages.insert(page).second)
            return call.Refuse(Status::kBadParameter, "page {:#x} is given twice", page);
    }
    call.objects.pages_given.merge(pages);
    call.Say("given {}, {} held", count, call.objects.pages_given.size());
    return true;
}

/** An initialized function keeps what it asked for. */
bool ReturnPages(Call &call)
{
    const std::uint32_t asked = CX_IN(call, manage_pages_in, input_num_entries);
    constexpr std::size_t kList = CX_AT(manage_pages_out, pas);
    const std::size_t room = call.out.size() > kList ? (call.out.size() - kList) / 8 : 0;
    const std::size_t held = call.objects.pages_given.size();
    const std::size_t keep = call.objects.function == FunctionState::kInitialized ? kAllPages : 0;
    const std::size_t count = std::min({ std::size_t{ asked }, room, held > keep ? held - keep : 0 });

    for (std::size_t index = 0; index < count; index++) {
        const auto last = std::prev(call.objects.pages_given.end());

        SetField(call.out.subspan(kList + index * 8, 8), kPageAddress, *last);
        call.objects.pages_given.erase(last);
    }
    CX_OUT(call, manage_pages_out, output_num_entries, count);
    call.Say("returned {} of {} asked, {} held", count, asked, call.objects.pages_given.size());
    return true;
}

/** Names and counts of what still lives, or nothing. */
std::string Leftovers(const Objects &objects)
{
    std::string text;
    const auto add = [&](std::string_view name, std::size_t count) {
        if (count != 0)
            text += fmt::format(" {} {}", count, name);
    };

    add("tables", objects.tables.size());
    add("TIRs", objects.tirs.size());
    add("RQTs", objects.rqts.size());
    add("RQs", objects.rqs.size());
    add("SQs", objects.sqs.size());
    add("TISs", objects.tises.size());
    add("CQs", objects.cqs.size());
    add("EQs", objects.eqs.size());
    add("mkeys", objects.mkeys.size());
    add("PDs", objects.pds.size());
    add("domains", objects.transport_domains.size());
    add("UARs", objects.uars.size());
    add("Q counters", objects.q_counters.size());
    add("flow counters", objects.flow_counters.size());
    return text;
}

/** Everything that commands make between INIT_HCA and TEARDOWN_HCA vanishes. */
void DropObjects(Call &call)
{
    Objects &objects = call.objects;

    for (auto &[number, cq] : objects.cqs)
        call.data_path.ForgetCq(cq);

    Objects fresh;

    fresh.function = objects.function;
    fresh.pages_given = std::move(objects.pages_given);
    fresh.vport.permanent_mac = objects.vport.permanent_mac;
    fresh.port = objects.port;
    fresh.link_up = objects.link_up;
    fresh.issi = objects.issi;
    fresh.command_signatures = objects.command_signatures;
    fresh.driver_version = std::move(objects.driver_version);
    fresh.steering_generation = objects.steering_generation + 1;
    objects = std::move(fresh);
}

} // namespace

bool EnableHca(Call &call)
{
    call.objects.function = FunctionState::kEnabled;
    return true;
}

bool DisableHca(Call &call)
{
    if (!call.objects.pages_given.empty())
        call.trace.Complain("{}: {} pages were not asked back", call.name, call.objects.pages_given.size());
    call.objects.pages_given.clear();
    call.objects.issi = 0;
    call.objects.command_signatures = false;
    call.objects.function = FunctionState::kDisabled;
    return true;
}

bool QueryIssi(Call &call)
{
    CX_OUT(call, query_issi_out, current_issi, call.objects.issi);
    CX_OUT(call, query_issi_out, supported_issi_dw0, kSupportedIssi);
    return true;
}

bool SetIssi(Call &call)
{
    const std::uint32_t issi = CX_IN(call, set_issi_in, current_issi);

    if (issi >= 32 || (kSupportedIssi >> issi & 1) == 0)
        return call.Refuse(Status::kBadParameter, "current_issi {}", issi);
    call.objects.issi = issi;
    call.Say("{}", issi);
    return true;
}

bool QueryPages(Call &call)
{
    std::uint32_t pages = 0;

    if (call.op_mod == ifc::MLX5_QUERY_PAGES_IN_OP_MOD_BOOT_PAGES)
        pages = Wanted(call, kBootPages);
    else if (call.op_mod == ifc::MLX5_QUERY_PAGES_IN_OP_MOD_INIT_PAGES)
        pages = Wanted(call, kAllPages);
    else if (call.op_mod != ifc::MLX5_QUERY_PAGES_IN_OP_MOD_REGULAR_PAGES)
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);
    CX_OUT(call, query_pages_out, num_pages, pages);
    call.Say("{} wanted", pages);
    return true;
}

bool ManagePages(Call &call)
{
    switch (call.op_mod) {
    case ifc::MLX5_MANAGE_PAGES_IN_OP_MOD_ALLOCATION_FAIL:
        call.Say("the driver has none");
        return true;
    case ifc::MLX5_MANAGE_PAGES_IN_OP_MOD_ALLOCATION_SUCCESS:
        return GivePages(call);
    case ifc::MLX5_MANAGE_PAGES_IN_OP_MOD_HCA_RETURN_PAGES:
        return ReturnPages(call);
    default:
        return call.Refuse(Status::kBadParameter, "op_mod {}", call.op_mod);
    }
}

bool QueryHcaCap(Call &call)
{
    const unsigned type = call.op_mod >> 1;
    const bool maximum = (call.op_mod & 1) == 0;

    if (!FillCapabilities(CX_PART(call.out, query_hca_cap_out, capability), type, maximum, call.objects))
        return call.Refuse(Status::kBadParameter, "op_mod {:#x}: the card has no capabilities of type {:#x}",
                           call.op_mod, type);
    call.Say("type {:#x} {}", type, maximum ? "maximum" : "current");
    return true;
}

bool SetHcaCap(Call &call)
{
    const unsigned type = call.op_mod >> 1;
    const auto wanted = CX_PART(call.in, set_hca_cap_in, capability);
    std::vector<std::byte> page(wanted.size());
    std::vector<std::byte> most(wanted.size());

    if (type != ifc::MLX5_SET_HCA_CAP_OP_MOD_GENERAL_DEVICE)
        return call.Refuse(Status::kBadParameter, "op_mod {:#x}: nothing can be set there", call.op_mod);
    FillCapabilities(page, type, false, call.objects);
    FillCapabilities(most, type, true, call.objects);
    for (const Field &field : kSettable) {
        const std::uint64_t value = GetField(wanted, field);

        if (value != GetField(page, field) && value > GetField(most, field))
            return call.Refuse(Status::kBadParameter, "capability at bit {:#x} set to {}, at most {}", field.at, value,
                               GetField(most, field));
        SetField(page, field, value);
    }
    for (std::size_t at = 0; at < page.size(); at++)
        if (page[at] != wanted[at])
            return call.Refuse(Status::kBadParameter, "capability byte {:#x} set to {:#x}, it is {:#x}", at,
                               std::to_integer<unsigned>(wanted[at]), std::to_integer<unsigned>(page[at]));
    call.objects.command_signatures = CX_GET(wanted, cmd_hca_cap, cmdif_checksum) != 0;
    return true;
}

bool InitHca(Call &call)
{
    if (const std::uint32_t missing = Wanted(call, kAllPages); missing != 0)
        return call.Refuse(Status::kNoResources, "{} pages are missing", missing);
    call.objects.function = FunctionState::kInitialized;
    return true;
}

bool TeardownHca(Call &call)
{
    const std::uint32_t profile = CX_IN(call, teardown_hca_in, profile);

    if (profile != ifc::MLX5_TEARDOWN_HCA_IN_PROFILE_GRACEFUL_CLOSE)
        return call.Refuse(Status::kBadParameter, "profile {}", profile);
    if (const std::string left = Leftovers(call.objects); !left.empty())
        call.trace.Complain("{}: left behind:{}", call.name, left);
    DropObjects(call);
    call.objects.function = FunctionState::kEnabled;
    return true;
}

bool SetDriverVersion(Call &call)
{
    constexpr Field kVersion = CX_FIELD(set_driver_version_in, driver_version);
    std::string version;

    for (std::size_t at = 0; at < kVersion.bits / 8; at++) {
        const auto letter = static_cast<unsigned char>(GetField(call.in, { kVersion.at + at * 8, 8 }));

        if (letter == 0)
            break;
        version += letter >= ' ' && letter < 0x7f ? static_cast<char>(letter) : '?';
    }
    call.Say("{}", version);
    call.objects.driver_version = std::move(version);
    return true;
}

bool QueryAdapter(Call &call)
{
    constexpr std::string_view kPsid = "ROCEV2_MODEL";
    constexpr Field kInto = CX_FIELD(query_adapter_out, query_adapter_struct.vsd_contd_psid);

    for (std::size_t at = 0; at < kPsid.size(); at++)
        SetField(call.out, { kInto.at + at * 8, 8 }, static_cast<std::uint8_t>(kPsid[at]));
    return true;
}

bool Nop(Call &)
{
    return true;
}

} // namespace cx::commands
