#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Packets that QPs keep, since others before them are missing or their memory is, keep no page of a receive ring: the
# queues are made anew while both ends wait, and the page pools end at once. Every byte is verified.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"

need tc
steady="$(dirname "$0")/steady"
setup_attached
number=$((16#$(on_b cat "/sys/class/net/$IF_B/address" | cut -d: -f6)))

# lose PERCENT: of the packets of both ends
lose() {
	on_a tc qdisc replace dev "$IF_A" root netem limit 10000 loss "$1%" &&
		on_b tc qdisc replace dev "$IF_B" root netem limit 10000 loss "$1%"
}

lose_nothing() {
	on_a tc qdisc del dev "$IF_A" root && on_b tc qdisc del dev "$IF_B" root
}

rebuilt_since() { [ "$(rebuilds "$CARD_B")" -gt "$1" ]; }

copied() { echo $(($(counter "$DEV_A" rx_copied) + $(counter "$DEV_B" rx_copied))); }

# Some packets get lost; then all do, and both ends stay as they are; then B's queues are made anew.
kept_while_made_anew() {
	local before copies

	copies=$(copied) before=$(rebuilds "$CARD_B")
	lose 5 && flows && lose 100 && sleep 0.3 && watch_pools || return
	card "$number" fault rq-error && patiently 10 rebuilt_since "$before" || return
	patiently 5 pools_are_closed || { pools_are_closed; return 1; }
	copies=$(($(copied) - copies))
	echo "$copies packets copied"
	[ $copies -gt 0 ] && lose_nothing && flows
}

nothing_copied_in_order() {
	local before

	before=$(copied)
	traffic_works && echo "$before copied before, $(copied) after" && [ "$(copied)" = "$before" ]
}

# Datagrams and UC wait at the head of their QP until their memory is there.
waiting_for_memory() {
	local before

	before=$(copied)
	"$(dirname "$0")/odp" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
		--filter cold.ud,cold.uc || return
	echo "$(($(copied) - before)) packets copied"
	[ "$(copied)" -gt "$before" ]
}

plan 7
check "in order, nothing is copied" nothing_copied_in_order
check "packets that wait for memory are copied, none is lost" waiting_for_memory
# four seconds of patience, eight times
check "traffic" start_traffic --timeout 20
for round in 1 2 3; do
	check "queues made anew while packets are kept, $round" kept_while_made_anew
done
check "all of it arrived, and right" stop_traffic
finish
