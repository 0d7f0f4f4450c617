# In the aarch64 machine: records, tells in text what it has, reads what another machine recorded,
# and panics in the middle of work.
. /common.sh
export TZ=UTC
start flightd /var/lib/flightrec /flightd.toml || exit 1
say "recording"
traced_wakeups 400 || exit 1
# Calls whose numbers and flags are others than on x86_64, by a 64-bit program and a 32-bit one.
machine >/out/machine.txt || { say "FAILED: machine"; exit 1; }
if [ -e /bin/machine32 ]; then
    machine32 >/out/machine32.txt || say "FAILED: machine32"
fi
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
