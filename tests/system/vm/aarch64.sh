# In the aarch64 machine: records, tells in text what it has, reads what another machine recorded,
# and panics in the middle of work.
. /common.sh
export TZ=UTC
{ cat /flightd.toml; echo "[record]"; echo "thread_contexts = true"; } >/tmp/flightd.toml
start flightd /var/lib/flightrec /tmp/flightd.toml || exit 1
say "recording"
# publish NAME PROGRAM [LIBRARY]: threads that publish for which span they work, once they have read
# a line of /tmp/go. The recorder finds where they do until then.
mkfifo /tmp/go
exec 5<>/tmp/go
publish() {
    "$2" 2 300 $3 <&5 >"/out/contexts.$1" &
    publishers="$publishers $!"
}
publish pie contexts-pie
for name in fixed large traditional; do
    publish $name contexts $name.so
done
traced_wakeups 400 || exit 1
# Calls whose numbers and flags are others than on x86_64, by a 64-bit program and a 32-bit one.
machine >/out/machine.txt || { say "FAILED: machine"; exit 1; }
if [ -e /bin/machine32 ]; then
    machine32 >/out/machine32.txt || say "FAILED: machine32"
fi
# Functions and marks of programs, and of a library, for a time.
{
    ctl probe add '/bin/functions:{leaf,middle,top}' --for 1m
    ctl probe add usdt:functions:tests:passed --for 1m
    ctl probe add libc.so.6:getppid --for 1m
    functions graph
    functions mark 50
    ctl status
    sleep 1
    ctl report functions --probed --format json >/out/functions.json
    ctl dump --last 1m --event function --format jsonl -o /out/functions.jsonl
    ctl probe remove --all
    ctl probe list
} >/out/functions.txt 2>&1
say "functions: $(grep -c . /out/functions.jsonl) lines, $(tail -n 1 /out/functions.txt)"
# The recorder takes a thousandth of a CPU to find them, which is little of an emulated one: four in
# some 110 s.
sleep 180
for pid in $publishers; do
    echo go >&5
    sleep 0.5
done
for pid in $publishers; do
    wait $pid || { say "FAILED: contexts"; cat /out/contexts.*; exit 1; }
done
say "published: $(cat /out/contexts.* | wc -l) lines"
stress 5000 >/out/stress.txt || { say "FAILED: stress"; exit 1; }
say "stressed"
ctl save --last 5m -o /out/aarch64.flight >/out/save.txt 2>&1 || { say "FAILED: save"; cat /out/save.txt; exit 1; }
flightctl dump --file /out/aarch64.flight --all -o /out/aarch64.txt 2>/out/aarch64.err
flightctl dump --file /x86_64.flight --all -o /out/x86_64.txt 2>/out/x86_64.err
say "read: $(wc -l </out/aarch64.txt) lines, $(wc -l </out/x86_64.txt) lines of x86_64"
ctl status --json >/out/status.json
ctl status >/out/status.txt
cp /out/flightd.log /out/flightd-live.log
ctl mark "the last mark"
sync
sleep 1
echo 1 >/proc/sys/kernel/sysrq
first sh -c 'echo c >/proc/sysrq-trigger'
