#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The stock mlx5_core on two modelled cards, cabled to one another: probe, netdevs in two namespaces, ping, TCP with
# every byte compared, ethtool, and the driver unloaded and loaded again. What the other tests with cards stand on.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"

need_cards 2
need ping rstream iperf3 ss

cycles=3

# Both netdevs into their namespaces, up.
plug() {
	load_cards 2 || return
	read -r NETIF1 NETIF2 <<<"${netdevs//$'\n'/ }"
	IF_A=$NETIF1 IF_B=$NETIF2
	ip link set "$IF_A" netns "$NS_A" && ip link set "$IF_B" netns "$NS_B" || return
	make_end "$NS_A" "$IF_A" $IP4_A $IP6_A && make_end "$NS_B" "$IF_B" $IP4_B $IP6_B
}

links_are_up() {
	patiently 20 has_carrier "$NS_A" "$IF_A" && patiently 20 has_carrier "$NS_B" "$IF_B" &&
		on_a ethtool "$IF_A" | grep -q 'Link detected: yes'
}

is_mlx5() {
	on_a ethtool -i "$IF_A" | grep -qx 'driver: mlx5_core' && on_b ethtool -i "$IF_B" | grep -qx 'driver: mlx5_core'
}

# pings COUNT ARGS...: none is lost
pings() {
	on_a ping -q -c "$1" -i 0.02 -W 10 "${@:2}" | tee "$scratch/ping"
	grep -q " $1 received" "$scratch/ping"
}

rstream_listens() { listens "$NS_B" 7471; }

# tcp_stream SIZE COUNT: so many blocks one way, then back, four times; both ends look at each byte
tcp_stream() {
	serve rstream_listens "$NS_B" rstream -b $IP4_B -T s -T v -S "$1" -C "$2" -I 4 -- \
		"$NS_A" rstream -s $IP4_B -T s -T v -S "$1" -C "$2" -I 4
}

iperf_listens() { listens "$NS_B" 5201; }

# throughput ARGS...: what one end has sent in two seconds the other has received
throughput() {
	serve iperf_listens "$NS_B" iperf3 -s -1 -- "$NS_A" iperf3 -c $IP4_B -t 2 -f m "$@" &&
		grep -Eq ' [1-9][0-9.]* .Bytes .* receiver' "$scratch/client.log"
}

without_offloads() {
	local off="tso off gso off gro off rx off tx off" status

	on_a ethtool -K "$IF_A" $off && on_b ethtool -K "$IF_B" $off || return
	tcp_stream 65536 16
	status=$?
	on_a ethtool -K "$IF_A" ${off//off/on} && on_b ethtool -K "$IF_B" ${off//off/on} && return $status
}

jumbo_frames() {
	on_a ip link set "$IF_A" mtu 9000 && on_b ip link set "$IF_B" mtu 9000 && links_are_up &&
		pings 20 -M do -s 8972 $IP4_B && tcp_stream 65536 16
}

# ethtool_counter NAME: of end a
ethtool_counter() {
	on_a ethtool -S "$IF_A" | sed -n "s/^ *$1: //p"
}

# The card's counters, those of its driver and those of the stack tell the same.
counters_move() {
	local sent=$(ethtool_counter tx_packets) port=$(ethtool_counter tx_packets_phy) now

	pings 50 $IP4_B || return
	now=$(ethtool_counter tx_packets)
	echo "tx_packets $sent, then $now; tx_packets_phy $port, then $(ethtool_counter tx_packets_phy)"
	[ $((now - sent)) -ge 50 ] && [ $(($(ethtool_counter tx_packets_phy) - port)) -ge 50 ]
}

ring_sizes() {
	on_a ethtool -G "$IF_A" rx 256 tx 512 && on_a ethtool -g "$IF_A" | sed '1,/Current/d' | tee "$scratch/ring" &&
		grep -Eq '^RX:\s+256$' "$scratch/ring" && grep -Eq '^TX:\s+512$' "$scratch/ring" && links_are_up &&
		pings 20 $IP4_B
}

moderation() {
	# apart: with the one the driver of 6.1 takes its defaults for the other
	on_a ethtool -C "$IF_A" adaptive-rx off adaptive-tx off && on_a ethtool -C "$IF_A" rx-usecs 32 rx-frames 16 &&
		on_a ethtool -c "$IF_A" | tee "$scratch/coalesce" && grep -Eq '^rx-usecs:\s+32$' "$scratch/coalesce" &&
		pings 20 $IP4_B && on_a ethtool -C "$IF_A" adaptive-rx on adaptive-tx on && pings 20 $IP4_B
}

# From all channels to one and back; where there is one, two are refused.
channels() {
	local most=$(on_a ethtool -l "$IF_A" | sed -n 's/^Combined:\s*//p' | head -1)

	echo "at most $most"
	if [ "$most" = 1 ]; then
		! on_a ethtool -L "$IF_A" combined 2
		return
	fi
	on_a ethtool -L "$IF_A" combined 1 && links_are_up && pings 20 $IP4_B &&
		on_a ethtool -L "$IF_A" combined "$most" && links_are_up && pings 20 $IP4_B
}

offloads() {
	on_a ethtool -k "$IF_A" | tee "$scratch/features" | head -20
	for feature in rx-checksumming tx-checksumming scatter-gather tcp-segmentation-offload; do
		grep -q "^$feature: on" "$scratch/features" || return
	done
}

has_no_carrier() { ! has_carrier "$@"; }

# The card loses its link and finds it again.
pull_the_cable() {
	card 0 fault link-down && patiently 20 has_no_carrier "$NS_A" "$IF_A" && ! pings 1 -w 2 $IP4_B || return
	# the neighbour that did not answer is asked again only after a while
	card 0 fault link-up && links_are_up && patiently 20 on_a ping -c 1 -W 1 $IP4_B && pings 20 $IP4_B
}

# What the card says of itself, by its control socket, and that it does not do what it does not know.
tells_its_state() {
	card 0 status | tee "$scratch/status" && grep -q '"card":{' "$scratch/status" || return
	card 0 dance | tee "$scratch/refusal"
	grep -q '^{"error":"not an order' "$scratch/refusal"
}

reload() {
	rmmod mlx5_core && plug && links_are_up && pings 20 $IP4_B
}

trap cleanup EXIT
ip netns add "$NS_A" && ip netns add "$NS_B" || fail_all "cannot make namespaces"
echo "# Linux $(uname -r)"
plan $((18 + cycles + 1))
check "mlx5_core makes two netdevs" plug || finish
check "both are mlx5_core's" is_mlx5
check "the links come up" links_are_up
check "ping, IPv4" pings 50 $IP4_B
check "ping, IPv6" pings 50 $IP6_B
check "TCP, both ways, each byte compared" tcp_stream 65536 32
check "TCP in small pieces" tcp_stream 64 500
check "iperf3" throughput
check "iperf3, the other way" throughput -R
check "offloads are on" offloads
check "TCP without offloads" without_offloads
check "frames of 9000 bytes" jumbo_frames
check "counters of ethtool -S" counters_move
check "ring sizes, ethtool -G" ring_sizes
check "moderation, ethtool -C" moderation
check "channels, ethtool -L" channels
check "the cable pulled and plugged" pull_the_cable
check "status of the card" tells_its_state
for cycle in $(seq $cycles); do
	check "unload, load, ping, $cycle of $cycles" reload
done
check "the driver had nothing to complain of" driver_is_content
finish
