// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* Builds tools/connectx-model. */
#include "model.h"

#include "build.h"
#include "host.h"
#include "kernels.h"
#include "log.h"

namespace rig {

namespace {

fs::path LogFile(const fs::path &checkout)
{
    return BuildDirectory(checkout) / "log/connectx-model.log";
}

} // namespace

fs::path ConfigureModel(const fs::path &checkout, ModelBuild how)
{
    const bool sanitized = how == ModelBuild::kSanitized;
    const fs::path build = BuildDirectory(checkout) / (sanitized ? "connectx-model" : "connectx-model-plain");
    const char *on = sanitized ? "ON" : "OFF";

    NeedRoot(); /* the header of the kernel source comes by way of a Debian root */
    NeedPackages({"g++", "cmake", "make", "pkg-config", "libcli11-dev", "libfmt-dev", "libgtest-dev", "libpcap-dev",
                  "nlohmann-json3-dev"});
    /*
     * One layout of commands for all guests: it only grows. -U: the source's place in the cache changes with its
     * version.
     */
    RunStep({{"cmake", "-S", checkout / "tools/connectx-model", "-B", build, "-UMLX5_IFC",
              fmt::format("-DKERNEL_HEADERS={}", UmlSource(checkout).string()),
              fmt::format("-DSANITIZE={}", on), fmt::format("-DTESTS={}", on)}},
            "configuring connectx-model", LogFile(checkout));
    return build;
}

fs::path BuildModel(const fs::path &checkout, ModelBuild how)
{
    const fs::path build = ConfigureModel(checkout, how);

    RunStep({{"cmake", "--build", build, "--target", "connectx-model", "-j", std::to_string(Processors())}},
            "building connectx-model", LogFile(checkout));
    return build / "connectx-model";
}

} // namespace rig
