#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# ibv_rc_pingpong of the distribution: over each GID, with each RoCE MTU, with
# events, the data checked where this version of it can (-c); and ibv_srq_pingpong.

. "$(dirname "$0")/lib.sh"

need ibv_rc_pingpong ibv_srq_pingpong ss
setup

gids=$(gid_indices "$DEV_A")
check_data=
ibv_rc_pingpong --help 2>&1 | grep -q -- --chk && check_data=-c
[ -n "$check_data" ] || echo "# this ibv_rc_pingpong cannot check data"

plan $((2 * $(echo "$gids" | wc -w) + 5 + 1 + 3))
for gid in $gids; do
	name="GID $gid ($(read_port "$DEV_A" cat "gids/$gid"))"
	check "$name" between ibv_rc_pingpong $check_data -g "$gid" -n 200
	check "$name, events" between ibv_rc_pingpong $check_data -g "$gid" -n 200 -e
done
gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
for mtu in 256 512 1024 2048 4096; do
	check "MTU $mtu, 10000 bytes" between ibv_rc_pingpong $check_data -g "$gid" -m $mtu -s 10000 -n 100
done
check "1 MiB messages" between ibv_rc_pingpong $check_data -g "$gid" -m 4096 -s 1048576 -n 20
check "SRQ" between ibv_srq_pingpong $check_data -g "$gid" -n 200
check "SRQ, 16 QPs, events" between ibv_srq_pingpong $check_data -g "$gid" -q 16 -n 500 -e
check "SRQ, 16 QPs, 10000 bytes" between ibv_srq_pingpong $check_data -g "$gid" -q 16 -n 200 -s 10000
finish
