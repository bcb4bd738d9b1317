#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Superpackets as a guest may send them through its tap device, true and untrue: nobody looks at them before the device
# does. The program wire_drops is the guest. Arguments go to it.

. "$(dirname "$0")/lib.sh"

need ip rdma
trap cleanup EXIT
load_module || fail_all "cannot load the module for link type $LINK_TYPE"
ip netns add "$NS_A" || fail_all "cannot make a namespace"
IF_A=rva$ID DEV_A=rva_$ID
ip -n "$NS_A" tuntap add dev "$IF_A" mode tap vnet_hdr && ip -n "$NS_A" link set "$IF_A" mtu "$MTU" ||
	fail_all "cannot make a tap device"

export ROCEV2_DEV_A=$DEV_A ROCEV2_NETNS_A=$NS_A ROCEV2_PEER_IF=$IF_A ROCEV2_PEER_NETNS=$NS_A ROCEV2_PEER_MAC=02:00:00:00:00:99
export ROCEV2_PEER_IP4=$IP4_B ROCEV2_PEER_IP6=$IP6_B
ROCEV2_DEVICE_MAC=$(on_a cat "/sys/class/net/$IF_A/address")
export ROCEV2_DEVICE_MAC
mkfifo "$scratch/go"
"$(dirname "$0")/wire_drops" --go "$scratch/go" "$@" &
# a tap has a carrier while somebody is behind it
make_end "$NS_A" "$IF_A" $IP4_A $IP6_A
for address in $IP4_B $IP6_B; do
	ip -n "$NS_A" neigh add $address lladdr $ROCEV2_PEER_MAC dev "$IF_A" nud permanent || fail_all "cannot add a neighbour"
done
add_link "$NS_A" "$DEV_A" "$LINK_TYPE" "$IF_A" || fail_all "cannot add the rdma link"
eventually has_gids "$DEV_A" 3 || fail_all "the device has no GIDs"
echo >"$scratch/go"
wait $!
