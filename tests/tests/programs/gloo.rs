//! gloo: collectives over its ibverbs transport, built from its sources.

use crate::wheels::placed_or_left_out;
use roce_tests::scene::Scene;

/// The program checks the first result of each collective.
#[test]
fn gloo_runs_collectives() {
    let Some(benchmark) = placed_or_left_out("gloo/benchmark") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/gloo.sh")).with("BENCHMARK", benchmark);
    if let Some(played) = scene.play_or_skip(&[]) {
        played.says("dev=roce_lo").says("verify=true");
        // Six collectives of 10,000 floats, 20 times each.
        played.moved(6 * 20 * 40_000);
    }
}
