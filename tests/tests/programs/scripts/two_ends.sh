# A program of Python in two processes, which find each other by files in this folder.
python3 -c "$PROGRAM" target & server=$!
python3 -c "$PROGRAM" initiator
wait $server
