//! librpma's examples. fio's engines of librpma and a program of ours are in docs/storage.md.

use crate::wheels::placed_or_left_out;
use roce_tests::scene::Scene;

#[test]
fn examples_of_librpma_read_write_and_flush() {
    let Some(folder) = placed_or_left_out("rpma") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/rpma.sh")).with("RPMA", folder);
    if let Some(played) = scene.play_or_skip(&[]) {
        played.says("02-read-to-volatile: right");
        played.says("09-flush-to-persistent-GPSPM: right");
        played.says("13-messages-ping-pong-with-srq: right");
    }
}
