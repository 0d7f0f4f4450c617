# What guest.sh and flood.sh begin with: the crash kernel is loaded.
. /common.sh
load-crash-kernel /boot/vmlinuz /boot/initrd \
    "console=ttyS0 loglevel=4 nr_cpus=1 irqpoll reset_devices mitigations=off no_timer_check panic=1" || { say "FAILED: no crash kernel"; exit 1; }
say "crash kernel loaded: $(cat /sys/kernel/kexec_crash_loaded), $(cat /sys/kernel/kexec_crash_size) bytes"
