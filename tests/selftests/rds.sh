#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# RDS over RDMA: sockets of the kernel's rds_rdma on both devices, over the cable; then with loss,
# and with devices taken away. RDS promises that every message arrives once and in order all the same.

. "$(dirname "$0")/lib.sh"

need_modules rds_rdma

rds() {
	"$(dirname "$0")/rds" --address-a $IP4_A --address-b $IP4_B --seed 71 "$@"
}

links_removed() {
	local stream

	rds --stream-s 8 &
	stream=$!
	sleep 2
	rdma link del "$DEV_A" && sleep 0.5 && add_link_a || return
	sleep 2
	rdma link del "$DEV_B" && sleep 0.5 && add_link_b || return
	wait $stream
}

setup_here
# By default it gives a connection up, with the RDMA under way, when one packet is lost twice. It stays loaded: see
# Documentation/testing.md.
modprobe rds_rdma rds_ib_retry_count=7 || fail_all "cannot load rds_rdma"
plan 4
check "messages, RDMA" rds
check "both ways over the cable" over_the_cable $((8 << 20)) rds --filter both_ways
check "messages, RDMA, loss 1 %" lossy rds
check "links removed and added under load" links_removed
finish
