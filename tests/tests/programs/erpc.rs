//! eRPC over its InfiniBand transport, built for RoCE: its own tests, each with server and clients in one process.

use crate::wheels::placed_or_left_out;
use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::Scene;

#[test]
fn erpc_calls_and_survives_loss() {
    let Some(folder) = placed_or_left_out("erpc") else {
        return;
    };
    let source = "tests/tests/programs/scripts/no_huge_pages.c";
    let Some(preloaded) = compiled_by_or_skip("cc", source, &["-shared", "-fPIC", "-ldl"]) else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/erpc.sh"))
        .with("ERPC", folder)
        .with("NO_HUGE_PAGES", preloaded.as_path())
        .within(300);
    if let Some(played) = scene.play_or_skip(&[]) {
        for tests in ["small_msg", "large_msg", "packet_loss"] {
            played.says(&format!("{tests}_test: passed at try"));
        }
        // Most of it is large messages.
        played.moved(50_000_000);
    }
    let _ = std::fs::remove_file(preloaded);
}
