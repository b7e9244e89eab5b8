# PROGRAM with OPTIONS at both ends. Their -T v compares the data.
# shellcheck disable=SC2086 # OPTIONS are several words.
$PROGRAM $OPTIONS & server=$!
# shellcheck disable=SC2086
until_served $PROGRAM $OPTIONS -s 10.9.9.1
wait $server
