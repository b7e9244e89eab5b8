# Valkey's own benchmark of GET, with 1 client and with 20, by its RDMA module or by TCP.
eval "export $SETTINGS"
folder=$(dirname "$PLACED")
"$folder/valkey-server" --bind 10.9.9.1 --protected-mode no --save '' \
    --loadmodule "$PLACED" --rdma-port 6379 --rdma-bind 10.9.9.1 >/dev/null & server=$!
listening 6379
measure() {
    # shellcheck disable=SC2086 # OPTIONS are several words, or none.
    "$folder/valkey-benchmark" $OPTIONS -h 10.9.9.1 -t get --csv -c "$1" -n "$2" | awk -F'"' '/GET/ { print $4 }'
}
echo "one-client $(measure 1 50000)"
echo "twenty-clients $(measure 20 200000)"
kill $server
