#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The programs of librdmacm: connections and datagrams over IPv4 and IPv6, between two
# namespaces and within one, multicast, streams, and many connections.

. "$(dirname "$0")/lib.sh"

need rping ucmatose udaddy mckey rstream riostream cmtime rdma_server rdma_client ss
setup

# pair NS ADDRESS SERVER... -- CLIENT...: SERVER in namespace b, CLIENT in namespace NS of ADDRESS
pair() {
	local ns=$1 server=() status pid

	shift
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	timeout 60 ip netns exec "$NS_B" "${server[@]}" >"$scratch/server.log" 2>&1 &
	pid=$!
	# rdma_cm listens where ss does not look
	for try in $(seq 50); do
		rdma resource show cm_id | grep -q 'state LISTEN' && break
		sleep 0.1
	done
	timeout 60 ip netns exec "$ns" "$@"
	status=$?
	[ $status = 0 ] || kill $pid 2>/dev/null
	if ! wait $pid || [ $status != 0 ]; then
		echo "--- client: status $status; server:"
		cat "$scratch/server.log"
		return 1
	fi
}

# Each connects anew at once, over and over.
reconnect() {
	local round

	for round in $(seq 100); do
		pair "$NS_A" rping -s -a "$IP4_B" -C 1 -- rping -c -a "$IP4_B" -C 1 >"$scratch/round" || {
			cat "$scratch/round"
			echo "in round $round"
			return 1
		}
	done
}

# rdma_server listens on all addresses and leaves after one client
server_and_client() {
	pair "$NS_A" rdma_server -- rdma_client -s "$IP4_B"
}

multicast() {
	local pid

	on_a ip route add 224.0.0.0/4 dev "$IF_A" && on_b ip route add 224.0.0.0/4 dev "$IF_B" || return 1
	timeout 30 ip netns exec "$NS_B" mckey -m 239.71.0.1 -b "$IP4_B" >"$scratch/server.log" 2>&1 &
	pid=$!
	# it has joined when the netdev takes the group's frames
	eventually joined || { cat "$scratch/server.log"; kill $pid; return 1; }
	timeout 30 ip netns exec "$NS_A" mckey -m 239.71.0.1 -b "$IP4_A" -s && wait $pid
}

joined() {
	ip -n "$NS_B" maddr show dev "$IF_B" | grep -q '01:00:5e:47:00:01'
}

plan 20
for family in 4 6; do
	if [ $family = 4 ]; then address=$IP4_B; else address=$IP6_B; fi
	check "rping, IPv$family" pair "$NS_A" rping -s -a "$address" -C 50 -V -- rping -c -a "$address" -C 50 -V
	check "rping, IPv$family, 64 KiB" pair "$NS_A" rping -s -a "$address" -C 20 -S 65000 -V -- \
		rping -c -a "$address" -C 20 -S 65000 -V
	check "rping within a namespace, IPv$family" pair "$NS_B" rping -s -a "$address" -C 20 -V -- \
		rping -c -a "$address" -C 20 -V
	check "ucmatose, IPv$family, 20 connections" pair "$NS_A" ucmatose -b "$address" -c 20 -C 10 -- \
		ucmatose -s "$address" -c 20 -C 10
	check "ucmatose within a namespace, IPv$family" pair "$NS_B" ucmatose -b "$address" -- \
		ucmatose -s "$address"
	check "udaddy, IPv$family" pair "$NS_A" udaddy -b "$address" -c 5 -C 10 -- udaddy -s "$address" -c 5 -C 10
	check "rstream, IPv$family" pair "$NS_A" rstream -b "$address" -T v -C 50 -- rstream -s "$address" -T v -C 50
	check "riostream, IPv$family" pair "$NS_A" riostream -b "$address" -T v -C 50 -- \
		riostream -s "$address" -T v -C 50
done
check "mckey, IPv4" multicast
check "rdma_server, rdma_client" server_and_client
check "cmtime, 1000 connections" pair "$NS_A" cmtime -b "$IP4_B" -c 1000 -- cmtime -s "$IP4_B" -c 1000
check "reconnecting 100 times" reconnect
finish
