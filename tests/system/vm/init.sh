#!/bin/busybox sh
# The first process of the virtual machine, and of its crash kernel: loads what reaches the disk,
# and goes on there.
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules/order); do
    insmod "/modules/$module" || echo "VM: insmod $module failed"
done
i=0
while [ ! -b /dev/vda ] && [ $i -lt 200 ]; do
    sleep 0.1
    i=$((i + 1))
done
mount -t ext4 /dev/vda /disk || { echo "VM: no disk"; reboot -f; }
# A disk with an init of its own is a whole system, and boots as one.
if [ -L /disk/sbin/init ]; then
    umount /proc /sys
    mount --move /dev /disk/dev
    exec switch_root /disk /sbin/init
fi
for dir in proc sys dev; do mount --bind /$dir /disk/$dir; done
chroot /disk /bin/busybox --install -s /bin
script=/guest.sh
[ -e /proc/vmcore ] && script=/crash.sh
chroot /disk /bin/sh $script
echo "VM: $script ended ($?)"
sync
mount -o remount,ro /disk 2>/dev/null
# QEMU ends with it (-no-reboot). Not every crash kernel can switch the machine off.
reboot -f
