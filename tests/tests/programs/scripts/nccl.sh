# NCCL's own transport between two processes, without a GPU.
"$PROGRAM" "$NCCL" roce_lo
