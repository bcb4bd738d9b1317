// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What people read of a measurement of tests/selftests/moderation_bench: tables, a plot, the verdict on DIM.
 * All of it is of that JSON alone.
 */
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace rig {

/* Markdown: how it was made, and one table a load. */
std::string ModerationTables(const nlohmann::ordered_json &measured);

/* A plot, as SVG. */
std::string ModerationPlot(const nlohmann::ordered_json &measured);

/* Whether DIM does what is asked of it; a line each. */
std::vector<std::string> ModerationVerdict(const nlohmann::ordered_json &measured);

} // namespace rig
