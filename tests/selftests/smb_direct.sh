#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# SMB Direct, both ends of the kernel: ksmbd, which listens in the initial namespace alone, on device B, and a
# cifs mount by device A, over the cable.

. "$(dirname "$0")/lib.sh"

export=$scratch/export
mnt=$scratch/mnt

need ip rdma ksmbd.mountd ksmbd.adduser ksmbd.control mount.cifs fio openssl tc
need_modules ksmbd cifs

start_server() {
	modprobe -a ksmbd cifs && mkdir -p "$export" "$mnt" && mount -t tmpfs tmpfs "$export" || return
	cat >"$scratch/ksmbd.conf" <<-END
		[global]
			server string = rocev2
			map to guest = never
		[disk]
			path = $export
			read only = no
			force user = root
			force group = root
	END
	ksmbd.adduser -C "$scratch/ksmbd.conf" -P "$scratch/ksmbd.db" -a -p secret tester || return
	ksmbd.mountd -C "$scratch/ksmbd.conf" -P "$scratch/ksmbd.db" || return
	eventually listening
}

# with RDMA beside TCP
listening() {
	cm_listens :445
}

stop_server() {
	ksmbd.control -s
	umount "$export"
}

mount_it() {
	mount -t cifs -o rdma,vers=3.1.1,cache=none,username=tester,password=secret "//$IP4_B/disk" "$mnt" &&
		grep "$mnt" /proc/mounts | grep rdma
}

write_files() {
	seeded 1 $((8 << 20)) >"$mnt/data" && seeded 2 12345 >"$mnt/small" && sync &&
		same_bytes "$export/data" 1 $((8 << 20)) && same_bytes "$export/small" 2 12345
}

read_files() {
	same_bytes "$mnt/data" 1 $((8 << 20)) && same_bytes "$mnt/small" 2 12345
}

read_again() {
	umount "$mnt" && echo 3 >/proc/sys/vm/drop_caches && mount_it && read_files
}

# link_removed a|b DEVICE: the load may end with errors, but it ends, and a new mount works
link_removed() {
	load_starts 4 "$mnt/verify" 16 || return
	rdma link del "$2" || return
	sleep 1
	add_link_"$1" || return
	wait $load
	umount "$mnt" && mount_it && read_files
}

# cifs forgets the memory registration of a request that it sends again over a new connection: a struct
# smbdirect_mr_io whose connection has let go of it (first word 0) and whose count is 1 still. Where kmemleak watches,
# it is told of these, if it has found no others.
forget_leaks_of_cifs() {
	local leaks=/sys/kernel/debug/kmemleak found

	[ -e $leaks ] || return 0
	# objects are looked at when they are 5 s old, and reported by the second scan
	sleep 5
	echo scan >$leaks
	echo scan >$leaks
	found=$(awk '
		BEGIN { zeros = "00 00 00 00 00 00 00 00 " }
		FILENAME == "/proc/kallsyms" {
			if ($3 ~ /^smbdirect_connection_mr_io_.*_done$/) {
				bytes = ""
				for (i = 15; i > 0; i -= 2)
					bytes = bytes substr($1, i, 2) " "
				known[bytes] = 1
			}
			next
		}
		/^unreferenced/ { all++ }
		/hex dump/ {
			getline first
			getline second
			sub(/^ */, "", first)
			sub(/^ */, "", second)
			cifs += index(first, zeros) == 1 && substr(first, 25, 24) in known && index(second, "01" substr(zeros, 3)) == 1
		}
		END { print all + 0, cifs + 0 }' /proc/kallsyms $leaks)
	[ "$found" = "0 0" ] || echo "kmemleak: ${found% *} objects, ${found#* } of them registrations that cifs has forgotten"
	[ "${found% *}" != "${found#* }" ] || echo clear >$leaks
}

modules_unload() {
	umount "$mnt" && forget_leaks_of_cifs && stop_server || return
	# the client's threads hold their module a little longer than the mount
	eventually rmmod ksmbd && eventually rmmod cifs
}

smb_cleanup() {
	umount -fl "$mnt" 2>/dev/null
	[ ! -e /sys/module/ksmbd ] || stop_server
	cleanup
}

setup_here
trap smb_cleanup EXIT
plan 9
check "ksmbd" start_server || fail_all "no server: $(dmesg | tail -5)"
check "mount" mount_it || fail_all "no mount: $(dmesg | tail -5)"
check "files over the cable" over_the_cable 100000 write_files
check "files, mounted again" read_again
check "random writes verified" verified_writes "$mnt/verify" 16
check "random writes verified, loss 1 %" lossy verified_writes "$mnt/verify" 4
check "client's link removed under load, and added" link_removed a "$DEV_A"
check "server's link removed under load, and added" link_removed b "$DEV_B"
check "modules unload" modules_unload
finish
