# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# For the selftests with modelled ConnectX cards (tests.list: cards=N): the cards' driver and netdevs, their control
# sockets, and with guests=2 words for the other guest. Source it behind lib.sh.
#
#   ROLE, CARDS     from the rig: a or b, and the number of cards of this guest

exchange=/run/rocev2/exchange

need_cards() {
	need ip ethtool dmesg
	[ "${CARDS:-0}" -ge "$1" ] || skip_all "needs $1 modelled card(s): run it by tests/run, on a kernel with mlx5_core"
	need_modules mlx5_core
}

# patiently SECONDS COMMAND...: until it succeeds
patiently() {
	local try

	for try in $(seq $(($1 * 10))); do
		"${@:2}" >/dev/null 2>&1 && return 0
		sleep 0.1
	done
	"${@:2}"
}

# Netdevs of the cards, by PCI address, as long as they are in the initial namespace.
card_netdevs() {
	local device

	for device in /sys/bus/pci/drivers/mlx5_core/*:*; do
		ls "$device/net" 2>/dev/null
	done
}

has_netdevs() {
	[ "$(card_netdevs | wc -l)" = "$1" ]
}

# load_cards N: the driver, and N netdevs; sets $netdevs
load_cards() {
	modprobe mlx5_core && patiently 60 has_netdevs "$1" || return
	netdevs=$(card_netdevs)
}

has_carrier() {
	[ "$(${1:+ip netns exec "$1"} cat "/sys/class/net/$2/carrier")" = 1 ]
}

# What the driver has to say beyond information is a fault of the card, or of the test; but for what a plain card
# need not have: its firmware's memory for dumps, and rules of tc beyond the tables.
driver_is_content() {
	local known='Failed to get valid vendor specific ID'

	known+='\|mlx5e_tc_post_act_init.*firmware level support is missing'
	dmesg -l emerg,alert,crit,err,warn >"$scratch/dmesg" || return
	! grep mlx5 "$scratch/dmesg" | grep -v "$known"
}

# card N COMMAND...: to the control socket of that card of this guest; prints its answer, a line of JSON
card() {
	local file=$exchange/$ROLE$1.$BASHPID.$RANDOM answer

	echo "${*:2}" >"$file.tmp" && mv "$file.tmp" "$file.request" || return
	patiently 30 test -e "$file.answer" || return
	answer=$(cat "$file.answer")
	rm "$file.answer"
	echo "$answer"
	[ "${answer#"{\"error\""}" = "$answer" ]
}

# --- the other guest

# tell WORD: to the other guest, once each
tell() {
	: >"$exchange/$ROLE.$1"
}

# hear WORD: wait until the other has told; fails if it has left without
hear() {
	local other=a

	[ "$ROLE" = b ] || other=b
	patiently 300 test -e "$exchange/$other.$1" -o -e "$exchange/$other.left"
	[ -e "$exchange/$other.$1" ]
}

# meet WORD: both get there
meet() {
	tell "$1" && hear "$1"
}

# across PORT PROGRAM ARGS...: guest $SERVER, or b, runs it as a server that listens on that TCP port, the other guest
# with the server's address ($ADDRESS, or IPv4) behind; each fails by its own status
across() {
	local port=$1 server=${SERVER:-b} address=$IP4_B other=a pid status

	shift
	[ "$server" = b ] || address=$IP4_A
	[ "$ROLE" = b ] || other=b
	crossings=$((crossings + 1))
	if [ "$ROLE" = "$server" ]; then
		timeout 360 "$@" &
		pid=$!
		patiently 60 listens "" "$port"
		tell "listens.$crossings"
	else
		hear "listens.$crossings"
		timeout 240 "$@" "${ADDRESS:-$address}" &
		pid=$!
	fi
	# programs that poll do not always notice that their peer has given up
	while kill -0 $pid 2>/dev/null && [ ! -e "$exchange/$other.failed.$crossings" ]; do
		sleep 0.5
	done
	[ ! -e "$exchange/$other.failed.$crossings" ] || kill $pid 2>/dev/null
	wait $pid
	status=$?
	[ $status = 0 ] || tell "failed.$crossings"
	tell "done.$crossings"
	hear "done.$crossings" || { echo "the other guest has left"; return 1; }
	return $status
}
crossings=0
