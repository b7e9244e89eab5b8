//! DiSNI: verbs and rdma_cm for Java, through JNI, built from its sources.

use crate::wheels::placed_or_left_out;
use roce_tests::scene::Scene;

/// Its own examples. The client of `ReadServer` prints the text that it reads from the server's memory.
#[test]
fn disni_reads_and_sends() {
    let Some(folder) = placed_or_left_out("disni") else {
        return;
    };
    let scene = Scene::of(include_str!("scripts/disni.sh")).with("DISNI", folder);
    if let Some(played) = scene.play_or_skip(&["java"]) {
        played
            .says("the text that was read is right")
            .says("Message from the client: Hello from the client")
            .says("Message from the server: Hello from the server")
            // 16 READs of a million bytes. More would fail more often where the server gets no processor for 67 ms,
            // its peer's ACK timeout: DiSNI allows no retries.
            .moved(16_000_000);
    }
}
