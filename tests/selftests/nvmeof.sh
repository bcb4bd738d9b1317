#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# NVMe over Fabrics, both ends of the kernel: nvmet-rdma with a RAM disk on device B, nvme-rdma on
# device A, the cable between. What is written is read back after caches, controllers and links are gone.

. "$(dirname "$0")/lib.sh"

NQN=nqn.2014-08.org.nvmexpress:rocev2-$ID
HOST_NQN=nqn.2014-08.org.nvmexpress:uuid:71717171-0000-4000-8000-000000000001
HOST_ID=${HOST_NQN##*:}
PORT=4420
DISK_MIB=64
target=/sys/kernel/config/nvmet
mnt=$scratch/mnt

need ip rdma nvme fio mkfs.ext4 openssl sha256sum
need_modules brd nvmet-rdma nvme-rdma
[ ! -e /sys/module/brd ] || skip_all "brd is loaded, with disks of other sizes"

# --- the target

make_target() {
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
	modprobe brd rd_nr=1 rd_size=$((DISK_MIB * 1024)) && modprobe nvmet-rdma && modprobe nvme-rdma || return
	mkdir -p "$target/subsystems/$NQN/namespaces/1" "$target/ports/71" || return
	echo 1 >"$target/subsystems/$NQN/attr_allow_any_host"
	echo /dev/ram0 >"$target/subsystems/$NQN/namespaces/1/device_path"
	echo 1 >"$target/subsystems/$NQN/namespaces/1/enable" || return
	echo rdma >"$target/ports/71/addr_trtype"
	echo ipv4 >"$target/ports/71/addr_adrfam"
	echo $IP4_B >"$target/ports/71/addr_traddr"
	echo $PORT >"$target/ports/71/addr_trsvcid"
	open_target
}

open_target() {
	ln -s "$target/subsystems/$NQN" "$target/ports/71/subsystems/$NQN"
}

close_target() {
	rm -f "$target/ports/71/subsystems/$NQN"
}

delete_target() {
	[ -d "$target/ports/71" ] || return 0
	close_target
	rmdir "$target/ports/71" "$target/subsystems/$NQN/namespaces/1" "$target/subsystems/$NQN"
}

# --- the host

connect() {
	nvme connect -t rdma -a $IP4_B -s $PORT -w $IP4_A -n "$NQN" --hostnqn "$HOST_NQN" --hostid "$HOST_ID" \
		--nr-io-queues 2 --reconnect-delay 1 --ctrl-loss-tmo 60 && eventually find_disk
}

# sets $ctrl and $disk
find_disk() {
	local dir

	for dir in /sys/class/nvme/nvme*; do
		[ "$(cat "$dir/subsysnqn" 2>/dev/null)" = "$NQN" ] || continue
		ctrl=${dir##*/}
		disk=/dev/$(cd "$dir" && echo nvme*n1)
		[ -b "$disk" ] && return 0
	done
	return 1
}

no_controller() {
	! grep -qx "$NQN" /sys/class/nvme/nvme*/subsysnqn
}

live() {
	[ "$(cat "/sys/class/nvme/$ctrl/state")" = live ]
}

disconnect() {
	nvme disconnect -n "$NQN" && eventually no_controller
}

no_queues() {
	! rdma resource show qp | grep -q 'type RC'
}

# --- data

same_data() {
	local here there

	echo 3 >/proc/sys/vm/drop_caches
	here=$(sha256sum <"$disk")
	there=$(sha256sum </dev/ram0)
	echo "host $here, target $there"
	[ "$here" = "$there" ]
}

file_system() {
	mkfs.ext4 -q "$disk" && mkdir -p "$mnt" && mount "$disk" "$mnt" || return
	seeded 1 $((24 << 20)) >"$mnt/data" && seeded 2 12345 >"$mnt/small" && sync
	umount "$mnt"
}

check_files() {
	mount -o ro "$disk" "$mnt" || return
	same_bytes "$mnt/data" 1 $((24 << 20)) && same_bytes "$mnt/small" 2 12345
	local status=$?
	umount "$mnt"
	return $status
}

reconnected() {
	disconnect || return
	eventually no_queues || { rdma resource show qp; return 1; }
	echo 3 >/proc/sys/vm/drop_caches
	connect && check_files
}

# --- trouble under load

reset_under_load() {
	local round

	load_starts 5 "$disk" 32 || return
	for round in 1 2 3; do
		nvme reset "/dev/$ctrl" || return
		eventually live || return
		sleep 0.5
	done
	load_ends
}

# The controller goes with its device; the load ends with errors, not never.
host_link_removed() {
	load_starts 20 "$disk" 32 || return
	rdma link del "$DEV_A" || return
	eventually no_controller || return
	! wait $load || { echo "the load ended without an error"; return 1; }
	add_link_a && connect && same_data
}

# The host connects again when the target is there again, and the load goes on as if nothing had been.
target_link_removed() {
	load_starts 6 "$disk" 32 || return
	rdma link del "$DEV_B" || return
	sleep 1
	! live || { echo "the controller is still live"; return 1; }
	close_target
	add_link_b && open_target && eventually live && load_ends && same_data
}

write_and_read() {
	dd if=/dev/zero of="$disk" bs=1M count=8 oflag=direct && dd if="$disk" of=/dev/null bs=1M count=8 iflag=direct
}

modules_unload() {
	disconnect && delete_target && rmmod nvme-rdma nvmet-rdma nvme-fabrics nvmet brd
}

nvme_cleanup() {
	umount "$mnt" 2>/dev/null
	nvme disconnect -n "$NQN" >/dev/null 2>&1
	delete_target 2>/dev/null
	cleanup
}

setup_here
trap nvme_cleanup EXIT
make_target || fail_all "cannot make a target"
plan 12
check "nvme connect" connect || fail_all "no connection: $(dmesg | tail -5)"
check "both ways over the cable" over_the_cable $((8 << 20)) write_and_read
check "ext4 on the disk" file_system
check "files after disconnect and connect" reconnected
check "what the target has" same_data
check "random writes verified" verified_writes "$disk" 32
check "random writes verified, loss 1 %" lossy verified_writes "$disk" 8
check "controller resets under load" reset_under_load
check "what the target has after resets" same_data
check "host's link removed under load, and added" host_link_removed
check "target's link removed under load, and added" target_link_removed
check "modules unload" modules_unload
finish
