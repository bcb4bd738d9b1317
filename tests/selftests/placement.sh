#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ATOMIC WRITE and FLUSH between two namespaces, and the order in which bytes appear.
# Arguments go to the program (see --help).

. "$(dirname "$0")/lib.sh"

setup
"$(dirname "$0")/placement" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "$@"
