#!/bin/busybox sh
# First process of the lab's guest: loads modules, builds the root file system
# from the host's (read-only, with a writable layer in memory), hands over to
# stage2.sh inside it.
fail() { echo "LAB-INIT: $*" > /dev/console; sleep 1; echo o > /proc/sysrq-trigger; sleep 60; }
bb=/bin/busybox
$bb mkdir -p /proc /sys /dev /host /rw /root /mods
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
$bb mount -t devtmpfs dev /dev
while read -r module; do
    $bb insmod "/modules/$module" || fail "cannot load $module"
done < /modules.order

opts=trans=virtio,version=9p2000.L,msize=512000,cache=loose
$bb mount -t 9p -o "$opts,ro" hostroot /host || fail "cannot mount the host's root"
$bb mount -t 9p -o "$opts,ro" modules /mods || fail "cannot mount the modules"
$bb mount -t tmpfs rw /rw
$bb mkdir -p /rw/upper /rw/work
$bb mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /root \
    || fail "cannot mount the overlay"

$bb mkdir -p /root/proc /root/sys /root/dev /root/tmp /root/run /root/lib/modules
$bb mount --move /proc /root/proc
$bb mount --move /sys /root/sys
$bb mount --move /dev /root/dev
$bb mkdir -p /root/dev/shm /root/dev/pts
$bb mount -t tmpfs shm /root/dev/shm
$bb mount -t devpts pts /root/dev/pts
$bb mount -t tmpfs tmp /root/tmp
$bb mount -t tmpfs run /root/run
$bb mount --bind /mods /root/lib/modules || fail "cannot bind the modules"
$bb mkdir -p /root/run/roce-lab/host
# Files of the host that a folder in memory hides are found here.
$bb mount --bind /host /root/run/roce-lab/host || fail "cannot bind the host's root"
$bb cp /stage2.sh /agent.py /peer.py /root/run/roce-lab/
exec $bb switch_root /root /bin/sh /run/roce-lab/stage2.sh
