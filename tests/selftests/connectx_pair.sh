#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Two guests, a modelled card each, cabled to one another: ping, TCP with every byte compared, and RDMA of rocev2 on the
# card's netdev. Both guests run this script; b serves.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/pair.sh"

need_cards 1
need ping rstream rdma ibv_rc_pingpong ib_write_bw ss

check_data=
ibv_rc_pingpong --help 2>&1 | grep -q -- --chk && check_data=-c

pings() {
	ping -q -c 50 -i 0.02 -W 10 "$1" | tee "$scratch/ping"
	grep -q ' 50 received' "$scratch/ping"
}

# 32 blocks one way, then back, four times
tcp_stream() {
	if [ "$ROLE" = b ]; then
		across 7471 rstream -T s -T v -S 65536 -C 32 -I 4 -b $here4
	else
		across 7471 rstream -T s -T v -S 65536 -C 32 -I 4 -s
	fi
}

add_device() {
	device=rv$ROLE
	add_link "" $device "$LINK_TYPE" "$netdev" && eventually has_gids $device 3
}

trap leave EXIT
load_module || fail_all "cannot load the module for link type $LINK_TYPE"
echo "# guest $ROLE, Linux $(uname -r)"
plan 12
check "the card's netdev has a carrier" bring_up || finish
check "the other guest is there" meet up || finish
check "ping, IPv4" pings $there4
check "ping, IPv6" pings $there6
check "TCP, both ways, each byte compared" tcp_stream
check "an RDMA device on the card's netdev" add_device || finish
gid=$(gid_indices $device "$gid4")
check "ibv_rc_pingpong" across 18601 ibv_rc_pingpong $check_data -d $device -g "$gid" -p 18601 -n 200
check "ibv_rc_pingpong, MTU 4096, 64 KiB, events" \
	across 18602 ibv_rc_pingpong $check_data -d $device -g "$gid" -p 18602 -m 4096 -s 65536 -n 100 -e
check "ib_write_bw, both ways" across 18603 ib_write_bw -d $device -x "$gid" -p 18603 -F -s 65536 -n 200 -b
check "ib_read_bw" across 18604 ib_read_bw -d $device -x "$gid" -p 18604 -F -s 65536 -n 100
check "the other guest is through, too" meet end
check "the driver had nothing to complain of" driver_is_content
finish
