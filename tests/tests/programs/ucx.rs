//! UCX: the devices that it finds, its own benchmark, and a program that moves and compares data.

use crate::all_or_left_out;
use roce_tests::programs::compiled_by_or_skip;
use roce_tests::scene::{Played, Scene};

#[test]
fn ucx_finds_reliable_connections_and_datagrams() {
    let scene = Scene::of(include_str!("scripts/ucx_info.sh")).without_traffic();
    if let Some(played) = scene.play_or_skip(&["ucx_info"]) {
        for part in ["Transport: rc_verbs", "Transport: ud_verbs"] {
            played.says(part).says("Device: roce_lo:1");
        }
    }
}

fn moves_by(transports: &str) -> Option<Played> {
    let ucp = "tests/tests/programs/scripts/ucp.c";
    let header = std::path::Path::new("/usr/include/ucp/api/ucp.h");
    if !header.is_file() {
        testkit::skip("libucx-dev", "");
        return None;
    }
    let program = compiled_by_or_skip("cc", ucp, &["-lucp", "-lucs"])?;
    let scene = Scene::of(include_str!("scripts/ucp.sh"))
        .with("TLS", transports)
        .with("UCP", program.as_path());
    let played = scene.play_or_skip(&[]);
    let _ = std::fs::remove_file(program);
    played
}

/// Each size by tag, put, get, stream and message; the largest is 1 MiB.
#[test]
fn ucx_moves_data_by_reliable_connections() {
    if let Some(played) = moves_by("rc_v,self") {
        played.says("client: all bytes are right");
        played.says("server: all bytes are right").moved(5 << 20);
    }
}

#[test]
fn ucx_moves_data_by_datagrams() {
    if let Some(played) = moves_by("ud_v,self") {
        played.says("client: all bytes are right");
        played.says("server: all bytes are right").moved(5 << 20);
    }
}

fn perftest(transports: &str, tests: &str, size: &str, bytes: u64) {
    let scene = Scene::of(include_str!("scripts/ucx_perftest.sh"))
        .with("TLS", transports)
        .with("TESTS", tests)
        .with("SIZE", size);
    if let Some(played) = scene.play_or_skip(&["ucx_perftest"]) {
        played.moved(bytes);
    }
}

const OF_UCP: &str = "tag_lat tag_bw tag_sync_lat ucp_put_lat ucp_put_bw ucp_get \
    stream_bw stream_lat ucp_am_lat ucp_am_bw";

#[test]
fn ucx_perftest_by_reliable_connections() {
    // One direction of each: 100 messages.
    perftest("rc_v,self", OF_UCP, "4096", 10 * 100 * 4096);
    perftest("rc_v,self", "ucp_add ucp_fadd ucp_swap ucp_cswap", "8", 1);
}

#[test]
fn ucx_perftest_by_datagrams() {
    if all_or_left_out() {
        perftest("ud_v,self", OF_UCP, "4096", 10 * 100 * 4096);
    }
}

#[test]
fn ucx_perftest_with_large_messages() {
    if all_or_left_out() {
        perftest(
            "rc_v,self",
            "tag_bw ucp_put_bw ucp_get",
            "1048576",
            (3 * 100) << 20,
        );
    }
}
