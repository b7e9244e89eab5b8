//! Valkey, whose RDMA is a module that is built from its sources.

use crate::wheels::built_or_skip;
use roce_tests::scene::Scene;

#[test]
fn valkey_serves_what_was_set_over_rdma() {
    let Some(folder) = built_or_skip("valkey") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/valkey.sh")).with("VALKEY", folder);
    if let Some(played) = scene.play_or_skip(&[]) {
        played.says("Valkey Over RDMA test [OK]").moved(1_000_000);
    }
}
