# Moves 8 MiB of random blocks with the verb VERB. With `send`, the server verifies the checksum of
# each block. fio asks for no retry when the receiver is not ready, so the server of a `send` posts
# receives for all blocks.
sums=
[ "$VERB" != send ] || sums=verify=crc32c
cat >server.fio <<JOB
[server]
ioengine=rdma
port=4470
bs=64k
size=8m
iodepth=128
rw=read
$sums
JOB
cat >client.fio <<JOB
[client]
ioengine=rdma
hostname=10.9.9.1
port=4470
verb=$VERB
bs=64k
size=8m
iodepth=16
rw=write
${sums:+$sums
do_verify=0}
JOB
fio server.fio & server=$!
until_served fio client.fio
wait $server
