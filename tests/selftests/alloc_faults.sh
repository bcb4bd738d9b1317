#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Memory that the kernel does not get: each allocation of each verb fails in turn, and some
# allocations fail under traffic. Needs CONFIG_FAULT_INJECTION (tests/rig/uml/kasan.config).
# Arguments go to the program (see --help).

. "$(dirname "$0")/lib.sh"

setup
"$(dirname "$0")/alloc_faults" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
	--link-type "$LINK_TYPE" "$@"
