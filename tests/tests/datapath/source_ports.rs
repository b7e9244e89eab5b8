//! The UDP source ports of QPs, as tshark sees them at the other end.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::Pair;

use super::perf::{Server, Setting};

/// The client has a QP for each of three sizes, at least.
const QPS: usize = 3;

/// The source ports of each QP's packets, by the QPN that the packets carry.
type Ports = HashMap<String, HashSet<u16>>;

/// Captures the packets of at least [`QPS`] QPs that send over `datapath`.
fn captured(pair: &Pair, ipv6: bool, datapath: &str) -> Ports {
    let mut watch = pair.far.command("tshark");
    watch.args(["-l", "-n", "-i", pair.far.interface, "-a", "duration:120"]);
    // Nothing else sends to the server's RoCE port.
    watch.arg("-f");
    watch.arg(format!(
        "udp dst port 4791 and dst host {}",
        pair.far.address(ipv6)
    ));
    watch.args(["-T", "fields", "-e", "infiniband.bth.destqp"]);
    watch.args(["-e", "udp.srcport"]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut watch = Server(watch.expect("tshark starts"));
    let said = BufReader::new(watch.0.stderr.take().expect("piped"));
    let mut said = said.lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("Capturing")));
    let lines = BufReader::new(watch.0.stdout.take().expect("piped")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let mut ports = Ports::new();
    let mut note = |line: &str| {
        let (qpn, port) = line.split_once('\t').expect("two fields");
        let port = port.parse().expect("a port");
        ports.entry(qpn.to_owned()).or_default().insert(port);
        ports.len()
    };
    let environment = [("ROCE_DATAPATH", datapath)];
    let setting = Setting {
        pair,
        ipv6,
        path_mtu: 1024,
        server: &[("ROCE_DATAPATH", "udp")],
        client: &environment,
        options: &["--op", "write"],
    };
    assert_eq!(setting.run_some()["datapath"], datapath);
    while note(&lines.next().expect("tshark goes on")) < QPS {}
    // The rest of what has passed. The capture is cut off by the signal, after a whole line.
    let _ = watch.0.kill();
    lines.for_each(|line| {
        note(&line);
    });
    ports
}

/// Between two hosts, each QP sends from a source port of its own, in the dynamic range, over both
/// datapaths and families.
#[test]
fn queue_pairs_send_from_different_source_ports() {
    if !is_installed_or_skip("tshark") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 1) else {
        return;
    };
    for datapath in ["udp", "xdp"] {
        for ipv6 in [false, true] {
            let ports = captured(&pair, ipv6, datapath);
            let what = format!("{datapath}, IPv6: {ipv6}: {ports:?}");
            assert!(ports.len() >= QPS, "{what}");
            assert!(ports.values().all(|ports| ports.len() == 1), "{what}");
            let ports: HashSet<u16> = ports.into_values().flatten().collect();
            // Two of three may have the same by chance; all three in one of 10^8 runs.
            assert!(ports.len() > 1, "{what}");
            assert!(ports.iter().all(|&port| port >= 0xc000), "{what}");
        }
    }
}
