#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Links in network namespaces with RDMA devices shared among them, and with each
# namespace keeping its own (rdma system set netns exclusive).

. "$(dirname "$0")/lib.sh"

need ibv_rc_pingpong ss
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
	rdma system set netns exclusive || return 1
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

namespaces_deleted() {
	cleanup
	scratch=$(mktemp -d)
	eventually no_devices
}

no_devices() {
	[ -z "$(rdma link show)" ]
}

plan 8
check "shared: shown in all namespaces" shown_everywhere
check "shared: traffic" traffic
check "shared: link deleted and added in its namespace" link_del_inside
check "shared: traffic again" traffic
# in the exclusive mode a device is seen in its own namespace only, so are its counters
link_is_active() {
	{ rdma link show; ip netns exec "$NS_A" rdma link show; ip netns exec "$NS_B" rdma link show; } |
		grep "$1/1" | grep -q 'state ACTIVE'
}
check "exclusive: a new pair" exclusive_pair
check "exclusive: shown in its own namespace alone" only_in_its_namespace
check "exclusive: traffic" traffic
check "exclusive: links go with their namespaces" namespaces_deleted
rdma system set netns shared
finish
