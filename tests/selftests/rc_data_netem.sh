#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# rc_data over a bad network: every completion must be a success and every
# byte right, with the default retry_cnt of 7. Arguments go to rc_data.
#
#   SEED   of netem and of the data; default: a new one. Printed.

. "$(dirname "$0")/lib.sh"

need tc
setup
SEED=${SEED:-$(($(od -An -N4 -tu4 /dev/urandom) % 1000000 + 1))}
netem_seed="seed $SEED"
tc qdisc add dev lo root netem help 2>&1 | grep -q seed || netem_seed=
echo "# SEED=$SEED${netem_seed:+, for netem too}"
arguments=("$@")

# over NETEM...: the same on both ends, then the data
over() {
	on_a tc qdisc replace dev "$IF_A" root netem limit 10000 "$@" $netem_seed &&
	on_b tc qdisc replace dev "$IF_B" root netem limit 10000 "$@" $netem_seed &&
	"$(dirname "$0")/rc_data" --dev-a "$DEV_A" --dev-b "$DEV_B" --seed "$SEED" --case-limit 120 \
		--stall-limit 30 --ops 150 --filter ipv4.mtu_1024,ipv6.mtu_4096,ll.mtu_256,events \
		"${arguments[@]}"
}

plan 7
check "loss 1%" over loss 1%
check "loss 5%" over loss 5%
check "reorder 25%" over delay 2ms reorder 25%
check "duplicate 5%" over duplicate 5%
check "corrupt 1%" over corrupt 1%
check "delay 10 ms with jitter" over delay 10ms 3ms
check "all at once" over delay 1ms 1ms reorder 10% loss 1% duplicate 2% corrupt 0.5%
finish
