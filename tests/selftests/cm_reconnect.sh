#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Connections by rdma_cm, each with verified data, made at once after the last was closed,
# a thousand times, over IPv4 and IPv6, between two namespaces and within one.

. "$(dirname "$0")/lib.sh"

need ss
setup

# reconnect CLIENT_NS ADDRESS ARGS...: the server is in namespace b
reconnect() {
	local client=$1 address=$2

	shift 2
	serve cm_listens "$NS_B" "$(dirname "$0")/cm_reconnect" --bind "$address" "$@" -- \
		"$client" "$(dirname "$0")/cm_reconnect" --connect "$address" "$@"
}

plan 7
objects_before
for address in "$IP4_B" "$IP6_B"; do
	check "$address, between namespaces" reconnect "$NS_A" "$address"
	check "$address, within a namespace" reconnect "$NS_B" "$address"
	check "$address, UC" reconnect "$NS_A" "$address" --uc --rounds 100
done
check "no object is left" eventually objects_as_before
finish
