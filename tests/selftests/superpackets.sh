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

# transfer SENT RECEIVED: "some", "none", or "fewer" received than sent; no packet is lost or damaged
transfer() {
	local sent received bad

	sent=$(count tx_superpackets) received=$(count rx_superpackets)
	bad=$(($(count rx_icrc_encapsulated) + $(count out_of_sequence) + $(count rx_drop_checksum)))
	"$data" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
		--filter mixed --no-rnr --ops 400 || return
	sent=$(($(count tx_superpackets) - sent)) received=$(($(count rx_superpackets) - received))
	bad=$(($(count rx_icrc_encapsulated) + $(count out_of_sequence) + $(count rx_drop_checksum) - bad))
	echo "superpackets: $sent sent, $received received; $bad packets damaged or missing"
	[ $bad = 0 ] || return
	[ "$2" != fewer ] || { [ $received -lt $sent ] && return; }
	is "$1" $sent && is "$2" $received
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

# a shaper cuts what does not fit into its bucket
stack_cuts() {
	local status

	both tc qdisc add dev IF root tbf rate 10gbit burst 10000 limit 10000000 && transfer some fewer
	status=$?
	both tc qdisc del dev IF root
	return $status
}

within_device() {
	DEV_B=$DEV_A NS_B=$NS_A transfer some some
}

plan 5
check "whole" transfer some some
check "switched off" switched_off
check "the device cannot cut" device_cannot_cut
check "the stack cuts" stack_cuts
check "within one device" within_device
finish
