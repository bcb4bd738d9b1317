// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* KTAP. */
#include "ktap.h"

#include <fmt/format.h>

#include <regex>

namespace rig {

namespace {

const std::regex kResult(R"(^( *)(not )?ok (\d+)(.*)$)");
const std::regex kPlan(R"(^( *)1\.\.(\d+)\s*(#.*)?$)");
const std::regex kSkip(R"(# *SKIP)", std::regex::icase);
const std::regex kKtap(R"(^ *(((not )?ok \d+)|(1\.\.\d+)|#|KTAP version|TAP version))");

} // namespace

std::string KtapCount::Flaw() const
{
    if (failed > 0)
        return fmt::format("{} failed", failed);
    if (planned >= 0 && seen != planned)
        return fmt::format("{} results of {} planned", seen, planned);
    return {};
}

KtapCount CountKtap(const std::vector<std::string> &lines)
{
    KtapCount count;
    /* Leaves seen at a deeper indentation since the last result of each level. */
    std::vector<std::pair<std::size_t, int>> nested;

    for (const std::string &line : lines) {
        std::smatch match;

        if (std::regex_match(line, match, kPlan)) {
            if (match[1].length() == 0)
                count.planned = std::stoi(match[2]);
            continue;
        }
        if (!std::regex_match(line, match, kResult))
            continue;
        const auto indent = static_cast<std::size_t>(match[1].length());
        int below = 0;
        while (!nested.empty() && nested.back().first > indent) {
            below += nested.back().second;
            nested.pop_back();
        }
        if (indent == 0)
            count.seen++;
        if (nested.empty() || nested.back().first < indent)
            nested.emplace_back(indent, 0);
        nested.back().second++;
        if (below > 0 && !match[2].matched)
            continue;
        if (match[2].matched) {
            count.failed++;
            count.failures.push_back(match[4].length() > 1 ? match[4].str().substr(1) : "test " + match[3].str());
        } else if (std::regex_search(line, kSkip))
            count.skipped++;
        else
            count.passed++;
    }
    return count;
}

std::string NestLine(const std::string &line)
{
    if (std::regex_search(line, kKtap))
        return "  " + line;
    return "  # " + line;
}

} // namespace rig
