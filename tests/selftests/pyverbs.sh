#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rdma-core's own test suite, as the distribution ships it, against a rocev2 device and
# against rdma_rxe in the same kernel, with an IPv4 and with an IPv6 GID. What is skipped
# must be listed with its cause in pyverbs.expected, and what rdma_rxe passes must pass or
# be on that list.

. "$(dirname "$0")/lib.sh"

[ "$LINK_TYPE" = rocev2 ] || skip_all "is about rocev2"
need python3 awk gzip
python3 -c 'import pyverbs' 2>/dev/null || skip_all "python3-pyverbs is not installed"
for suite in /usr/share/doc/rdma-core/tests /usr/share/doc/python3-pyverbs/tests; do
	[ -e "$suite/run_tests.py" ] && break
done
[ -e "$suite/run_tests.py" ] || skip_all "the suite is in no package that is installed: see rdma-core"
expected=$(dirname "$0")/pyverbs.expected

setup
mkdir "$scratch/suite"
cp -r "$suite" "$scratch/suite/tests"
gunzip -q "$scratch"/suite/tests/*.gz
# The suite of rdma-core 44 looks for the name of a device's netdev where only a device on a bus has it.
sed -i "s,/sys/class/infiniband/{}/device/net/,$scratch/netdev/{}/," "$scratch/suite/tests/base.py"
mkdir -p "$scratch/netdev/$DEV_A/$IF_A"
rm -f "$scratch"/suite/tests/test_{mlx5,efa,cuda,irdma,mana,hns}*

# results < OUTPUT: CLASS.TEST RESULT [REASON] of each test, of a verbose run
results() {
	awk '/^test_[A-Za-z0-9_]* \(tests\./ {
		name = $2; gsub(/[()]/, "", name); n = split(name, part, ".")
		name = part[n - 1] "." part[n]
		# older Pythons leave the method out
		if (part[n] !~ /^test_/) name = part[n] "." $1
	}
	# what the interpreter says of objects it collects may stand in between
	/(^| \.\.\. )(ok|FAIL|ERROR|skipped .*)$/ && name != "" {
		sub(/.* \.\.\. /, ""); print name, $0; name = ""
	}'
}

# A test that skips leaves objects behind which the interpreter takes apart in any order, at its end
# at the latest: a context before what was made in it. libibverbs does not survive that, with any
# driver. So the process ends when the tests have.
run_and_exit='
import os, runpy, sys
sys.argv.pop(0)
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(end.code)
'

# suite NS DEV GID: each module by itself, so that a crash is told from the rest
suite() {
	local module status ran

	for module in "$scratch"/suite/tests/test_*.py; do
		module=$(basename "$module" .py)
		(cd "$scratch/suite" && HOME=$scratch PYTHONPATH=tests timeout 300 ip netns exec "$1" \
			python3 -W ignore -c "$run_and_exit" tests/run_tests.py --dev "$2" --gid "$3" \
			-v "tests.$module") >"$scratch/out" 2>&1
		status=$?
		results <"$scratch/out" >"$scratch/module"
		cat "$scratch/module"
		ran=$(sed -n 's/^Ran \([0-9]*\) tests\? .*/\1/p' "$scratch/out")
		# 1: a test has failed
		[ $status -le 1 ] && [ "$ran" = "$(wc -l <"$scratch/module")" ] && continue
		tail -40 "$scratch/out" | comment >&2
		echo "$module.all status $status, ${ran:-?} tests ran, $(wc -l <"$scratch/module") results"
	done
}

skip_is_expected() {
	local pattern cause

	while read -r pattern cause; do
		case $pattern in ''|\#*) continue ;; esac
		# shellcheck disable=SC2254
		case $1 in $pattern) return 0 ;; esac
	done <"$expected"
	return 1
}

# no failure, and no skip without a cause
all_well() {
	local name result bad=0

	while read -r name result; do
		case $result in
		ok)		;;
		skipped*)	skip_is_expected "$name" || { echo "unexpected: $name $result"; bad=1; } ;;
		*)		echo "$name $result"; bad=1 ;;
		esac
	done <"$1"
	[ "$(grep -c ' ok$' "$1")" -ge 80 ] || { echo "only $(grep -c ' ok$' "$1") tests ran"; bad=1; }
	return $bad
}

# superset OURS PEER: what the peer passes, we pass, or say why not
superset() {
	local name result bad=0

	while read -r name result; do
		[ "$result" = ok ] || continue
		grep -q "^$name ok$" "$1" && continue
		skip_is_expected "$name" || bad=1
		echo "# $name: rdma_rxe passes it" >&3
	done <"$2"
	return $bad
}

# row DEVICE KIND RESULTS: of the table that ends the output
row() {
	printf '# %-10s %-6s %6d %6d %6d\n' "$1" "$2" "$(grep -c ' ok$' "$3")" "$(grep -c ' skipped' "$3")" \
		"$(grep -vc ' ok$\| skipped' "$3")" >>"$scratch/table"
}

modprobe rdma_rxe || fail_all "no rdma_rxe in this kernel to compare with"
peer=rxp_$ID
make_pair "$NS_A" "rxp$ID" "$NS_B" "rxq$ID" && make_end "$NS_A" "rxp$ID" 10.73.0.1 fd73::1 &&
	make_end "$NS_B" "rxq$ID" 10.73.0.2 fd73::2 && add_link "$NS_A" "$peer" rxe "rxp$ID" &&
	eventually has_gids "$peer" 3 || fail_all "cannot make an rdma_rxe device"

mkdir -p "$scratch/netdev/$peer/rxp$ID"

# gid_index DEV PATTERN
gid_index() {
	list_gids "$1" | grep ":$2:" | head -1 | cut -d: -f1
}

exec 3>&1
plan 4
for kind in ipv4 ipv6; do
	if [ $kind = ipv4 ]; then gid=0000:ffff; else gid=fd7[13]:0000; fi
	suite "$NS_A" "$DEV_A" "$(gid_index "$DEV_A" $gid)" >"$scratch/rocev2"
	suite "$NS_A" "$peer" "$(gid_index "$peer" $gid)" >"$scratch/rxe"
	row rocev2 $kind "$scratch/rocev2"
	row rdma_rxe $kind "$scratch/rxe"
	check "$kind: every test passes, or skips for a known cause" all_well "$scratch/rocev2"
	check "$kind: what rdma_rxe passes, or a known cause" superset "$scratch/rocev2" "$scratch/rxe"
done
printf '# %-17s %6s %6s %6s\n' "rdma-core $(dpkg-query -W -f '${Version}' rdma-core 2>/dev/null)" pass skip fail
cat "$scratch/table"
rdma link del "$peer"
finish
