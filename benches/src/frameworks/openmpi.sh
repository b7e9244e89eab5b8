# Open MPI's messages between $TEST ranks.
eval "export $SETTINGS"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FI_VERBS_IFACE=near FI_TCP_IFACE=near
# shellcheck disable=SC2086 # OPTIONS are several words.
mpirun.openmpi --oversubscribe -n "$TEST" $OPTIONS "$PROGRAM"
