//! qperf's tests of reliable connections.

use crate::all_or_left_out;
use roce_tests::scene::Scene;

fn runs(tests: &str) {
    let scene = Scene::of(include_str!("scripts/qperf.sh")).with("TESTS", tests);
    if let Some(played) = scene.play_or_skip(&["qperf"]) {
        for test in tests.split(' ') {
            played.says(&format!("{test}:"));
        }
        played.moved(100_000);
    }
}

/// Both check the values that the atomics return.
#[test]
fn qperf_verifies_atomics() {
    runs("ver_rc_compare_swap ver_rc_fetch_add");
}

#[test]
fn qperf_measures_reliable_connections() {
    if all_or_left_out() {
        runs(
            "rc_lat rc_bw rc_bi_bw rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw \
             rc_rdma_write_lat rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr",
        );
    }
}
