#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rocev2 and rdma_rxe at once: a link of each kind in each namespace, traffic on
# both, and unloading in either order.  rdma_rxe takes every device with its
# driver id down when it goes, ours included; that must end cleanly, and new
# links must work afterwards.

. "$(dirname "$0")/lib.sh"

[ "$LINK_TYPE" = rocev2 ] || skip_all "is about rocev2"
need ib_write_bw ibv_rc_pingpong ss
setup
ours_a=$DEV_A ours_b=$DEV_B

rxe_up() {
	modprobe rdma_rxe || return 1
	ip -n "$NS_A" link show "rxa$ID" >/dev/null 2>&1 || {
		make_pair "$NS_A" "rxa$ID" "$NS_B" "rxb$ID"
		make_end "$NS_A" "rxa$ID" 10.72.0.1 fd72::1
		make_end "$NS_B" "rxb$ID" 10.72.0.2 fd72::2
	}
	add_link "$NS_A" "rxa_$ID" rxe "rxa$ID" && add_link "$NS_B" "rxb_$ID" rxe "rxb$ID" &&
		eventually has_gids "rxa_$ID" 3 && eventually has_gids "rxb_$ID" 3
}

rocev2_up() {
	load_module || return 1
	add_link "$NS_A" "$ours_a" rocev2 "$IF_A" && add_link "$NS_B" "$ours_b" rocev2 "$IF_B" &&
		eventually has_gids "$ours_a" 3 && eventually has_gids "$ours_b" 3
}

traffic() {
	local gid

	DEV_A=$1 DEV_B=$2
	gid=$(gid_indices "$DEV_A" "$3")
	between ib_write_bw -x "$gid" -F -s 16384 -n 200 && between ibv_rc_pingpong -g "$gid" -n 50
}

ours() { traffic "$ours_a" "$ours_b" 0000:0000:0000:0000:0000:ffff:0a47:0001; }
rxe() { traffic "rxa_$ID" "rxb_$ID" 0000:0000:0000:0000:0000:ffff:0a48:0001; }
# Where locks are debugged, each QP of rdma_rxe, that of the GSI too, has a socket that holds the module: links go
# first.
rmmod_rxe() {
	if [ -e /proc/lockdep ]; then
		rdma link del "rxa_$ID" && rdma link del "rxb_$ID" || return
	fi
	rmmod rdma_rxe
}
no_link() { ! rdma link show "$1/1" >/dev/null 2>&1; }

plan 12
check "links of both kinds" rxe_up
check "traffic over rocev2" ours
check "traffic over rdma_rxe" rxe
check "rmmod rocev2 first" rmmod rocev2
check "traffic over rdma_rxe without rocev2" rxe
check "rocev2 again" rocev2_up
check "traffic over rocev2 again" ours
check "rmmod rdma_rxe first" rmmod_rxe
check "its going took our links" eventually no_link "$ours_a"
check "rocev2 can be unloaded then" rmmod rocev2
check "rocev2 alone" rocev2_up
check "traffic over rocev2 alone" ours
DEV_A=$ours_a DEV_B=$ours_b
finish
