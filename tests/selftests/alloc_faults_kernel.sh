#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Memory that a kernel consumer does not get: each allocation of each verb fails in turn. By the
# module rocev2_kfault (tests/kmod); needs CONFIG_FAULT_INJECTION (tests/rig/uml/kasan.config).
#
#   ROCEV2_KMOD  directory with rocev2_kfault.ko

. "$(dirname "$0")/lib.sh"

module=$ROCEV2_KMOD/rocev2_kfault.ko
need ip rdma dmesg
[ -e "$module" ] || skip_all "no \$ROCEV2_KMOD/rocev2_kfault.ko: build tests/kmod and set ROCEV2_KMOD"
[ -d /sys/kernel/debug/failslab ] || skip_all "this kernel has no fault injection"
setup

# allocations of any kind, and no trace in the log for each
for kind in failslab fail_page_alloc; do
	echo 0 >/sys/kernel/debug/$kind/probability
	echo 0 >/sys/kernel/debug/$kind/verbose
	echo N >/sys/kernel/debug/$kind/ignore-gfp-wait
done
echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem
echo 0 >/sys/kernel/debug/fail_page_alloc/min-order

# The module runs its cases while it is loaded and tells in the kernel log.
dmesg -C
insmod "$module" dev_a="$DEV_A" dev_b="$DEV_B" || fail_all "cannot load $module: $(dmesg | tail -1)"
dmesg | sed -n 's/.*rocev2_kfault: //p' >"$scratch/kfault"
rmmod rocev2_kfault
cases=$(sed -n 's/^1\.\.//p' "$scratch/kfault")
[ -n "$cases" ] || fail_all "rocev2_kfault has run no case"
plan "$cases"
grep -v '^1\.\.' "$scratch/kfault"
results=$(grep -c '^\(not \)\?ok ' "$scratch/kfault")
failures=$(grep -c '^not ok ' "$scratch/kfault")
finish
