#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Links in network namespaces with RDMA devices shared among them, and with each
# namespace keeping its own (rdma system set netns exclusive).

. "$(dirname "$0")/lib.sh"

need ibv_rc_pingpong rping ss
setup

traffic() {
	local gid

	gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
	between ibv_rc_pingpong -g "$gid" -n 100
}

# exclusive mode can only be set while no namespace but the initial one exists
exclusive_pair() {
	cleanup
	scratch=$(mktemp -d)
	# not while a namespace that has been deleted is still going
	eventually rdma system set netns exclusive || return 1
	setup
}

only_in_its_namespace() {
	ip netns exec "$NS_A" rdma link show | grep -q "$DEV_A/1" || return 1
	! ip netns exec "$NS_A" rdma link show | grep -q "$DEV_B/1" &&
		! rdma link show | grep -q "$DEV_A/1"
}

shown_everywhere() {
	ip netns exec "$NS_A" rdma link show | grep -q "$DEV_B/1" && rdma link show | grep -q "$DEV_A/1"
}

link_del_inside() {
	ip netns exec "$NS_A" rdma link del "$DEV_A" && add_link "$NS_A" "$DEV_A" "$LINK_TYPE" "$IF_A" &&
		eventually has_gids "$DEV_A" 3
}

# --- rdma dev set netns: the RDMA device alone; its netdev, addresses and GIDs stay where they are

NS_C=rv-c-$ID

# A namespace with no netdev but one for the TCP handshake of the test programs
make_third() {
	ip netns add "$NS_C" && make_pair "$NS_C" "rvc$ID" "$NS_B" "rvd$ID" &&
		make_end "$NS_C" "rvc$ID" 10.72.0.1 fd72::1 && make_end "$NS_B" "rvd$ID" 10.72.0.2 fd72::2
}

# move_a FROM TO: DEV_A
move_a() {
	ip netns exec "$1" rdma dev set "$DEV_A" netns "$2"
}

is_in() {
	ip netns exec "$2" rdma dev show | grep -qw "$1"
}

moved_to_third() {
	make_third && move_a "$NS_A" "$NS_C" && is_in "$DEV_A" "$NS_C" && ! is_in "$DEV_A" "$NS_A"
}

# what the helpers of lib.sh call namespace a is the third now
gids_of_its_netdev() (
	list_gids "$DEV_A" >"$scratch/gids.a"
	NS_A=$NS_C
	list_gids "$DEV_A" >"$scratch/gids.c"
	cat "$scratch/gids.c"
	[ ! -s "$scratch/gids.a" ] && [ "$(wc -l <"$scratch/gids.c")" = 3 ]
)

traffic_from_third() (
	NS_A=$NS_C IP4_B=10.72.0.2
	traffic
)

gids_follow_addresses() (
	on_a ip addr add 10.71.0.9/24 dev "$IF_A"
	NS_A=$NS_C
	eventually has_gids "$DEV_A" 4 && [ -n "$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0009)" ]
)

# rdma_cm binds to addresses of its own namespace, where the netdev is not
no_rdma_cm_without_netdev() {
	! timeout 20 ip netns exec "$NS_C" rping -c -a "$IP4_B" -C 1 && ! timeout 20 ip netns exec "$NS_C" rping -s -a "$IP4_A" -C 1
}

rping_from_a() {
	serve listens_cm "$NS_B" rping -s -a "$IP4_B" -C 3 -- "$NS_A" rping -c -a "$IP4_B" -C 3
}

# cm_listens looks where this device is not shown
listens_cm() {
	on_b rdma resource show cm_id | grep -q 'state LISTEN' && sleep 0.$slow
}

moved_back() {
	move_a "$NS_C" "$NS_A" && is_in "$DEV_A" "$NS_A" && ! is_in "$DEV_A" "$NS_C" &&
		[ "$(list_gids "$DEV_A" | wc -l)" = 4 ] && traffic && rping_from_a
}

# all users are cut off, none holds the move up
moved_in_use() {
	local gid pid

	gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
	on_b ibv_rc_pingpong -d "$DEV_B" -g "$gid" -p 18600 -n 100000000 >"$scratch/b.log" 2>&1 &
	eventually listens "$NS_B" 18600
	on_a ibv_rc_pingpong -d "$DEV_A" -g "$gid" -p 18600 -n 100000000 "$IP4_B" >"$scratch/a.log" 2>&1 &
	pid=$!
	eventually has_qp || { cat "$scratch/a.log"; return 1; }
	sleep 0.3
	timeout $((20 * slow)) ip netns exec "$NS_A" rdma dev set "$DEV_A" netns "$NS_C" || return 1
	is_in "$DEV_A" "$NS_C" && ! ip netns exec "$NS_C" rdma resource show qp | grep -q "type RC" || return 1
	# it polls a CQ that never completes again: what it holds must not matter
	kill $pid
	wait $pid
	kill %1 2>/dev/null
	traffic_from_third
}

has_qp() {
	on_a rdma resource show qp | grep -q 'type RC state RTS'
}

# ... and the kernel gives it back to the initial one
third_deleted() {
	ip netns del "$NS_C" && eventually shown_here && rdma dev set "$DEV_A" netns "$NS_A" &&
		is_in "$DEV_A" "$NS_A" && traffic
}

shown_here() {
	rdma dev show | grep -qw "$DEV_A"
}

refused_when_shared() {
	ip netns add "$NS_C"
	rdma dev set "$DEV_A" netns "$NS_C" && return 1
	rdma dev set "$DEV_A" netns "$NS_C" 2>&1 | grep -qi 'not supported\|shared netns mode' &&
		is_in "$DEV_A" "$NS_A" && ip netns del "$NS_C"
}

namespaces_deleted() {
	cleanup
	scratch=$(mktemp -d)
	eventually no_devices
}

no_devices() {
	[ -z "$(rdma link show)" ]
}

plan 17
check "shared: shown in all namespaces" shown_everywhere
check "shared: traffic" traffic
check "shared: link deleted and added in its namespace" link_del_inside
check "shared: traffic again" traffic
check "shared: dev set netns is refused" refused_when_shared
# in the exclusive mode a device is seen in its own namespace only, so are its counters
link_is_active() {
	{ rdma link show; ip netns exec "$NS_A" rdma link show; ip netns exec "$NS_B" rdma link show; } |
		grep "$1/1" | grep -q 'state ACTIVE'
}
check "exclusive: a new pair" exclusive_pair
check "exclusive: shown in its own namespace alone" only_in_its_namespace
check "exclusive: traffic" traffic
check "dev set netns: to a third namespace" moved_to_third
check "dev set netns: the GIDs are those of its netdev" gids_of_its_netdev
check "dev set netns: traffic" traffic_from_third
check "dev set netns: GIDs follow the netdev's addresses" gids_follow_addresses
check "dev set netns: no rdma_cm where the netdev is not" no_rdma_cm_without_netdev
check "dev set netns: back again" moved_back
check "dev set netns: a device in use" moved_in_use
check "dev set netns: its namespace is deleted" third_deleted
check "exclusive: links go with their namespaces" namespaces_deleted
rdma system set netns shared
finish
