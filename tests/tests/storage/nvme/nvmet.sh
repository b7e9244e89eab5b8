#!/bin/sh
# The kernel's target, in the lab's guest.
#   sh nvmet.sh start TRANSPORT ADDRESS PORT NQN MIB   a subsystem with one namespace, a disk in memory;
#                                                      again for another transport and port
#   sh nvmet.sh stop
set -eu
root=/sys/kernel/config/nvmet
disk=/dev/ram0

start() {
    transport=$1 address=$2 port=$3 nqn=$4 mib=$5
    modprobe "nvmet-$transport"
    mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
    if ! test -d "$root/subsystems/$nqn"; then
        modprobe brd rd_nr=1 rd_size=$((mib * 1024))
        mkdir "$root/subsystems/$nqn"
        cd "$root/subsystems/$nqn"
        echo 1 > attr_allow_any_host
        mkdir namespaces/1
        echo -n "$disk" > namespaces/1/device_path
        echo 1 > namespaces/1/enable
    fi
    mkdir "$root/ports/$port"
    cd "$root/ports/$port"
    echo "$transport" > addr_trtype
    echo ipv4 > addr_adrfam
    echo "$address" > addr_traddr
    echo "$port" > addr_trsvcid
    ln -s "$root/subsystems/$nqn" "subsystems/$nqn"
    echo "the kernel's target listens at $address:$port"
}

stop() {
    test -d "$root" || exit 0
    for port in "$root"/ports/*; do
        test -d "$port" || continue
        rm -f "$port"/subsystems/*
        rmdir "$port"
    done
    for subsystem in "$root"/subsystems/*; do
        test -d "$subsystem" || continue
        for namespace in "$subsystem"/namespaces/*; do
            echo 0 > "$namespace/enable"
            rmdir "$namespace"
        done
        rmdir "$subsystem"
    done
    modprobe -r brd
}

"$@"
