#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Messages of the limit, 2 GiB, every byte verified.  Needs 9 GB of memory.

. "$(dirname "$0")/lib.sh"

setup
"$(dirname "$0")/rc_data" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
	--huge --filter message_limit --case-limit 400 "$@"
