#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# 200 memory regions used in turn: at least 99 % of the key lookups must be served
# by the QPs' translation caches.

. "$(dirname "$0")/lib.sh"

setup

both() {
	echo $(($(counter "$DEV_A" "$1") + $(counter "$DEV_B" "$1")))
}

hit_rate() {
	local hits=$(both mr_cache_hit) misses=$(both mr_cache_miss)

	"$(dirname "$0")/lifecycle" --dev-a "$DEV_A" --dev-b "$DEV_B" --netns-a "$NS_A" --netns-b "$NS_B" \
		--filter many_mrs || return 1
	hits=$(($(both mr_cache_hit) - hits)) misses=$(($(both mr_cache_miss) - misses))
	echo "hits $hits, misses $misses"
	[ $hits -gt 10000 ] && [ $((misses * 99)) -le $hits ]
}

plan 1
check "99 % hits over 200 regions" hit_rate
comment <"$scratch/check.log"
finish
