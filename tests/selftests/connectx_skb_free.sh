#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The native attach receives without an skb and without an allocation per packet: two guests, a sends 100,000 packets
# and more to b, which counts what its kernel allocates and frees meanwhile. The same packets by the netdev and its
# ingress hook show that it can count.

. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/cards.sh"
. "$(dirname "$0")/attach.sh"
. "$(dirname "$0")/pair.sh"

need ib_write_bw ss
[ -d /sys/kernel/tracing/events/skb ] || skip_all "this kernel has no tracepoints of skbs"
need_cards 1
trap leave EXIT
load_module && bring_up && attach_natively || fail_all "cannot attach to the card"
gid=$(gid_indices "$device" "$gid4")
meet up || fail_all "the other guest is not there"

# What is counted, each in a trace buffer of its own: it counts also what it has no room for.
tracing=/sys/kernel/tracing/instances
# Every skb ends by one of these.
skbs="skb/consume_skb skb/kfree_skb"
allocations="kmem/kmalloc kmem/kmem_cache_alloc kmem/mm_page_alloc"

start_counting() {
	local event buffer

	for event in $skbs $allocations; do
		buffer=$tracing/${event#*/}
		mkdir -p "$buffer" && echo 64 >"$buffer/buffer_size_kb" || return
		case $event in
		# those of softirqs, where packets are received: TRACE_FLAG_SOFTIRQ
		kmem/*)	echo 'common_flags & 16' >"$buffer/events/$event/filter" || return ;;
		esac
		echo 1 >"$buffer/events/$event/enable" || return
	done
}

counted() {
	local event

	for event in "$@"; do
		cat "$tracing/${event#*/}"/per_cpu/cpu*/stats
	done | awk '$1 == "entries:" || $1 == "overrun:" { sum += $2 } END { print sum + 0 }'
}

# of the card: what its port has received and sent
port_packets() { ethtool -S "$netdev" | awk -v name="$1_packets_phy:" '$1 == name { print $2 }'; }

# b's counts while 100,000 packets arrive: $packets, $sent, $freed, $allocated
measured() {
	local status

	if [ "$ROLE" = b ]; then
		packets=$(port_packets rx) sent=$(port_packets tx) freed=$(counted $skbs) allocated=$(counted $allocations)
	fi
	across "$1" ib_write_bw -d "$device" -x "$gid" -p "$1" -F -s 1048576 -n 400
	status=$?
	[ "$ROLE" = b ] || return $status
	packets=$(($(port_packets rx) - packets)) sent=$(($(port_packets tx) - sent))
	freed=$(($(counted $skbs) - freed)) allocated=$(($(counted $allocations) - allocated))
	echo "# $packets packets received, $sent sent; $freed skbs freed, $allocated allocations in softirqs" >&3
	[ $status = 0 ] && [ "$packets" -ge 100000 ]
}

# What is sent is skbs, each with an allocation or two: acknowledgments, one for many packets.
without_skbs() {
	measured 18701 || return
	[ "$ROLE" = a ] || [ $(((freed - sent) * 100)) -le "$packets" -a $((allocated * 5)) -le "$packets" ]
}

# The ring is full of buffers by then: pages that the system is asked for are few.
by_the_netdev() {
	rmmod rocev2_mlx5 && function= && rdma link add "$device" type rocev2 netdev "$netdev" && eventually has_gids "$device" 3 || return
	gid=$(gid_indices "$device" "$gid4")
	meet by_netdev && measured 18702 || return
	[ "$ROLE" = a ] || [ "$freed" -ge "$packets" ]
}

exec 3>&1
plan 4
check "counters" start_counting
check "100,000 packets by our queues: no skbs but those sent, few allocations" without_skbs
check "the same by the netdev: an skb a packet" by_the_netdev
check "the other guest is through, too" meet end
finish
