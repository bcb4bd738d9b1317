#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What the device says of itself is true, and follows its netdev.
# Arguments go to the program (see --help).

. "$(dirname "$0")/lib.sh"

setup
"$(dirname "$0")/dev_attrs" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "$@"
