#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# perftest of the distribution over UC and UD, to a multicast group, with shared receive
# queues, and with connections made by rdma_cm.  What counts here is that each run ends
# well on both sides with the iterations asked for.  A message that finds no receive WQE
# is lost on these services and perftest would wait for it, so no run of one size has
# more messages than the receive queue has WQEs (512).

. "$(dirname "$0")/lib.sh"

need ib_write_bw ib_send_lat ss
setup
route_multicast

gid=$(gid_indices "$DEV_A" 0000:0000:0000:0000:0000:ffff:0a47:0001)
# in decimal, as perftest reads it: ::ffff:239.71.0.1
group=0:0:0:0:0:0:0:0:0:0:255:255:239:71:0:1

# With several QPs perftest gives an SRQ as many WQEs as each of them sends messages, and a message that finds it empty is
# lost. So they are sent at a rate that leaves the receiver 400 ms to get its turn; a run that the counter tells lost one
# is none, and is repeated.
perftest_of_short_srq() {
	local try before

	for try in {1..3}; do
		before=$(counter "$DEV_B" rx_drop_no_recv_wqe)
		perftest "$@" && return
		[ "$(counter "$DEV_B" rx_drop_no_recv_wqe)" -gt "$before" ] || return 1
	done
	return 1
}

plan 39
for service in UC UD; do
	if [ $service = UC ]; then size=65536; else size=4096; fi
	check "ib_send_bw -c $service" perftest ib_send_bw -c $service -s $size -n 400 -x "$gid"
	check "ib_send_bw -c $service -a" perftest ib_send_bw -c $service -a -n 50 -x "$gid"
	check "ib_send_bw -c $service -b" perftest ib_send_bw -c $service -b -s $size -n 200 -x "$gid"
	check "ib_send_bw -c $service -q 8" perftest ib_send_bw -c $service -q 8 -s $size -n 50 -x "$gid"
	check "ib_send_bw -c $service -e" perftest ib_send_bw -c $service -e -s $size -n 200 -x "$gid"
	check "ib_send_bw -c $service -I 100" perftest ib_send_bw -c $service -I 100 -s 64 -n 400 -x "$gid"
	check "ib_send_lat -c $service" perftest ib_send_lat -c $service -s 8 -n 400 -x "$gid"
	check "ib_send_lat -c $service -a" perftest ib_send_lat -c $service -a -n 50 -x "$gid"
done
check "ib_write_bw -c UC" perftest ib_write_bw -c UC -s 65536 -n 400 -x "$gid"
check "ib_write_bw -c UC -a" perftest ib_write_bw -c UC -a -n 50 -x "$gid"
check "ib_write_bw -c UC -b" perftest ib_write_bw -c UC -b -s 65536 -n 200 -x "$gid"
check "ib_write_lat -c UC" perftest ib_write_lat -c UC -s 8 -n 400 -x "$gid"
check "ib_send_bw --use-srq -c UD" perftest ib_send_bw --use-srq -c UD -s 4096 -n 400 -x "$gid"
check "ib_send_bw --use-srq -c UD -q 4" perftest_of_short_srq ib_send_bw --use-srq -c UD -q 4 -s 1024 -n 400 \
	-x "$gid" --rate_limit 1000 --rate_units p --rate_limit_type SW --burst_size 1
check "ib_send_lat --use-srq -c UD" perftest ib_send_lat --use-srq -c UD -s 8 -n 400 -x "$gid"
check "ib_send_bw -g" perftest ib_send_bw -c UD -g -M $group -s 4096 -n 400 -x "$gid"
check "ib_send_bw -g -a" perftest ib_send_bw -c UD -g -M $group -a -n 50 -x "$gid"
check "ib_send_lat -g" perftest ib_send_lat -c UD -g -M $group -s 8 -n 400 -x "$gid"

# not -c UC: perftest refuses it with rdma_cm; cm_reconnect.sh has it
for program in ib_write_bw ib_read_bw ib_send_bw; do
	check "$program -R" perftest $program -R -s 65536 -n 300
done
for program in ib_write_lat ib_read_lat ib_send_lat; do
	check "$program -R" perftest $program -R -s 8 -n 300
done
check "ib_atomic_bw -R" perftest ib_atomic_bw -R -n 300
check "ib_write_bw -R -q 16" perftest ib_write_bw -R -q 16 -s 4096 -n 50
check "ib_send_bw -R --use-srq -q 4" perftest ib_send_bw -R --use-srq -q 4 -s 4096 -n 100
check "ib_write_bw -z" perftest ib_write_bw -z -s 4096 -n 100 -x "$gid"
check "ib_send_bw -R -c UD" perftest ib_send_bw -R -c UD -s 4096 -n 300
check "ib_send_bw -R -c UD -a" perftest ib_send_bw -R -c UD -a -n 50
check "ib_send_lat -R -c UD" perftest ib_send_lat -R -c UD -s 8 -n 300
finish
