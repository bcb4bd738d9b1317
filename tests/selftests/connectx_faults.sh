#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The faults of the card that the model can be asked for (connectx-model.1), but for lost interrupts, under RC traffic
# both ways. Traffic goes on, or ends with a clean error; no byte is wrong, the reason is counted or in the kernel's
# log, and the link works again afterwards.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"

need dmesg
steady="$(dirname "$0")/steady"
setup_attached
pci_a=$(basename "$(on_a readlink -f "/sys/class/net/$IF_A/device")")
# the number of a card is the last byte of its address
number_a=$((16#$(on_a cat "/sys/class/net/$IF_A/address" | cut -d: -f6)))
number=$((16#$(on_b cat "/sys/class/net/$IF_B/address" | cut -d: -f6)))

inject() { card "$number" fault "$@"; }

# The receive queue of B that has had most packets, which is ours, or its completion queue: rq, cq
busiest() {
	card "$number" status | grep -o '"rqs":\[[^]]*\]' | grep -o '{[^}]*}' |
		sed 's/.*"cq":\([0-9]*\),.*"number":\([0-9]*\),.*"packets":\([0-9]*\),.*/\3 \2 \1/' | sort -rn |
		awk -v which="$1" 'NR == 1 { print which == "rq" ? $2 : $3 }'
}

# An ACK time-out of a second: what is mended within eight of them costs time alone.
patient="--timeout 18"

# made_anew COLUMN FAULT...: our queues are, for that reason, and traffic goes on
made_anew() {
	local column=$1 before reason

	shift
	start_traffic $patient || return
	before=$(rebuilds "$CARD_B") reason=$(rxqs "$CARD_B" "$column" | sum)
	inject "$@" || return
	patiently 20 rebuilt_since "$before" || { echo "no rebuild since $before"; return 1; }
	reason=$(($(rxqs "$CARD_B" "$column" | sum) - reason))
	echo "$column: $reason more"
	[ $reason -gt 0 ] && flows && stop_traffic
}
rebuilt_since() { [ "$(rebuilds "$CARD_B")" -gt "$1" ]; }

rq_error() { made_anew drop_error rq-error "$(busiest rq)"; }
cq_error() { made_anew cq_errors cq-error "$(busiest cq)"; }

link_is_down() { rdma link show "$1/1" | grep -q 'state DOWN'; }

link_flap() {
	start_traffic $patient || return
	inject link-down && eventually link_is_down "$DEV_B" || return
	sleep 1
	inject link-up && eventually link_is_active "$DEV_B" && flows && stop_traffic
}

# breaks END COMMAND...: traffic ends by it with a clean error, which that end has counted
breaks() {
	local end=$1 dev=DEV_$1 before

	shift
	start_traffic $patience || return
	before=$(counter "${!dev}" req_retries_exceeded)
	"$@" && ends_cleanly "^$end: .*transport retry counter exceeded" &&
		[ "$(counter "${!dev}" req_retries_exceeded)" -gt "$before" ]
}

link_down_for_long() {
	breaks A inject link-down && inject link-up && eventually link_is_active "$DEV_B" && traffic_works
}

said() { dmesg | grep -i "mlx5_core.*$1"; }

# mlx5_core waits a minute for each command, in a sleep that the kernel takes for a hang after 20 s.
# It has that command back some time later: it can recover no card, nor let go of it, that still owes it one.
command_timeout() {
	local patience found

	patience=$(cat /proc/sys/kernel/hung_task_timeout_secs)
	echo 0 >/proc/sys/kernel/hung_task_timeout_secs
	moderate "$CARD_B" fixed 16 16 && start_traffic $patient && dmesg -C || return
	inject command-timeout || return
	# ours, unless the driver has had one of its own to give
	moderate "$CARD_B" fixed 8 8
	patiently 90 said 'timeout'
	found=$?
	echo "$patience" >/proc/sys/kernel/hung_task_timeout_secs
	[ $found = 0 ] && flows && moderate "$CARD_B" dim && patiently 60 said 'after timeout' && flows && stop_traffic
}

# B has its netdev back, as the kernel names it and in the initial namespace: make it end B again.
b_again() {
	patiently 120 has_netdevs 1 || return
	ip link set "$(card_netdevs)" name "$IF_B" mtu "$MTU" netns "$NS_B" &&
		make_end "$NS_B" "$IF_B" $IP4_B $IP6_B && add_link_b && CARD_B=$(attached "$IF_B")
}

# The driver finds the card ill, takes it down and brings it up again.
health() {
	dmesg -C
	breaks A inject health && patiently 120 said "recovery succeeded" && b_again && traffic_works
}

a_is_gone() {
	! test -e "/sys/bus/pci/devices/$pci_a" && ! on_a test -e "/sys/class/net/$IF_A" &&
		! test -e "/sys/kernel/debug/rocev2_mlx5/$CARD_A" && ! rdma link show "$DEV_A/1" 2>/dev/null
}

# Of end A, which is in slot 0: User Mode Linux can empty no other. The driver finds out by itself, in seconds.
removal() {
	patience=$patient breaks B card "$number_a" remove && grep "^A: .*device gone" "$scratch/steady.log" &&
		patiently 60 a_is_gone && rdma link show "$DEV_B/1"
}

# With the card that is left.
loaded_again() {
	rmmod rocev2_mlx5 && rmmod mlx5_core && load_cards 1 && load_attach || return
	ip link set "$netdevs" up && eventually link_on "" "$netdevs"
}

plan 9
check "traffic both ways, every byte verified" traffic_works
check "receive queue in error: made anew, traffic goes on" rq_error
check "completion queue in error: made anew, traffic goes on" cq_error
check "link down for a second: traffic goes on" link_flap
check "link down for longer: a clean error, then traffic again" link_down_for_long
check "a command times out: traffic goes on" command_timeout
check "the card's health: a clean error, recovery, then traffic again" health
check "surprise removal: a clean error, and nothing of it is left" removal
check "the modules unloaded, and loaded with the card that is left" loaded_again
finish
