#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ib_write_bw with 64 KiB messages over rocev2 and over rdma_rxe, each on a veth
# pair of its own between the same two namespaces, in turn, in one boot: rocev2
# must have the higher median.  Both are printed.

. "$(dirname "$0")/lib.sh"

ROUNDS=5
need ib_write_bw ss
setup
modprobe rdma_rxe || fail_all "cannot load rdma_rxe"
make_pair "$NS_A" "rxa$ID" "$NS_B" "rxb$ID"
# in another subnet than the first pair
make_end "$NS_A" "rxa$ID" 10.72.0.1 fd72::1
make_end "$NS_B" "rxb$ID" 10.72.0.2 fd72::2
add_link "$NS_A" "rxa_$ID" rxe "rxa$ID" && add_link "$NS_B" "rxb_$ID" rxe "rxb$ID" ||
	fail_all "cannot add the rxe links"
eventually has_gids "rxa_$ID" 3 && eventually has_gids "rxb_$ID" 3 || fail_all "rxe has no GIDs"
ours_a=$DEV_A ours_b=$DEV_B

# measure DEV_A DEV_B GID RESULTS: one round; the average in MiB/s is appended to RESULTS
measure() {
	local gid

	DEV_A=$1 DEV_B=$2
	gid=$(gid_indices "$DEV_A" "$3")
	between ib_write_bw -x "$gid" -F -s 65536 -n 1000 >"$scratch/bw.log" 2>&1 || { cat "$scratch/bw.log"; return 1; }
	# perftest prints 0 where it cannot tell the clock's MHz, as on a busy machine
	awk '$1 == 65536 && NF >= 5 && $4 > 0 { print $4; found = 1 } END { exit !found }' "$scratch/bw.log" >>"$4"
}

again() {
	"$@" || "$@" || "$@"
}

median() {
	sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'
}

rounds() {
	local round

	for round in $(seq $ROUNDS); do
		again measure "$ours_a" "$ours_b" 0000:0000:0000:0000:0000:ffff:0a47:0001 "$scratch/ours" || return 1
		again measure "rxa_$ID" "rxb_$ID" 0000:0000:0000:0000:0000:ffff:0a48:0001 "$scratch/rxe" || return 1
	done
}

wins() {
	awk -v ours="$(median "$scratch/ours")" -v rxe="$(median "$scratch/rxe")" \
		'BEGIN { exit !(ours > rxe && rxe > 0) }'
}

plan 2
check "$ROUNDS rounds of each" rounds
echo "# ib_write_bw 65536 B, median of $ROUNDS, MiB/s: $LINK_TYPE $(median "$scratch/ours"), rdma_rxe $(median "$scratch/rxe")"
echo "# all: $LINK_TYPE $(tr '\n' ' ' <"$scratch/ours"); rdma_rxe $(tr '\n' ' ' <"$scratch/rxe")"
check "$LINK_TYPE beats rdma_rxe" wins
DEV_A=$ours_a DEV_B=$ours_b
rdma link del "rxa_$ID"
rdma link del "rxb_$ID"
finish
