# qperf's latency and bandwidth, of RC or TCP.
eval "export $SETTINGS"
qperf & server=$!
listening 19765
# Figures are in bytes a second, and in nanoseconds.
measure() {
    qperf --time 2 10.9.9.1 -cm 1 --unify_units -m "$2" "${PROTOCOL}_$1" | awk '/=/ { print $3 }'
}
echo "latency-us $(measure lat 8 | awk '{ print $1 / 1e3 }')"
echo "medium-MB/s $(measure bw 65536 | awk '{ print $1 / 1e6 }')"
echo "large-MB/s $(measure bw 1048576 | awk '{ print $1 / 1e6 }')"
kill $server
