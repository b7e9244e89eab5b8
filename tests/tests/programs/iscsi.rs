//! iSER: a disk of tgt, written and read by libiscsi.

use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::Scene;

#[test]
fn libiscsi_writes_and_reads_a_disk_of_tgt() {
    libiscsi_uses_a_disk_of_tgt(None);
}

#[test]
fn libiscsi_writes_and_reads_a_disk_of_tgt_although_packets_are_lost() {
    libiscsi_uses_a_disk_of_tgt(Some("loss=1%,seed=7"));
}

/// The faults are those of both ends, in the form of `ROCE_FAULTS`.
fn libiscsi_uses_a_disk_of_tgt(faults: Option<&str>) {
    if !std::path::Path::new("/usr/include/iscsi/iscsi.h").is_file() {
        testkit::skip("libiscsi-dev", "");
        return;
    }
    let source = "tests/tests/programs/scripts/iscsi.c";
    let Some(program) = compiled_by_or_skip("cc", source, &["-liscsi"]) else {
        return;
    };
    let mut scene = Scene::of(include_str!("scripts/iscsi.sh")).with("ISCSI", program.as_path());
    if let Some(faults) = faults {
        scene = scene.with("ROCE_FAULTS", faults);
    }
    if let Some(played) = scene.play_or_skip(&["tgtd", "tgtadm", "iscsi-inq"]) {
        played
            .says("1048576 bytes written, read and compared")
            .moved(2 << 20);
        if let Some(faults) = faults {
            played.says(&format!("faults are on: {faults}"));
        }
    }
    let _ = std::fs::remove_file(program);
}
