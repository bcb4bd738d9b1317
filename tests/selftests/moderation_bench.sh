#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What `make bench-moderation` measures: the modes of moderation of the native attach, between two modelled cards.
# Not a test. Arguments go to the program (see --help); the results to a file in the exchange directory.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"

setup_attached
"$(dirname "$0")/moderation_bench" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
	--card-a "$CARD_A" --card-b "$CARD_B" --gid-kind ipv4 --output "$exchange/moderation.json" "$@" || exit
driver_is_content
