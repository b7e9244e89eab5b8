# Messages of many sizes there and back, compared by the program (-c).
#
# libfabric's rxm destroys a QP before it polls the QP's completions (mended there in August 2026:
# "prov/rxm: fix the msg_ep use-after-free at connection teardown"). On a NIC that drops a QP's
# completions with the QP, as most do, a process that is scheduled late loses the completion of the
# last message, "fin": it ends with ECANCELED (125) or polls for ever. By then every round is over
# and compared, and its line printed.
# shellcheck disable=SC2086 # OPTIONS are several words.
stdbuf -oL fi_pingpong -d "$DOMAIN" $OPTIONS -c >server.txt & server=$!
listening 47592
# shellcheck disable=SC2086
stdbuf -oL fi_pingpong -d "$DOMAIN" $OPTIONS -c 10.9.8.1 >client.txt & client=$!

ended() {
    ! kill -0 "$1" 2>/dev/null
}
until grep -q '^1m ' client.txt && grep -q '^1m ' server.txt; do
    if ended $client || ended $server; then
        break
    fi
done
for process in $client $server; do
    status=0
    if timeout 10 tail --pid="$process" -f /dev/null; then
        wait "$process" || status=$?
    else
        kill "$process"
        status=125
    fi
    if [ $status = 125 ]; then
        echo "process $process has lost the completion of its last message to libfabric's rxm"
    elif [ $status != 0 ]; then
        exit $status
    fi
done
grep '^1m ' client.txt
grep '^1m ' server.txt
