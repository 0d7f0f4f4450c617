#!/bin/sh
# Runs in kdump's initramfs before the dump: recovers the recording into its directory if the
# dump's file system has that, else next to the dump.

RECOVER=${RECOVER:-/usr/lib/flightrec/kdump-recover}

# Where kdump mounts its target: kdumproot in later releases, sysroot if it is the root file
# system.
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
# It refuses a directory that users other than root can change, and creates missing ones.
exec "$RECOVER" "$dir"
