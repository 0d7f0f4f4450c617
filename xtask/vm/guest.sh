# In the machine that is to panic: records, keeps what the recorder says live, and panics in the middle of work.
export PATH=/bin
say() { read -r up rest </proc/uptime; echo "VM $up $*"; }
say "Linux $(uname -r)"
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tracefs nodev /sys/kernel/tracing
load-crash-kernel /boot/vmlinuz /boot/initrd \
    "console=ttyS0 loglevel=4 nr_cpus=1 irqpoll reset_devices mitigations=off no_timer_check panic=1" || { say "FAILED: no crash kernel"; exit 1; }
say "crash kernel loaded: $(cat /sys/kernel/kexec_crash_loaded), $(cat /sys/kernel/kexec_crash_size) bytes"

# recorder NAME STATE_DIR: starts flightd, and waits until it answers.
start() {
    mkdir -p /run/fr/bpf /run/fr/run "$2"
    mount -t bpf bpf /run/fr/bpf
    flightd --config /flightd.toml --runtime-dir /run/fr/run --state-dir "$2" --bpffs-dir /run/fr/bpf >"/out/$1.log" 2>&1 &
    daemon=$!
    i=0
    until flightctl --runtime-dir /run/fr/run status >"/out/$1.status" 2>&1; do
        i=$((i + 1))
        [ $i -lt 240 ] || { say "FAILED: flightd does not answer"; cat "/out/$1.log"; return 1; }
        kill -0 $daemon || { wait $daemon; say "flightd ended: $?"; cat "/out/$1.log"; return 1; }
        sleep 0.25
    done
}

# An earlier recording, whose freed pages lie about in memory.
start earlier /state-earlier || exit 1
find /bin >/dev/null
kill $daemon
wait $daemon
umount /run/fr/bpf
say "the earlier recording has ended"

start flightd /var/lib/flightrec || exit 1
say "recording"
ctl() { flightctl --runtime-dir /run/fr/run "$@"; }
# Numbered calls of threads that are preempted; before all that fills the rings.
stress 20000 >/out/stress.txt || { say "FAILED: stress"; exit 1; }
say "stressed"
# A process without rights makes up a recording, for whoever reads the dump.
ctl mark "mark 0"
xtask vm-forge /run/fr/bpf >/out/forged.txt 2>&1 &
i=0
until grep -q kept /out/forged.txt; do
    i=$((i + 1))
    [ $i -lt 240 ] || { say "FAILED: nothing was forged: $(cat /out/forged.txt)"; exit 1; }
    sleep 0.25
done
say "forged: $(cat /out/forged.txt)"
# Somebody who is blocked, somebody who never sleeps, and somebody who makes system calls.
mkfifo /tmp/fifo
cat /tmp/fifo &
sleep 1000 </proc/uptime &
(while :; do :; done) &
(while :; do find /bin >/dev/null; done) &
for i in 1 2 3 4 5; do
    ctl mark "mark $i"
    sleep 0.2
done
ctl dump --all --fds off --format jsonl -o /out/live.jsonl 2>/out/live.err
say "live dump: $(ctl status | head -n 1)"
ctl ps >/out/ps.txt 2>&1
ctl status --json >/out/status.json
cp /out/flightd.log /out/flightd-live.log
sync
sleep 1
ctl mark "the last mark"
echo 1 >/proc/sys/kernel/sysrq
# Before all others: a kernel that preempts could else let somebody in between the call and the panic.
first sh -c 'echo c >/proc/sysrq-trigger'
