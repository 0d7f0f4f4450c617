#!/bin/sh
# In kdump's initramfs, before the dump: recovers the recording into the state directory, where the file system that the dump
# goes to has it, else beside the dump.

# Where kdump mounts its target: kdumproot in later releases, sysroot where it is the root file system.
target=$(awk '$2 ~ "^/(kdumproot|sysroot)(/|$)" && $3 != "rootfs" { print $2 }' /proc/mounts | sort | tail -n 1)
if [ -z "$target" ]; then
    echo "flightrec: the dump goes to no file system here (ssh, raw): recover the recording from it" >&2
    exit 0
fi
mount -o remount,rw "$target" || exit 1
state=$target/var/lib/flightrec
if [ ! -d "$state" ]; then
    path=$(awk '$1 == "path" { print $2 }' /etc/kdump.conf)
    state=$target${path:-/var/crash}
    mkdir -p "$state" || exit 1
fi
exec /usr/lib/flightrec/kdump-recover "$state"
