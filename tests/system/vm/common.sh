# What all of the machines' scripts begin with; `start` starts a recorder.
export PATH=/bin
say() { read -r up rest </proc/uptime; echo "VM $up $*"; }
ctl() { flightctl --runtime-dir /run/fr/run "$@"; }
say "Linux $(uname -r)"
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t tracefs nodev /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup

# start NAME STATE_DIR CONFIG: starts flightd, and waits until it answers.
start() {
    mkdir -p /run/fr/bpf /run/fr/run "$2"
    mount -t bpf bpf /run/fr/bpf
    start_again "$@"
}

# start_again NAME STATE_DIR CONFIG: the same, where one has run, whose recording may be there.
start_again() {
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

# traced_wakeups ROUNDS: wakeups out of every context, beside the kernel's own tracer.
traced_wakeups() {
    trace=/sys/kernel/tracing/instances/wakeups
    ifconfig lo 127.0.0.1 up
    mkdir $trace
    echo mono >$trace/trace_clock
    echo 16384 >$trace/buffer_size_kb
    echo 1 >$trace/events/sched/sched_waking/enable
    wakeups "$1" /out/synced >/out/wakeups.txt || { say "FAILED: wakeups"; return 1; }
    echo 0 >$trace/tracing_on
    cat $trace/trace >/out/wakeups.trace
    rmdir $trace
    ctl dump --last 1m --event waking --fds off --format jsonl -o /out/wakeups.jsonl \
        2>/out/wakeups.err
    say "wakeups: $(cat /out/wakeups.txt)"
}
