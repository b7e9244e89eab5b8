# A server and a client of Node: bodies of several sizes are sent, and compared with what comes back.
node -e "$PROGRAM"
