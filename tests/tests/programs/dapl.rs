//! uDAPL's test program.

use roce_tests::scene::Scene;

#[test]
fn dapl_sends_writes_and_reads() {
    let scene = Scene::of(include_str!("scripts/dapl.sh"));
    if let Some(played) = scene.play_or_skip(&["dtest"]) {
        played.says("DAPL Test Complete. PASSED").moved(1 << 20);
    }
}
