// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* KTAP: reading a test's, counting it, printing our own around it. */
#pragma once

#include <string>
#include <vector>

namespace rig {

struct KtapCount {
    int passed = 0;
    int failed = 0;
    int skipped = 0;
    int planned = -1;		/* of the top level; -1: no plan */
    int seen = 0;		/* results on the top level */
    std::vector<std::string> failures;	/* what the failed leaves are called */

    /* What makes this output a failure though the program said success; or empty. */
    std::string Flaw() const;
    bool Empty() const { return seen == 0 && planned < 0; }
};

/* Counts the leaves: a result that sums up nested results is not counted beside them. */
KtapCount CountKtap(const std::vector<std::string> &lines);

/* As output nested in another KTAP document: indented by two; what is not KTAP becomes a comment. */
std::string NestLine(const std::string &line);

} // namespace rig
