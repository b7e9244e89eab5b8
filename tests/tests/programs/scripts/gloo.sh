# Collectives of two processes. The first result of each is checked.
for collective in allreduce_ring allreduce_ring_chunked allreduce_halving_doubling \
    broadcast_one_to_all pairwise_exchange sendrecv_roundtrip allgather_ring; do
    mkdir "$PWD/$collective"
    rank() {
        "$BENCHMARK" --size 2 --rank "$1" --prefix a --shared-path "$PWD/$collective" \
            --transport ibverbs --ib-device roce_lo --elements 10000 --iteration-count 20 \
            "$collective"
    }
    rank 0 & server=$!
    rank 1
    wait $server
done
