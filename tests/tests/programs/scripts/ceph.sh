# A monitor and an OSD that keeps its objects in memory. An object comes back as it went, and rados verifies those of its
# benchmark. With the defaults, each process, clients too, registers 1.2 GB for its buffers.
cat >ceph.conf <<CONF
[global]
fsid = 6e8b9b9e-52d0-4d7e-9c7b-6d2a3a6c6a01
mon_host = [v2:10.9.9.1:3300]
public_addr = 10.9.9.1
ms_type = ${TYPE:-async+rdma}
ms_async_rdma_device_name = roce_lo
ms_async_rdma_receive_queue_len = 256
ms_async_rdma_send_buffers = 256
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_pool_default_size = 1
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 1G
mon_data = $PWD/mon
osd_data = $PWD/osd
run_dir = $PWD
log_file = $PWD/log
admin_socket = $PWD/\$name.\$pid
${SETTINGS:-}
CONF
export CEPH_CONF=$PWD/ceph.conf
disk=6e8b9b9e-52d0-4d7e-9c7b-6d2a3a6c6a02
mkdir mon osd
monmaptool --create --addv a '[v2:10.9.9.1:3300]' --fsid 6e8b9b9e-52d0-4d7e-9c7b-6d2a3a6c6a01 monmap >monmap.log
ceph-mon --mkfs -i a --monmap monmap
ceph-mon -f -i a & server=$!
until_served ceph --connect-timeout 10 osd new $disk
ceph-osd --mkfs -i 0 --osd-uuid $disk
ceph-osd -f -i 0 & osd=$!
ceph osd crush add osd.0 1 host=here root=default
ceph osd pool create things 8
head -c 5000001 /dev/urandom >thing
rados -p things put thing thing
rados -p things get thing - | cmp - thing
echo 'the object is the same'
rados -p things bench 2 write -b 65536 --max-objects 1000 --no-cleanup
rados -p things bench 2 seq
echo 'the benchmark is verified'
kill $osd
wait $osd
kill $server
wait $server
