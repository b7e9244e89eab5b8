# gloo's allreduce of two ranks.
eval "export $SETTINGS"
measure() {
    mkdir "$1"
    rank() {
        # shellcheck disable=SC2086 # OPTIONS are several words.
        "$PLACED" --size 2 --rank "$2" --prefix a --shared-path "$PWD/$1" $OPTIONS --elements "$1" --iteration-time 2s \
            allreduce_ring
    }
    rank "$1" 1 >/dev/null & server=$!
    # The columns: bytes, floats, the least, middle, 99th and greatest time in us, GB/s, iterations.
    rank "$1" 0 | awk "\$2 == $1 { print $2 }"
    wait $server
}
echo "latency-us $(measure 2 '$4')"
echo "medium-MB/s $(measure 16384 '1000 * $7')"
echo "large-MB/s $(measure 262144 '1000 * $7')"
