#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# GIDs of a VLAN above the link's netdev: frames leave and are taken tagged.

. "$(dirname "$0")/lib.sh"

need ibv_rc_pingpong ss
setup

VLAN_A=10.72.0.1 VLAN_B=10.72.0.2
GID_VLAN_A=0000:0000:0000:0000:0000:ffff:0a48:0001

make_vlans() {
	ip -n "$NS_A" link add link "$IF_A" name va.5 type vlan id 5 &&
		ip -n "$NS_B" link add link "$IF_B" name vb.5 type vlan id 5 &&
		ip -n "$NS_A" addr add $VLAN_A/24 dev va.5 && ip -n "$NS_B" addr add $VLAN_B/24 dev vb.5 &&
		ip -n "$NS_A" link set va.5 up && ip -n "$NS_B" link set vb.5 up
}

has_vlan_gid() {
	[ -n "$(gid_indices "$DEV_A" $GID_VLAN_A)" ]
}


# The tag is on the wire: a filter on the receiving end counts tagged frames of UDP 4791.
tagged_traffic() {
	local gid

	gid=$(gid_indices "$DEV_A" $GID_VLAN_A | head -1)
	on_b tc qdisc replace dev "$IF_B" clsact || return 1
	on_b tc filter replace dev "$IF_B" ingress protocol 802.1Q pref 1 flower vlan_id 5 vlan_ethtype ipv4 \
		ip_proto udp dst_port 4791 action pass || return 1
	between ibv_rc_pingpong -g "$gid" -n 100 || return 1
	on_b tc -s filter show dev "$IF_B" ingress | sed -n 's/.*Sent [0-9]* bytes \([0-9]*\) pkt.*/\1/p' >"$scratch/tagged"
	echo "tagged packets: $(cat "$scratch/tagged")"
	[ "$(cat "$scratch/tagged")" -ge 100 ]
}

untagged_traffic() {
	between ibv_rc_pingpong -g "$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)" -n 100
}

loopback_traffic() {
	local gid server

	gid=$(gid_indices "$DEV_A" $GID_VLAN_A | head -1)
	timeout $((60 * slow)) ip netns exec "$NS_A" ibv_rc_pingpong -d "$DEV_A" -p 18500 -g "$gid" -n 100 >/dev/null &
	server=$!
	eventually listens "$NS_A" 18500 &&
		on_a timeout $((20 * slow)) ibv_rc_pingpong -d "$DEV_A" -p 18500 -g "$gid" -n 100 $VLAN_A && wait $server
}

# ib_core would give such a link no addresses
no_link_on_vlan() {
	! ip netns exec "$NS_A" rdma link add rocev2_vlan type "$LINK_TYPE" netdev va.5
}

foreign_vlan_deleted() {
	ip -n "$NS_A" link del va.5 && eventually lacks_vlan_gid && untagged_traffic
}

lacks_vlan_gid() {
	! has_vlan_gid
}

plan 7
check "VLAN netdevs above the links" make_vlans
check "their addresses are GIDs" eventually has_vlan_gid
check "traffic over VLAN GIDs is tagged" tagged_traffic
check "untagged traffic beside it" untagged_traffic
check "two QPs of one device over its VLAN GID" loopback_traffic
check "a link on a VLAN netdev is refused" no_link_on_vlan
check "GIDs go with the VLAN, the others stay" foreign_vlan_deleted
finish
