// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* A driver of the card as far as tests need one. */
#include "driver.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace cx::driver {
namespace {

constexpr std::uint8_t kToken = 0x5a;
constexpr std::size_t kInline = 16;
constexpr std::size_t kBoxData = 512;
constexpr std::uint64_t kPage = 4096;

std::span<std::byte> All(Bytes &bytes)
{
    return { bytes };
}

} // namespace

Timers::Id ManualTimers::After(Clock::duration delay, std::function<void()> action)
{
    pending_[++last_] = { now_ + delay, std::move(action) };
    return last_;
}

void ManualTimers::Cancel(Id id)
{
    pending_.erase(id);
}

void ManualTimers::Advance(Clock::duration by)
{
    now_ += by;
    for (bool again = true; again;) {
        again = false;
        for (auto at = pending_.begin(); at != pending_.end(); ++at)
            if (at->second.first <= now_) {
                const auto action = std::move(at->second.second);

                pending_.erase(at);
                action();
                again = true;
                break;
            }
    }
}

Machine::Machine()
{
    const int fd = memfd_create("guest", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, static_cast<off_t>(kSize)) != 0 || !memory_.Map(kBase, kSize, fd, 0, true))
        std::abort();
    close(fd);
    card = std::make_unique<Card>(*this, timers, *this, CardOptions{});
    card->SetBusMaster(true);
}

Machine::~Machine() = default;

std::uint64_t Machine::Pages(std::uint64_t count)
{
    if (next_ + count * kPage > kBase + kSize)
        next_ = kBase;

    const std::uint64_t address = next_;

    next_ += count * kPage;
    std::ranges::fill(At(address, count * kPage), std::byte{ 0 });
    return address;
}

std::span<std::byte> Machine::At(std::uint64_t address, std::size_t size)
{
    std::byte *host = memory_.At(address, size);

    if (host == nullptr)
        std::abort();
    return { host, size };
}

std::uint32_t Machine::Read(std::uint64_t offset)
{
    return __builtin_bswap32(static_cast<std::uint32_t>(card->ReadRegister(offset, 4)));
}

void Machine::Write(std::uint64_t offset, std::uint32_t value)
{
    card->WriteRegister(offset, 4, __builtin_bswap32(value));
}

void Machine::Write64(std::uint64_t offset, std::uint32_t first, std::uint32_t second)
{
    card->WriteRegister(offset, 8, __builtin_bswap32(first) | std::uint64_t{ __builtin_bswap32(second) } << 32);
}

Bytes MakeInput(std::size_t size, std::uint16_t opcode, std::uint16_t op_mod, std::size_t extra)
{
    Bytes in(size + extra);

    CX_SET(All(in), nop_in, opcode, opcode);
    CX_SET(All(in), nop_in, op_mod, op_mod);
    return in;
}

Driver::Driver(Machine &owner) : machine(owner), queue_(owner.Pages(1))
{
    machine.Write(CX_AT(initial_seg, cmdq_phy_addr_63_32), static_cast<std::uint32_t>(queue_ >> 32));
    machine.Write(CX_AT(initial_seg, cmdq_phy_addr_31_12), static_cast<std::uint32_t>(queue_));
}

void Driver::MakeBoxes(std::size_t size, std::span<const std::byte> data, std::vector<std::uint64_t> &addresses)
{
    const std::size_t first = addresses.size();

    for (std::size_t done = kInline; done < size; done += kBoxData) {
        const std::uint64_t address = machine.Pages(1);
        const auto box = machine.At(address, CX_SIZE(cmd_if_box));

        if (done < data.size())
            std::ranges::copy(data.subspan(done, std::min(kBoxData, data.size() - done)), box.begin());
        CX_SET(box, cmd_if_box, token, kToken);
        CX_SET(box, cmd_if_box, block_number, addresses.size() - first);
        if (addresses.size() > first)
            SetField(machine.At(addresses.back(), CX_SIZE(cmd_if_box)),
                     { CX_AT(cmd_if_box, next_pointer_63_32) * 8, 64 }, address);
        addresses.push_back(address);
    }
}

Reply Driver::Run(std::span<const std::byte> in, std::size_t out_size, const Spoil &spoil)
{
    const unsigned at = slot;
    const auto entry = machine.At(queue_ + at * 64U, 64);
    std::vector<std::uint64_t> boxes;
    Reply reply;

    slot = (slot + 1) % 32;
    std::ranges::fill(entry, std::byte{ 0 });
    MakeBoxes(in.size(), in, boxes);

    const std::size_t inputs = boxes.size();

    MakeBoxes(out_size, {}, boxes);
    CX_SET(entry, cmd_queue_entry, type, 7);
    CX_SET(entry, cmd_queue_entry, input_length, in.size());
    CX_SET(entry, cmd_queue_entry, output_length, out_size);
    CX_SET(entry, cmd_queue_entry, token, kToken);
    CX_SET(entry, cmd_queue_entry, ownership, 1);
    std::ranges::copy(in.first(std::min(in.size(), kInline)),
                      entry.subspan(CX_AT(cmd_queue_entry, command_input_inline_data)).begin());
    if (inputs != 0)
        SetField(entry, { CX_AT(cmd_queue_entry, input_mailbox_pointer_63_32) * 8, 64 }, boxes.front());
    if (boxes.size() > inputs)
        SetField(entry, { CX_AT(cmd_queue_entry, output_mailbox_pointer_63_32) * 8, 64 }, boxes[inputs]);
    if (spoil)
        spoil(entry, boxes);
    machine.Write(CX_AT(initial_seg, command_doorbell_vector), 1U << at);

    reply.completed = CX_GET(entry, cmd_queue_entry, ownership) == 0;
    reply.delivery = static_cast<unsigned>(CX_GET(entry, cmd_queue_entry, status));
    reply.out.resize(out_size);

    const auto inline_out = entry.subspan(CX_AT(cmd_queue_entry, command_output_inline_data), kInline);

    std::copy_n(inline_out.begin(), std::min(out_size, kInline), reply.out.begin());
    for (std::size_t box = inputs; box < boxes.size(); box++) {
        const std::size_t from = kInline + (box - inputs) * kBoxData;

        std::copy_n(machine.At(boxes[box], kBoxData).begin(), std::min(kBoxData, out_size - from),
                    reply.out.begin() + static_cast<std::ptrdiff_t>(from));
    }
    reply.status = static_cast<Status>(CX_GET(All(reply.out), nop_out, status));
    reply.syndrome = static_cast<std::uint32_t>(CX_GET(All(reply.out), nop_out, syndrome));
    return reply;
}

std::uint32_t Driver::Create(std::span<const std::byte> in)
{
    const Reply reply = Run(in);

    /* the number is in dword 2 of every output */
    return reply.Ok() ? static_cast<std::uint32_t>(GetField(reply.out, CX_FIELD(create_cq_out, cqn))) : 0;
}

Reply Driver::RunOn(std::uint16_t opcode, std::uint32_t number, std::size_t out_size)
{
    Bytes in = MakeInput(CX_SIZE(destroy_cq_in), opcode);

    SetField(in, { CX_AT(dealloc_flow_counter_in, flow_counter_id) * 8, 32 }, number);
    return Run(in, out_size);
}

bool Driver::GivePages(std::uint16_t op_mod)
{
    Reply wanted = Run(CX_INPUT(QUERY_PAGES, query_pages, op_mod));
    const auto count = CX_GET(All(wanted.out), query_pages_out, num_pages);
    Bytes give = CX_INPUT(MANAGE_PAGES, manage_pages, 1, count * 8);
    const std::uint64_t pages = machine.Pages(count);

    if (!wanted.Ok())
        return false;
    CX_SET(All(give), manage_pages_in, input_num_entries, count);
    for (std::uint64_t page = 0; page < count; page++)
        SetField(give, { (CX_AT(manage_pages_in, pas) + page * 8) * 8, 64 }, pages + page * kPage);
    return Run(give).Ok();
}

bool Driver::Enable()
{
    Bytes issi = CX_INPUT(SET_ISSI, set_issi);

    CX_SET(All(issi), set_issi_in, current_issi, 1);
    return Run(CX_INPUT(ENABLE_HCA, enable_hca)).Ok() &&
           Run(CX_INPUT(QUERY_ISSI, query_issi), CX_SIZE(query_issi_out)).Ok() && Run(issi).Ok() && GivePages(1) &&
           GivePages(2);
}

bool Driver::BringUp()
{
    if (!Enable() || !Run(CX_INPUT(INIT_HCA, init_hca)).Ok())
        return false;
    uar = Create(CX_INPUT(ALLOC_UAR, alloc_uar));
    pd = Create(CX_INPUT(ALLOC_PD, alloc_pd));
    domain = Create(CX_INPUT(ALLOC_TRANSPORT_DOMAIN, alloc_transport_domain));
    return uar != 0 && pd != 0 && domain != 0;
}

bool Driver::TearDown()
{
    constexpr std::size_t kAll = kBootPages + kInitPages;
    Bytes take = CX_INPUT(MANAGE_PAGES, manage_pages, 2);

    CX_SET(All(take), manage_pages_in, input_num_entries, kAll);
    if (!Run(CX_INPUT(TEARDOWN_HCA, teardown_hca)).Ok())
        return false;

    Reply taken = Run(take, CX_SIZE(manage_pages_out) + kAll * 8);

    return taken.Ok() && CX_GET(All(taken.out), manage_pages_out, output_num_entries) == kAll &&
           Run(CX_INPUT(DISABLE_HCA, disable_hca)).Ok();
}

void Driver::SetPages(Bytes &in, std::size_t at, std::uint64_t count)
{
    const std::uint64_t pages = machine.Pages(count);

    in.resize(std::max(in.size(), at + count * 8));
    for (std::uint64_t page = 0; page < count; page++)
        SetField(in, { (at + page * 8) * 8, 64 }, pages + page * kPage);
}

Bytes Driver::EqInput(std::uint64_t events, unsigned vector, unsigned log_size)
{
    Bytes in = CX_INPUT(CREATE_EQ, create_eq);

    CX_SET(All(in), create_eq_in, eq_context_entry.log_eq_size, log_size);
    CX_SET(All(in), create_eq_in, eq_context_entry.uar_page, uar);
    CX_SET(All(in), create_eq_in, eq_context_entry.intr, vector);
    CX_SET(All(in), create_eq_in, event_bitmask[0], events);
    SetPages(in, CX_AT(create_eq_in, pas), ((64ULL << log_size) + kPage - 1) / kPage);
    return in;
}

Bytes Driver::CqInput(std::uint32_t eq, unsigned log_size)
{
    Bytes in = CX_INPUT(CREATE_CQ, create_cq);

    CX_SET(All(in), create_cq_in, cq_context.log_cq_size, log_size);
    CX_SET(All(in), create_cq_in, cq_context.uar_page, uar);
    CX_SET(All(in), create_cq_in, cq_context.c_eqn_or_apu_element, eq);
    CX_SET(All(in), create_cq_in, cq_context.dbr_addr, machine.Pages(1));
    SetPages(in, CX_AT(create_cq_in, pas), ((64ULL << log_size) + kPage - 1) / kPage);
    return in;
}

Bytes Driver::RqInput(std::uint32_t cq, unsigned log_size)
{
    Bytes in = CX_INPUT(CREATE_RQ, create_rq);

    CX_SET(All(in), create_rq_in, ctx.cqn, cq);
    CX_SET(All(in), create_rq_in, ctx.vsd, 1);
    CX_SET(All(in), create_rq_in, ctx.wq.wq_type, 1);
    CX_SET(All(in), create_rq_in, ctx.wq.pd, pd);
    CX_SET(All(in), create_rq_in, ctx.wq.dbr_addr, machine.Pages(1));
    CX_SET(All(in), create_rq_in, ctx.wq.log_wq_stride, 4);
    CX_SET(All(in), create_rq_in, ctx.wq.log_wq_sz, log_size);
    SetPages(in, CX_AT(create_rq_in, ctx.wq.pas), ((16ULL << log_size) + kPage - 1) / kPage);
    return in;
}

Bytes Driver::SqInput(std::uint32_t cq, std::uint32_t tis, unsigned log_size)
{
    Bytes in = CX_INPUT(CREATE_SQ, create_sq);

    CX_SET(All(in), create_sq_in, ctx.cqn, cq);
    CX_SET(All(in), create_sq_in, ctx.tis_lst_sz, 1);
    CX_SET(All(in), create_sq_in, ctx.tis_num_0, tis);
    CX_SET(All(in), create_sq_in, ctx.wq.wq_type, 1);
    CX_SET(All(in), create_sq_in, ctx.wq.pd, pd);
    CX_SET(All(in), create_sq_in, ctx.wq.uar_page, uar);
    CX_SET(All(in), create_sq_in, ctx.wq.dbr_addr, machine.Pages(1));
    CX_SET(All(in), create_sq_in, ctx.wq.log_wq_stride, 6);
    CX_SET(All(in), create_sq_in, ctx.wq.log_wq_sz, log_size);
    SetPages(in, CX_AT(create_sq_in, ctx.wq.pas), ((64ULL << log_size) + kPage - 1) / kPage);
    return in;
}

Bytes Driver::MkeyInput()
{
    Bytes in = CX_INPUT(CREATE_MKEY, create_mkey);

    CX_SET(All(in), create_mkey_in, memory_key_mkey_entry.lw, 1);
    CX_SET(All(in), create_mkey_in, memory_key_mkey_entry.lr, 1);
    CX_SET(All(in), create_mkey_in, memory_key_mkey_entry.length64, 1);
    CX_SET(All(in), create_mkey_in, memory_key_mkey_entry.qpn, 0xffffff);
    CX_SET(All(in), create_mkey_in, memory_key_mkey_entry.pd, pd);
    return in;
}

Bytes Driver::RqtInput(std::vector<std::uint32_t> rqs, unsigned max_size)
{
    Bytes in = CX_INPUT(CREATE_RQT, create_rqt, 0, rqs.size() * 4);

    CX_SET(All(in), create_rqt_in, rqt_context.rqt_max_size, max_size);
    CX_SET(All(in), create_rqt_in, rqt_context.rqt_actual_size, rqs.size());
    for (std::size_t index = 0; index < rqs.size(); index++)
        SetField(in, { (CX_AT(create_rqt_in, rqt_context.rq_num) + index * 4) * 8, 32 }, rqs[index]);
    return in;
}

Bytes Driver::DirectTirInput(std::uint32_t rq)
{
    Bytes in = CX_INPUT(CREATE_TIR, create_tir);

    CX_SET(All(in), create_tir_in, ctx.inline_rqn, rq);
    CX_SET(All(in), create_tir_in, ctx.transport_domain, domain);
    return in;
}

Bytes Driver::IndirectTirInput(std::uint32_t rqt)
{
    Bytes in = CX_INPUT(CREATE_TIR, create_tir);

    CX_SET(All(in), create_tir_in, ctx.disp_type, 1);
    CX_SET(All(in), create_tir_in, ctx.indirect_table, rqt);
    CX_SET(All(in), create_tir_in, ctx.transport_domain, domain);
    CX_SET(All(in), create_tir_in, ctx.rx_hash_fn, 2);
    CX_SET(All(in), create_tir_in, ctx.rx_hash_field_selector_outer.l4_prot_type, 1);
    CX_SET(All(in), create_tir_in, ctx.rx_hash_field_selector_outer.selected_fields, 0xf);
    return in;
}

Bytes Driver::TableInput(unsigned level, unsigned log_size)
{
    Bytes in = CX_INPUT(CREATE_FLOW_TABLE, create_flow_table);

    CX_SET(All(in), create_flow_table_in, flow_table_context.level, level);
    CX_SET(All(in), create_flow_table_in, flow_table_context.log_size, log_size);
    return in;
}

Bytes Driver::GroupInput(std::uint32_t table, std::uint32_t start, std::uint32_t end)
{
    Bytes in = CX_INPUT(CREATE_FLOW_GROUP, create_flow_group);

    CX_SET(All(in), create_flow_group_in, table_id, table);
    CX_SET(All(in), create_flow_group_in, start_flow_index, start);
    CX_SET(All(in), create_flow_group_in, end_flow_index, end);
    CX_SET(All(in), create_flow_group_in, match_criteria_enable, 1);
    CX_SET(All(in), create_flow_group_in, match_criteria.outer_headers.udp_dport, 0xffff);
    return in;
}

Bytes Driver::FlowInput(std::uint32_t table, std::uint32_t group, std::uint32_t index, std::uint32_t tir,
                        std::uint16_t port)
{
    Bytes in = CX_INPUT(SET_FLOW_TABLE_ENTRY, set_fte, 0, CX_SIZE(dest_format_struct));
    const auto to = All(in).subspan(CX_SIZE(set_fte_in));

    CX_SET(All(in), set_fte_in, table_id, table);
    CX_SET(All(in), set_fte_in, flow_index, index);
    CX_SET(All(in), set_fte_in, flow_context.group_id, group);
    CX_SET(All(in), set_fte_in, flow_context.action, ifc::MLX5_FLOW_CONTEXT_ACTION_FWD_DEST);
    CX_SET(All(in), set_fte_in, flow_context.destination_list_size, 1);
    CX_SET(All(in), set_fte_in, flow_context.match_value.outer_headers.udp_dport, port);
    CX_SET(to, dest_format_struct, destination_type, ifc::MLX5_IFC_FLOW_DESTINATION_TYPE_TIR);
    CX_SET(to, dest_format_struct, destination_id, tir);
    return in;
}

Bytes Driver::RqState(std::uint32_t rq, unsigned from, unsigned to)
{
    Bytes in = CX_INPUT(MODIFY_RQ, modify_rq);

    CX_SET(All(in), modify_rq_in, rqn, rq);
    CX_SET(All(in), modify_rq_in, rq_state, from);
    CX_SET(All(in), modify_rq_in, ctx.state, to);
    return in;
}

Bytes Driver::SqState(std::uint32_t sq, unsigned from, unsigned to)
{
    Bytes in = CX_INPUT(MODIFY_SQ, modify_sq);

    CX_SET(All(in), modify_sq_in, sqn, sq);
    CX_SET(All(in), modify_sq_in, sq_state, from);
    CX_SET(All(in), modify_sq_in, ctx.state, to);
    return in;
}

Reply Driver::DestroyTable(std::uint32_t table)
{
    Bytes in = CX_INPUT(DESTROY_FLOW_TABLE, destroy_flow_table);

    CX_SET(All(in), destroy_flow_table_in, table_id, table);
    return Run(in);
}

Reply Driver::DestroyGroup(std::uint32_t table, std::uint32_t group)
{
    Bytes in = CX_INPUT(DESTROY_FLOW_GROUP, destroy_flow_group);

    CX_SET(All(in), destroy_flow_group_in, table_id, table);
    CX_SET(All(in), destroy_flow_group_in, group_id, group);
    return Run(in);
}

Reply Driver::DeleteFlow(std::uint32_t table, std::uint32_t index)
{
    Bytes in = CX_INPUT(DELETE_FLOW_TABLE_ENTRY, delete_fte);

    CX_SET(All(in), delete_fte_in, table_id, table);
    CX_SET(All(in), delete_fte_in, flow_index, index);
    return Run(in);
}

} // namespace cx::driver
