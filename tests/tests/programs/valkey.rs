//! Valkey, whose RDMA is a module that is built from its sources.

use crate::wheels::placed_or_left_out;
use roce_tests::scene::Scene;

#[test]
fn valkey_serves_what_was_set_over_rdma() {
    let Some(folder) = placed_or_left_out("valkey") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/valkey.sh")).with("VALKEY", folder);
    if let Some(played) = scene.play_or_skip(&[]) {
        played.says("Valkey Over RDMA test [OK]").moved(1_000_000);
    }
}
