//! RoCE v1 over AF_XDP: each operation, all kinds of GIDs, and captures.

use std::net::IpAddr;
use std::path::PathBuf;

use roce_tests::decode::{assert_decode_agrees, decode};
use roce_tests::programs::{self, is_installed_or_skip};
use roce_tests::veth::{End, Pair};
use roce_verbs::device::RoceVersion;
use roce_verbs::observation::DropReason;
use roce_verbs::{ConnectOptions, SendOp, WcStatus};
use serde_json::Value;

use super::driven::{Side, TIMEOUT, open_with, side_of};
use super::perf::{Setting, XDP};
use super::pingpong;

const V1: [(&str, &str); 2] = [XDP, ("ROCE_V1", "1")];

/// The GID table of either end: each address with both versions.
const TABLE: [&str; 6] = [
    "IPv6 link-local IB/RoCE v1",
    "IPv6 link-local RoCE v2",
    "IPv4 IB/RoCE v1",
    "IPv4 RoCE v2",
    "IPv6 IB/RoCE v1",
    "IPv6 RoCE v2",
];
/// Indices of RoCE v1 in it.
const LINK_LOCAL: &str = "0";
const IPV4: &str = "2";
const IPV6: &str = "4";

/// The command's output about the device, with and without RoCE v1.
fn devices(end: &End, environment: &[(&str, &str)], option: &str) -> String {
    let mut command = end.command(programs::roce());
    command.args(["devices", option]);
    let output = command
        .envs(environment.iter().copied())
        .output()
        .expect("roce starts");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_command_shows_both_kinds_and_says_what_it_takes() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let report: Value = serde_json::from_str(&devices(&pair.near, &V1, "--json")).expect("JSON");
    let gids = report["devices"][0]["gids"].as_array().expect("a table");
    let text = |gid: &Value, name: &str| gid[name].as_str().expect("text").to_owned();
    let shown: Vec<String> = gids
        .iter()
        .map(|gid| format!("{} {}", text(gid, "kind"), text(gid, "version")))
        .collect();
    assert_eq!(shown, TABLE);
    let without = devices(&pair.near, &[], "-v");
    assert!(without.contains("RoCE v1         no: it needs ROCE_V1=1 and AF_XDP"));
    assert!(!without.contains("IB/RoCE v1"), "{without}");
    // With RoCE v1, `auto` selects AF_XDP although the driver copies.
    let auto = devices(&pair.near, &[("ROCE_V1", "1")], "-v");
    assert!(
        auto.contains("datapath        would try xdp (AF_XDP)"),
        "{auto}"
    );
    assert!(
        auto.contains("not udp         RoCE v1 was asked for"),
        "{auto}"
    );
    let udp = devices(
        &pair.near,
        &[("ROCE_V1", "1"), ("ROCE_DATAPATH", "udp")],
        "-v",
    );
    assert!(
        udp.contains("RoCE v1         no: sockets can't carry it"),
        "{udp}"
    );
}

/// SEND, WRITE, READ and both atomics, every byte compared.
#[test]
fn every_operation_at_a_small_and_a_large_path_mtu() {
    // Large enough for path MTU 4096, with frames of several buffers.
    let Some(pair) = Pair::new_or_skip(9000, 1) else {
        return;
    };
    for (path_mtu, ipv6, index) in [(256, false, IPV4), (4096, true, IPV6)] {
        let setting = Setting {
            pair: &pair,
            ipv6,
            path_mtu,
            server: &V1,
            client: &V1,
            options: &["--gid-index", index],
        };
        assert_eq!(setting.run()["datapath"], "xdp");
    }
}

/// A folder for this test, deleted at its end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("roce-v1-{}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An error here must not hide the reason of a failed test.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The captured frames of both ends are RoCE v1; tshark agrees.
#[test]
fn every_service_is_captured_as_tshark_reads_it() {
    if !is_installed_or_skip("ibv_rc_pingpong") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let dir = Folder::new();
    for (service, index) in [("rc", LINK_LOCAL), ("uc", IPV4), ("ud", IPV4), ("ud", IPV6)] {
        let captures =
            ["server", "client"].map(|end| dir.0.join(format!("{service}-{index}-{end}.pcapng")));
        let [server, client] = &captures;
        let options = format!("-g {index} -s 1000 -c");
        pingpong::play(&pair, service, &options, |end, command| {
            let is_server = end.interface == pair.far.interface;
            let capture = if is_server { server } else { client };
            command.envs(V1).env("ROCE_PCAP", capture);
        });
        for capture in captures {
            // At least twenty in each direction.
            assert!(assert_decode_agrees(&capture) >= 40);
            for packet in decode(&capture) {
                let src: IpAddr = packet["src"]
                    .as_str()
                    .expect("text")
                    .parse()
                    .expect("a GID");
                assert!(src.is_ipv6(), "{packet}");
                assert!(packet["src_port"].is_null(), "{packet}");
            }
        }
    }
}

/// A side at either end, with these versions, connected to each other.
fn connected(pair: &Pair, versions: [RoceVersion; 2], options: &ConnectOptions) -> [Side; 2] {
    let ends = [&pair.near, &pair.far];
    let [near, far] = [0, 1].map(|i| {
        let context = open_with(ends[i], true);
        side_of(ends[i], &context, versions[i]).expect("the address has a GID")
    });
    near.connect(&pair.near, &far.endpoint(&pair.far), options);
    far.connect(&pair.far, &near.endpoint(&pair.near), options);
    [near, far]
}

/// The GID index of one end is of RoCE v1, that of the other is not.
#[test]
fn qps_of_different_versions_do_not_communicate() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let options = ConnectOptions {
        // 17 ms.
        timeout: 12,
        retry_cnt: 1,
        ..ConnectOptions::default()
    };
    for versions in [
        [RoceVersion::V1, RoceVersion::V2],
        [RoceVersion::V2, RoceVersion::V1],
    ] {
        let [near, far] = connected(&pair, versions, &options);
        near.post(SendOp::Write(far.region.remote(0)));
        let done = near.cq.poll_for(TIMEOUT).expect("no overrun");
        let status = done.expect("completed").status;
        assert_eq!(status, WcStatus::RetryExceeded);
        let drops = far.context.counters().drops(DropReason::WrongVersion);
        assert!(drops > 0);
    }
}

/// Connecting to an address behind a router is an error, except with RoCEv2.
#[test]
fn what_is_not_on_the_link_is_refused_when_connecting() {
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    pair.near
        .ip("route add default via 10.91.0.2")
        .expect("a route");
    let context = open_with(&pair.near, true);
    let options = ConnectOptions::default();
    let [v1, v2] = [RoceVersion::V1, RoceVersion::V2].map(|version| {
        let side = side_of(&pair.near, &context, version).expect("the address has a GID");
        let mut beyond = side.endpoint(&pair.near);
        beyond.gid = IpAddr::from([192, 0, 2, 1]).into();
        side.try_connect(&pair.near, &beyond, &options)
    });
    let said = v1.expect_err("a router").to_string();
    assert!(
        said.contains("gateway") && said.contains("RoCE v2"),
        "{said}"
    );
    v2.expect("RoCEv2 is routed");
}
