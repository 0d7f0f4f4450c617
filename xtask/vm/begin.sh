# What the machine's scripts (guest.sh, flood.sh) begin with: the crash kernel is loaded, and
# `start` starts a recorder.
export PATH=/bin
say() { read -r up rest </proc/uptime; echo "VM $up $*"; }
ctl() { flightctl --runtime-dir /run/fr/run "$@"; }
say "Linux $(uname -r)"
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tracefs nodev /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
load-crash-kernel /boot/vmlinuz /boot/initrd \
    "console=ttyS0 loglevel=4 nr_cpus=1 irqpoll reset_devices mitigations=off no_timer_check panic=1" || { say "FAILED: no crash kernel"; exit 1; }
say "crash kernel loaded: $(cat /sys/kernel/kexec_crash_loaded), $(cat /sys/kernel/kexec_crash_size) bytes"

# start NAME STATE_DIR CONFIG: starts flightd, and waits until it answers.
start() {
    mkdir -p /run/fr/bpf /run/fr/run "$2"
    mount -t bpf bpf /run/fr/bpf
    flightd --config "$3" --runtime-dir /run/fr/run --state-dir "$2" --bpffs-dir /run/fr/bpf >"/out/$1.log" 2>&1 &
    daemon=$!
    i=0
    until ctl status >"/out/$1.status" 2>&1; do
        i=$((i + 1))
        [ $i -lt 240 ] || { say "FAILED: flightd does not answer"; cat "/out/$1.log"; return 1; }
        kill -0 $daemon || { wait $daemon; say "flightd ended: $?"; cat "/out/$1.log"; return 1; }
        sleep 0.25
    done
}
