#!/bin/sh
# install.sh [--prefix DIR] [--root DIR] [--uninstall [--purge]]
#
# Installs flightrec out of the directory that has this script: programs, units, manual pages and
# completions below the prefix, the configuration in /etc/flightrec, the users flightrec and
# flight-ship. It fetches, enables and starts nothing, and prints what it does.
#
#   --prefix DIR  Programs go to DIR/bin [default: /usr/local]. For kdump's dracut it must be /usr.
#   --root DIR    Install into the system below DIR, of an image, and not into the running one
#   --uninstall   Stop recording, and remove what this script has installed below the prefix
#   --purge       With --uninstall: remove recordings, configuration and users as well
set -eu

die() { echo "install.sh: $*" >&2; exit 1; }
say() { echo "install.sh: $*"; }

CDPATH='' prefix=/usr/local root='' action=install purge=no
here=$(cd "$(dirname "$0")" && pwd)
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?--prefix needs a directory}; shift ;;
        --root) root=${2:?--root needs a directory}; shift ;;
        --uninstall) action=uninstall ;;
        --purge) purge=yes ;;
        --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) die "$1: no such option; --help shows those that there are" ;;
    esac
    shift
done
case $prefix in
    *[!A-Za-z0-9/._+-]* | *..* | [!/]* | */) die "--prefix: give a full path of plain letters" ;;
esac
[ $action = uninstall ] || [ $purge = no ] || die "--purge goes with --uninstall"
[ -z "$root" ] || root=$(cd "$root" && pwd)
# That is the running system.
case $root in / | //) root='' ;; esac
# systemd finds no unit below another prefix.
if [ "$prefix" = /usr ]; then units=/usr; else units=/usr/local; fi
# What was installed, in the order in which it was made: a path a line, directories with a slash at
# the end.
list=$root$prefix/lib/flightrec/installed

[ "$(id -u)" = 0 ] || die "only root can install it"
if [ -z "$root" ]; then has=/run/systemd/system; else has=$root/usr/lib/systemd; fi
[ -d "$has" ] || die "there is no systemd ($has), whose units start flightd and confine it"
for unit in /usr/lib/systemd/system/flightd.service \
    /usr/local/lib/systemd/system/flightd.service; do
    [ ! -e "$root$unit" ] || grep -qsxF "$unit" "$list" ||
        die "a package has installed flightrec, or this script has, with another --prefix" \
            "($root$unit): remove it first"
done

on_this_machine() { if [ -z "$root" ]; then systemctl "$@"; fi; }

remove_files() {
    # In reverse, so that a directory comes after what is in it.
    sed -n '1!G;h;$p' "$list" | while read -r path; do
        case $path in
            */) rmdir "$root${path%/}" 2> /dev/null || say "kept, not empty: $path" ;;
            *) rm -f "$root$path" ;;
        esac
    done
}

if [ $action = uninstall ]; then
    [ -e "$list" ] || [ $purge = yes ] || die "this script has installed nothing below $prefix"
    if [ -e "$list" ]; then
        [ -n "$root" ] || say "stopping and disabling flight-ship, flightd"
        on_this_machine disable --now flight-ship.service flightd.service || :
        # It must have ended before flightd's program is gone.
        on_this_machine stop flightrec-recording.service || :
        say "removing $(grep -c '[^/]$' "$list") files below $root$prefix"
        remove_files
        on_this_machine daemon-reload
    fi
    [ $purge = yes ] || say "kept: /etc/flightrec, recordings, users: --purge removes them as well"
    [ $purge = yes ] || exit 0
    say "removing recordings, /etc/flightrec, the users and groups flightrec and flight-ship"
    left=''
    for name in etc/flightrec run/flightrec var/lib/flightrec var/lib/flightrec-crash \
        var/lib/flight-ship; do rm -rf "$root/${name:?}" || left="$left /$name"; done
    for name in flight-ship flightrec; do
        userdel ${root:+--root "$root"} $name 2> /dev/null || :
        groupdel ${root:+--root "$root"} $name 2> /dev/null || :
        ! grep -qs "^$name:" "$root/etc/passwd" "$root/etc/group" || left="$left $name"
    done
    [ -z "$left" ] || die "could not be removed:$left"
    exit 0
fi

[ -d "$here/prefix" ] || die "$here is no unpacked tarball, out of which it could install"

if [ -z "$root" ]; then
    [ -r /sys/kernel/btf/vmlinux ] ||
        die "this kernel has no BTF (/sys/kernel/btf/vmlinux), from which flightd has its types:" \
            "it must be Linux 6.1 or later with CONFIG_DEBUG_INFO_BTF=y"
    "$here/prefix/bin/flightd" --version > /dev/null ||
        die "flightd does not run here: it needs $(cat "$here/needs")"
fi

# Where a file of the tarball goes.
place_of() {
    case $1 in
        ./lib/systemd/*) echo "$units/${1#./}" ;;
        *) echo "$prefix/${1#./}" ;;
    esac
}
cd "$here/prefix"
files=$(find . -type f | sort)
for file in $files; do
    path=$(place_of "$file")
    [ ! -e "$root$path" ] || grep -qsxF "$path" "$list" ||
        die "$root$path is there already, and this script did not install it: remove it first"
done

new=$(mktemp)
make_directory() {
    [ ! -d "$root$1" ] || return 0
    make_directory "$(dirname "$1")"
    mkdir -m 0755 "$root$1"
    echo "$1/" >> "$new"
}

if [ -e "$list" ]; then
    say "removing the files of the version that is installed"
    remove_files
    action=upgrade
fi
say "installing below $root$prefix"
make_directory "$prefix/lib/flightrec"
echo "$prefix/lib/flightrec/installed" >> "$new"
# If this is interrupted, --uninstall finds what there is.
trap 'chmod 0644 "$new"; mv "$new" "$list"' EXIT
# dash runs the above at a signal only if it exits.
trap 'exit 1' HUP INT TERM
for file in $files; do
    path=$(place_of "$file")
    make_directory "$(dirname "$path")"
    if [ -x "$file" ]; then mode=0755; else mode=0644; fi
    echo "$path" >> "$new"
    install -m "$mode" "$file" "$root$path"
    # What names the programs names them where they are.
    case $file in
        ./lib/flightrec/flightctl) ;;
        ./lib/*) sed -i "s#/usr/bin/flight#$prefix/bin/flight#g
            s#/usr/lib/flightrec/#$prefix/lib/flightrec/#g" "$root$path" ;;
    esac
done
for file in "$here"/etc/flightrec/*; do
    path=$root/etc/flightrec/$(basename "$file")
    if [ -e "$path" ] && ! cmp -s "$file" "$path"; then
        say "kept: $path; the new one is $path.new"
        path=$path.new
    fi
    install -D -m 0644 "$file" "$path"
done
say "making the users flightrec and flight-ship, and the directories of recordings"
systemd-sysusers ${root:+--root="$root"} - < "$here/prefix/lib/sysusers.d/flightrec.conf"
{
    cat "$here/prefix/lib/tmpfiles.d/flightrec.conf"
    echo "d /var/lib/flightrec 0750 flightrec flightrec -"
} | systemd-tmpfiles ${root:+--root="$root"} --create -
on_this_machine daemon-reload
if [ $action = upgrade ]; then
    # The kernel keeps recording while flightd is restarted.
    on_this_machine try-restart flightd.service flight-ship.service
    say "done"
else
    say "done, and nothing runs. To try it: flightctl drill"
    say "To record now and at every boot: systemctl enable --now flightd"
fi
say "To remove it: $root$prefix/lib/flightrec/install.sh --prefix $prefix" \
    "${root:+--root $root }--uninstall"
