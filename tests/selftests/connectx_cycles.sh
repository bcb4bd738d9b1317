#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The native attach bound and unbound 50 times, loaded and unloaded 20 times, its function's driver unbound and loaded
# again, each time under RC traffic both ways. The traffic's end is a clean error, the next one works, no page and no
# memory is left behind.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"

steady="$(dirname "$0")/steady"
setup_attached

unbound() {
	start_traffic && unbind "$CARD_B" &&
		ends_cleanly '^A: .*transport retry counter exceeded' '^B: .*device gone' && bind "$CARD_B" && add_link_b
}

unloaded() {
	start_traffic && rmmod rocev2_mlx5 && ends_cleanly '^A: .*device gone' '^B: .*device gone' && load_attach &&
		add_link_a && add_link_b
}

# of one end, as setup does; its netdev is in the initial namespace again
end_again() {
	ip link set "$2" mtu "$MTU" netns "$1" && make_end "$@"
}

function_unbound() {
	local pci netdev driver=/sys/bus/pci/drivers/mlx5_core

	pci=$(basename "$(on_b readlink -f "/sys/class/net/$IF_B/device")")
	start_traffic && echo "$pci" >$driver/unbind &&
		ends_cleanly '^A: .*transport retry counter exceeded' '^B: .*device gone' || return
	echo "$pci" >$driver/bind && patiently 60 test -d "/sys/bus/pci/devices/$pci/net" || return
	netdev=$(ls "/sys/bus/pci/devices/$pci/net")
	{ [ "$netdev" = "$IF_B" ] || ip link set "$netdev" name "$IF_B"; } &&
		end_again "$NS_B" "$IF_B" $IP4_B $IP6_B && add_link_b && CARD_B=$(attached "$IF_B")
}

driver_unloaded() {
	start_traffic && rmmod rocev2_mlx5 && rmmod mlx5_core &&
		ends_cleanly '^A: .*device gone' '^B: .*device gone' || return
	load_cards 2 && load_attach && end_again "$NS_A" "$IF_A" $IP4_A $IP6_A && end_again "$NS_B" "$IF_B" $IP4_B $IP6_B &&
		add_link_a && add_link_b && CARD_A=$(attached "$IF_A") CARD_B=$(attached "$IF_B")
}

# repeat N COMMAND
repeat() {
	local round

	for round in $(seq "$1"); do
		"$2" >"$scratch/round" 2>&1 || { echo "round $round:"; cat "$scratch/round"; return 1; }
	done
}

half() { repeat 25 unbound; }
other_half() { repeat 10 unloaded; }

watch_pools
plan 7
check "traffic both ways, every byte verified" traffic_works
check "unbound and bound 50 times, without memory growing" without_growth 2048 half
check "unloaded and loaded 20 times, without memory growing" without_growth 2048 other_half
check "the function unbound from its driver and bound 3 times" repeat 3 function_unbound
check "its driver unloaded and loaded 3 times" repeat 3 driver_unloaded
check "no receive buffer is left behind" patiently 10 pools_are_closed
check "traffic still works" traffic_works
finish
