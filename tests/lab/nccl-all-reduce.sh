#!/bin/sh
# All-reduce of two processes on one GPU over this stack, with the sums checked.
#
#   tests/lab/nccl-all-reduce.sh [libnccl.so.2]
#
# The processes have different NCCL_HOSTIDs, so NCCL uses the network between them; NCCL_NET=IB
# makes it fail rather than use sockets. Without a GPU the script prints that and exits with 0, or
# with 1 if ROCE_LAB=require. It needs a C compiler and a driver with libcuda.so.1.
set -eu
cd "$(dirname "$0")/../.."
nccl=${1:-target/programs/wheels/nvidia/nccl/lib/libnccl.so.2}
if ! test -e "$nccl"; then
    echo "nccl-all-reduce.sh: no $nccl: tests/lab/install-programs.sh installs it" >&2
    exit 1
fi
cargo build --release -p roce -p roce-verbs-shim
program=$(mktemp)
trap 'rm -f "$program"' EXIT
cc -Wall -O1 -o "$program" tests/tests/programs/scripts/nccl_all_reduce.c -ldl
status=0
NCCL_NET=IB NCCL_IB_HCA=roce_lo NCCL_SOCKET_IFNAME=lo NCCL_DEBUG=${NCCL_DEBUG:-INFO} \
    target/release/roce run -- "$program" "$nccl" || status=$?
if [ $status -eq 77 ]; then
    echo "SKIPPED: all_reduce needs a GPU, and there is none" >&2
    [ "${ROCE_LAB:-}" = require ] || status=0
    [ $status -eq 0 ] || status=1
fi
exit $status
