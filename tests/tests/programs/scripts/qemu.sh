# A guest that runs is migrated to another QEMU by RDMA, and the memory of both is compared.
/usr/bin/python3 -c "$MIGRATE"
