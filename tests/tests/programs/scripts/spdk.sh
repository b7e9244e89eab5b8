# A disk in memory of SPDK's NVMe target, which SPDK's own host writes, reads and compares, and then reads by eight
# requests at a time. The libraries are there if SPDK was built with a DPDK that is installed.
export LD_LIBRARY_PATH=$SPDK/lib:${LD_LIBRARY_PATH-}
name=nqn.2026-01.example:disk
cat >target.json <<END
{ "subsystems": [
    { "subsystem": "bdev", "config": [
        { "method": "bdev_malloc_create", "params": { "name": "disk", "num_blocks": 131072, "block_size": 512 } } ] },
    { "subsystem": "nvmf", "config": [
        { "method": "nvmf_create_transport", "params": { "trtype": "RDMA" } },
        { "method": "nvmf_create_subsystem",
          "params": { "nqn": "$name", "allow_any_host": true, "serial_number": "1" } },
        { "method": "nvmf_subsystem_add_ns",
          "params": { "nqn": "$name", "namespace": { "nsid": 1, "bdev_name": "disk" } } },
        { "method": "nvmf_subsystem_add_listener", "params": { "nqn": "$name", "listen_address":
            { "trtype": "RDMA", "adrfam": "IPv4", "traddr": "10.9.9.1", "trsvcid": "4420" } } } ] } ] }
END
cat >host.json <<END
{ "subsystems": [
    { "subsystem": "bdev", "config": [
        { "method": "bdev_nvme_attach_controller", "params": { "name": "disk", "trtype": "RDMA", "adrfam": "IPv4",
            "traddr": "10.9.9.1", "trsvcid": "4420", "subnqn": "$name" } } ] } ] }
END
# Without huge pages and PCI devices. A mask of 1 is the first processor.
"$SPDK/nvmf_tgt" --no-huge --no-pci -s 512 -m 1 -r "$PWD/target.sock" -c target.json >target.log 2>&1 & server=$!
until grep -q 'Target Listening' target.log; do kill -0 $server; done
"$SPDK/bdevperf" --no-huge --no-pci -s 512 -m 2 -r "$PWD/host.sock" -c host.json -q 16 -o 65536 -w verify -t 2
"$SPDK/spdk_nvme_perf" --no-huge -s 512 -c 2 -o 131072 -q 8 -w randread -t 1 \
    -r 'trtype:RDMA adrfam:IPv4 traddr:10.9.9.1 trsvcid:4420'
kill $server
wait $server
