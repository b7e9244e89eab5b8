# Migrates a guest to another QEMU over RDMA, and compares the memory of both.
/usr/bin/python3 -c "$MIGRATE"
