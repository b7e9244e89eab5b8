# GASNet's tests with two processes. GASNet starts processes by ssh; here, a script takes ssh's place and starts them on this
# host: its last argument is the command.
printf '#!/bin/sh\nfor command; do :; done\nexec sh -c "$command"\n' >ssh
chmod +x ssh
export GASNET_SSH_CMD=$PWD/ssh GASNET_SSH_SERVERS=localhost GASNET_HOST_DETECT=hostname \
    GASNET_PHYSMEM_MAX=1G GASNET_MAX_SEGSIZE=64M/P \
    FI_PROVIDER='verbs;ofi_rxm' FI_VERBS_IFACE=near
for program in testgasnet testbarrier testsmall; do
    "$GASNET/gasnetrun_ofi" -n 2 "$GASNET/$program" 100
done
