//! The DSCP and priority of sent packets, checked by the kernel's packet filter and tshark.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::{End, Pair};

use super::perf::{Server, Setting, XDP};
use super::pingpong;

/// Installs rules that RoCE packets sent by the kernel must match. The kernel counts those that
/// match and those that don't.
fn expect(end: &End, rules: &str) {
    let script = format!(
        "table inet roce {{\n\
           counter right {{ }}\n\
           counter wrong {{ }}\n\
           chain out {{\n\
             type filter hook output priority 0; policy accept;\n\
             udp dport 4791 jump roce\n\
           }}\n\
           chain roce {{\n\
             {rules}\n\
             counter name wrong\n\
           }}\n\
         }}\n"
    );
    let mut command = end.command("nft");
    let mut nft = command
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("nft starts");
    let mut input = nft.stdin.take().expect("piped");
    input.write_all(script.as_bytes()).expect("nft reads");
    drop(input);
    assert!(nft.wait().expect("nft ends").success(), "{script}");
}

/// The number of packets that matched, and of those that did not.
fn counted(end: &End) -> [u64; 2] {
    let mut command = end.command("nft");
    let output = command.args(["-j", "list", "counters"]).output();
    let text = output.expect("nft starts").stdout;
    let listing: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let entries = listing["nftables"].as_array().expect("a list");
    ["right", "wrong"].map(|name| {
        let counter = entries.iter().map(|entry| &entry["counter"]);
        let mut counter = counter.filter(|counter| counter["name"] == name);
        let counter = counter.next().expect("it was made");
        counter["packets"].as_u64().expect("a number")
    })
}

#[track_caller]
fn assert_all_right(end: &End) {
    let [right, wrong] = counted(end);
    assert!(
        right > 20 && wrong == 0,
        "{right} were right, {wrong} wrong"
    );
}

/// A QP without a traffic class gets the default one, and its packets the priority of the DSCP
/// instead of the one that the kernel derives from the class. The same over IPv6, where the kernel
/// derives none.
#[test]
fn sockets_send_with_class_and_priority() {
    if !is_installed_or_skip("nft") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    expect(
        &pair.near,
        "ip dscp 26 meta priority 0:5 counter name right accept\n\
         ip6 dscp 26 meta priority 0:5 counter name right accept",
    );
    let qos = [("ROCE_QOS", "default_roce_tos=104,dscp-prio=26:5")];
    for ipv6 in [false, true] {
        let setting = Setting {
            pair: &pair,
            ipv6,
            path_mtu: 1024,
            server: &[],
            client: &qos,
            options: &[],
        };
        assert_eq!(setting.run()["datapath"], "udp");
    }
    assert_all_right(&pair.near);
}

/// A service level has the configured DSCP, for RC and for UD.
#[test]
fn service_levels_have_dscps() {
    if !is_installed_or_skip("nft") || !is_installed_or_skip("ibv_rc_pingpong") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    expect(&pair.near, "ip dscp 46 counter name right accept");
    for service in ["rc", "ud"] {
        pingpong::play(&pair, service, "-g 1 -l 3", |_, command| {
            command.env("ROCE_QOS", "sl2dscp=3:46");
        });
    }
    assert_all_right(&pair.near);
}

/// With AF_XDP, frames can carry a tag of no VLAN with the priority. The other end's kernel accepts
/// them, and answers without tags.
#[test]
fn af_xdp_tags_frames_with_their_priority() {
    if !is_installed_or_skip("tshark") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    let mut watch = pair.far.command("tshark");
    watch.args(["-l", "-n", "-i", pair.far.interface, "-c", "100"]);
    watch.args(["-a", "duration:60", "-Y"]);
    watch.arg(format!("infiniband && ip.src == {}", pair.near.ip4));
    watch.args(["-T", "fields", "-e", "vlan.id", "-e", "vlan.priority"]);
    watch.args(["-e", "ip.dsfield.dscp", "-e", "ip.dsfield.ecn"]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut watch = Server(watch.expect("tshark starts"));
    let said = BufReader::new(watch.0.stderr.take().expect("piped"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("Capturing")));
    let setting = Setting {
        pair: &pair,
        ipv6: false,
        path_mtu: 1024,
        server: &[("ROCE_DATAPATH", "udp")],
        client: &[
            XDP,
            ("ROCE_XDP_PRIORITY_TAG", "1"),
            ("ROCE_QOS", "traffic_class=104,dscp-prio=26:5"),
        ],
        options: &[],
    };
    assert_eq!(setting.run()["datapath"], "xdp");
    let seen = std::io::read_to_string(watch.0.stdout.take().expect("piped")).expect("text");
    assert!(seen.lines().count() > 20, "{seen}");
    assert!(seen.lines().all(|line| line == "0\t5\t26\t2"), "{seen}");
}
