# A disk of tgt over iSER, written and read back by libiscsi, and compared with the file.
head -c 16777216 /dev/zero >disk
# An ordinary user may not write to the folder of tgtd's control socket.
export TGT_IPC_SOCKET=$PWD/tgt
tgtd -f >tgtd.log 2>&1 & server=$!
# tgtd closes a connection on which a command arrives before the completion of its answer to the login. This
# happens if the acknowledgement of the answer is lost. Then the initiator has to log in again.
initiator() {
    "$@" && return
    cat tgtd.log
    grep -q 'non-login pdu during login phase' tgtd.log
    "$@"
}
until tgtadm --lld iser --op show --mode sys >/dev/null 2>&1; do kill -0 $server; done
name=iqn.2026-01.example:disk
tgtadm --lld iser --op new --mode target --tid 1 -T $name
tgtadm --lld iser --op new --mode logicalunit --tid 1 --lun 1 -b "$PWD/disk"
tgtadm --lld iser --op bind --mode target --tid 1 -I ALL
# For iSER, tgtd wants the address and the name of the initiator to be bound.
tgtadm --lld iser --op bind --mode target --tid 1 -Q iqn.2026-01.example:client
initiator iscsi-inq -i iqn.2026-01.example:client "iser://10.9.9.1:3260/$name/1"
initiator "$ISCSI" "iser://10.9.9.1:3260/$name/1" disk
kill -9 $server
cat tgtd.log
