# Each of TESTS between two processes, by the transports TLS.
export UCX_NET_DEVICES=roce_lo:1 UCX_TLS=$TLS
for test in $TESTS; do
    ucx_perftest -p 13337 & server=$!
    listening 13337
    ucx_perftest -p 13337 10.9.9.1 -t "$test" -n 100 -w 10 -s "$SIZE" -f
    wait $server
done
