#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What holds a device up taken away under traffic: the netdev, the link, the
# namespace, the program.  Nothing may hang, and the next pair must work.

. "$(dirname "$0")/lib.sh"

need ib_write_bw ibv_rc_pingpong ss
setup

programs_gone() {
	! pgrep -x ib_write_bw >/dev/null
}

no_link() {
	! rdma link show "$1/1" >/dev/null 2>&1
}

no_namespace_netdev() {
	! ip link show "$1" >/dev/null 2>&1
}

# Both directions, for longer than the test lasts.
start_traffic() {
	local gid

	gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
	PORT=$((PORT + 1))
	on_b ib_write_bw -d "$DEV_B" -x "$gid" -p $PORT -F -b -q 4 -s 65536 -D 60 >"$scratch/b.log" 2>&1 &
	eventually listens "$NS_B" $PORT || return 1
	on_a ib_write_bw -d "$DEV_A" -x "$gid" -p $PORT -F -b -q 4 -s 65536 -D 60 $IP4_B >"$scratch/a.log" 2>&1 &
	sleep 1.5
	[ "$(pgrep -cx ib_write_bw)" = 2 ] || { cat "$scratch/a.log" "$scratch/b.log"; return 1; }
}

stop_traffic() {
	pkill -9 -x ib_write_bw
	eventually programs_gone
}

netdev_deleted() {
	start_traffic || return 1
	ip -n "$NS_A" link del "$IF_A" || return 1
	eventually no_link "$DEV_A" && eventually no_link "$DEV_B" || return 1
	stop_traffic
}

link_deleted() {
	start_traffic || return 1
	rdma link del "$DEV_A" || return 1
	eventually no_link "$DEV_A" || return 1
	sleep 0.5
	rdma link del "$DEV_B" || return 1
	stop_traffic
}

namespace_deleted() {
	start_traffic || return 1
	# The programs hold the namespace; it goes when they do.
	ip netns del "$NS_A" && ip netns del "$NS_B" || return 1
	stop_traffic || return 1
	eventually no_link "$DEV_A" && eventually no_link "$DEV_B"
}

interface_down() {
	start_traffic || return 1
	ip -n "$NS_A" link set "$IF_A" down || return 1
	sleep 0.5
	! link_is_active "$DEV_A" || return 1
	ip -n "$NS_A" link set "$IF_A" up || return 1
	eventually link_is_active "$DEV_A" || return 1
	stop_traffic
}

no_qps() {
	! rdma resource show qp link "$DEV_A/1" | grep -q RC && ! rdma resource show qp link "$DEV_B/1" | grep -q RC
}

program_killed() {
	start_traffic || return 1
	# One side first, so that the other sends to a QP that is no more.
	kill -9 "$(pgrep -nx ib_write_bw)" || return 1
	sleep 1
	stop_traffic && eventually no_qps
}

another_pair() {
	cleanup
	scratch=$(mktemp -d)
	ID=$((ID + 1)) NS_A=rv-a-$ID NS_B=rv-b-$ID
	setup
	between ibv_rc_pingpong -g "$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)" -n 50
}

plan 9
check "kill -9 of a program with live QPs" program_killed
check "interface down and up" interface_down
check "link deleted" link_deleted
check "a new pair works" another_pair
check "netdev deleted" netdev_deleted
check "a new pair works" another_pair
check "namespaces deleted" namespace_deleted
check "a new pair works" another_pair
check "kill -9 again" program_killed
finish
