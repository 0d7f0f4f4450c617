# In a machine that lacks something: what flightd says without tracefs, without the kernel's types,
# and on a kernel that is locked down.
. /common.sh
mkdir -p /run/fr/bpf /run/fr/run /sys/kernel/security
mount -t bpf bpf /run/fr/bpf
mount -t securityfs nodev /sys/kernel/security
# refused NAME: what flightd says, and its exit code; it must end.
refused() {
    timeout 120 flightd --config /cpus.toml --runtime-dir /run/fr/run \
        --state-dir /state-refused --bpffs-dir /run/fr/bpf >"/out/$1.log" 2>&1
    echo $? >"/out/$1.code"
    flightctl doctor >"/out/$1.doctor" 2>&1
    ls /run/fr/bpf >"/out/$1.left"
    say "$1: $(cat "/out/$1.code")"
}
umount /sys/kernel/tracing
refused tracefs
mount -t tracefs nodev /sys/kernel/tracing
mount -t tmpfs tmp /sys/kernel/btf
refused btf
umount /sys/kernel/btf
umount /run/fr/bpf

# Of the two modes of lockdown, one lets BPF read the kernel's memory.
echo integrity >/sys/kernel/security/lockdown
start integrity /var/lib/flightrec /cpus.toml || exit 1
flightctl doctor >/out/integrity.doctor 2>&1
find /bin >/dev/null
sleep 1
ctl dump --last 5s --strict -o /out/integrity.txt 2>/out/integrity.err
echo $? >/out/integrity.code
kill $daemon
wait $daemon
umount /run/fr/bpf
mount -t bpf bpf /run/fr/bpf
echo confidentiality >/sys/kernel/security/lockdown
cat /sys/kernel/security/lockdown >/out/lockdown
refused confidentiality
say "done"
