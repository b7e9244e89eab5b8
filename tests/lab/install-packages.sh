#!/bin/sh
# Installs the packages that the interop lab needs, on Debian 12 or newer, as root.
# The guest's kernel is not installed: the lab downloads it on its first run.
set -eu
if [ "$(id -u)" -ne 0 ]; then
    echo "install-packages.sh: run me as root" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
# debootstrap: fresh roots for the packages. python3-venv: an environment for the wheel. valgrind: .ci/instructions.
# Outside: the emulator, the guest's first shell, the network and its captures.
# rdma-core's tests are in its documentation, for python3-pyverbs.
# Inside (the guest sees this machine's files): Soft-RoCE's user-space programs.
apt-get install --yes --no-install-recommends \
    qemu-system-x86 busybox-static kmod xz-utils \
    iproute2 nftables ethtool ndctl librpma-dev tcpdump tshark iperf3 bpftool \
    rdma-core ibverbs-utils ibverbs-providers perftest python3 python3-pyverbs \
    debootstrap python3-venv valgrind \
    gcc libc6-dev binutils libibverbs-dev librdmacm-dev rdmacm-utils
# Programs that are tested under `roce run`.
apt-get install --yes --no-install-recommends \
    bsdutils procps dapl2-utils fio libfabric-bin libiscsi-bin libiscsi-dev libmpich-dev libopenmpi-dev \
    libucx-dev mpich openmpi-bin qperf strace tgt ucx-utils
# Programs that are tested under `roce run --sockets`. The policy keeps their services from starting
# where they are installed now.
policy=/usr/sbin/policy-rc.d
if ! test -e "$policy"; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get install --yes --no-install-recommends \
    curl memcached nginx-light openssh-client openssh-server openssl redis-server redis-tools wrk
# Large programs, which only ROCE_PROGRAMS=all tests.
if [ "${ROCE_PROGRAMS:-}" = all ]; then
    apt-get install --yes --no-install-recommends \
        ceph-common ceph-mon ceph-osd mariadb-client mariadb-server openjdk-17-jdk-headless postgresql
fi
# The guest's host of NVMe, its iSCSI initiator, and file systems on their disks. Here, their
# services find no targets to connect to, and do nothing.
apt-get install --yes --no-install-recommends e2fsprogs nvme-cli open-iscsi
# Containers, with and without root. Podman 4 takes slirp4netns without root, Podman 5 passt.
apt-get install --yes --no-install-recommends crun iptables netavark passt podman slirp4netns uidmap
# A tunnel that hides RoCE from the network.
apt-get install --yes --no-install-recommends wireguard-go wireguard-tools
# Container images exclude documentation (dpkg's path-exclude), and so those tests.
if ! test -e /usr/share/doc/rdma-core/tests/run_tests.py; then
    apt-get install --yes --no-install-recommends --reinstall \
        -o Dpkg::Options::='--path-include=/usr/share/doc/rdma-core/*' rdma-core
fi
