#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# On a distribution's own kernel with its own programs: insmod, link,
# ib_write_bw, ibv_rc_pingpong, unlink, rmmod, and once more.

. "$(dirname "$0")/lib.sh"

need ib_write_bw ibv_rc_pingpong ss

# uses of the crypto layer's crc32: before 6.14 the kernel has its fast one there, and a table walk in the library
crc_uses() {
	awk '$1 == "name" { name = $3 } $1 == "refcnt" && name == "crc32" { uses += $3 - 1 } END { print uses + 0 }' /proc/crypto
}

setup

check_data=
ibv_rc_pingpong --help 2>&1 | grep -q -- --chk && check_data=-c
gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
gid6=$(gid_indices "$DEV_A" fd71:0000:0000:0000:0000:0000:0000:0001)

unlink_and_unload() {
	rdma link del "$DEV_A" && rdma link del "$DEV_B" || return 1
	case $LINK_TYPE in
	rxe)	rmmod rdma_rxe ;;
	*)	rmmod "$LINK_TYPE" ;;
	esac
}

link_again() {
	load_module && add_link "$NS_A" "$DEV_A" "$LINK_TYPE" "$IF_A" && add_link "$NS_B" "$DEV_B" "$LINK_TYPE" "$IF_B" &&
		eventually has_gids "$DEV_A" 3 && eventually has_gids "$DEV_B" 3
}

crc_in_use() { [ "$(crc_uses)" -gt 0 ]; }
crc_let_go() { [ "$(crc_uses)" = 0 ]; }

echo "# Linux $(uname -r)"
old=
[ "$(printf "%s\n" "$(uname -r)" 6.14 | sort -V | head -1)" = 6.14 ] || old=1
plan $((old ? 10 : 8))
check "ib_write_bw" between ib_write_bw -x "$gid" -F -s 65536 -n 100
check "ib_read_bw" between ib_read_bw -x "$gid" -F -s 65536 -n 50
check "ib_send_lat" between ib_send_lat -x "$gid" -F -s 8 -n 50
check "ibv_rc_pingpong, IPv4" between ibv_rc_pingpong $check_data -g "$gid" -n 50
check "ibv_rc_pingpong, IPv6, events" between ibv_rc_pingpong $check_data -g "$gid6" -n 50 -e
[ -z "$old" ] || check "the crypto layer's CRC-32 is in use" crc_in_use
check "unlink and rmmod" unlink_and_unload
[ -z "$old" ] || check "it is let go" crc_let_go
check "insmod and link again" link_again
check "ib_write_bw again" between ib_write_bw -x "$gid" -F -s 65536 -n 50
finish
