//! The UDP source ports of QPs, as tcpdump and tshark see them at the other end.

use std::collections::{HashMap, HashSet};
use std::process::Command;

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::Pair;

use super::cable::capture;
use super::perf::Setting;

/// The client has a QP for each of three sizes, at least.
const QPS: usize = 3;

/// The source ports of each QP's packets, by the QPN that the packets carry.
type Ports = HashMap<String, HashSet<u16>>;

/// Captures the packets of a client with at least [`QPS`] QPs that sends over `datapath`.
fn captured(pair: &Pair, ipv6: bool, datapath: &str) -> Ports {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("to-the-server.pcap");
    // Nothing else sends to the server's RoCE port.
    let filter = format!("udp dst port 4791 and dst host {}", pair.far.address(ipv6));
    capture(&pair.far, &filter, 128, &file, || {
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
    });
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-T", "fields", "-e", "infiniband.bth.destqp"]);
    tshark.args(["-e", "udp.srcport", "-r"]).arg(&file);
    let output = tshark.output().expect("tshark starts");
    let mut ports = Ports::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let (qpn, port) = line.split_once('\t').expect("two fields");
        let port = port.parse().expect("a port");
        ports.entry(qpn.to_owned()).or_default().insert(port);
    }
    ports
}

/// Between two hosts, each QP sends from a source port of its own, in the dynamic range, over both
/// datapaths and families.
#[test]
fn queue_pairs_send_from_different_source_ports() {
    if !is_installed_or_skip("tshark") || !is_installed_or_skip("tcpdump") {
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
