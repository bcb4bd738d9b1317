#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Garbage in the mapped rings; nothing else may suffer.
# Arguments go to the program (see --help).

. "$(dirname "$0")/lib.sh"

setup
"$(dirname "$0")/rings_garbage" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "$@"
