# The program UCP moves data by tags, puts, gets, streams and active messages, and compares it.
export UCX_NET_DEVICES=roce_lo:1 UCX_TLS=$TLS
"$UCP" 7000 & server=$!
listening 7000
"$UCP" 7000 10.9.9.1
wait $server
