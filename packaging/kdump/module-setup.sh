#!/bin/bash
# dracut module: puts flightctl and the hook into kdump's initramfs only (Fedora, RHEL 8 and later).

check() {
    # mkdumprd sets it.
    [[ -n ${IN_KDUMP:-} && -f /etc/kdump.conf ]] || return 255
    require_binaries timeout date dirname ls sync awk sort tail || return 1
    [[ -x /usr/lib/flightrec/flightctl ]] || require_binaries flightctl || return 1
    return 0
}

depends() {
    echo kdumpbase
    return 0
}

install() {
    inst_multiple timeout date dirname ls sync mkdir rm awk sort tail
    if [[ -x /usr/lib/flightrec/flightctl ]]; then
        inst_simple /usr/lib/flightrec/flightctl
    else
        inst_multiple flightctl
    fi
    inst_simple /usr/lib/flightrec/kdump-recover
    # kdump runs every executable there, in order, before it takes the dump.
    # shellcheck disable=SC2154 # dracut sets it
    inst_simple "$moddir/pre-dump.sh" /etc/kdump/pre.d/50-flightrec.sh
}
