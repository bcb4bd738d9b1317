#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The native attach of cards at the second of two NUMA nodes: memory and interrupts there, and a queue that cannot be
# there is told, with the remedy.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"

need dmesg ib_write_bw taskset
setup_attached # a queue for each CPU: of one of them the CPU is far

gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)

at_second_node() {
	[ "$(on_a cat "/sys/class/net/$IF_A/device/numa_node")" = 1 ] &&
		[ "$(on_b cat "/sys/class/net/$IF_B/device/numa_node")" = 1 ]
}

# told TIMES
told() {
	local text="1 of 2 receive queues interrupt CPUs that are not on the card's NUMA node 1; load rocev2_mlx5 with queues=1"

	[ "$(dmesg | grep -c "$text")" = "$1" ]
}

free_kib() { awk '$3 == "MemFree:" { print $4 }' "/sys/devices/system/node/node$1/meminfo"; }

# queues_used: how many have received
queues_used() { rxqs "$CARD_B" packets | grep -cv '^0$'; }
both_queues() { perftest ib_write_bw -s 65536 -n 200 -q 8 -x "$gid" && [ "$(queues_used)" = 2 ]; }

# 8,192 buffers of 8 KiB a card
as_told() {
	local near far

	rmmod rocev2_mlx5 && dmesg -C || return
	far=$(free_kib 0) near=$(free_kib 1)
	# from a CPU that is not the card's: memory is not there by chance
	(taskset -pc 0 $BASHPID && load_attach queues=1 ring_size=8192) && add_link_a && add_link_b || return
	far=$((far - $(free_kib 0))) near=$((near - $(free_kib 1)))
	echo "$near KiB of the card's node, $far KiB of the other"
	[ $near -gt 110000 ] && [ $far -lt 30000 ]
}

# interrupts of completion vectors that CPU N has had
completions() { awk -v cpu="$1" '/mlx5_comp/ { sum += $(cpu + 2) } END { print sum + 0 }' /proc/interrupts; }

near_interrupts() {
	local far near

	far=$(completions 0) near=$(completions 1)
	perftest ib_write_bw -s 65536 -n 200 -x "$gid" || return
	far=$(($(completions 0) - far)) near=$(($(completions 1) - near))
	echo "$near interrupts of the node's CPU, $far of the other; queues: $(rxqs "$CARD_B" interrupts | sum)"
	# the netdev's own queues have both
	[ "$(rxqs "$CARD_B" interrupts | sum)" -gt 10 ] && [ $near -gt $((far * 4)) ]
}

plan 6
check "the cards are at the second node" at_second_node
check "a queue that interrupts the other node's CPU is told, once a card" told 2
check "data goes by both queues" both_queues
check "with as many queues as it says: buffers of the card's node" as_told
check "interrupts of the card's node" near_interrupts
check "nothing is told any more" driver_is_content
finish
