# Starts Open MPI's daemon on the other host, as ssh would: in the network namespace PEER_NAMESPACE, under
# a hostname of its own. The arguments are the host and the words of a command.
host=$1
shift
exec nsenter --net="$PEER_NAMESPACE" unshare --uts sh -c "hostname $host && exec $*"
