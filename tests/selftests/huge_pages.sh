#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# Memory regions in pages of 2 MiB, reserved (hugetlb) and transparent: that they
# are registered as such, and every byte of transfers within and across them.
# Without huge pages nothing is tested, and that is a failure.

. "$(dirname "$0")/lib.sh"

HUGE_PAGES=96
reserved=/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
transparent=/sys/kernel/mm/transparent_hugepage

# restored on exit
[ -w $reserved ] || fail_all "this kernel has no huge pages of 2 MiB ($reserved is missing)"
[ -w $transparent/enabled ] || fail_all "this kernel has no transparent huge pages ($transparent is missing)"
old_reserved=$(cat $reserved)
old_transparent=$(sed 's/.*\[\(.*\)\].*/\1/' $transparent/enabled)
restore() {
	echo "$old_reserved" >$reserved
	echo "$old_transparent" >$transparent/enabled
}

setup
trap 'cleanup; restore' EXIT
echo $HUGE_PAGES >$reserved
[ "$(cat $reserved)" -ge $HUGE_PAGES ] ||
	fail_all "got $(cat $reserved) huge pages of $HUGE_PAGES: the memory of this machine is too small or too scattered"
echo madvise >$transparent/enabled

program() {
	"$(dirname "$0")/$1" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" "${@:2}"
}

# Random data; the rings have 24 borders of huge pages, the messages up to 1 MiB.
data() {
	program rc_data --pages "$1" --gid-kind "$2" --ops 160 --filter huge_pages,"$2.mtu_$3",opcode.read,opcode.send --stall-limit 60 \
		--case-limit 200
}

plan 4
check "regions anywhere in huge pages" program huge_pages --case-limit 300
check "random data in hugetlb pages" data hugetlb ipv4 1024
check "random data in transparent huge pages" data transparent ipv6 4096
# of the machine's other huge pages nothing is missing afterwards
all_back() {
	[ "$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages)" = "$(cat $reserved)" ]
}
check "every huge page is free again" eventually all_back
finish
