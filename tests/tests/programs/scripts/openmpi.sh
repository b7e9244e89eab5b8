# A program whose ranks check all sums, with the options OPTIONS, on the loopback's device, which may be named DEVICE.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export UCX_NET_DEVICES=${DEVICE:-roce_lo}:1 UCX_TLS=rc_v,ud_v,self FI_VERBS_IFACE=near
# shellcheck disable=SC2086 # OPTIONS are several words.
mpirun.openmpi --oversubscribe -n "$RANKS" $OPTIONS "$PROGRAM"
