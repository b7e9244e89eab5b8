# A program of Python in two processes, which find each other by files in this folder.
eval "export $SETTINGS"
python3 -c "$TEST" target & server=$!
python3 -c "$TEST" initiator
wait $server
