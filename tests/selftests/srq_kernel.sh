#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Shared receive queues of a kernel consumer, the module rocev2_ksrq (tests/kmod).
#
#   ROCEV2_KMOD  directory with rocev2_ksrq.ko

. "$(dirname "$0")/lib.sh"

module=$ROCEV2_KMOD/rocev2_ksrq.ko
need ip rdma dmesg
[ -e "$module" ] || skip_all "no \$ROCEV2_KMOD/rocev2_ksrq.ko: build tests/kmod and set ROCEV2_KMOD"
setup

# The module runs its cases while it is loaded and tells in the kernel log.
dmesg -C
insmod "$module" dev_a="$DEV_A" dev_b="$DEV_B" || fail_all "cannot load $module: $(dmesg | tail -1)"
dmesg | sed -n 's/.*rocev2_ksrq: //p' >"$scratch/ksrq"
rmmod rocev2_ksrq
cases=$(sed -n 's/^1\.\.//p' "$scratch/ksrq")
[ -n "$cases" ] || fail_all "rocev2_ksrq has run no case"
plan "$cases"
grep -v '^1\.\.' "$scratch/ksrq"
results=$(grep -c '^\(not \)\?ok ' "$scratch/ksrq")
failures=$(grep -c '^not ok ' "$scratch/ksrq")
finish
