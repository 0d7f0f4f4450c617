# In a machine of many CPUs: how long the recorder's commands take, what it uses, and whether it
# records every CPU, also across a CPU that goes away and comes back and a recorder that is killed.
. /common.sh
: >/out/times
# The seconds since the machine began.
up() { read -r up rest </proc/uptime; echo "$up"; }
# timed NAME COMMAND...: how long it took, in seconds, and the most memory that it had, in KiB.
timed() {
    what=$1
    shift
    time -f "$what %e %M" -o /out/time "$@" 2>/out/timed.err ||
        { say "FAILED: $*"; cat /out/timed.err; }
    tail -n 1 /out/time >>/out/times
}
# since NAME BEGIN: the seconds since `up` said BEGIN.
since() { echo "$1 $2 $(up)" | awk '{ print $1, $3 - $2, 0 }' >>/out/times; }
say "CPUs $(nproc), $(awk '/MemTotal/ { print $2 }' /proc/meminfo) KiB"
flightd --check --config /cpus.toml >/out/check.txt 2>&1
begin=$(up)
start flightd /var/lib/flightrec /cpus.toml || exit 1
since start $begin
say "recording"
sleep 5
ctl status --json >/out/idle-1.json
sleep 20
ctl status --json >/out/idle-2.json

# Numbered calls on all CPUs.
numbers 20 >/out/numbers.txt &
numbers=$!
sleep 12
ctl status --json >/out/busy-1.json
sleep 20
ctl status --json >/out/busy-2.json
for i in 1 2 3 4 5; do
    timed version flightctl --version
    timed status flightctl --runtime-dir /run/fr/run status
done
timed dump flightctl --runtime-dir /run/fr/run dump --last 10s --strict -o /out/dump.txt
timed json flightctl --runtime-dir /run/fr/run dump --last 10s --strict --format jsonl \
    -o /out/dump.jsonl
timed why flightctl --runtime-dir /run/fr/run why --last 10s
say "dumped: $(wc -l </out/dump.txt) lines"

# flightd is killed, and the next one takes over its recording.
kill -9 $daemon
wait $daemon
sleep 1
begin=$(up)
start_again adopted /var/lib/flightrec /cpus.toml || exit 1
since adopt $begin
say "adopted"
sleep 3
kill $numbers
wait $numbers
ctl dump --last 15s --strict --event sys_enter --syscall getpgid --format jsonl \
    -o /out/adopted.jsonl 2>/out/adopted.err
echo $? >/out/adopted.code
say "after the kill: $(wc -l </out/adopted.jsonl) lines"

# The last CPU goes away, and comes back.
cpu=$(($(nproc) - 1))
online=/sys/devices/system/cpu/cpu$cpu/online
echo 0 >$online
sleep 2
ctl status --json >/out/offline.json
nproc >/out/offline.nproc
echo 1 >$online
sleep 1
numbers 20 $cpu >/out/back.txt &
numbers=$!
sleep 2
kill $numbers
wait $numbers
ctl dump --last 6s --strict --event sys_enter --syscall getpgid --format jsonl -o /out/back.jsonl \
    2>/out/back.err
echo $? >/out/back.code
say "back: $(wc -l </out/back.jsonl) lines"
ctl status --json >/out/status.json
grep -E "VmHWM|VmRSS|Threads" /proc/$daemon/status >/out/daemon.txt
ls /proc/$daemon/fd | wc -l >>/out/daemon.txt
begin=$(up)
kill $daemon
wait $daemon
since stop $begin
ls /run/fr/bpf | wc -l >/out/left.txt
say "done"
