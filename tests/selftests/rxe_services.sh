#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rocev2 in one namespace, rdma_rxe in the other, both ways: UC, UD and multicast, shared
# receive queues, memory windows, ATOMIC WRITE, and connections by rdma_cm, every
# byte verified.  Of the programs those cases run that ask for nothing but the wire:
# rdma_rxe has neither our counters nor all our refusals.

. "$(dirname "$0")/lib.sh"

need rping ucmatose udaddy mckey rstream riostream rdma_server rdma_client ss
setup
make_b_rxe
route_multicast

# to_rxe PROGRAM CASES ARGS..., from_rxe PROGRAM CASES ARGS...: side A of the program is rocev2, or is rdma_rxe
to_rxe() {
	"$(dirname "$0")/$1" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
		--filter "$2" "${@:3}"
}

from_rxe() {
	"$(dirname "$0")/$1" --dev-a "$DEV_B" --dev-b "$DEV_A" --netns-a "$NS_B" --netns-b "$NS_A" \
		--filter "$2" "${@:3}"
}

reconnect() {
	serve cm_listens "$1" "$(dirname "$0")/cm_reconnect" --rounds 100 --bind "$2" -- \
		"$3" "$(dirname "$0")/cm_reconnect" --rounds 100 --connect "$2"
}

windows=type_1.,type_2.of_one_qp,bounds,rights,local_inv.read,send_with_inv.,order.

# rdma_rxe receives through a UDP socket, so its host must be a member of the group too: rdma_cm
# sees to that, ibv_attach_mcast() does not.  Those are the groups of unreliable.cpp.
datagrams_to_rxe() {
	local group status

	for group in 239.71.0.9/32 ff05:7100::9/128; do
		ip -n "$NS_B" addr add $group dev "$IF_B" autojoin || return
	done
	to_rxe unreliable ud.data,ud.many_ahs,ud.multicast,ud.send_errors
	status=$?
	for group in 239.71.0.9/32 ff05:7100::9/128; do
		ip -n "$NS_B" addr del $group dev "$IF_B"
	done
	return $status
}

plan 44
check "UD to rdma_rxe" datagrams_to_rxe
# rdma_rxe sends a remote Q_Key of 0x80000000 and up as it is, instead of the QP's own (10.2.5).
# Multicast from it is that of mckey, below.
check "UD from rdma_rxe" from_rxe unreliable ud.data,ud.many_ahs,ud.drops,ud.network_type --plain-qkeys
check "UC to rdma_rxe" to_rxe unreliable uc.data
check "UC from rdma_rxe" from_rxe unreliable uc.data,uc.refusals
check "SRQ of rdma_rxe" perftest ib_send_bw -R --use-srq -q 4 -s 4096 -n 100
check "SRQ of rocev2" from_rxe srq data.
# its windows let accesses past their end pass, and its completions have the kernel's wc_flags (4, not 8, for an
# invalidated key): what remains
check "windows of rdma_rxe" to_rxe mw type_1.many_rebinds,type_2.of_one_qp,rights,local_inv.read
check "windows of rocev2" from_rxe mw $windows
# Not FLUSH: rdma_rxe computes its ICRC over the transport headers twice, so each takes the other's for damaged
# (Documentation/decisions.md).
check "ATOMIC WRITE to rdma_rxe" to_rxe placement atomic_write.
check "ATOMIC WRITE from rdma_rxe" from_rxe placement atomic_write.
for family in 4 6; do
	if [ $family = 4 ]; then a=$IP4_A b=$IP4_B; else a=$IP6_A b=$IP6_B; fi
	cm_programs "IPv$family from rocev2" "$NS_B" "$b" "$NS_A" "$a"
	cm_programs "IPv$family from rdma_rxe" "$NS_A" "$a" "$NS_B" "$b"
	check "reconnecting 100 times, IPv$family from rocev2" reconnect "$NS_B" "$b" "$NS_A"
	check "reconnecting 100 times, IPv$family from rdma_rxe" reconnect "$NS_A" "$a" "$NS_B"
done
finish
