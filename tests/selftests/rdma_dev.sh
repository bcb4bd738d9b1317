#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma(8) on whole devices: new names, connections of rdma_cm, and requests that run beside
# verbs which make and destroy what they ask for.

. "$(dirname "$0")/lib.sh"

need ibv_rc_pingpong rping ss
setup

named() {
	rdma link show "$1/1" | grep -q 'state ACTIVE' && [ -d "/sys/class/infiniband/$1" ] && ibv_devinfo -d "$1" >/dev/null
}

# A program that is at work does not notice, new ones find the new name.
renamed() {
	local gid old=$DEV_A pid

	gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
	list_gids "$DEV_A" >"$scratch/before"
	on_b ibv_rc_pingpong -d "$DEV_B" -g "$gid" -p 18600 -n 20000 >"$scratch/b.log" 2>&1 &
	eventually listens "$NS_B" 18600
	on_a ibv_rc_pingpong -d "$DEV_A" -g "$gid" -p 18600 -n 20000 "$IP4_B" >"$scratch/a.log" 2>&1 &
	pid=$!
	eventually has_qp
	rdma dev set "$DEV_A" name "rvna_$ID" || return 1
	DEV_A=rvna_$ID
	named "$DEV_A" || return 1
	! rdma link show "$old/1" && ! ibv_devinfo -d "$old" || return 1
	wait $pid || { cat "$scratch/a.log"; return 1; }
	list_gids "$DEV_A" | diff "$scratch/before" - && between ibv_rc_pingpong -g "$gid" -n 100
}

has_qp() {
	rdma resource show qp link "$DEV_A/1" | grep -q 'type RC state RTS'
}

name_taken() {
	local out

	out=$(rdma dev set "$DEV_A" name "$DEV_B" 2>&1) && return 1
	echo "$out"
	echo "$out" | grep -qi exists && named "$DEV_A" && named "$DEV_B"
}

# fields KEY... < LINE: their values
fields() {
	local key line

	read -r line
	for key in "$@"; do
		echo " $line " | sed -n "s/.* $key \\([^ ]*\\) .*/\\1/p"
	done | paste -sd ' '
}

# is EXPECTED: what comes in
is() {
	local got

	read -r got
	[ "$got" = "$1" ] || { echo "expected \"$1\", got \"$got\""; return 1; }
}

cm_ids() {
	local server client

	on_b rping -s -a "$IP4_B" -p 7777 -C 100000000 >"$scratch/b.log" 2>&1 &
	eventually listening
	server=$(pgrep -f "rping -s -a $IP4_B -p 7777")
	rdma resource show cm_id link "$DEV_B/1" | grep LISTEN >"$scratch/listen"
	cat "$scratch/listen"
	fields ps pid comm src-addr <"$scratch/listen" | is "TCP $server rping $IP4_B:7777" || return 1

	on_a rping -c -a "$IP4_B" -p 7777 -C 100000000 >"$scratch/a.log" 2>&1 &
	eventually connected
	client=$(pgrep -f "rping -c -a $IP4_B -p 7777")
	rdma resource show cm_id link "$DEV_A/1" | grep CONNECT >"$scratch/connect"
	rdma resource show qp link "$DEV_A/1" | grep "pid $client" >"$scratch/qp"
	cat "$scratch/connect" "$scratch/qp"
	fields qp-type ps pid comm dst-addr <"$scratch/connect" | is "RC TCP $client rping $IP4_B:7777" || return 1
	fields src-addr <"$scratch/connect" | grep -q "^$IP4_A:" || return 1
	fields lqpn <"$scratch/connect" | is "$(fields lqpn <"$scratch/qp")" || return 1
	kill "$client"
	eventually gone
}

listening() {
	rdma resource show cm_id link "$DEV_B/1" | grep -q 'state LISTEN'
}

connected() {
	rdma resource show cm_id link "$DEV_A/1" | grep -q 'state CONNECT'
}

gone() {
	! rdma resource show cm_id link "$DEV_A/1" | grep -q . && ! rdma resource show qp link "$DEV_A/1" | grep -q 'type RC'
}

# QPs come and go as fast as they can, bound to counters, while they are looked at.
beside_verbs() {
	local gid i pids=()

	gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
	rdma statistic qp set link "$DEV_A/1" auto pid on || return 1
	for i in 1 2; do
		while :; do
			rdma -dd resource show qp
			rdma -dd resource show mr
			rdma -dd resource show cq
			rdma statistic qp show
			rdma statistic show
		done >"$scratch/looks.$i" 2>&1 &
		pids+=($!)
	done
	for i in $(seq 30); do
		between ibv_rc_pingpong -g "$gid" -n 10 >"$scratch/round" || {
			cat "$scratch/round"
			kill "${pids[@]}"
			return 1
		}
	done
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	rdma statistic qp set link "$DEV_A/1" auto off || return 1
	[ -z "$(rdma statistic qp show)" ] && [ "$(grep -c tx_packets "$scratch/looks.1")" -gt 10 ]
}

plan 4
check "dev set name, in use" renamed
check "dev set name, taken" name_taken
check "resource show cm_id" cm_ids
check "resource and statistic show beside verbs" beside_verbs
finish
