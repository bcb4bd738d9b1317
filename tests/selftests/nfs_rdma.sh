#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# NFS over RDMA, both ends of the kernel: nfsd in namespace B, a mount of namespace A. NFSv4.1 alone, which
# needs neither rpcbind nor lockd.

. "$(dirname "$0")/lib.sh"

# where nfsd's tools keep what is exported; a guest's root is read only
state=/var/lib/nfs
export=$scratch/export
mnt=$scratch/mnt

need ip rdma exportfs rpc.mountd nfsdcld mount.nfs4 nsenter fio openssl sha256sum tc
need_modules nfsd nfsv4 rpcrdma

# in the namespace, with mounts that last
in_a() { nsenter --net="/run/netns/$NS_A" "$@"; }
in_b() { nsenter --net="/run/netns/$NS_B" "$@"; }

start_server() {
	modprobe -a nfsd nfsv4 rpcrdma && mkdir -p "$export" "$mnt" || return
	mount -t tmpfs tmpfs "$export" && mount -t tmpfs tmpfs $state && mkdir $state/v4recovery && touch $state/etab || return
	# nfsd remembers its clients with nfsdcld's help, and without waits for those of its last life
	mkdir -p /run/rpc_pipefs $state/nfsdcld
	in_b mount -t nfsd nfsd /proc/fs/nfsd && in_b mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs &&
		in_b nfsdcld -p /run/rpc_pipefs -s $state/nfsdcld || return
	exportfs -o rw,fsid=0,no_root_squash,insecure,no_subtree_check "*:$export" || return
	in_b rpc.mountd -N 3 || return
	echo -3 >/proc/fs/nfsd/versions && echo rdma 20049 >/proc/fs/nfsd/portlist &&
		echo 4 >/proc/fs/nfsd/threads || return
	cat /proc/fs/nfsd/versions /proc/fs/nfsd/portlist
}

stop_server() {
	echo 0 >/proc/fs/nfsd/threads
	exportfs -au
	pkill -x rpc.mountd
	pkill -x nfsdcld
	umount /run/rpc_pipefs /proc/fs/nfsd
	eventually umount $state
	umount "$export"
}

mount_it() {
	in_a mount -t nfs4 -o vers=4.1,rdma,port=20049,timeo=20 $IP4_B:/ "$mnt" && grep "$mnt" /proc/mounts | grep proto=rdma
}

write_files() {
	seeded 1 $((40 << 20)) >"$mnt/data" && seeded 2 12345 >"$mnt/small" && mkdir "$mnt/dir" &&
		touch "$mnt/dir/"{1..50} && sync &&
		same_bytes "$export/data" 1 $((40 << 20)) && same_bytes "$export/small" 2 12345
}

read_again() {
	umount "$mnt" && echo 3 >/proc/sys/vm/drop_caches && mount_it || return
	same_bytes "$mnt/data" 1 $((40 << 20)) && same_bytes "$mnt/small" 2 12345 &&
		[ "$(ls "$mnt/dir" | wc -l)" = 50 ]
}

# While the client has no device what is under way ends with errors (SUNRPC takes ENODEV for final), but it ends,
# and the mount works again when the device is back.
client_link_removed() {
	load_starts 4 "$mnt/verify" 16 || return
	rdma link del "$DEV_A" && sleep 0.5 && add_link_a || return
	wait $load
	verified_writes "$mnt/verify" 4 && read_again
}

# A server without a device is one that does not answer: what was under way waits, and goes on.
server_link_removed() {
	load_starts 4 "$mnt/verify" 16 || return
	rdma link del "$DEV_B" && sleep 0.5 && add_link_b && load_ends && read_again
}

modules_unload() {
	umount "$mnt" && stop_server && modprobe -r rpcrdma
}

nfs_cleanup() {
	umount -fl "$mnt" 2>/dev/null
	[ ! -e /proc/fs/nfsd/threads ] || stop_server
	cleanup
}

setup
trap nfs_cleanup EXIT
plan 9
check "nfsd" start_server || fail_all "no server: $(dmesg | tail -5)"
check "mount" mount_it || fail_all "no mount: $(dmesg | tail -5)"
check "files, as the server has them" write_files
check "files, mounted again" read_again
check "random writes verified" verified_writes "$mnt/verify" 16
check "random writes verified, loss 1 %" lossy verified_writes "$mnt/verify" 4
check "client's link removed and added under load" client_link_removed
check "server's link removed and added under load" server_link_removed
check "modules unload" modules_unload
finish
