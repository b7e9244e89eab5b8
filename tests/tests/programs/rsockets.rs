//! rdma-core's programs of rsockets.

use crate::all_or_left_out;
use roce_tests::scene::Scene;

fn verifies(program: &'static str, options: &str, bytes: u64) {
    let scene = Scene::of(include_str!("scripts/rsockets.sh"))
        .within(600)
        .with("PROGRAM", program)
        .with("OPTIONS", options);
    if let Some(played) = scene.play_or_skip(&[program]) {
        played.moved(bytes);
    }
}

#[test]
fn rstream_verifies_its_data() {
    for options in ["-T v", "-T v -T n", "-T v -T a -i 0", "-T v -T b -T r"] {
        // Each of 4 x 100 messages goes there and back.
        let options = format!("-S 10000 -I 4 -C 100 {options}");
        verifies("rstream", &options, 8_000_000);
    }
}

#[test]
fn rstream_verifies_messages_of_many_sizes() {
    for size in [1, 63, 4097, 65_537, 1_000_000] {
        verifies("rstream", &format!("-S {size} -I 2 -C 8 -T v"), 32 * size);
    }
}

/// rstream's own sizes, from 64 bytes to 6 MiB, which move some gigabytes.
#[test]
fn rstream_measures_all_sizes() {
    if all_or_left_out() {
        verifies("rstream", "-S all", 1_000_000_000);
    }
}

#[test]
fn riostream_writes_into_mapped_memory() {
    verifies("riostream", "-S 10000 -I 4 -C 100 -T v", 8_000_000);
}

#[test]
fn rcopy_copies_a_file() {
    let scene = Scene::of(include_str!("scripts/rcopy.sh"));
    if let Some(played) = scene.play_or_skip(&["rcopy"]) {
        played.moved(5_000_001);
    }
}
