//! libfabric: its endpoints, and messages that fi_pingpong compares.

use roce_tests::scene::Scene;

#[test]
fn libfabric_finds_connected_and_datagram_endpoints() {
    let scene = Scene::of(include_str!("scripts/fi_info.sh")).without_traffic();
    if let Some(played) = scene.play_or_skip(&["fi_info"]) {
        for part in ["FI_EP_MSG", "FI_EP_DGRAM", "FI_EP_RDM"] {
            played.says(part);
        }
        played
            .says("domain: roce_near")
            .says("domain: roce_lo-dgram");
    }
}

/// Ten round trips of each size, the largest of them 1 MiB.
fn pingpong(domain: &str, options: &str, bytes: u64) {
    let script = include_str!("scripts/fi_pingpong.sh");
    pingpong_by(script, domain, options, bytes);
}

fn pingpong_by(script: &'static str, domain: &str, options: &str, bytes: u64) {
    let scene = Scene::of(script)
        .with("DOMAIN", domain)
        .with("OPTIONS", options);
    if let Some(played) = scene.play_or_skip(&["fi_pingpong"]) {
        played.moved(bytes);
    }
}

#[test]
fn libfabric_moves_messages_by_connections() {
    pingpong("roce_near", "-p verbs -e msg", 20 << 20);
}

/// The server exits as soon as it has the last message; the client's NIC must not flush the
/// request.
#[test]
fn libfabric_moves_messages_by_rxm() {
    let script = include_str!("scripts/fi_pingpong_rxm.sh");
    pingpong_by(script, "roce_near", "-p verbs;ofi_rxm -e rdm", 20 << 20);
}

#[test]
fn libfabric_moves_datagrams() {
    pingpong("roce_near-dgram", "-p verbs -e dgram -S 1024", 20 << 10);
}

#[test]
fn libfabric_moves_messages_by_rxd() {
    pingpong(
        "roce_near-dgram",
        "-p verbs;ofi_rxd -e rdm -S 65536",
        20 << 16,
    );
}
