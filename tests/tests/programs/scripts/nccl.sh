# NCCL's own transport between two processes, without a GPU, on the loopback's device, which may be named DEVICE.
export NCCL_IB_HCA=${DEVICE:-roce_lo}
"$PROGRAM" "$NCCL" "$NCCL_IB_HCA"
