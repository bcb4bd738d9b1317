# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For the selftests that are shell scripts: two ends with an RDMA device each,
# and KTAP.  Source it, call setup, then check()s, then finish.
#
#   NETIF1, NETIF2  two real interfaces, cabled to one another; default: a veth pair
#   LINK_TYPE       of the RDMA links; default rocev2
#   ROCEV2_MODULE   rocev2.ko to load if it is not loaded; default: modprobe finds it
#   MTU             of the veth pair; default 4200, room for path MTU 4096
#
# After setup: namespaces $NS_A and $NS_B, interfaces $IF_A $IF_B, devices
# $DEV_A $DEV_B, addresses $IP4_A $IP4_B $IP6_A $IP6_B.

LINK_TYPE=${LINK_TYPE:-rocev2}
MTU=${MTU:-4200}
ID=$$
NS_A=rv-a-$ID
NS_B=rv-b-$ID
IP4_A=10.71.0.1 IP4_B=10.71.0.2
IP6_A=fd71::1 IP6_B=fd71::2
# how much longer a command may take: sanitizers and emulation are slow
case ${RIG:-} in
*kasan*|*lockdep*|qemu*) slow=4 ;;
*) slow=1 ;;
esac
KSFT_PASS=0 KSFT_FAIL=1 KSFT_SKIP=4
results=0 failures=0
scratch=$(mktemp -d)

# --- KTAP

plan() {
	echo "KTAP version 1"
	echo "1..$1"
	planned=$1
}

comment() {
	sed 's/^/# /'
}

# The devices' counters that are not 0.
all_counted() {
	local dev

	for dev in ${DEV_A:-} ${DEV_B:-}; do
		echo "$dev:" $(rdma statistic show link "$dev/1" 2>/dev/null | tr -s ' \n' '\n\n' | paste -d' ' - - |
			grep -v "^link \| 0$")
	done
}

# check NAME COMMAND...: a result; the command's output is shown when it fails, and what the devices have counted
check() {
	local name=$1 status began=${EPOCHREALTIME/[.,]/} took

	shift
	results=$((results + 1))
	"$@" >"$scratch/check.log" 2>&1
	status=$?
	took="$(((${EPOCHREALTIME/[.,]/} - began) / 1000)) ms"
	if [ $status = 0 ]; then
		echo "ok $results $name # $took"
		return 0
	fi
	failures=$((failures + 1))
	{ cat "$scratch/check.log"; echo "$* returned $status"; all_counted; } | comment
	echo "not ok $results $name # $took"
	return 1
}

# Nothing could be tested: say why; the rig counts it as a failure.
skip_all() {
	echo "1..0 # SKIP $*"
	exit $KSFT_SKIP
}

fail_all() {
	echo "# $*"
	echo "Bail out! $*"
	exit $KSFT_FAIL
}

finish() {
	if [ -n "$planned" ] && [ "$results" != "$planned" ]; then
		echo "# $results results of $planned planned"
		exit $KSFT_FAIL
	fi
	[ "$failures" = 0 ] || exit $KSFT_FAIL
	exit $KSFT_PASS
}

# --- the two ends

need() {
	local program

	[ "$(id -u)" = 0 ] || skip_all "must be root"
	for program in "$@"; do
		command -v "$program" >/dev/null || skip_all "$program is not installed"
	done
}

# The kernel must have these; they are not loaded yet when it returns.
need_modules() {
	local module

	for module in "$@"; do
		modprobe -nq "$module" || [ -e "/sys/module/${module//-/_}" ] || skip_all "the kernel has no $module"
	done
}

load_module() {
	case $LINK_TYPE in
	rocev2)	grep -q '^rocev2 ' /proc/modules && return
		if [ -n "$ROCEV2_MODULE" ]; then
			insmod "$ROCEV2_MODULE"
		else
			modprobe rocev2
		fi ;;
	rxe)	modprobe rdma_rxe ;;
	*)	modprobe "$LINK_TYPE" ;;
	esac
}

# Wait up to 5 s, or longer where all is slow, for a command to succeed.
eventually() {
	local try

	for try in $(seq $((100 * slow))); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.05
	done
	"$@"
}

link_is_active() {
	rdma link show "$1/1" | grep -q 'state ACTIVE'
}

# read_port DEV COMMAND...: run a command in the sysfs directory of its port, in the namespace that holds its netdev:
# a kernel may show the device nowhere else.
read_port() {
	local ns=$NS_B dir=/sys/class/infiniband/$1/ports/1

	case $1 in
	*a_[0-9]*) ns=$NS_A ;;
	esac
	shift
	${ns:+ip netns exec "$ns"} env -C "$dir" "$@"
}

# INDEX:GID lines.  A GID table can have a thousand entries, so one grep reads it all.
list_gids() {
	read_port "$1" grep -rv '^0000:0000:0000:0000:0000:0000:0000:0000$' gids 2>/dev/null |
		sed 's,.*gids/,,' | sort -n
}

# DAD is off or done, so the GID is there.
has_gids() {
	[ "$(list_gids "$1" | wc -l)" -ge "$2" ]
}

# pair NS1 IF1 NS2 IF2: a veth pair between two namespaces
make_pair() {
	ip link add "$2" mtu "$MTU" netns "$1" type veth peer name "$4" mtu "$MTU" netns "$3"
}

# make_end NS IF IP4 IP6: addresses, up
make_end() {
	ip netns exec "$1" sysctl -qw net.ipv6.conf.all.accept_dad=0 "net.ipv6.conf.$2.accept_dad=0" \
		"net.ipv6.conf.$2.addr_gen_mode=0"
	ip -n "$1" link set lo up
	ip -n "$1" addr add "$3/24" dev "$2"
	ip -n "$1" addr add "$4/64" dev "$2" nodad
	ip -n "$1" link set "$2" up
}

# add_link NS NAME TYPE IF; NS may be empty, see setup_here
add_link() {
	${1:+ip netns exec "$1"} rdma link add "$2" type "$3" netdev "$4" || return
	eventually link_is_active "$2"
}

setup() {
	need ip rdma ibv_devinfo
	trap cleanup EXIT
	load_module || fail_all "cannot load the module for link type $LINK_TYPE"
	ip netns add "$NS_A" && ip netns add "$NS_B" || fail_all "cannot make namespaces"
	if [ -n "$NETIF1" ] && [ -n "$NETIF2" ]; then
		IF_A=$NETIF1 IF_B=$NETIF2
		ip link set "$IF_A" netns "$NS_A" && ip link set "$IF_B" netns "$NS_B" ||
			fail_all "cannot take $IF_A and $IF_B"
	else
		IF_A=rva$ID IF_B=rvb$ID
		make_pair "$NS_A" "$IF_A" "$NS_B" "$IF_B" || fail_all "cannot make a veth pair"
	fi
	make_end "$NS_A" "$IF_A" $IP4_A $IP6_A
	make_end "$NS_B" "$IF_B" $IP4_B $IP6_B
	DEV_A=rva_$ID DEV_B=rvb_$ID
	# link-local, IPv4, IPv6
	gids=3
	add_link_a && add_link_b || fail_all "cannot add the rdma links"
}

# A link again that was deleted: add_link_a, add_link_b. The device's GIDs are there when it returns.
add_link_a() { add_link "$NS_A" "$DEV_A" "$LINK_TYPE" "$IF_A" && eventually has_gids "$DEV_A" "$gids"; }
add_link_b() { add_link "$NS_B" "$DEV_B" "$LINK_TYPE" "$IF_B" && eventually has_gids "$DEV_B" "$gids"; }

on_a() { ${NS_A:+ip netns exec "$NS_A"} "$@"; }
on_b() { ${NS_B:+ip netns exec "$NS_B"} "$@"; }

# make_end_here IF IP: of this end, then of the other
make_end_here() {
	local mac

	mac=$(cat "/sys/class/net/$3/address")
	ip addr add "$2/32" dev "$1" && ip link set "$1" up &&
		ip route add "$4/32" dev "$1" src "$2" &&
		ip route del local "$2" dev "$1" table local &&
		ip neigh replace "$4" lladdr "$mac" dev "$1" nud permanent
}

# setup_here: as setup, both ends in the namespace of the caller, since some of the kernel's own users of RDMA look
# at the initial one alone; IPv4 only. To the routing tables neither address is local, so that what one end sends to
# the other goes over the cable; our packets never ask for the way in.
setup_here() {
	need ip rdma
	trap cleanup EXIT
	load_module || fail_all "cannot load the module for link type $LINK_TYPE"
	NS_A='' NS_B=''
	IF_A=${NETIF1:-rva$ID} IF_B=${NETIF2:-rvb$ID}
	if [ -z "$NETIF1" ]; then
		ip link add "$IF_A" mtu "$MTU" type veth peer name "$IF_B" mtu "$MTU" ||
			fail_all "cannot make a veth pair"
	fi
	make_end_here "$IF_A" $IP4_A "$IF_B" $IP4_B && make_end_here "$IF_B" $IP4_B "$IF_A" $IP4_A ||
		fail_all "cannot route between the ends"
	DEV_A=rva_$ID DEV_B=rvb_$ID
	# link-local and IPv4
	gids=2
	add_link_a && add_link_b || fail_all "cannot add the rdma links"
}

# received a|b: bytes that the interface has received
received() {
	on_"$1" cat "/sys/class/net/$2/statistics/rx_bytes"
}

# over_the_cable BYTES COMMAND...: each end must receive more than BYTES while it runs
over_the_cable() {
	local bytes=$1 a b

	shift
	a=$(received a "$IF_A") b=$(received b "$IF_B")
	"$@" || return
	a=$(($(received a "$IF_A") - a)) b=$(($(received b "$IF_B") - b))
	echo "A received $a bytes, B $b"
	[ $a -gt "$bytes" -a $b -gt "$bytes" ]
}

# lossy COMMAND...: over a cable that loses one packet in a hundred
lossy() {
	local status

	on_a tc qdisc add dev "$IF_A" root netem limit 10000 loss 1% seed 42 &&
		on_b tc qdisc add dev "$IF_B" root netem limit 10000 loss 1% seed 43 || return
	"$@"
	status=$?
	on_a tc qdisc del dev "$IF_A" root
	on_b tc qdisc del dev "$IF_B" root
	return $status
}

cleanup() {
	local pid

	# without a name it would be everybody's
	for pid in ${NS_A:+$(ip netns pids "$NS_A" 2>/dev/null)} ${NS_B:+$(ip netns pids "$NS_B" 2>/dev/null)}; do
		kill -9 "$pid" 2>/dev/null
	done
	for pid in "$DEV_A" "$DEV_B"; do
		[ -z "$pid" ] || rdma link del "$pid" 2>/dev/null
	done
	# A real interface falls back to the initial namespace by itself, a virtual one would go with its own.
	if [ -n "$NS_A" ] && [ -n "$NETIF1" ] && [ -n "$NETIF2" ]; then
		ip -n "$NS_A" link set "$NETIF1" netns $$ 2>/dev/null
		ip -n "$NS_B" link set "$NETIF2" netns $$ 2>/dev/null
	fi
	if [ -n "$NS_A" ]; then
		ip netns del "$NS_A" 2>/dev/null
		ip netns del "$NS_B" 2>/dev/null
	elif [ -z "$NETIF1" ]; then
		ip link del "$IF_A" 2>/dev/null
	else
		ip addr del "$IP4_A/32" dev "$IF_A" 2>/dev/null
		ip addr del "$IP4_B/32" dev "$IF_B" 2>/dev/null
	fi
	rm -rf "$scratch"
}

# gid_indices DEV [GID]: indices of its RoCE v2 GIDs, or of that one
gid_indices() {
	local entry index

	for entry in $(list_gids "$1"); do
		index=${entry%%:*}
		[ -z "$2" ] || [ "${entry#*:}" = "$2" ] || continue
		if [ "$(read_port "$1" cat "gid_attrs/types/$index")" = "RoCE v2" ]; then
			echo "$index"
		fi
	done
}

# counter DEV NAME
counter() {
	# not from sysfs: the initial namespace alone has counters there
	rdma statistic show link "$1/1" | tr -s ' \n' '  ' | grep -o " $2 [0-9]*" | cut -d' ' -f3
}

# A server is ready when it listens on the TCP port of its handshake, or through rdma_cm.
listens() {
	${1:+ip netns exec "$1"} ss -Hltn "sport = :$2" | grep -q . ||
		cm_listens ":$2( |\$)"
}

# cm_listens [PATTERN]: somebody listens through rdma_cm, at such an address. It shows the state a moment before it takes
# connections.
cm_listens() {
	rdma resource show cm_id | grep -Eq "state LISTEN.*${1:-}" && sleep 0.$slow
}

# between SERVER_ARGS -- PROGRAM ARGS...: run PROGRAM as server on b and as client on a;
# both outputs end in $scratch/server.log and on stdout; fails if either does.
PORT=18515
between() {
	local server status

	PORT=$((PORT + 1))
	timeout $((60 * slow)) ip netns exec "$NS_B" "$1" -d "$DEV_B" -p $PORT "${@:2}" >"$scratch/server.log" 2>&1 &
	server=$!
	eventually listens "$NS_B" $PORT || { cat "$scratch/server.log"; kill $server; return 1; }
	timeout $((60 * slow)) ip netns exec "$NS_A" "$1" -d "$DEV_A" -p $PORT "${@:2}" $IP4_B
	status=$?
	[ $status = 0 ] || kill $server 2>/dev/null
	if ! wait $server || [ $status != 0 ]; then
		echo "--- client: status $status; server:"
		cat "$scratch/server.log"
		return 1
	fi
}

# --- data

# seeded SEED BYTES: the same bytes each time
seeded() {
	openssl enc -aes-128-ctr -K "$(printf %032x "$1")" -iv 0 -in /dev/zero 2>/dev/null | head -c "$2"
}

# same_bytes FILE SEED BYTES
same_bytes() {
	seeded "$2" "$3" | cmp - "$1"
}

# verified_writes FILE MIB ARGS...: write blocks of all sizes in any order past the page cache, and read them back
verified_writes() {
	local file=$1 mib=$2 status

	shift 2
	fio --name=verify --filename="$file" --direct=1 --ioengine=libaio --iodepth=32 --randseed=71 --size="${mib}M" \
		--rw=randwrite --bsrange=4k-256k --verify=crc32c --verify_backlog=64 --verify_fatal=1 \
		--output="$scratch/fio.log" "$@"
	status=$?
	[ $status = 0 ] || cat "$scratch/fio.log"
	return $status
}

# load_starts SECONDS FILE MIB: the same in the background; load_ends waits for it
load_starts() {
	verified_writes "$2" "$3" --time_based --runtime="$1" >"$scratch/load.log" 2>&1 &
	load=$!
	sleep 1
	kill -0 $load && return 0
	cat "$scratch/load.log"
	return 1
}

load_ends() {
	wait $load && return 0
	cat "$scratch/load.log"
	return 1
}

# --- kernel consumers, tests/kmod

need_kmod() {
	need ip rdma dmesg
	kmod=$ROCEV2_KMOD/$1.ko
	[ -e "$kmod" ] || skip_all "no \$ROCEV2_KMOD/$1.ko: build tests/kmod and set ROCEV2_KMOD"
}

# run_kmod MODULE [PARAMETER...]: it runs its cases while it is loaded and tells in the kernel log; sets $cases
run_kmod() {
	dmesg -C
	insmod "$kmod" dev_a="$DEV_A" dev_b="$DEV_B" "${@:2}" || fail_all "cannot load $kmod: $(dmesg | tail -1)"
	dmesg | sed -n "s/.*$1: //p" >"$scratch/kmod"
	rmmod "$1"
	cases=$(sed -n 's/^1\.\.//p' "$scratch/kmod")
	[ -n "$cases" ] || fail_all "$1 has run no case"
}

# report_kmod [PREFIX]: its results under our numbers
report_kmod() {
	local line text

	while read -r line; do
		text=$1$(echo "$line" | sed 's/^\(not \)\?ok [0-9]* //')
		case $line in
		ok\ *)		results=$((results + 1)); echo "ok $results $text" ;;
		not\ ok\ *)	results=$((results + 1)) failures=$((failures + 1)); echo "not ok $results $text" ;;
		\#*)		echo "$line" ;;
		esac
	done <"$scratch/kmod"
}

# serve READY NS SERVER... -- NS CLIENT...: CLIENT in its namespace once READY says that SERVER is up
# in its own; both outputs are shown if either fails.
serve() {
	local ready=$1 ns=$2 server=() status served pid

	shift 2
	while [ "$1" != -- ]; do server+=("$1"); shift; done
	shift
	: >"$scratch/client.log"
	timeout $((60 * slow)) ip netns exec "$ns" "${server[@]}" >"$scratch/server.log" 2>&1 &
	pid=$!
	if eventually "$ready"; then
		timeout $((60 * slow)) ip netns exec "$@" >"$scratch/client.log" 2>&1
		status=$?
	else
		status="not run"
	fi
	cat "$scratch/client.log"
	[ "$status" = 0 ] || kill $pid 2>/dev/null
	wait $pid
	served=$?
	if [ "$served" != 0 ] || [ "$status" != 0 ]; then
		echo "--- client: status $status; server: $served"
		cat "$scratch/server.log"
		return 1
	fi
}

# Side B anew, as rdma_rxe, whose driver can live beside ours.
make_b_rxe() {
	modprobe rdma_rxe || skip_all "this kernel has no rdma_rxe"
	rdma link del "$DEV_B" && add_link "$NS_B" "$DEV_B" rxe "$IF_B" || fail_all "cannot link rdma_rxe"
	eventually has_gids "$DEV_B" 3 || fail_all "rdma_rxe has no GIDs"
	LINK_TYPE_B=rxe
}

# Multicast leaves by the netdev of the namespace.
route_multicast() {
	on_a ip route add 224.0.0.0/4 dev "$IF_A" && on_b ip route add 224.0.0.0/4 dev "$IF_B" ||
		fail_all "cannot route multicast"
}

# The QP that mckey receives with is in the group: it is a user of the group's address beside rdma_cm, which joins for
# the host a moment earlier. rdma_rxe's is none: there only the host's membership is to be seen.
joined() {
	local users=" users [2-9]"

	[ "$3" != rxe ] || users=
	ip -n "$1" maddr show dev "$2" | grep -q "01:00:5e:47:00:01$users"
}
joined_a() { joined "$NS_A" "$IF_A" "$LINK_TYPE"; }
joined_b() { joined "$NS_B" "$IF_B" "${LINK_TYPE_B:-$LINK_TYPE}"; }

# objects_before: remembers how many objects the two devices have; objects_as_before: compares
objects() {
	local dev

	for dev in "$DEV_A" "$DEV_B"; do
		rdma resource show "$dev" | grep -oE "(pd|cq|qp|cm_id|mr|srq) [0-9]+"
	done
}
objects_before() { objects >"$scratch/objects"; }
objects_as_before() { objects | diff "$scratch/objects" -; }

# mckey_between READY RECEIVER_NS RECEIVER_ADDRESS SENDER_NS SENDER_ADDRESS: ten multicast messages. mckey destroys its
# QP as soon as it has posted them, and rdma_rxe, which sends from a workqueue, then drops what it has not sent, as its
# count of packets tells: such a run is none, and is repeated. Idle priority lets the workqueue go first.
mckey_between() {
	local receiver=(mckey -m 239.71.0.1 -b "$3") sender=(chrt -i 0 mckey -m 239.71.0.1 -b "$5" -s) try before

	if [ "$4" != "$NS_B" ] || [ "${LINK_TYPE_B:-}" != rxe ]; then
		serve "$1" "$2" "${receiver[@]}" -- "$4" "${sender[@]}"
		return
	fi
	for try in {1..20}; do
		before=$(counter "$DEV_B" sent_pkts)
		serve "$1" "$2" "${receiver[@]}" -- \
			"$4" bash -c '"$@" && [ "$(counter '"$DEV_B"' sent_pkts)" -ge '$((before + 10))' ]' - "${sender[@]}" && return
		[ "$(counter "$DEV_B" sent_pkts)" -lt $((before + 10)) ] || return 1
	done
	echo "rdma_rxe has not sent all ten messages in any of $try runs"
	return 1
}
export -f counter

# cm_programs NAME SERVER_NS SERVER_ADDRESS CLIENT_NS CLIENT_ADDRESS: a check() for each program of librdmacm
cm_programs() {
	local name=$1 at=$2 address=$3 from=$4 own=$5 ready=joined_b

	[ "$at" != "$NS_A" ] || ready=joined_a
	check "rping, $name" serve cm_listens "$at" rping -s -a "$address" -C 50 -V -- \
		"$from" rping -c -a "$address" -C 50 -V
	check "rping of 64 KiB, $name" serve cm_listens "$at" rping -s -a "$address" -C 20 -S 65000 -V -- \
		"$from" rping -c -a "$address" -C 20 -S 65000 -V
	check "ucmatose, $name, 20 connections" serve cm_listens "$at" ucmatose -b "$address" -c 20 -C 10 -- \
		"$from" ucmatose -s "$address" -c 20 -C 10
	check "udaddy, $name" serve cm_listens "$at" udaddy -b "$address" -c 5 -C 10 -- \
		"$from" udaddy -s "$address" -c 5 -C 10
	# The kernel's rdma_cm refuses groups of IPv6 on RoCE v2 (ENOTSUPP); unreliable.cpp joins them by verbs.
	case $address in
	*.*)	check "mckey, $name" mckey_between "$ready" "$at" "$address" "$from" "$own" ;;
	esac
	check "rstream, $name" serve cm_listens "$at" rstream -b "$address" -T v -C 50 -- \
		"$from" rstream -s "$address" -T v -C 50
	check "riostream, $name" serve cm_listens "$at" riostream -b "$address" -T v -C 50 -- \
		"$from" riostream -s "$address" -T v -C 50
	# rdma_server leaves after one client
	check "rdma_server and rdma_client, $name" serve cm_listens "$at" rdma_server -s "$address" -- \
		"$from" rdma_client -s "$address"
}

# With -R perftest connects twice, and its server listens anew between the two: a client that is quicker is rejected, as
# nobody listens (8), and crashes. Such a run is repeated.
#
# perftest PROGRAM ARGS...: the table must show a result line with the number of iterations
# (perftest prints "inf" for latencies where it cannot tell the clock's MHz, as on a busy machine.)
perftest() {
	local status try

	for try in {1..5}; do
		between "$@" -F >"$scratch/client.log" 2>&1
		status=$?
		[ $status != 0 ] && grep -q "RDMA_CM_EVENT_REJECTED; error: 8" "$scratch/client.log" || break
	done
	cat "$scratch/client.log"
	[ $status = 0 ] && grep -Eq '^ *[0-9]+ +[0-9]+ +([0-9.]+|inf)' "$scratch/client.log"
}

# --- leaks

# The kernel's unreclaimable memory, in KiB; frees that RCU still holds back are waited for.
unreclaimable() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 1
	awk '/^SUnreclaim:|^Percpu:|^VmallocUsed:/ { sum += $2 } END { print sum }' /proc/meminfo
}

# without_growth LIMIT_KIB COMMAND...: the first round warms up caches, the second may not grow
without_growth() {
	local limit=$1 before after

	shift
	"$@" || return 1
	before=$(unreclaimable)
	"$@" || return 1
	after=$(unreclaimable)
	echo "unreclaimable memory: $before KiB before, $after KiB after"
	[ $((after - before)) -le "$limit" ]
}
