# A program whose ranks check all sums, compiled and run by an MPI of PyPI, which is in the folder MPI. `roce run` makes
# no settings for the UCX that a wheel has of its own, so UCX_FENCE_MODE is set here.
export I_MPI_ROOT=$MPI PATH=$MPI/bin:$PATH LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$MPI/lib
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export UCX_NET_DEVICES=roce_lo:1 UCX_TLS=rc_v,ud_v,self UCX_FENCE_MODE=weak FI_VERBS_IFACE=near
mpicc -O1 -o program "$SOURCE"
# shellcheck disable=SC2086 # OPTIONS are several words.
mpiexec $OPTIONS -n 2 "$PWD/program"
