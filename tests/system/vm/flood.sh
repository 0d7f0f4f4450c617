# In the machine that is to panic, instead of guest.sh: quiet processes beside a flood, for as many
# seconds as /flood says.
. /begin.sh
start flightd /var/lib/flightrec /flood.toml || exit 1
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
