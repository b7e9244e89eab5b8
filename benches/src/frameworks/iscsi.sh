# Reads of a disk of tgt by libiscsi, 16 at a time, over iSER or TCP.
eval "export $SETTINGS"
head -c 67108864 /dev/zero >disk
# An ordinary user may not write to the folder of tgtd's control socket.
export TGT_IPC_SOCKET=$PWD/tgt
tgtd -f >tgtd.log 2>&1 & server=$!
until tgtadm --lld "$LLD" --op show --mode sys >/dev/null 2>&1; do kill -0 $server; done
name=iqn.2026-01.example:disk
tgtadm --lld "$LLD" --op new --mode target --tid 1 -T $name
tgtadm --lld "$LLD" --op new --mode logicalunit --tid 1 --lun 1 -b "$PWD/disk"
tgtadm --lld "$LLD" --op bind --mode target --tid 1 -I ALL
tgtadm --lld "$LLD" --op bind --mode target --tid 1 -Q iqn.2026-01.example:client
# The last line is "iops average 11600 (725 MB/s)". Over iSER, libiscsi fails to send commands of 1 MiB.
iscsi-perf -i iqn.2026-01.example:client -b 128 -m 16 -t 3 "$LLD://10.9.9.1:3260/$name/1" |
    tr '\r' '\n' | awk '/^iops average/ { print "medium-MB/s", $3 * 65536 / 1e6 }'
kill -9 $server
