//! GASNet-EX over libfabric: its own tests, which compare what they get.

use crate::wheels::placed_or_left_out;
use roce_tests::scene::Scene;

#[test]
fn gasnet_over_libfabric() {
    let Some(folder) = placed_or_left_out("gasnet") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/gasnet.sh")).with("GASNET", folder);
    if let Some(played) = scene.play_or_skip(&["perl"]) {
        for test in ["blocking", "nbi", "nbi put/overwrite", "AM"] {
            played.says(&format!("node 1/2 *** passed {test} test!!"));
        }
        played.moved(10_000_000);
    }
}
