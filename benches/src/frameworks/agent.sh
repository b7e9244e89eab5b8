# Starts Open MPI's daemon on the other host, as ssh would: in the network namespace PEER_NAMESPACE, with a
# /sys that shows its devices, under a hostname of its own. The arguments are the host and the words of a
# command.
host=$1
shift
exec nsenter --net="$PEER_NAMESPACE" unshare --mount --uts \
    sh -c "mount -t sysfs sysfs /sys && hostname $host && exec $*"
