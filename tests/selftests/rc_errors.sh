#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Every error an RC application can see, between two namespaces.
# Arguments go to the program (see --help).

. "$(dirname "$0")/lib.sh"

need tc ethtool
setup
"$(dirname "$0")/rc_errors" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "$@"
