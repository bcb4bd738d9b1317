# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For the selftests of the native attach to ConnectX: as lib.sh's two ends, each a modelled card, cabled to one another, whose link
# the module has made. Source it behind lib.sh and cards.sh, call setup_attached instead of setup.

# attached IF: the auxiliary device of the function whose netdev that is, seen from its namespace
attached() {
	local ns=$NS_B pci device

	[ "$1" != "$IF_A" ] || ns=$NS_A
	pci=$(basename "$(${ns:+ip netns exec "$ns"} readlink -f "/sys/class/net/$1/device")")
	for device in /sys/bus/auxiliary/devices/mlx5_core.rdma.*; do
		[ "$(basename "$(dirname "$(readlink -f "$device")")")" = "$pci" ] && basename "$device"
	done
}

# link_on NS IF: the RDMA device on that netdev
link_on() {
	${1:+ip netns exec "$1"} rdma link show | sed -n "s,^link \([^/]*\)/1 .* netdev $2\( .*\)\?\$,\1,p" | grep .
}

# A link again that was deleted comes of binding anew.
add_link() {
	local device

	if ! patiently 30 link_on "$1" "$4"; then
		device=$(attached "$4")
		unbind "$device"
		bind "$device" && patiently 30 link_on "$1" "$4" || return
	fi
	rdma dev set "$(link_on "$1" "$4")" name "$2" && patiently 30 link_is_active "$2"
}

bind() { echo "$1" >/sys/bus/auxiliary/drivers/rocev2_mlx5.rdma/bind; }
unbind() { echo "$1" >/sys/bus/auxiliary/drivers/rocev2_mlx5.rdma/unbind; }

# load_attach PARAMETER...: rocev2_mlx5 beside rocev2
load_attach() {
	if [ -n "$ROCEV2_MODULE" ]; then
		insmod "$(dirname "$ROCEV2_MODULE")/rocev2_mlx5.ko" "$@"
	else
		modprobe rocev2_mlx5 "$@"
	fi
}

# setup_attached PARAMETER...: of rocev2_mlx5
setup_attached() {
	LINK_TYPE=rocev2
	need_cards 2
	load_module && load_cards 2 && load_attach "$@" || fail_all "cannot load mlx5_core and rocev2_mlx5"
	NETIF1=$(echo $netdevs | cut -d' ' -f1) NETIF2=$(echo $netdevs | cut -d' ' -f2)
	ip link set "$NETIF1" mtu "$MTU" && ip link set "$NETIF2" mtu "$MTU" || fail_all "the cards do not take MTU $MTU"
	setup
	CARD_A=$(attached "$IF_A") CARD_B=$(attached "$IF_B")
}

# rxqs CARD COLUMN: of its receive queues, one a line; see Documentation/connectx.md
rxqs() {
	awk -v name="$2" '
		/^queue/ { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
		/^[0-9]/ && column { print $column; shown = 1 }
		END { exit !shown }' "/sys/kernel/debug/rocev2_mlx5/$1/rxqs"
}

sum() { awk '{ sum += $1 } END { print sum + 0 }'; }

# moderate CARD MODE...
moderate() {
	echo "${@:2}" >"/sys/bus/auxiliary/devices/$1/moderation"
}

rebuilds() { sed -n 's/^rebuilds //p' "/sys/kernel/debug/rocev2_mlx5/$1/rxqs"; }

# --- traffic that goes on until something breaks; a test that uses it sets
#     steady="$(dirname "$0")/steady"

# start_traffic ARGS...: both ways; returns when it flows
start_traffic() {
	# one that a failed check has left
	[ -z "$traffic" ] || kill -9 "$traffic" 2>/dev/null
	rm -f "$scratch/progress"
	"$steady" --dev-a "$DEV_A" --dev-b "$DEV_B" --progress "$scratch/progress" "$@" >"$scratch/steady.log" 2>&1 &
	traffic=$!
	flows
}

messages() { echo $((10#$(cat "$scratch/progress" 2>/dev/null || echo 0))); }

# More messages arrive, and right.
flows() {
	local goal=$(($(messages) + 100)) try

	for try in {1..600}; do
		[ "$(messages)" -lt $goal ] || return 0
		kill -0 "$traffic" 2>/dev/null || break
		sleep 0.1
	done
	echo "traffic stands still at $(messages) messages, wanted $goal:"
	cat "$scratch/steady.log"
	return 1
}

# It is stopped, and all that was begun is done.
stop_traffic() {
	kill -TERM "$traffic" && wait "$traffic" && return 0
	cat "$scratch/steady.log"
	return 1
}

traffic_works() { start_traffic && stop_traffic; }

# ends_cleanly PATTERN...: it ends by itself, each request with a status; its report has lines like these
ends_cleanly() {
	local status pattern

	wait "$traffic"
	status=$?
	cat "$scratch/steady.log"
	[ $status = 3 ] || { echo "exit status $status"; return 1; }
	for pattern in "$@"; do
		grep -q "$pattern" "$scratch/steady.log" || { echo "no '$pattern'"; return 1; }
	done
}

# --- page pools: of all that are closed from watch_pools on, the kernel tells how many pages are still out, once a
#     second until there are none

pools=/sys/kernel/tracing/instances/pools

watch_pools() {
	mkdir -p $pools && echo >$pools/trace && echo 1 >$pools/events/page_pool/page_pool_release/enable
}

# There are such pools, and all have their pages back.
pools_are_closed() {
	sed -n 's/.* page_pool=\([^ ]*\) inflight=\([-0-9]*\).*/\1 \2/p' $pools/trace | awk '
		{ out[$1] = $2 }
		END {
			for (pool in out) { all++; if (out[pool]) { print "pool " pool ": " out[pool] " pages out"; some++ } }
			print all + 0 " pools closed"
			exit some || !all
		}'
}
