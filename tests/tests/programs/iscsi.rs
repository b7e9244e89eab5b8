//! iSER: a disk of tgt, written and read by libiscsi.

use roce_tests::programs::{compiled_by_or_skip, say_skipped};
use roce_tests::scene::Scene;

#[test]
fn libiscsi_writes_and_reads_a_disk_of_tgt() {
    if !std::path::Path::new("/usr/include/iscsi/iscsi.h").is_file() {
        say_skipped("libiscsi-dev, which is not installed");
        return;
    }
    let source = "tests/tests/programs/scripts/iscsi.c";
    let Some(program) = compiled_by_or_skip("cc", source, &["-liscsi"]) else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/iscsi.sh")).with("ISCSI", program.as_path());
    if let Some(played) = scene.play_or_skip(&["tgtd", "tgtadm", "iscsi-inq"]) {
        played
            .says("1048576 bytes written, read and compared")
            .moved(2 << 20);
    }
    let _ = std::fs::remove_file(program);
}
