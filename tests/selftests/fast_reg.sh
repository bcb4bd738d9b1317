#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Fast registration, invalidation and draining by a kernel consumer, the module
# rocev2_ktest (tests/kmod): over a clean cable, then over one that loses packets.
#
#   ROCEV2_KMOD  directory with rocev2_ktest.ko

. "$(dirname "$0")/lib.sh"

module=$ROCEV2_KMOD/rocev2_ktest.ko
need ip rdma tc dmesg
[ -e "$module" ] || skip_all "no \$ROCEV2_KMOD/rocev2_ktest.ko: build tests/kmod and set ROCEV2_KMOD"
setup

# The module runs its cases while it is loaded and tells in the kernel log.
run_module() {
	dmesg -C
	insmod "$module" dev_a="$DEV_A" dev_b="$DEV_B" || return 1
	dmesg | sed -n 's/.*rocev2_ktest: //p' >"$scratch/ktest"
	rmmod rocev2_ktest
}

# Its KTAP under other numbers.
report() {
	local prefix=$1 line text

	while read -r line; do
		text=$(echo "$line" | sed 's/^\(not \)\?ok [0-9]* //')
		case $line in
		ok\ *)		results=$((results + 1)); echo "ok $results $prefix$text" ;;
		not\ ok\ *)	results=$((results + 1)); failures=$((failures + 1))
				echo "not ok $results $prefix$text" ;;
		\#*)		echo "$line" ;;
		esac
	done <"$scratch/ktest"
}

run_module || fail_all "cannot load $module: $(dmesg | tail -1)"
cases=$(sed -n 's/^1\.\.//p' "$scratch/ktest")
[ -n "$cases" ] || fail_all "rocev2_ktest has run no case"
plan $((2 * cases + 1))
report ""
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
run_module || fail_all "cannot load $module again"
report "loss_1%."
finish
