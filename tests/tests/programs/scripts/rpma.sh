# Each example has a server and a client, and prints what it read, wrote or received.
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$RPMA
port=7300

# Usage: example NAME SERVER-ARGUMENTS TEXT ARGUMENT... Runs an example with these arguments of its client. One of its ends must print
# the text.
example() {
    local name=$1 server_arguments=$2 text=$3
    port=$((port + 1))
    # shellcheck disable=SC2086 # server_arguments are several words, or none.
    "$RPMA/$name/server" 10.9.8.1 "$port" $server_arguments >"$name.server" 2>&1 & server=$!
    # It listens by the connection manager, which shows only in its log.
    until grep -qs "Waiting for incoming connection" "$name.server"; do kill -0 "$server"; done
    "$RPMA/$name/client" 10.9.8.1 "$port" "${@:4}" >"$name.client" 2>&1 || { cat "$name".*; exit 1; }
    wait "$server" || { cat "$name".*; exit 1; }
    grep -qF "$text" "$name".* || { cat "$name".*; exit 1; }
    echo "$name: right"
}

example 01-connection "" "Received a message: Hello server!"
example 02-read-to-volatile "" "Read a message: Hello client!"
example 03-read-to-persistent "" "New value: Hello world!"
example 04-write-to-persistent "" "New value: Hello world!"
example 05-flush-to-persistent "" "New value: Hello world!"
example 07-atomic-write "" "3rd_word" 1st_word 2nd_word 3rd_word
example 08-messages-ping-pong "" "Value received: 9" 7 3
example 08srq-simple-messages-ping-pong-with-srq "" "Value received: 9" 7 3
example 09-flush-to-persistent-GPSPM "" "New value: Hello world!"
example 09scch-flush-to-persistent-GPSPM "" "New value: Hello world!"
example 10-send-with-imm "" "Received value '1st_word' with immediate data '1234'" 1234 1st_word
example 11-write-with-imm "" "The value '1234' was written together with immediate data '1234'" 1234
example 12-receive-completion-queue "" "Value received: 9" 7 3
example 12scch-receive-completion-queue "" "Value received: 9" 7 3
example 13-messages-ping-pong-with-srq 1 "value received: 8" 5 3
