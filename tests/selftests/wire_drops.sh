#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Crafted packets at a live QP: end A has the RDMA device, end B is bare, and the program wire_drops
# speaks raw Ethernet there. Arguments go to the program ("--filter NAME", "--list").

. "$(dirname "$0")/lib.sh"

need ip rdma
trap cleanup EXIT
load_module || fail_all "cannot load the module for link type $LINK_TYPE"
ip netns add "$NS_A" && ip netns add "$NS_B" || fail_all "cannot make namespaces"
IF_A=rva$ID IF_B=rvb$ID
make_pair "$NS_A" "$IF_A" "$NS_B" "$IF_B" || fail_all "cannot make a veth pair"
make_end "$NS_A" "$IF_A" $IP4_A $IP6_A
make_end "$NS_B" "$IF_B" $IP4_B $IP6_B
# B answers ARP and neighbour discovery, and nothing else that could be taken for an answer
DEV_A=rva_$ID
add_link "$NS_A" "$DEV_A" "$LINK_TYPE" "$IF_A" || fail_all "cannot add the rdma link"
eventually has_gids "$DEV_A" 3 || fail_all "the device has no GIDs"
eventually on_a ping -c1 -W1 $IP4_B || fail_all "the two ends cannot reach one another"
eventually on_a ping -c1 -W1 $IP6_B || fail_all "the two ends cannot reach one another over IPv6"

export ROCEV2_DEV_A=$DEV_A ROCEV2_NETNS_A=$NS_A ROCEV2_PEER_IF=$IF_B ROCEV2_PEER_NETNS=$NS_B
export ROCEV2_PEER_IP4=$IP4_B ROCEV2_PEER_IP6=$IP6_B
ROCEV2_DEVICE_MAC=$(on_a cat "/sys/class/net/$IF_A/address")
export ROCEV2_DEVICE_MAC
"$(dirname "$0")/wire_drops" "$@"
