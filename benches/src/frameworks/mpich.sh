# MPICH's messages between two ranks. It has shared memory of its own, which NOLOCAL disables.
eval "export $SETTINGS"
MPIR_CVAR_NOLOCAL=1 mpiexec.mpich -n 2 "$PROGRAM"
