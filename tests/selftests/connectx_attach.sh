#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The native attach between two modelled cards: data of all kinds arrives through receive queues of our own and none through the
# netdevs'; all modes of moderation; the links' life with netdevs, modules and binding.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"

need ibv_rc_pingpong ib_write_bw rping ss dmesg
setup_attached

gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
gid6=$(gid_indices "$DEV_A" fd71:0000:0000:0000:0000:0000:0000:0001)

# netdev_packets a|b IF: packets that the netdev's own queues have received
netdev_packets() {
	on_"$1" ethtool -S "$2" | awk '$1 == "rx_packets:" { print $2 }'
}

# through_our_queues PACKETS COMMAND...: B receives that many at least through our queues, and all but a few there
through_our_queues() {
	local wanted=$1 ours others status

	shift
	ours=$(rxqs "$CARD_B" packets | sum) others=$(netdev_packets b "$IF_B")
	"$@"
	status=$?
	ours=$(($(rxqs "$CARD_B" packets | sum) - ours)) others=$(($(netdev_packets b "$IF_B") - others))
	echo "our queues received $ours packets, the netdev's $others"
	[ $status = 0 ] && [ "$ours" -ge "$wanted" ] && [ "$others" -le 200 ]
}

nothing_lost() {
	local card column lost

	for card in "$CARD_A" "$CARD_B"; do
		for column in no_buffer drop_not_ours drop_error lost_interrupts; do
			lost=$(rxqs "$card" $column) || return
			[ "$(echo "$lost" | sum)" = 0 ] || { echo "$card: $column"; echo "$lost"; return 1; }
		done
	done
}

# The ring is full of buffers by then: what comes is given out again.
recycles() {
	local buffers pages status

	buffers=$(rxqs "$CARD_B" buffers | sum) pages=$(rxqs "$CARD_B" pages | sum)
	"$@"
	status=$?
	buffers=$(($(rxqs "$CARD_B" buffers | sum) - buffers)) pages=$(($(rxqs "$CARD_B" pages | sum) - pages))
	echo "$pages pages for $buffers buffers"
	[ $status = 0 ] && [ "$buffers" -ge 100000 ] && [ $((pages * 100)) -le "$buffers" ]
}

mode() {
	moderate "$CARD_A" "$@" && moderate "$CARD_B" "$@" &&
		[ "$(cat "/sys/bus/auxiliary/devices/$CARD_B/moderation")" = "$*" ] &&
		perftest ib_write_lat -s 8 -n 200 -x "$gid" && perftest ib_write_bw -s 65536 -n 50 -x "$gid"
}

# interrupts_at_most PERCENT COMMAND...: that many for a hundred packets that B receives
interrupts_at_most() {
	local percent=$1 interrupts packets status

	shift
	interrupts=$(rxqs "$CARD_B" interrupts | sum) packets=$(rxqs "$CARD_B" packets | sum)
	"$@"
	status=$?
	interrupts=$(($(rxqs "$CARD_B" interrupts | sum) - interrupts))
	packets=$(($(rxqs "$CARD_B" packets | sum) - packets))
	echo "$interrupts interrupts for $packets packets"
	[ $status = 0 ] && [ "$packets" -gt 0 ] && [ $((interrupts * 100)) -le $((packets * percent)) ]
}

# Once a packet has come, it polls with nothing to do too.
polls_when_idle() {
	local polls

	polls=$(rxqs "$CARD_B" polls | sum)
	sleep 1
	polls=$(($(rxqs "$CARD_B" polls | sum) - polls))
	echo "$polls polls in a second"
	[ $polls -gt 1000 ]
}

refused() {
	local word

	for word in '' nonsense 'dim 1' 'fixed 16' 'fixed 5000 1' 'fixed 1 70000' 'poll 0' 'poll 101' 'poll -1'; do
		! moderate "$CARD_A" "$word" 2>/dev/null || { echo "'$word' is taken"; return 1; }
	done
	[ "$(cat "/sys/bus/auxiliary/devices/$CARD_A/moderation")" = dim ]
}

rebound() {
	unbind "$CARD_B" && ! link_on "$NS_B" "$IF_B" && bind "$CARD_B" && add_link_b &&
		perftest ib_write_bw -s 65536 -n 50 -x "$gid"
}

larger_mtu() {
	on_a ip link set "$IF_A" mtu 9000 && on_b ip link set "$IF_B" mtu 9000 &&
		eventually grep -qx 'rebuilds 1' "/sys/kernel/debug/rocev2_mlx5/$CARD_B/rxqs" &&
		through_our_queues 1000 perftest ib_write_bw -s 1048576 -n 20 -x "$gid" &&
		on_a ping -q -c 3 -s 8000 -M do $IP4_B
}

plan 19
check "the link is on the card's netdev" test -n "$CARD_A" -a -n "$CARD_B" -a "$CARD_A" != "$CARD_B"
check "ibv_rc_pingpong, IPv4, data checked" through_our_queues 200 between ibv_rc_pingpong -c -g "$gid" -s 10000 -m 4096 -n 200
check "ibv_rc_pingpong, IPv6, events" through_our_queues 200 between ibv_rc_pingpong -c -g "$gid6" -s 10000 -m 1024 -n 200 -e
check "rping" serve cm_listens "$NS_B" rping -s -a $IP4_B -C 50 -V -- "$NS_A" rping -c -a $IP4_B -C 50 -V
check "ib_write_bw" through_our_queues 8000 perftest ib_write_bw -s 65536 -n 500 -x "$gid"
check "ib_read_bw" perftest ib_read_bw -s 65536 -n 200 -x "$gid"
check "ib_write_bw, UC" through_our_queues 1000 perftest ib_write_bw -c UC -s 65536 -n 200 -x "$gid"
check "ib_send_bw, UD" perftest ib_send_bw -c UD -s 1024 -n 1000 -x "$gid"
check "100,000 packets go by our queues, 99 % in buffers that are used again" \
	recycles through_our_queues 100000 perftest ib_write_bw -s 1048576 -n 400 -x "$gid"
check "no packet was dropped, no interrupt lost" nothing_lost
check "moderation: fixed 1000 64" interrupts_at_most 50 mode fixed 1000 64
check "moderation: poll 50" mode poll 50
check "moderation: poll 100" interrupts_at_most 2 mode poll 100
check "moderation: poll 100 polls when idle" polls_when_idle
check "moderation: dim" mode dim
check "moderation: what makes no sense is refused" refused
check "a larger MTU makes larger buffers" larger_mtu
check "unbound and bound again" rebound
check "the driver has nothing to complain of" driver_is_content
finish
