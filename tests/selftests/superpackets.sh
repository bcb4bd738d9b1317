#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Packets of equal length leave as one superpacket, which a veth hands over whole, which the stack cuts where something
# on the way asks for that, and which is not made where the device cannot cut. Data of all RC opcodes is verified each
# time.

. "$(dirname "$0")/lib.sh"

need ethtool tc
setup
data="$(dirname "$0")/rc_data"
knob=/sys/module/rocev2/parameters/superpackets

both() { on_a "${@/%IF/$IF_A}" && on_b "${@/%IF/$IF_B}"; }
count() { echo $(($(counter "$DEV_A" "$1") + $(counter "$DEV_B" "$1"))); }

# moved COUNTER...: how far each has moved since the last transfer began, added up
moved() {
	local name sum=0

	for name in "$@"; do
		sum=$((sum + $(count $name) - before[$name]))
	done
	echo $sum
}
declare -A before

verified() {
	local name

	for name in $(ls "/sys/class/infiniband/$DEV_A/ports/1/hw_counters"); do
		before[$name]=$(count "$name")
	done
	"$data" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
		--filter mixed --no-rnr --ops 400 || return
	echo "superpackets: $(moved tx_superpackets) sent, $(moved tx_superpackets_cut) cut, $(moved rx_superpackets) received;" \
		"$(moved $damage) packets damaged, $(moved out_of_sequence) out of sequence"
	[ "$(moved $damage)" = 0 ]
}
damage="rx_icrc_encapsulated rx_drop_checksum"

# transfer SENT RECEIVED: "some" or "none"; no packet is lost or damaged, or overtaken
transfer() {
	verified && [ "$(moved out_of_sequence)" = 0 ] && is "$1" "$(moved tx_superpackets)" && is "$2" "$(moved rx_superpackets)"
}
is() { [ "$1" = none -a "$2" = 0 ] || [ "$1" = some -a "$2" -gt 0 ]; }

switched_off() {
	local status

	echo N >$knob
	transfer none none
	status=$?
	echo Y >$knob
	return $status
}

device_cannot_cut() {
	local status

	both ethtool -K IF tx-udp-segmentation off && transfer none none
	status=$?
	both ethtool -K IF tx-udp-segmentation on
	return $status
}

# A shaper cuts what does not fit into its bucket. That is noticed; the pieces may be overtaken.
stack_cuts() {
	local status

	both tc qdisc add dev IF root tbf rate 10gbit burst 10000 limit 10000000 && verified &&
		[ "$(moved tx_superpackets_cut)" -gt 0 ] &&
		[ "$(($(moved tx_superpackets) - $(moved rx_superpackets)))" = "$(moved tx_superpackets_cut)" ]
	status=$?
	both tc qdisc del dev IF root
	return $status
}

come_back() {
	sleep 10
	transfer some some
}

within_device() {
	DEV_B=$DEV_A NS_B=$NS_A transfer some some
}

plan 6
check "whole" transfer some some
check "switched off" switched_off
check "the device cannot cut" device_cannot_cut
check "the stack cuts" stack_cuts
check "the stack cuts no more" come_back
check "within one device" within_device
finish
