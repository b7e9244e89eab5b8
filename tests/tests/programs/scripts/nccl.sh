# NCCL's own transport between two processes, without a GPU.
export NCCL_IB_HCA=roce_lo
"$PROGRAM" "$NCCL" roce_lo
