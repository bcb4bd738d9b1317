# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For the selftests with two guests, a modelled card each, cabled to one another (tests.list: cards=1 guests=2): this
# guest's end, and RDMA programs between it and the other's. Both guests run the same script. Source it behind lib.sh
# and cards.sh, and for native_test behind attach.sh.
#
#   $netdev         the card's, after bring_up; addresses $here4 $here6, the other guest's are $there4 $there6
#   $device         the RDMA device on it, after attach_natively or link_rxe
#   $gid4 $gid6     GIDs of the addresses here
#   $function       the auxiliary device of the card, if attached natively

case $ROLE in
a)	here4=$IP4_A there4=$IP4_B here6=$IP6_A there6=$IP6_B number=1 ;;
b)	here4=$IP4_B there4=$IP4_A here6=$IP6_B there6=$IP6_A number=2 ;;
*)	skip_all "needs two guests" ;;
esac
gid4=0000:0000:0000:0000:0000:ffff:0a47:000$number
gid6=fd71:0000:0000:0000:0000:0000:0000:000$number
# all in the initial namespace: of the two ends one is here
NS_A='' NS_B=''

leave() {
	tell left
	# a native link goes with its driver
	[ -n "$function" ] || [ -z "$device" ] || rdma link del "$device" 2>/dev/null
	rm -rf "$scratch"
}

bring_up() {
	load_cards 1 || return
	netdev=$netdevs
	sysctl -qw "net.ipv6.conf.$netdev.accept_dad=0"
	ip link set "$netdev" mtu $MTU && ip addr add $here4/24 dev "$netdev" && ip addr add $here6/64 dev "$netdev" nodad &&
		ip link set "$netdev" up && patiently 20 has_carrier "" "$netdev"
}

link_is_here() {
	device=$(link_on "" "$netdev") && link_is_active "$device" && has_gids "$device" 3
}

# rocev2 with queues of its own in the card
attach_natively() {
	load_attach && patiently 30 link_is_here && link_is_here && function=$(attached "$netdev")
}

link_rxe() {
	modprobe rdma_rxe && rdma link add rxe_$ROLE type rxe netdev "$netdev" && patiently 30 link_is_here && link_is_here
}

# What this guest has, for people. A driver of the kernel's own taints it in no way.
introduce() {
	local pci=/sys/class/net/$netdev/device driver taint

	driver=$(basename "$(readlink -f $pci/driver)")
	taint=$(cat "/sys/module/$driver/taint")
	echo "# Linux $(uname -r)"
	echo "# $(basename "$(readlink -f $pci)") [$(cut -c3- $pci/vendor):$(cut -c3- $pci/device)]," \
		"driver $driver (${taint:-untainted}), $netdev, $here4, $here6"
	[ -z "$function" ] || echo "# $function: driver" \
		"$(basename "$(readlink -f "/sys/bus/auxiliary/devices/$function/driver")")," \
		"$(rxqs "$function" packets | wc -l) receive queues"
	echo "# $(rdma link show "$device/1")"
}

# netdev_packets: what the netdev's own queues have received
netdev_packets() {
	ethtool -S "$netdev" | awk '$1 == "rx_packets:" { print $2 }'
}

# by_our_queues PACKETS COMMAND...: if attached natively, this guest receives that many at least by receive queues of
# ours; to the netdev's goes what is no RoCE: the programs' handshakes over TCP, ARP, neighbour discovery
by_our_queues() {
	local wanted=$1 ours others status

	shift
	[ -n "$function" ] || { "$@"; return; }
	ours=$(rxqs "$function" packets | sum) others=$(netdev_packets)
	"$@"
	status=$?
	ours=$(($(rxqs "$function" packets | sum) - ours)) others=$(($(netdev_packets) - others))
	echo "our queues received $ours packets, the netdev's $others"
	[ $status = 0 ] && [ $ours -ge "$wanted" ] && [ $others -le 40 ]
}

nothing_dropped() {
	local column drops

	for column in no_buffer drop_not_ours drop_error; do
		drops=$(rxqs "$function" $column) || return
		[ "$(echo "$drops" | sum)" = 0 ] || { echo "$column:"; echo "$drops"; return 1; }
	done
}

received_all() {
	echo "# received: $(rxqs "$function" packets | sum) packets by our queues, $(netdev_packets) by the netdev's"
}

# crossing RESULT PROGRAM ARGS...: across; $measured is what awk prints for RESULT of the client's output, and must be
# something
crossing() {
	local status

	across "$PORT" "${@:2}" >"$scratch/across.log" 2>&1
	status=$?
	cat "$scratch/across.log"
	[ $status = 0 ] || return
	[ "$ROLE" != "$SERVER" ] || return 0
	measured=$(awk -v no_clock="$no_clock" "$1" "$scratch/across.log")
	[ -n "$measured" ]
}

# measure PACKETS NAME RESULT PROGRAM ARGS...: a result, and the client's guest tells what it has measured; takes PORT
measure() {
	measured=
	check "$2" by_our_queues "$1" crossing "${@:3}" && [ -n "$measured" ] && echo "# $2: $measured"
	PORT=$((PORT + 1))
}

# perftest measures its clock first, and where it cannot, on a busy machine, it prints "inf" or 0
no_clock="done; no figure, perftest could not tell the clock's rate"
write_result='$1 == 65536 && NF >= 4 { print ($4 > 0 ? $4 " MiB/s" : no_clock) }'
latency_result='$1 == 64 && NF >= 8 { print ($5 !~ /inf/ ? "median " $5 " us, 99 % " $8 " us" : no_clock) }'

# The guests and their cards share the host's processors: an ACK can take longer than the 67 ms that perftest allows
# though nothing is lost. A second.
patient=(-F -u 18)

# programs: 16 results
programs() {
	local SERVER ADDRESS family gid way wanted rping

	for SERVER in b a; do
		for family in 4 6; do
			way="IPv$family, a to b" ADDRESS=$there4 gid=$gid4
			[ $SERVER = b ] || way="IPv$family, b to a"
			[ $family = 4 ] || gid=$gid6
			gid=$(gid_indices "$device" "$gid")
			measure 300 "ibv_rc_pingpong, $way, each byte compared" '/usec\/iter/ { print $(NF - 1) " us there and back" }' \
				ibv_rc_pingpong -c -d "$device" -g "$gid" -p $PORT -m 4096 -s 10000 -n 100
			# the client only hears ACKs
			wanted=10
			[ "$ROLE" != $SERVER ] || wanted=1600
			measure $wanted "ib_write_bw, $way" "$write_result" \
				ib_write_bw -d "$device" -x "$gid" -p $PORT "${patient[@]}" -s 65536 -n 100
			measure 100 "ib_send_lat, $way" "$latency_result" \
				ib_send_lat -d "$device" -x "$gid" -p $PORT "${patient[@]}" -s 64 -n 100
			# the address comes last
			rping=(rping -c -p $PORT -S 5000 -C 20 -V -a)
			[ $family = 4 ] || ADDRESS=$there6
			if [ "$ROLE" = $SERVER ]; then
				rping=(rping -s -p $PORT -S 5000 -C 20 -V -a $here4)
				[ $family = 4 ] || rping[-1]=$here6
			fi
			measure 60 "rping, $way, each byte compared" 'END { print "20 rounds" }' "${rping[@]}"
		done
	done
}

# native_test: the whole of a test whose guest a is attached natively, and guest b, too, unless PEER is rxe
native_test() {
	local link=attach_natively

	need_cards 1
	need rdma ibv_rc_pingpong ib_write_bw ib_send_lat rping ss
	trap leave EXIT
	if [ "$PEER" = rxe ] && [ "$ROLE" = b ]; then
		link=link_rxe
		need_modules rdma_rxe
	else
		load_module || fail_all "cannot load the module"
	fi
	plan 22
	check "the card's netdev has a carrier" bring_up || finish
	check "an RDMA device on it" $link || finish
	introduce
	check "the other guest is there" meet up || finish
	programs
	check "the other guest is through, too" meet end
	if [ -n "$function" ]; then
		check "nothing was dropped" nothing_dropped
		received_all
	else
		check "packets came by the netdev" test "$(netdev_packets)" -gt 5000
	fi
	check "the driver has nothing to complain of" driver_is_content
	finish
}
