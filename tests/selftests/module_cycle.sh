#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The module loaded and unloaded 100 times, a link added and deleted 1000 times,
# without the kernel's unreclaimable memory growing.

. "$(dirname "$0")/lib.sh"

case $LINK_TYPE in
rocev2)	module=rocev2 ;;
rxe)	module=rdma_rxe ;;
*)	module=$LINK_TYPE ;;
esac
setup

module_cycles() {
	local i

	for i in $(seq "$1"); do
		rmmod $module && load_module || return 1
	done
}

# With a link on it at every turn, so that unloading has something to take down.
busy_cycles() {
	local i

	for i in $(seq "$1"); do
		ip netns exec "$NS_A" rdma link add "$DEV_A" type "$LINK_TYPE" netdev "$IF_A" || return 1
		rmmod $module && load_module || return 1
	done
}

# not in one batch: the tool knows only the devices there were when it started
link_cycles() {
	local i

	for i in $(seq "$1"); do
		ip netns exec "$NS_A" rdma link add "$DEV_A" type "$LINK_TYPE" netdev "$IF_A" &&
			rdma link del "$DEV_A" || return 1
	done
}

rdma link del "$DEV_A"
rdma link del "$DEV_B"

plan 4
check "rmmod and insmod, 100 times" without_growth 2048 module_cycles 50
check "the same with a link, 20 times" without_growth 2048 busy_cycles 10
check "link add and del, 1000 times" without_growth 2048 link_cycles 500
check "a link still works" add_link "$NS_A" "$DEV_A" "$LINK_TYPE" "$IF_A"
finish
