// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Builds tools/connectx-model, out of tree. */
#pragma once

#include "process.h"

namespace rig {

enum class ModelBuild {
    kSanitized,	/* what a guest's driver makes it do wrong is to be seen */
    kPlain,	/* what it costs is to be seen: for measurements. Without its unit tests */
};

/* Its build directory, configured. Needs root. */
fs::path ConfigureModel(const fs::path &checkout, ModelBuild how = ModelBuild::kSanitized);

/* The program. */
fs::path BuildModel(const fs::path &checkout, ModelBuild how = ModelBuild::kSanitized);

} // namespace rig
