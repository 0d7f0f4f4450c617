# In the crash kernel: the hook first, then the dump in every form that is asked for.
export PATH=/bin
say() { read -r up rest </proc/uptime; echo "VM crash $up $*"; }
mount -t tmpfs tmp /tmp
say "$(awk '/^MemTotal|^MemAvailable/ { printf "%s %s kB ", $1, $2 }' /proc/meminfo)"
if grep -q qemu /out/forms; then
    # Before anything reads the old kernel's memory. The machine stands still while it is taken.
    say "ready for QEMU"
    sleep 5
fi
ls /usr/lib/flightrec/flightctl >/out/recover.txt 2>&1
time -v kdump-recover /var/lib/flightrec-crash >>/out/recover.txt 2>&1
say "recovered ($?): $(ls -la /var/lib/flightrec-crash)"
# Nothing filters /proc/vmcore. Without the files, nothing tells the recording from a forged one.
flightctl recover /proc/vmcore -o /out/unvouched.flight --state-dir /nonexistent --strict >/out/unvouched.txt 2>&1
say "recovered without the files ($?)"
for form in $(cat /out/forms); do
    case $form in
    qemu) continue ;;
    flat) makedumpfile --message-level 1 -F -l -d 31 /proc/vmcore >/out/d31-flat ;;
    *) makedumpfile --message-level 1 -$form -d 31 /proc/vmcore /out/d31-$form ;;
    esac
    say "makedumpfile $form -d 31 ($?)"
done
say "done"
