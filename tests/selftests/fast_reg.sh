#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Fast registration, invalidation and draining by a kernel consumer, the module
# rocev2_ktest (tests/kmod): over a clean cable, then over one that loses packets.
#
#   ROCEV2_KMOD  directory with rocev2_ktest.ko

. "$(dirname "$0")/lib.sh"

need_kmod rocev2_ktest
need tc
setup
run_kmod rocev2_ktest
plan $((2 * cases + 1))
report_kmod
# three rounds of the cases; what races with traffic may be refused or not
refused=$(counter "$DEV_B" resp_remote_access_errors)
mgmt=$(counter "$DEV_B" req_mem_mgmt_errors)
check "counters of refusals: $refused remote, $mgmt own" \
	[ "$refused" -ge 27 -a "$refused" -le 33 -a "$mgmt" = 21 ]
for ns in a b; do
	if [ $ns = a ]; then interface=$IF_A; else interface=$IF_B; fi
	on_$ns tc qdisc replace dev "$interface" root netem limit 10000 loss 1% seed 42 ||
		fail_all "no netem"
done
run_kmod rocev2_ktest lossy=1
report_kmod "loss_1%."
finish
