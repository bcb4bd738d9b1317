#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Packets of a QP leave in order when its application moves from one CPU to another: a
# veth pair has a queue for each CPU, and keeps the order within one alone. UC loses a
# message for each packet that overtakes, RC goes back.

. "$(dirname "$0")/lib.sh"

need ib_write_bw ib_send_bw ss taskset
[ "$(nproc)" -gt 1 ] || skip_all "one CPU keeps any order"
setup

gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)

# to the other CPU and back again, 500 times a second
wander() {
	local cpu

	for ((;;)); do
		for cpu in 0 1; do
			pgrep '^ib_' | xargs -rn1 taskset -p -c $cpu >/dev/null 2>&1
			sleep 0.002
		done
	done
}

# in_order COUNTER PROGRAM ARGS...: neither device counts any
in_order() {
	local name=$1 before wanderer status
	shift

	before=$(($(counter "$DEV_A" "$name") + $(counter "$DEV_B" "$name")))
	wander &
	wanderer=$!
	perftest "$@" -x "$gid"
	status=$?
	kill $wanderer
	wait $wanderer 2>/dev/null
	echo "$name: $(($(counter "$DEV_A" "$name") + $(counter "$DEV_B" "$name") - before))"
	[ $status = 0 ] &&
		[ $(($(counter "$DEV_A" "$name") + $(counter "$DEV_B" "$name"))) = "$before" ]
}

plan 5
check "ib_send_bw -c UC" in_order rx_drop_incomplete ib_send_bw -c UC -s 65536 -n 500 -r 512
check "ib_send_bw -c UC -b" in_order rx_drop_incomplete ib_send_bw -c UC -b -s 65536 -n 500 -r 512
check "ib_write_bw -c UC -b" in_order rx_drop_incomplete ib_write_bw -c UC -b -s 65536 -n 5000
check "ib_write_bw -b" in_order out_of_sequence ib_write_bw -b -s 65536 -n 5000
check "ib_read_bw -b" in_order out_of_sequence ib_read_bw -b -s 65536 -n 5000
finish
