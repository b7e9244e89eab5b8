# Values set and read by RDMA, by Valkey's own test client, with four threads that each compare
# what they read.
"$VALKEY/src/valkey-server" --port 0 --save '' --daemonize no \
    --loadmodule "$VALKEY/src/valkey-rdma.so" --rdma-port 6379 --rdma-bind 10.9.9.1 & server=$!
until_served "$VALKEY/tests/rdma/rdma-test" -h 10.9.9.1 -p 6379 -t 4
kill $server
