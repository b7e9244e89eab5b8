# Messages of one of NCCL's own transports between two processes, without a GPU.
eval "export $SETTINGS"
"$PROGRAM" "$PLACED" "$DEVICE" "$TRANSPORT"
