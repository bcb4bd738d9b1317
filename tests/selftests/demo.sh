#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# What `make demo` shows: two RDMA devices on a veth pair, ib_write_bw of the
# distribution between their namespaces.  Not a test.

. "$(dirname "$0")/lib.sh"

setup
echo "--- rdma link"
rdma link
gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
echo "--- ib_write_bw between two namespaces"
between ib_write_bw -x "$gid" -F -s 65536 -n 300 >"$scratch/demo.log" 2>&1
status=$?
cat "$scratch/demo.log"
[ $status = 0 ] || exit 1
# perftest's column is in MiB/s, whatever its title says
awk -v type="$LINK_TYPE" '$1 == 65536 && NF >= 5 { printf "%s: ib_write_bw 65536 B: %.0f MB/s\n", type, $4 * 1.048576; found = 1 }
	END { exit !found }' "$scratch/demo.log"
