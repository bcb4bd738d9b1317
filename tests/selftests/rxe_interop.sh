#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rocev2 in one namespace, rdma_rxe in the other, both ways: every byte by every
# RC opcode, and perftest.  rdma_rxe stalls when RNR NAKs or ACK timeouts meet
# traffic both ways, between two of its own devices too: receives are never late,
# and timeouts are a second, which a busy machine does not use up.

. "$(dirname "$0")/lib.sh"

need ib_write_bw ss
setup

make_b_rxe

data() {
	"$(dirname "$0")/rc_data" --dev-a "$1" --dev-b "$2" --netns-a "$3" --netns-b "$4" \
		--no-rnr --ack-timeout 18 --ops 300 --filter "$5"
}

perf() {
	local gid_a gid_b

	gid_a=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
	gid_b=$(gid_indices "$DEV_B" 0000:0000:0000:0000:0000:ffff:0a47:0002)
	PORT=$((PORT + 1))
	ip netns exec "$1" timeout $((60 * slow)) "$5" -d "$2" -x "${!6}" -p $PORT -F -s 65536 -n 300 >"$scratch/server.log" 2>&1 &
	eventually listens "$1" $PORT || { cat "$scratch/server.log"; return 1; }
	ip netns exec "$3" timeout $((60 * slow)) "$5" -d "$4" -x "${!7}" -p $PORT -F -s 65536 -n 300 "$8" || { cat "$scratch/server.log"; return 1; }
	wait $!
}

plan 10
for mtu in 1024 4096; do
	for kind in ipv4 ipv6; do
		check "$kind, MTU $mtu, rocev2 to rdma_rxe and back" \
			data "$DEV_A" "$DEV_B" "$NS_A" "$NS_B" $kind.mtu_$mtu
	done
done
for program in ib_write_bw ib_read_bw ib_send_bw; do
	check "$program from rocev2" perf "$NS_B" "$DEV_B" "$NS_A" "$DEV_A" $program gid_b gid_a $IP4_B
	check "$program from rdma_rxe" perf "$NS_A" "$DEV_A" "$NS_B" "$DEV_B" $program gid_a gid_b $IP4_A
done
finish
