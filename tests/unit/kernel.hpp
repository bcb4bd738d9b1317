// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The module's pure protocol headers for C++ tests.
#pragma once

extern "C" {
#include "aeth.h"
#include "icrc.h"
#include "mr_bounds.h"
#include "mr_cache.h"
#include "mr_key.h"
#include "opcode.h"
#include "psn.h"
#include "qp_state.h"
#include "wire.h"
}
