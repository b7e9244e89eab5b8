# Sets up the network of a script, runs the script on this stack, and leaves in .roce-bytes how
# many bytes of RoCE packets the kernel saw.
set -e
# Programs name their shared memory by user and process ID, as Open MPI does, and each scene has process IDs of its own:
# the first of two scenes at a time that ends would remove that of the other.
mount -t tmpfs -o mode=1777 shm /dev/shm
ip link set lo up
ip address add 10.9.9.1/32 dev lo
ip address add 10.9.9.2/32 dev lo
# A cable with both ends in this namespace, because libfabric does not use loopback.
ip link add near type veth peer name far
ip link set near addrgenmode none
ip link set far addrgenmode none
ip link set near mtu 9000 up
ip link set far mtu 9000 up
ip address add 10.9.8.1/24 dev near
ip address add fe80::1/64 dev near nodad
nft -f - <<'RULES'
table inet seen {
    counter roce { }
    chain input {
        type filter hook input priority 0
        udp dport 4791 counter name roce
    }
}
RULES
set +e
# shellcheck disable=SC2086 # DROP and CONFINE are commands and their arguments, SOCKETS is an option or nothing.
$DROP $CONFINE "$ROCE" run -v --summary --require-traffic $SOCKETS --library "$LIBRARY" -- \
    timeout --kill-after=1 "$SECONDS_AT_MOST" bash -c "$SCRIPT"
status=$?
nft list counter inet seen roce | sed -n 's/.* bytes \([0-9]*\).*/\1/p' >.roce-bytes
exit $status
