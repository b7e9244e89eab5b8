# Values of 1 byte to 1 MB, set and got back by a client that compares them, over one connection and over several.
user=
[ "$(id -u)" != 0 ] || user='-u root'
# shellcheck disable=SC2086 # Two words.
memcached $user -l 10.9.9.1 -p 11211 -U 0 -I 2m & server=$!
listening 11211
python3 -c "$CLIENT" 10.9.9.1 11211
kill $server
