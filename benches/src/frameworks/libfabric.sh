# libfabric's connected endpoints between two processes.
eval "export $SETTINGS"
measure() {
    fi_pingpong -p "$PROVIDER" ${DOMAIN:+-d "$DOMAIN"} -e msg -S "$1" -I "$2" >/dev/null & server=$!
    listening 47592
    # Columns: bytes, sent, acknowledged, total, time, MB/s, microseconds, million transfers.
    fi_pingpong -p "$PROVIDER" ${DOMAIN:+-d "$DOMAIN"} -e msg -S "$1" -I "$2" 10.9.8.1 |
        tail -1 | awk "{ print \$$3 }"
    wait $server
}
echo "latency-us $(measure 8 10000 7)"
echo "medium-MB/s $(measure 65536 2000 6)"
echo "large-MB/s $(measure 1048576 200 6)"
