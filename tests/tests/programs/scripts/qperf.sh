# Every test of reliable connections, each for a second. `-cm 1` connects by the connection
# manager: without it, qperf has no way to name a GID, which RoCE needs.
qperf & server=$!
listening 19765
for test in $TESTS; do
    qperf -t 1 10.9.9.1 -cm 1 "$test"
done
kill $server
