#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# UD and UC between two namespaces: data, drops, errors, multicast; then UC on a link
# that loses packets.
# Arguments go to the program (see --help).

. "$(dirname "$0")/lib.sh"

setup
program() {
	"$(dirname "$0")/unreliable" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "$@"
}

lossy() {
	tc -n "$NS_A" qdisc add dev "$IF_A" root netem loss 3% || return
	program --lossy "$@"
}

plan 2
check "all services" program "$@"
check "packets lost" lossy "$@"
finish
