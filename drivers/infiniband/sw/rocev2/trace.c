// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The tracepoints of trace.h, made here once. */
#include "counters.h"

#define CREATE_TRACE_POINTS
#include "trace.h"
