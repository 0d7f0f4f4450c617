#!/bin/sh
# Writes ioctl.txt: the requests of ioctl(2), `number name` a line, by number, from what the kernel
# publishes.
#
#   sh crates/reader/src/names/ioctl.sh "$(cargo metadata --format-version 1 | jq -r '.packages[]|select(.name=="linux-raw-sys").manifest_path')"
#
# Most come from the crate linux-raw-sys (its constants are the kernel's uapi headers, by bindgen,
# for x86_64); what it lacks, from the headers of this machine (Debian: linux-libc-dev), by the C
# compiler. Of several names for one number, those that any file, terminal or socket takes stand
# alone; else all stand there, as nobody can tell which driver was meant.
set -eu
raw=$(dirname "$1")/src/x86_64/ioctl.rs
# (Of KVM's, those of this architecture.)
headers='linux/perf_event.h linux/kvm.h linux/loop.h linux/fuse.h linux/nvme_ioctl.h linux/vfio.h linux/sockios.h'
{
    awk '/^pub const/ { gsub(":", "", $3); gsub(";", "", $6); print $6, $3 }' "$raw"
    {
        echo '#include <stdio.h>'
        for header in $headers; do echo "#include <$header>"; done
        echo 'int main(void) {'
        for header in $headers; do echo "#include <$header>"; done | gcc -E -dM - |
            grep -vE 'KVM_(PPC|ARM|S390|RISCV|ALLOCATE_RMA|CREATE_SPAPR)' |
            sed -nE 's/^#define (KVM_[A-Z0-9_]+|PERF_EVENT_IOC_[A-Z0-9_]+|LOOP_[A-Z0-9_]+|FUSE_DEV_IOC_[A-Z0-9_]+|NVME_IOCTL_[A-Z0-9_]+|SIOC[A-Z0-9]+) +(_IO|0x4C|0x89).*/printf("%u %s\\n", (unsigned)\1, "\1");/p'
        echo '}'
    } > "${TMPDIR:-/tmp}/ioctl-$$.c"
    gcc -o "${TMPDIR:-/tmp}/ioctl-$$" "${TMPDIR:-/tmp}/ioctl-$$.c" && "${TMPDIR:-/tmp}/ioctl-$$"
    rm -f "${TMPDIR:-/tmp}/ioctl-$$" "${TMPDIR:-/tmp}/ioctl-$$.c"
} | grep -vE ' (FIEMAP_(EXTENT|FLAG)_.*|FIEMAP_MAX_OFFSET|FIEMAP_FLAGS_COMPAT|PHN_NOT_OH|SIOGIFINDEX|TIOCINQ|.*_OLD|FS_IOC32_.*)$' | sort -k1,1n -k2,2 -u | awk '
    # What any file, terminal or socket takes.
    /^[0-9]+ (TC|TIOC|FIO|FI[A-Z]+$|FICLONE|FIDEDUPE|FS_IOC_|SIOC)/ { general[$1] = $2 }
    !($1 in names) { order[++n] = $1; names[$1] = $2; next }
    { names[$1] = names[$1] " or " $2 }
    END { for (i = 1; i <= n; i++) { at = order[i]; printf "%#x %s\n", at, (at in general) ? general[at] : names[at] } }
' > "$(dirname "$0")/ioctl.txt"
