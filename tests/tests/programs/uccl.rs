//! The P2P engine of UCCL, from PyPI, with host memory. It asks CUDA for a GPU before it uses any memory, so a library
//! of ours takes CUDA's place.

use crate::leave_out;
use crate::wheels::wheel_or_skip;
use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::Scene;
use std::process::Command;

#[test]
fn uccl_reads_writes_and_sends() {
    let Some(site) = wheel_or_skip("uccl") else {
        return;
    };
    // The wheel is for Python 3.12 and newer.
    let check = ["-c", "import sys; sys.exit(sys.version_info < (3, 12))"];
    let python = Command::new("python3").args(check).status();
    if !python.is_ok_and(|status| status.success()) {
        leave_out("runs with Python 3.12 or newer as python3");
        return;
    }
    let source = "tests/tests/programs/scripts/cuda.c";
    let Some(cuda) = compiled_by_or_skip("cc", source, &["-shared", "-fPIC"]) else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/uccl.sh"))
        .with("PYTHONPATH", site.with_file_name(""))
        .with("CUDA", cuda.as_path())
        .with(
            "PROGRAM",
            concat!(
                include_str!("scripts/meet.py"),
                include_str!("scripts/uccl.py")
            ),
        );
    if let Some(played) = scene.play_or_skip(&["python3"]) {
        played.says("initiator: all bytes are right");
        played.says("target: all bytes are right").moved(12 << 20);
    }
    let _ = std::fs::remove_file(cuda);
}
