#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# VLANs: GIDs of a VLAN above the link's netdev (frames leave tagged), and links on
# the VLAN netdevs themselves.

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

# from here on the devices are those on the VLAN netdevs
links_on_vlans() {
	rdma link del "$DEV_A" && rdma link del "$DEV_B" &&
		add_link "$NS_A" "$DEV_A" "$LINK_TYPE" va.5 && add_link "$NS_B" "$DEV_B" "$LINK_TYPE" vb.5 &&
		eventually has_vlan_gid
}

traffic_on_vlan_links() {
	between ibv_rc_pingpong -g "$(gid_indices "$DEV_A" $GID_VLAN_A | head -1)" -n 100
}

plan 6
check "VLAN netdevs above the links" make_vlans
check "their addresses are GIDs" eventually has_vlan_gid
check "traffic over VLAN GIDs is tagged" tagged_traffic
check "untagged traffic beside it" untagged_traffic
check "links on the VLAN netdevs" links_on_vlans
check "traffic over them" traffic_on_vlan_links
finish
