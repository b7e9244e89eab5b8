//! UCX: the devices that it finds, its own benchmark, and a program that moves and compares data.

use crate::all_or_left_out;
use roce_tests::programs::{built, compiled_by_or_skip, is_installed_or_skip, roce};
use roce_tests::scene::{Played, Scene};
use roce_tests::veth::{End, Pair};
use std::process::{Command, Stdio};

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

/// `ucx_perftest` at one end of a cable, by RC: both hosts have one kernel, so UCX would take shared memory.
fn perftest_at(end: &End) -> Command {
    let library = built("libroce_verbs_shim.so");
    let mut command = end.command("timeout");
    command.arg("60").arg(roce());
    command.args([
        "run",
        "--require-traffic",
        "--",
        "ucx_perftest",
        "-p",
        "13337",
    ]);
    command.env("ROCE_LIBRARY_DIR", library.parent().expect("its folder"));
    command.env("UCX_TLS", "rc_v,ud_v,self");
    command
}

/// Without `roce run`'s setting, UCX divides long messages between the cable's device and the loopback's,
/// by which it reaches no other host, and waits for ever.
#[test]
fn ucx_reaches_another_host_without_being_told_a_device() {
    if !is_installed_or_skip("ucx_perftest") || !is_installed_or_skip("ss") {
        return;
    }
    let Some(Pair { near, far }) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut server = perftest_at(&far);
    let server = server.stdout(Stdio::null()).spawn();
    let mut server = server.expect("it starts");
    let is_listening = || {
        let mut shown = far.command("ss");
        let shown = shown.args(["-Hltn", "sport = :13337"]).output();
        !shown.expect("it starts").stdout.is_empty()
    };
    while !is_listening() {
        let ended = server.try_wait().expect("a child");
        assert!(ended.is_none(), "the server: {ended:?}");
    }
    let mut client = perftest_at(&near);
    client.arg(far.ip4.to_string());
    client.args([
        "-t", "tag_bw", "-s", "1048576", "-n", "100", "-w", "10", "-f",
    ]);
    let client = client.output().expect("it starts");
    let ended = server.wait().expect("a child");
    assert!(client.status.success(), "124: out of time: {client:?}");
    assert!(ended.success(), "{ended:?}");
}
