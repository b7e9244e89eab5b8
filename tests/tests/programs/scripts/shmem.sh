# A program of OpenSHMEM that compares its puts, gets and adds. With Open MPI's own memory hooks, 4.1 unloads the
# library of a hook before it calls the hook for the last time, over every network: shmem_finalize crashes.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export UCX_NET_DEVICES=roce_lo:1 UCX_TLS=rc_v,ud_v,self
oshrun --oversubscribe --mca pml ucx --mca spml ucx --mca opal_common_ucx_opal_mem_hooks 0 -n 2 "$PROGRAM"
