#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Crafted packets at a live QP: end A has the RDMA device, end B is bare, and the program wire_drops
# speaks raw Ethernet there. Arguments go to the program ("--filter NAME", "--list").

. "$(dirname "$0")/lib.sh"

need ip rdma ethtool
trap cleanup EXIT
load_module || fail_all "cannot load the module for link type $LINK_TYPE"
ip netns add "$NS_A" && ip netns add "$NS_B" || fail_all "cannot make namespaces"
IF_A=rva$ID IF_B=rvb$ID
make_pair "$NS_A" "$IF_A" "$NS_B" "$IF_B" || fail_all "cannot make a veth pair"
# packets as they are on a wire, one by one
on_a ethtool -K "$IF_A" tx-udp-segmentation off || fail_all "cannot turn off UDP segmentation"
# hop limits that are nobody's default; ib_core takes them from the route
on_a sysctl -qw net.ipv4.ip_default_ttl=77 "net.ipv6.conf.$IF_A.hop_limit=78"
make_end "$NS_A" "$IF_A" $IP4_A $IP6_A
make_end "$NS_B" "$IF_B" $IP4_B $IP6_B
# B answers ARP and neighbour discovery, and nothing else that could be taken for an answer
DEV_A=rva_$ID
add_link "$NS_A" "$DEV_A" "$LINK_TYPE" "$IF_A" || fail_all "cannot add the rdma link"
eventually has_gids "$DEV_A" 3 || fail_all "the device has no GIDs"
eventually on_a ping -c1 -W1 $IP4_B || fail_all "the two ends cannot reach one another"
eventually on_a ping -c1 -W1 $IP6_B || fail_all "the two ends cannot reach one another over IPv6"

# a VLAN on the same cable, with addresses of its own
VLAN=5 VLAN_IP4_A=10.73.0.1 VLAN_IP4_B=10.73.0.2
ip -n "$NS_A" link add link "$IF_A" name va.$VLAN type vlan id $VLAN &&
	ip -n "$NS_B" link add link "$IF_B" name vb.$VLAN type vlan id $VLAN &&
	ip -n "$NS_A" addr add $VLAN_IP4_A/24 dev va.$VLAN && ip -n "$NS_B" addr add $VLAN_IP4_B/24 dev vb.$VLAN &&
	ip -n "$NS_A" link set va.$VLAN up && ip -n "$NS_B" link set vb.$VLAN up || fail_all "cannot make VLANs"
eventually on_a ping -c1 -W1 $VLAN_IP4_B || fail_all "the two ends cannot reach one another over the VLAN"
has_vlan_gid() {
	[ -n "$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a49:0001)" ]
}
eventually has_vlan_gid || fail_all "the VLAN's address is no GID"
export ROCEV2_VLAN=$VLAN ROCEV2_VLAN_PEER_IP4=$VLAN_IP4_B ROCEV2_VLAN_DEVICE_IP4=$VLAN_IP4_A

export ROCEV2_DEV_A=$DEV_A ROCEV2_NETNS_A=$NS_A ROCEV2_PEER_IF=$IF_B ROCEV2_PEER_NETNS=$NS_B
export ROCEV2_PEER_IP4=$IP4_B ROCEV2_PEER_IP6=$IP6_B
ROCEV2_DEVICE_MAC=$(on_a cat "/sys/class/net/$IF_A/address")
export ROCEV2_DEVICE_MAC
"$(dirname "$0")/wire_drops" "$@"
