#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Completion moderation of user CQs, between two namespaces.
# Arguments go to the program (see --help).

. "$(dirname "$0")/lib.sh"

setup
"$(dirname "$0")/cq_moderation" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "$@"
