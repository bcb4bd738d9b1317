// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Ends of UD and UC traffic.
#pragma once

#include "common/verbs.hpp"

#include <cstdint>

namespace rocev2::test {

inline constexpr uint32_t grh_bytes = 40;
inline constexpr uint32_t qkey = 0x11223344;

Endpoint make_unreliable_endpoint(const Side &side, ibv_qp_type type);

void ud_to_rts(const Endpoint &end, uint32_t key = qkey);
Endpoint make_ud(const Side &side, uint32_t key = qkey);
Ah make_ah(const Side &from, const ibv_gid &to, ibv_pd *pd = nullptr);

void uc_connect(const Endpoint &a, const Endpoint &b, const Link &link);

} // namespace rocev2::test
