# Copies a file. The server goes on to serve.
head -c 5000001 /dev/urandom >from
rcopy & server=$!
until_served rcopy from 10.9.9.1:to
cmp from to
kill $server
