//! The tests and an example of the Rust crate sideway.

use crate::wheels::built_or_skip;
use roce_tests::scene::Scene;

#[test]
fn tests_of_sideway_pass() {
    let Some(folder) = built_or_skip("sideway") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/sideway.sh")).with("SIDEWAY", folder);
    if let Some(played) = scene.play_or_skip(&[]) {
        played.says("test result: ok. 59 passed; 0 failed");
        // 1000 messages of 1024 bytes each way, of each example.
        played.moved(2 * 2_048_000);
    }
}
