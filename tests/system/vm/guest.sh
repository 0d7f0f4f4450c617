# In the machine that is to panic: records, keeps what the recorder says live, and panics in the
# middle of work.
. /begin.sh

# An earlier recording, whose freed pages lie about in memory.
start earlier /state-earlier /flightd.toml || exit 1
find /bin >/dev/null
kill $daemon
wait $daemon
umount /run/fr/bpf
say "the earlier recording has ended"

start flightd /var/lib/flightrec /flightd.toml || exit 1
say "recording"
traced_wakeups 800 || exit 1
# Threads of a control group that use up its CPU time, on more than one CPU.
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/quota
mkdir $group
echo 10000 100000 >$group/cpu.max
for i in 1 2 3; do
    sh -c "echo \$\$ >$group/cgroup.procs; while :; do :; done" &
done
sleep 4
for pid in $(cat $group/cgroup.procs); do kill $pid; done
sleep 1
cp $group/cpu.stat /out/cpu.stat
stat -c %i $group >/out/quota.id
ctl dump --last 1m --event throttle --format jsonl -o /out/throttled.jsonl 2>/out/throttled.err
ctl dump --last 1m --cgroup /quota --event throttle -o /out/throttled.txt 2>>/out/throttled.err
rmdir $group
say "throttled: $(grep throttled_usec /out/cpu.stat), $(head -n 1 /out/throttled.txt)"
# A file that is opened, written and closed through rings of io_uring alone: by calls, by the
# kernel's polling thread, as a file of the ring's own.
for how in "" sqpoll direct; do
    rings /tmp $how >>/out/rings.txt || { say "FAILED: rings $how"; exit 1; }
done
ctl dump --last 1m --event io_submit,io_complete --format jsonl -o /out/rings.jsonl \
    2>/out/rings.err
say "rings: $(wc -l </out/rings.jsonl) lines"
# Functions of the kernel, for a time.
{
    ctl probe add kernel:__x64_sys_fsync --for 1m
    for i in 1 2 3 4 5; do
        echo $i >/out/function.$i
        dd if=/dev/zero of=/out/function.$i bs=512 count=1 conv=fsync
        ctl status
    done
    sleep 1
    ctl report functions --probed --format json >/out/functions.json
    ctl dump --last 1m --event function --format jsonl -o /out/functions.jsonl
    ctl probe remove --all
    ctl probe list
    ctl probe add kernel:nosuchmodule:init_module
} >/out/functions.txt 2>&1
say "functions: $(grep -c . /out/functions.jsonl) lines, $(tail -n 1 /out/functions.txt)"
# A disk whose writes and flushes take 200 ms: a loop device on one of the device mapper's.
truncate -s 16M /tmp/below
losetup /dev/loop0 /tmp/below
slow=$(delay /dev/loop0 200) && losetup /dev/loop1 $slow || { say "FAILED: no slow disk"; exit 1; }
cat /sys/block/loop1/stat >/out/slow.before
for i in 1 2 3 4; do
    dd if=/dev/zero of=/dev/loop1 bs=65536 count=4 seek=$((i * 4)) conv=fsync 2>/dev/null
done
cat /sys/block/loop1/stat >/out/slow.after
ctl dump --last 1m --device loop1 --format jsonl -o /out/slow.jsonl 2>/out/slow.err
ctl dump --last 1m --syscall fsync --comm dd --event sys_exit --format jsonl -o /out/fsync.jsonl \
    2>>/out/slow.err
ctl report waits --last 1m --comm dd --syscall fsync --slower-than 100ms --format json \
    >/out/waits.json 2>>/out/slow.err
ctl why --last 1m --comm dd --call fsync >/out/why.txt 2>>/out/slow.err
say "slow disk: $(grep -c . /out/slow.jsonl) lines, $(head -n 1 /out/why.txt)"
# A process without rights makes up a recording, for whoever reads the dump.
ctl mark "mark 0"
system-tests vm-forge /run/fr/bpf >/out/forged.txt 2>&1 &
i=0
until grep -q kept /out/forged.txt; do
    i=$((i + 1))
    [ $i -lt 240 ] || { say "FAILED: nothing was forged: $(cat /out/forged.txt)"; exit 1; }
    sleep 0.25
done
say "forged: $(cat /out/forged.txt)"
# Numbered calls of threads that are preempted. What comes after them must not fill the rings, on
# no machine: all of them must be in the dump.
stress 20000 >/out/stress.txt || { say "FAILED: stress"; exit 1; }
say "stressed"
# Somebody who is blocked, somebody who never sleeps, and somebody who makes system calls.
mkfifo /tmp/fifo
cat /tmp/fifo &
sleep 1000 </proc/uptime &
(while :; do :; done) &
(while :; do find /bin >/dev/null; sleep 0.1; done) &
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
# Requests to the slow disk are still under way when it panics.
(while :; do dd if=/dev/zero of=/dev/loop1 bs=65536 count=16 conv=fsync 2>/dev/null; done) &
ctl mark "the last mark"
echo 1 >/proc/sys/kernel/sysrq
in_flight() { awk '{ print $9 }' /sys/block/loop1/stat; }
# One that has just begun: it takes 200 ms.
i=0
until [ "$(in_flight)" -eq 0 ] || [ $i -ge 100 ]; do
    i=$((i + 1))
done
until [ "$(in_flight)" -gt 0 ] || [ $i -ge 200 ]; do
    i=$((i + 1))
done
# Before all others: a kernel that preempts could else let somebody in between the call and the
# panic.
first sh -c 'echo c >/proc/sysrq-trigger'
