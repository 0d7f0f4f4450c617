# Keeps what systemd and the recorder tell of this boot and of the one before; then reboots, and the
# second time switches off.
say() { read -r up rest </proc/uptime; echo "VM $up $*" >/dev/console; }
boot=1
[ -d /out/1 ] && boot=2
out=/out/$boot
mkdir -p $out
say "boot $boot: $(uname -r), $(systemctl is-system-running): $(systemctl list-units --failed --plain --no-legend | tr '\n' ' ')"
cat /proc/sys/kernel/random/boot_id >$out/boot_id
systemctl show -p UserspaceTimestampMonotonic >$out/manager
for unit in flightd.service sysinit.target multi-user.target; do
    systemctl show -p User -p MainPID -p ActiveState -p UnitFileState -p ActiveEnterTimestampMonotonic \
        -p ExecMainStartTimestampMonotonic $unit >$out/$unit
done
cat "/proc/$(systemctl show -P MainPID flightd.service)/status" >$out/process
journalctl -b --no-pager -o short-monotonic -u flightd.service >$out/journal
journalctl -b --no-pager -o short-monotonic >$out/journal-of-all

# told NAME ARGUMENTS: keeps what flightctl says.
told() {
    name=$1
    shift
    flightctl "$@" >"$out/$name" 2>"$out/$name.err"
    code=$?
    echo $code >"$out/$name.code"
    say "boot $boot: flightctl $*: $code, $(wc -l <"$out/$name") lines"
}
told status.json status --json
told boots dump --list-boots
told here.jsonl dump --boot --all --fds off --format jsonl
if [ $boot = 1 ]; then
    say "boot 1 done"
    systemctl reboot --no-block
else
    told before.jsonl dump --boot -1 --all --fds off --format jsonl
    if [ -x /trial/system-tests ]; then
        told drill drill
        dpkg --purge flightrec >$out/purge 2>&1
        echo $? >$out/purge.code
        say "boot 2: purged: $(cat $out/purge.code)"
        # It names the recorder's unit, which systemd would go on to know.
        rm /etc/systemd/system/early.service /etc/systemd/system/sysinit.target.wants/early.service
        systemctl daemon-reload
        # Outside of what it compares.
        mv /out /trial
        /trial/system-tests bare-trial dpkg >/trial/out/2/bare 2>&1
        echo $? >/trial/out/2/bare.code
        mv /trial/out /
        say "boot 2: installed, tried and purged: $(cat $out/bare.code)"
    fi
    say "boot 2 done"
    systemctl poweroff --no-block
fi
