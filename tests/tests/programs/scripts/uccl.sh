# UCCL's engine in two processes, which find each other by files in this folder.
#
# UCCL defines functions of libibverbs itself, which look up those of the library by name. A preloaded library comes
# before them, with the functions of 2006 (IBVERBS_1.0), because UCCL names no version.
LD_PRELOAD=$(tr ': ' '\n\n' <<<"${LD_PRELOAD:-}" | grep -v libibverbs | paste -sd: || true)
export LD_PRELOAD
mkdir cuda
ln -s "$CUDA" cuda/libcuda.so.1
ln -s "$CUDA" cuda/libcudart.so.12
export LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$PWD/cuda UCCL_P2P_RDMA_DEV=roce_lo
python3 -c "$PROGRAM" target & server=$!
python3 -c "$PROGRAM" initiator
wait $server
