# A matrix product of a server of ggml's RPC backend, twice: the server notices that its first client is gone.
"$PROGRAM" serve 10.9.9.1:50052 & server=$!
listening 50052
"$PROGRAM" compute 10.9.9.1:50052
"$PROGRAM" compute 10.9.9.1:50052
kill $server
