# UCX's tests ${TEST}_lat and ${TEST}_bw between two processes: tag messages, or puts.
eval "export $SETTINGS"
measure() {
    ucx_perftest -p 13337 >/dev/null & server=$!
    listening 13337
    ucx_perftest -p 13337 10.9.9.1 -t "$1" -s "$2" -n "$3" -w 100 -f -v | tail -1 | cut -d, -f "$4"
    wait $server
}
# What ucx_perftest calls MB is a MiB.
megabytes() {
    awk '{ print $1 * 1.048576 }'
}
# The columns: iterations, typical, average and overall latency, average and overall MB/s.
echo "latency-us $(measure "${TEST}_lat" 8 20000 2)"
echo "medium-MB/s $(measure "${TEST}_bw" 65536 5000 6 | megabytes)"
echo "large-MB/s $(measure "${TEST}_bw" 1048576 500 6 | megabytes)"
