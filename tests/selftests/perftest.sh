#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# perftest of the distribution, every RC opcode, as people run it.  What counts
# here is that each run ends well on both sides with the iterations asked for.

. "$(dirname "$0")/lib.sh"

need ib_write_bw ib_atomic_lat ss
setup

gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)

run() {
	perftest "$@" -x "$gid"
}

plan 20
for op in write read send; do
	check "ib_${op}_bw" run ib_${op}_bw -s 65536 -n 500
	check "ib_${op}_lat" run ib_${op}_lat -s 8 -n 500
done
check "ib_atomic_bw compare-and-swap" run ib_atomic_bw -A CMP_AND_SWAP -n 500
check "ib_atomic_bw fetch-and-add" run ib_atomic_bw -A FETCH_AND_ADD -n 500
check "ib_atomic_lat" run ib_atomic_lat -n 500
check "ib_write_bw -a" run ib_write_bw -a -n 20
check "ib_write_bw -q 16" run ib_write_bw -q 16 -s 4096 -n 100
check "ib_write_bw -I 220" run ib_write_bw -I 220 -s 200 -n 500
check "ib_write_bw -b" run ib_write_bw -b -s 65536 -n 300
check "ib_send_bw -e" run ib_send_bw -e -s 4096 -n 500
check "ib_send_lat -e" run ib_send_lat -e -s 8 -n 500
check "ib_read_bw -o 16" run ib_read_bw -o 16 -s 65536 -n 200
check "ib_send_bw --use-srq -q 16" run ib_send_bw --use-srq -q 16 -s 65536 -n 100
check "ib_send_bw --use-srq -q 16 -b" run ib_send_bw --use-srq -q 16 -b -s 4096 -n 100
check "ib_send_bw --use-srq -q 4 -e" run ib_send_bw --use-srq -q 4 -e -s 4096 -n 200
check "ib_send_lat --use-srq" run ib_send_lat --use-srq -s 8 -n 500
finish
