#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# UCX over rc_verbs and ud_verbs, libfabric over verbs, Open MPI over UCX, without a
# fallback: over the transport named or not at all.  ucx_perftest verifies no data;
# fi_pingpong does with -c, and mpi_data does over the same transports of UCX.

. "$(dirname "$0")/lib.sh"

need ucx_perftest fi_pingpong mpirun ss
setup

# Who waits for a client's TCP connection.
port_listens() { listens "$NS_B" "$PORT"; }

# ucx_result: the client prints a table, whose last line begins with the iterations
ucx_result() {
	grep -Eq '^ +200 +[0-9.]+' "$scratch/client.log" && ! grep -h ERROR "$scratch/client.log" "$scratch/server.log"
}

# ucp TRANSPORT TEST BYTES: UCX's upper layer
ucp() {
	local args="-t $2 -s $3 -n 200 -w 10 -P 0 -f"

	PORT=$((PORT + 1))
	serve port_listens "$NS_B" env UCX_TLS="$1" UCX_NET_DEVICES="$DEV_B:1" ucx_perftest $args -p $PORT -- \
		"$NS_A" env UCX_TLS="$1" UCX_NET_DEVICES="$DEV_A:1" ucx_perftest "$IP4_B" $args -p $PORT && ucx_result
}

# uct TRANSPORT TEST BYTES LAYOUT: its lower layer
uct() {
	local args="-x $1 -t $2 -s $3 -D $4 -n 200 -w 10 -P 0 -f"

	PORT=$((PORT + 1))
	serve port_listens "$NS_B" ucx_perftest -d "$DEV_B:1" $args -p $PORT -- \
		"$NS_A" ucx_perftest -d "$DEV_A:1" "$IP4_B" $args -p $PORT && ucx_result
}

# fabric PROVIDER ENDPOINT LAST_SIZE ARGS...: every size up to LAST_SIZE is exchanged, each message verified
fabric() {
	local args=(-p "$1" -e "$2" -c -I 20 "${@:4}") suffix=

	case "$1 $2" in
	*rxd*|*dgram)	suffix=-dgram ;;
	esac
	PORT=$((PORT + 1))
	serve port_listens "$NS_B" fi_pingpong "${args[@]}" -d "$DEV_B$suffix" -B $PORT -- \
		"$NS_A" fi_pingpong "${args[@]}" -d "$DEV_A$suffix" -P $PORT "$IP4_B" || return
	grep -Eq "^$3 +20 +=20 " "$scratch/client.log"
}

# mpi DEVICES VARIABLE=VALUE... -- MPIRUN_ARGS...: two ranks in namespace b, rank 0 on the first device
mpi() {
	local devices=$1 environment=()

	shift
	while [ "$1" != -- ]; do environment+=("$1"); shift; done
	shift
	on_b timeout $((60 * slow)) env "${environment[@]}" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
		mpirun --bind-to none --oversubscribe "$@" -n 2 \
		sh -c 'devices=$1; shift; set -- $devices "$@"
			[ $OMPI_COMM_WORLD_RANK = 0 ] || shift
			export UCX_NET_DEVICES=$1:1
			exec "$0" $MPI_DATA_ARGS' "$(dirname "$0")/mpi_data" "$devices" >"$scratch/mpi.log" 2>&1
	local status=$?

	cat "$scratch/mpi.log"
	[ $status = 0 ] && [ "$(grep -c 'verified all' "$scratch/mpi.log")" = 2 ]
}

# libfabric keeps registrations of memory that the process has given back where nothing tells it (this kernel has no
# userfaultfd), and then wrong data is sent from pages that are no longer there: so the heap keeps its memory. The
# ofi component has no one-sided operations.
mpi_over_libfabric() {
	mpi "$DEV_B $DEV_B" FI_VERBS_DEVICE_NAME="$DEV_B" MPI_DATA_ARGS=--two-sided MALLOC_MMAP_MAX_=0 \
		MALLOC_TRIM_THRESHOLD_=4000000000 -- \
		--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include "verbs;ofi_rxm"
}

plan 29
for transport in rc_v ud_v; do
	for test in tag_bw tag_lat tag_sync_bw stream_bw ucp_am_bw; do
		check "ucx_perftest $test over $transport" ucp $transport $test 65536
	done
done
# not ucp_put_bw and ucp_fadd over rc_v: they want a remote flush, which the rc_verbs of UCX does not have
check "ucx_perftest ucp_put_bw over ud_v" ucp ud_v ucp_put_bw 65536
check "ucx_perftest ucp_get over ud_v" ucp ud_v ucp_get 65536
check "ucx_perftest ucp_get over rc_v" ucp rc_v ucp_get 65536
check "ucx_perftest ucp_fadd over ud_v" ucp ud_v ucp_fadd 8
check "ucx_perftest am_bw over rc_verbs" uct rc_verbs am_bw 4096 zcopy
check "ucx_perftest put_bw over rc_verbs" uct rc_verbs put_bw 65536 zcopy
check "ucx_perftest get over rc_verbs" uct rc_verbs get 65536 zcopy
check "ucx_perftest fadd over rc_verbs" uct rc_verbs fadd 8 short
check "ucx_perftest am_bw over ud_verbs" uct ud_verbs am_bw 1024 bcopy
check "fi_pingpong over verbs" fabric verbs msg 1m
check "fi_pingpong over verbs;ofi_rxm" fabric "verbs;ofi_rxm" rdm 1m
check "fi_pingpong over verbs;ofi_rxm, tagged" fabric "verbs;ofi_rxm" rdm 1m -m tagged
check "fi_pingpong over verbs, datagrams" fabric verbs dgram 4k
check "fi_pingpong over verbs;ofi_rxd" fabric "verbs;ofi_rxd" rdm 1m
for transport in rc_v ud_v; do
	check "Open MPI over UCX $transport, two devices" mpi "$DEV_A $DEV_B" UCX_TLS=$transport,self -- --mca pml ucx --mca osc ucx
	check "Open MPI over UCX $transport, one device" mpi "$DEV_B $DEV_B" UCX_TLS=$transport,self -- --mca pml ucx --mca osc ucx
done
check "Open MPI over libfabric verbs;ofi_rxm" mpi_over_libfabric
finish
