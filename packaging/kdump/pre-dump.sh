#!/bin/sh
# In kdump's initramfs, before the dump: recovers the recording into the directory for it, where the file system that the dump
# goes to has that, else beside the dump.

RECOVER=${RECOVER:-/usr/lib/flightrec/kdump-recover}

# Where kdump mounts its target: kdumproot in later releases, sysroot where it is the root file system.
target=$(awk '$2 ~ "^/(kdumproot|sysroot)(/|$)" && $3 != "rootfs" { print $2 }' /proc/mounts | sort | tail -n 1)
if [ -z "$target" ]; then
    echo "flightrec: the dump goes to no file system here (ssh, raw): recover the recording from it" >&2
    exit 0
fi
mount -o remount,rw "$target" || exit 1
dir=$target/var/lib/flightrec-crash
if [ ! -d "$dir" ]; then
    path=$(awk '$1 == "path" { print $2 }' /etc/kdump.conf)
    dir=$target${path:-/var/crash}/flightrec
fi
# It refuses a directory that others than root can change, and makes what is missing.
exec "$RECOVER" "$dir"
