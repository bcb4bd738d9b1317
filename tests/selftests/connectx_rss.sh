#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# RSS spreads QPs over the receive queues, and leaves each on one of them, in order.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"

need ib_write_bw ss
queues=4
setup_attached queues=$queues
gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)

# growth COMMAND...: packets that each of B's queues has received meanwhile, a line each, in $scratch/growth
growth() {
	local status

	rxqs "$CARD_B" packets >"$scratch/before" || return
	"$@"
	status=$?
	rxqs "$CARD_B" packets | paste "$scratch/before" - | awk '{ print $2 - $1 }' >"$scratch/growth"
	echo "packets per queue: $(paste -sd' ' "$scratch/growth")"
	return $status
}

# So few at a time that none is lost, on the wire or for want of a buffer: what follows would be ahead of its turn.
# A queue with fewer of 32 QPs than one comes once in 10,000 times.
spread() {
	growth perftest ib_write_bw -s 4096 -t 8 -n 320 -q 32 -x "$gid" && [ "$(wc -l <"$scratch/growth")" = $queues ] &&
		awk '{ all += $1; if (NR == 1 || $1 < least) least = $1 } END { exit !(least * 64 >= all && least) }' \
			"$scratch/growth"
}

# one_queue ARGS...: all but the handshake of connections goes through the same queue
one_queue() {
	growth perftest ib_write_bw -s 65536 -n 50 -x "$gid" "$@" &&
		awk '{ all += $1; if ($1 > most) most = $1 } END { exit !(most >= 800 && all - most <= 20) }' "$scratch/growth"
}

each_on_one() {
	local try used=

	for try in {1..8}; do
		one_queue || return
		used+="$(grep -nE '[0-9]{3}' "$scratch/growth" | cut -d: -f1) "
	done
	echo "queues used: $used"
}

in_order() {
	local dev

	for dev in "$DEV_A" "$DEV_B"; do
		echo "$dev: out_of_sequence $(counter "$dev" out_of_sequence), rx_copied $(counter "$dev" rx_copied)"
		[ "$(counter "$dev" out_of_sequence)" = 0 -a "$(counter "$dev" rx_copied)" = 0 ] || return
	done
}

plan 4
check "32 QPs are spread over $queues queues" spread
check "a QP stays on one queue, 8 times" each_on_one
check "nothing came out of order" in_order
check "the driver has nothing to complain of" driver_is_content
finish
