#!/bin/sh
# The kernel's host, in the lab's guest.
#   sh host.sh connect ADDRESS PORT NQN   connects over RDMA, and prints the disk's device
#   sh host.sh plain ADDRESS PORT NQN     the same, and no memory is registered for a request
#   sh host.sh use DEVICE BLOCK:SIZE:DEPTH …
#                                         a file system, files with checksums, and a check
#   sh host.sh leave NQN                  unmounts and disconnects
set -eu
folder=/tmp/nvme-host

connect() {
    modprobe nvme-rdma
    attach "$@"
}

# Soft-RoCE executes a registration of memory again when it retransmits the requests behind it, which
# fails ("not free") and breaks the queue: one lost packet may do that. A request of one piece of
# memory needs no registration.
plain() {
    modprobe -r nvme-rdma
    modprobe nvme-rdma register_always=N
    device=$(attach "$@")
    echo 4 > "/sys/block/$(basename "$device")/queue/max_sectors_kb"
    echo "$device"
}

attach() {
    address=$1 port=$2 nqn=$3
    # Lost connections are made again after a second, for two minutes.
    nvme connect --transport=rdma --traddr="$address" --trsvcid="$port" --nqn="$nqn" \
        --reconnect-delay=1 --ctrl-loss-tmo=120 >&2
    device=$(device_of "$nqn")
    # The kernel scans for namespaces in the background.
    timeout 30 sh -c "until test -b $device; do :; done"
    echo "$device"
}

device_of() {
    for controller in /sys/class/nvme/nvme*; do
        if test "$(cat "$controller/subsysnqn")" = "$1"; then
            echo "/dev/$(basename "$controller")n1"
        fi
    done
}

use() {
    device=$1
    shift
    mkfs.ext4 -q -F "$device"
    mkdir -p "$folder"
    mount "$device" "$folder"
    for sizes; do
        block=${sizes%%:*} rest=${sizes#*:}
        fio --name="$block" --directory="$folder" --bs="$block" --size="${rest%:*}" \
            --iodepth="${rest#*:}" --ioengine=libaio --direct=1 --rw=randwrite \
            --end_fsync=1 --verify=crc32c --verify_fatal=1 --do_verify=1
    done
    umount "$folder"
    fsck.ext4 -f -n "$device"
}

leave() {
    if mountpoint -q "$folder"; then
        umount "$folder" || umount -l "$folder"
    fi
    nvme disconnect --nqn="$1"
    # The next one may load it with other parameters.
    modprobe -r nvme-rdma
}

"$@"
