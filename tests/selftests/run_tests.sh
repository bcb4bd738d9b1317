#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Runs the named tests one after the other on this machine and prints KTAP.
# Called by "make run_tests".

cd "$(dirname "$0")" || exit 1
timeout=$(sed -n 's/^timeout=//p' settings)
failed=0 skipped=0 number=0

echo "KTAP version 1"
echo "1..$#"
for test in "$@"; do
	number=$((number + 1))
	timeout "$timeout" "./$test" | sed 's/^/  /'
	case ${PIPESTATUS[0]} in
	0)	echo "ok $number $test" ;;
	4)	echo "ok $number $test # SKIP"; skipped=$((skipped + 1)) ;;
	124)	echo "not ok $number $test # timed out after $timeout s"; failed=$((failed + 1)) ;;
	*)	echo "not ok $number $test"; failed=$((failed + 1)) ;;
	esac
done
echo "# $((number - failed - skipped)) passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || exit 1
[ "$skipped" != "$number" ] || exit 4
