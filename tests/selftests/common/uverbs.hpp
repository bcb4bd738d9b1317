// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Commands of the kernel that the library has no way to for our ring layout: straight
// to the file of the context.
#pragma once

#include "common/verbs.hpp"

#include <cstdint>
#include <span>

namespace rocev2::test {

struct Rereg {
    ibv_pd *pd = nullptr;               // IBV_REREG_MR_CHANGE_PD
    std::span<std::byte> memory;        // IBV_REREG_MR_CHANGE_TRANSLATION
    unsigned access = 0;                // IBV_REREG_MR_CHANGE_ACCESS
};

// Returns 0 or the errno. After a success the fields of the region, its keys too, are the new ones.
int rereg_mr(ibv_mr *mr, unsigned flags, const Rereg &want);

// advice and flags: enum ib_uverbs_advise_mr_advice, IB_UVERBS_ADVISE_MR_FLAG_FLUSH. Returns 0 or the errno.
int advise_mr(ibv_pd *pd, unsigned advice, unsigned flags, std::span<const ibv_sge> sges);

struct DmabufMr {
    uint32_t handle = 0;
    uint32_t lkey = 0;
    uint32_t rkey = 0;
};

// Both return 0 or the errno.
int reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, uint64_t length, uint64_t iova, int fd,
                  unsigned access, DmabufMr &mr);
int dereg_dmabuf_mr(ibv_context *context, const DmabufMr &mr);

} // namespace rocev2::test
