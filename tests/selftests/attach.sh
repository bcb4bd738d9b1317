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

	if ! eventually link_on "$1" "$4"; then
		device=$(attached "$4")
		unbind "$device"
		bind "$device" && eventually link_on "$1" "$4" || return
	fi
	rdma dev set "$(link_on "$1" "$4")" name "$2" && eventually link_is_active "$2"
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
