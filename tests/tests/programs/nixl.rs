//! NIXL, from PyPI, with the UCX that its wheel bundles.

use crate::wheels::wheel_or_skip;
use roce_tests::scene::Scene;

#[test]
fn nixl_writes_and_reads() {
    let Some(site) = wheel_or_skip("nixl_cu12") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/two_ends.sh"))
        .with("PYTHONPATH", site.with_file_name(""))
        .with("UCX_NET_DEVICES", "roce_lo:1")
        .with("UCX_TLS", "rc_v,ud_v")
        .with(
            "PROGRAM",
            concat!(
                include_str!("scripts/meet.py"),
                include_str!("scripts/nixl.py")
            ),
        );
    if let Some(played) = scene.play_or_skip(&["python3"]) {
        played.says("initiator: all bytes are right");
        played.says("target: all bytes are right").moved(8 << 20);
    }
}
