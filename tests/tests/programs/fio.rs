//! fio's RDMA engine, with each of its verbs.

use roce_tests::scene::Scene;

fn moves_by(verb: &str) {
    let scene = Scene::of(include_str!("scripts/fio.sh")).with("VERB", verb);
    if let Some(played) = scene.play_or_skip(&["fio"]) {
        played.moved(8 << 20);
    }
}

#[test]
fn fio_writes() {
    moves_by("write");
}

#[test]
fn fio_reads() {
    moves_by("read");
}

/// The server verifies the checksum of each block.
#[test]
fn fio_sends() {
    moves_by("send");
}
