# In the machine that is to panic, instead of guest.sh: quiet processes beside a flood, for as many seconds as /flood says.
export PATH=/bin
say() { read -r up rest </proc/uptime; echo "VM $up $*"; }
say "Linux $(uname -r)"
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tracefs nodev /sys/kernel/tracing
load-crash-kernel /boot/vmlinuz /boot/initrd \
    "console=ttyS0 loglevel=4 nr_cpus=1 irqpoll reset_devices mitigations=off no_timer_check panic=1" || { say "FAILED: no crash kernel"; exit 1; }
mkdir -p /run/fr/bpf /run/fr/run /var/lib/flightrec
mount -t bpf bpf /run/fr/bpf
flightd --config /flood.toml --runtime-dir /run/fr/run --state-dir /var/lib/flightrec --bpffs-dir /run/fr/bpf \
    >/out/flightd.log 2>&1 &
ctl() { flightctl --runtime-dir /run/fr/run "$@"; }
i=0
until ctl status >/out/flightd.status 2>&1; do
    i=$((i + 1))
    [ $i -lt 240 ] || { say "FAILED: flightd does not answer"; cat /out/flightd.log; exit 1; }
    sleep 0.25
done
n=1
for rate in 5 20 50; do
    quiet $((n * 1000000)) $rate &
    echo "$! $((n * 1000000)) $rate" >>/out/quiet.txt
    n=$((n + 1))
done
# What is young is taken for one of a storm.
sleep 5
say "quiet: $(cat /out/quiet.txt)"
storm calls 0 &
storm calls 1 &
read -r seconds </flood
sleep "$seconds"
say "flooded for $seconds s: $(ctl status | head -n 1)"
ctl status --json >/out/status.json
ctl status >/out/status.txt
sync
echo 1 >/proc/sys/kernel/sysrq
first sh -c 'echo c >/proc/sysrq-trigger'
