# Messages of many sizes there and back, compared by the program (-c).
# shellcheck disable=SC2086 # OPTIONS are several words.
fi_pingpong -d "$DOMAIN" $OPTIONS -c & server=$!
listening 47592
# shellcheck disable=SC2086
fi_pingpong -d "$DOMAIN" $OPTIONS -c 10.9.8.1
wait $server
