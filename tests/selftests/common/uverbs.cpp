// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "common/uverbs.hpp"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstring>

namespace rocev2::test {

namespace {

// One RDMA_VERBS_IOCTL.
class Command {
public:
    Command(uint16_t object, uint16_t method)
    {
        header()->object_id = object;
        header()->method_id = method;
        header()->length = sizeof(ib_uverbs_ioctl_hdr);
        // the id that our ring layout is bound to
        header()->driver_id = RDMA_DRIVER_RXE;
    }

    // A handle or a number.
    void number(uint16_t id, uint64_t value, uint16_t length = 0) { add(id, length, value); }
    void in(uint16_t id, const void *data, size_t length)
    {
        uint64_t value = reinterpret_cast<uint64_t>(data);
        // short data lies in the attribute itself
        if (length <= sizeof(value)) {
            value = 0;
            std::memcpy(&value, data, length);
        }
        add(id, static_cast<uint16_t>(length), value);
    }
    void out(uint16_t id, void *data, size_t length)
    {
        add(id, static_cast<uint16_t>(length), reinterpret_cast<uint64_t>(data));
    }
    int run(const ibv_context *context)
    {
        return ioctl(context->cmd_fd, RDMA_VERBS_IOCTL, header()) ? errno : 0;
    }
    // of an object that the command has made
    uint32_t handle(unsigned index) const
    {
        return static_cast<uint32_t>(header()->attrs[index].data);
    }

private:
    ib_uverbs_ioctl_hdr *header() { return reinterpret_cast<ib_uverbs_ioctl_hdr *>(room_); }
    const ib_uverbs_ioctl_hdr *header() const
    {
        return reinterpret_cast<const ib_uverbs_ioctl_hdr *>(room_);
    }
    void add(uint16_t id, uint16_t length, uint64_t data)
    {
        ib_uverbs_attr &attr = header()->attrs[header()->num_attrs++];
        attr = {};
        attr.attr_id = id;
        attr.len = length;
        attr.flags = UVERBS_ATTR_F_MANDATORY;
        attr.data = data;
        header()->length = static_cast<uint16_t>(header()->length + sizeof(attr));
    }

    alignas(8) std::byte room_[sizeof(ib_uverbs_ioctl_hdr) + 12 * sizeof(ib_uverbs_attr)]{};
};

} // namespace

int rereg_mr(ibv_mr *mr, unsigned flags, const Rereg &want)
{
    ib_uverbs_rereg_mr request{};
    ib_uverbs_rereg_mr_resp response{};

    request.mr_handle = mr->handle;
    request.flags = flags;
    request.start = reinterpret_cast<uint64_t>(want.memory.data());
    request.hca_va = request.start;
    request.length = want.memory.size();
    request.pd_handle = want.pd ? want.pd->handle : 0;
    request.access_flags = want.access;

    Command command(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
    command.number(UVERBS_ATTR_WRITE_CMD, IB_USER_VERBS_CMD_REREG_MR, sizeof(uint64_t));
    command.in(UVERBS_ATTR_CORE_IN, &request, sizeof(request));
    command.out(UVERBS_ATTR_CORE_OUT, &response, sizeof(response));
    const int error = command.run(mr->context);
    if (error)
        return error;
    mr->lkey = response.lkey;
    mr->rkey = response.rkey;
    if (flags & IBV_REREG_MR_CHANGE_PD)
        mr->pd = want.pd;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        mr->addr = want.memory.data();
        mr->length = want.memory.size();
    }
    return 0;
}

int advise_mr(ibv_pd *pd, unsigned advice, unsigned flags, std::span<const ibv_sge> sges)
{
    Command command(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);

    command.number(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd->handle);
    command.number(UVERBS_ATTR_ADVISE_MR_ADVICE, advice, sizeof(uint64_t));
    command.number(UVERBS_ATTR_ADVISE_MR_FLAGS, flags, sizeof(uint32_t));
    command.in(UVERBS_ATTR_ADVISE_MR_SGE_LIST, sges.data(), sges.size_bytes());
    return command.run(pd->context);
}

int reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int fd,
                  unsigned access, DmabufMr &mr)
{
    Command command(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR);

    command.number(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0);
    command.number(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, pd->handle);
    command.in(UVERBS_ATTR_REG_DMABUF_MR_OFFSET, &offset, sizeof(offset));
    command.in(UVERBS_ATTR_REG_DMABUF_MR_LENGTH, &length, sizeof(length));
    command.in(UVERBS_ATTR_REG_DMABUF_MR_IOVA, &iova, sizeof(iova));
    command.in(UVERBS_ATTR_REG_DMABUF_MR_FD, &fd, sizeof(fd));
    command.number(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, access, sizeof(uint32_t));
    command.out(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr.lkey, sizeof(mr.lkey));
    command.out(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr.rkey, sizeof(mr.rkey));
    const int error = command.run(pd->context);
    if (!error)
        mr.handle = command.handle(0);
    return error;
}

int dereg_dmabuf_mr(ibv_context *context, const DmabufMr &mr)
{
    Command command(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);

    command.number(UVERBS_ATTR_DESTROY_MR_HANDLE, mr.handle);
    return command.run(context);
}

} // namespace rocev2::test
