//! Mooncake's transfer engine, from PyPI.

use crate::wheels::wheel_or_skip;
use roce_tests::scene::Scene;

#[test]
fn mooncake_writes_and_reads() {
    let Some(site) = wheel_or_skip("mooncake") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/two_ends.sh"))
        .with("PYTHONPATH", site.with_file_name(""))
        .with("LD_LIBRARY_PATH", site.as_path())
        .with(
            "PROGRAM",
            concat!(
                include_str!("scripts/meet.py"),
                include_str!("scripts/mooncake.py")
            ),
        );
    if let Some(played) = scene.play_or_skip(&["python3"]) {
        played.says("initiator: all bytes are right");
        played.says("target: all bytes are right").moved(16 << 20);
    }
}
