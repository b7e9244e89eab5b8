#!/bin/sh
# Second stage of the lab's guest, in its final root: network, rxe0, agent.
# The kernel's command line carries lab.ip4=ADDRESS/PREFIX, lab.mtu=BYTES and
# lab.flavour=soft-roce, zero-copy or persistent-memory.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
fail() { echo "LAB-INIT: $*" > /dev/console; sleep 1; echo o > /proc/sysrq-trigger; sleep 60; }
for word in $(cat /proc/cmdline); do
    case $word in
        lab.ip4=*) ip4=${word#lab.ip4=} ;;
        lab.mtu=*) mtu=${word#lab.mtu=} ;;
        lab.flavour=*) flavour=${word#lab.flavour=} ;;
    esac
done
ulimit -l unlimited
hostname "$flavour-guest" 2> /dev/null
# Without duplicate address detection, an address, and its GID, is usable at once.
# Without router solicitations, captures contain only what tests cause.
for scope in default eth0; do
    echo 0 > /proc/sys/net/ipv6/conf/$scope/accept_dad
    echo 0 > /proc/sys/net/ipv6/conf/$scope/router_solicitations
done
ip link set lo up
ip link set eth0 mtu "$mtu" || fail "cannot set the MTU of eth0 to $mtu"
ip address add "$ip4" dev eth0
ip link set eth0 up || fail "cannot bring eth0 up"
case $flavour in
    soft-roce)
        rdma link add rxe0 type rxe netdev eth0 || fail "cannot add rxe0"
        ;;
    persistent-memory)
        rdma link add rxe0 type rxe netdev eth0 || fail "cannot add rxe0"
        # Memory of a file system can't be pinned for long, as rxe does with regions.
        ndctl create-namespace -f -e namespace0.0 -m devdax > /dev/console 2>&1 \
            || fail "cannot make /dev/dax0.0"
        ;;
    zero-copy)
        # All packets arrive at queue 0; the other queue pair is free for an XDP program.
        ethtool -L eth0 combined 1 || fail "cannot set the number of queues of eth0"
        ;;
esac

for name in /sys/class/virtio-ports/*/name; do
    if [ "$(cat "$name")" = roce.agent ]; then
        port=/dev/$(basename "$(dirname "$name")")
    fi
done
[ -n "$port" ] || fail "no virtio port named roce.agent"
/usr/bin/python3 -E /run/roce-lab/agent.py "$port" > /dev/console 2>&1 < /dev/null
# The agent ends when the channel closes.
echo o > /proc/sysrq-trigger
sleep 60
