#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# No test: how many instructions the kernel takes to receive a packet,
# on a machine whose time-stamp counter counts them.
#
#   tests/run --rig qemu --icount --timeout 600 --exec ./rx_instructions.sh
#
# Streams of RC WRITEs of one packet each, without superpackets. Two functions have the whole way of a packet: the
# netdev's hook as far as the QP's queue, and the QP's owner from there on. The tracer's own instructions are in it, the
# same for each. Packets that an interrupt comes upon take longer: the median is what counts. An acknowledgment takes
# fewer than any WRITE, and there are as many WRITEs as were sent: so they are told apart.

. "$(dirname "$0")/lib.sh"

need ib_write_bw ss
setup
gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
tracing=/sys/kernel/tracing
[ -e $tracing/trace ] || mount -t tracefs tracefs $tracing || fail_all "there is no tracefs"
grep -qw function_graph $tracing/available_tracers || skip_all "the kernel has no function_graph tracer"
[ "$(nproc)" = 1 ] || fail_all "this machine counts time, not instructions: --icount"

set_tracing() { echo "$2" >"$tracing/$1"; }

# The clock of the tracer is the time-stamp counter in what the kernel takes for nanoseconds.
mhz=$(dmesg | sed -n 's/.*tsc: Detected \([0-9.]*\) MHz processor.*/\1/p' | head -1)
[ -n "$mhz" ] || fail_all "the kernel has not said how fast it takes the time-stamp counter to be"

writes() {
	between ib_write_bw -x "$gid" -F -m 4096 -s "$1" -n $messages >"$scratch/bw.log" 2>&1
}

# instructions FUNCTION: of each time that it ran, sorted
instructions() {
	awk -v mhz="$mhz" '{ for (i = 2; i < NF; i++) if ($i == "us") printf "%.0f\n", $(i - 1) * mhz }' \
		$tracing/trace | sort -n
}

# measure FUNCTION BYTES
measure() {
	set_tracing current_tracer nop
	set_tracing set_ftrace_filter "$1"
	set_tracing current_tracer function_graph
	set_tracing tracing_on 1
	writes "$2" || { comment <"$scratch/bw.log"; fail_all "ib_write_bw of $2 bytes failed"; }
	set_tracing tracing_on 0
	instructions >"$scratch/all"
	awk -v name="$1" -v bytes="$2" -v messages="$messages" '
		function row(what, first, last, n) {
			n = last - first
			if (n > messages / 10)
				printf "%-18s %-6s %7d %6d %7d %7d %7d\n", name, what, bytes, n + 1,
					all[first + int(n / 10)], all[first + int(n / 2)], all[last - int(n / 10)]
		}
		{ all[NR] = $1 }
		END {
			if (NR < messages)
				exit 1
			if (name == "rocev2_ingress") {
				row("any", 1, NR)
			} else {
				row("ACK", 1, NR - messages)
				row("WRITE", NR - messages + 1, NR)
			}
		}' "$scratch/all" || fail_all "$1 has not run for each packet"
}

messages=1000
set_tracing tracing_on 0
set_tracing buffer_size_kb 16384
echo N >/sys/module/rocev2/parameters/superpackets
printf '%-18s %-6s %7s %6s %7s %7s %7s\n' function packet payload runs '10 %' median '90 %'
for bytes in 8 64 1024 4096; do
	for function in rocev2_ingress rocev2_rx_packet; do
		measure $function $bytes || exit
	done
done
set_tracing current_tracer nop
