// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* `make bench-moderation`: measures the modes of moderation of the native attach, and writes it down. */
#pragma once

#include "suite.h"

#include <cstdint>

namespace rig {

struct ModerationBench {
    unsigned rounds = 5;
    double seconds = 2;		/* of each measurement */
    double warm_up = 1;
    unsigned mbit = 2500;	/* of the cable between the cards */
    std::uint64_t seed = 0;	/* 0: a new one */
    fs::path directory;		/* for moderation.json and .svg, and its moderation.md gets the tables */
};

/* The tables and the verdict on DIM go to stdout, too. Returns the exit status: a verdict is no failure. */
int MeasureModeration(RunOptions options, const Kernel &kernel, const ModerationBench &bench);

} // namespace rig
