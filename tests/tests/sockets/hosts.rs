//! Ours to ours, between two hosts: over UDP sockets and over AF_XDP, IPv4 and IPv6.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use roce_tests::decode::decode;
use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::{End, Pair};
use serde_json::Value;
use tempfile::TempDir;

use super::case::Case;
use super::ours::{Ours, until_accepted};
use roce_tests::random;

const CASES: [Case; 10] = {
    const fn rstream(options: &'static str) -> Case {
        let program = "rstream";
        Case { program, options }
    }
    const fn riostream(options: &'static str) -> Case {
        let program = "riostream";
        Case { program, options }
    }
    [
        rstream("-S 1000 -I 10 -C 40 -T v"),
        rstream("-S 1000 -I 10 -C 40 -T v -T b"),
        rstream("-S 20000 -I 10 -C 10 -T v -T n"),
        rstream("-S 20000 -I 10 -C 10 -T v -k 1"),
        rstream("-S 1000 -I 10 -C 40 -T v -T r"),
        rstream("-S 200 -I 10 -C 40 -T v -i 0"),
        rstream("-S 50000 -I 4 -C 10 -T v -B 7000"),
        rstream("-S 1000000 -I 2 -C 4 -T v"),
        riostream("-S 1000 -I 10 -C 40 -T v"),
        riostream("-S 100000 -I 4 -C 4 -T v -T n"),
    ]
};

/// What becomes of the packets that arrive at each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Good,
    /// 1 % are lost. The seed is fixed, so that something is lost in each run.
    Lossy,
}

#[test]
fn programs_verify_their_data_over_udp_sockets() {
    all_verify("udp", Network::Good);
}

#[test]
fn programs_verify_their_data_over_af_xdp() {
    all_verify("xdp", Network::Good);
}

#[test]
fn programs_verify_their_data_over_udp_sockets_although_one_percent_is_lost() {
    all_verify("udp", Network::Lossy);
}

#[test]
fn programs_verify_their_data_over_af_xdp_although_one_percent_is_lost() {
    all_verify("xdp", Network::Lossy);
}

fn all_verify(datapath: &'static str, network: Network) {
    let Some(hosts) = Hosts::new_or_skip("rstream", datapath, network) else {
        return;
    };
    for (index, case) in CASES.iter().enumerate() {
        let began = Instant::now();
        let at = hosts.pair.far.address(index % 2 == 1).to_string();
        let mut server = hosts.run(&hosts.pair.far, &case.server(&at), "server");
        server.wait_until_bound().expect("it listens");
        let client = || {
            hosts
                .run(&hosts.pair.near, &case.client(&at), "client")
                .finish()
        };
        let said = [until_accepted(client), server.finish()];
        println!("{:.1?}: {datapath}, {at}: {case:?}", began.elapsed());
        for said in said {
            let said = said.unwrap_or_else(|told| panic!("{datapath}, {at}: {case:?}: {told}"));
            assert!(case.has_result(&said), "{case:?}: {said}");
        }
    }
    hosts.check_losses();
}

#[test]
fn rcopy_copies_a_file_over_udp_sockets() {
    rcopy("udp", Network::Good);
}

#[test]
fn rcopy_copies_a_file_over_af_xdp_although_one_percent_is_lost() {
    rcopy("xdp", Network::Lossy);
}

fn rcopy(datapath: &'static str, network: Network) {
    let Some(hosts) = Hosts::new_or_skip("rcopy", datapath, network) else {
        return;
    };
    let Pair { near, far } = &hosts.pair;
    let [from, to] = ["from", "to"].map(|name| hosts.folder.path().join(name));
    fs::write(&from, random::bytes(5_000_001)).expect("a file");
    let mut server = hosts.run(far, &["rcopy".to_owned()], "server");
    server.wait_until_bound().expect("it listens");
    let target = format!("{}:{}", far.ip4, to.display());
    let words = ["rcopy", from.to_str().expect("text"), &target].map(str::to_owned);
    let said = until_accepted(|| hosts.run(near, &words, "client").finish());
    assert!(said.is_ok(), "{said:?}; {}", server.said());
    // The server goes on to serve.
    assert!(server.runs());
    let sums = [&from, &to].map(|file| random::sha256(file));
    assert_eq!(sums[0], sums[1], "{}", server.said());
    drop(server);
    hosts.check_losses();
}

/// Two hosts, and the environment of their programs.
struct Hosts {
    pair: Pair,
    datapath: &'static str,
    network: Network,
    folder: TempDir,
}

impl Hosts {
    fn new_or_skip(program: &str, datapath: &'static str, network: Network) -> Option<Self> {
        if !is_installed_or_skip(program) {
            return None;
        }
        Some(Self {
            pair: Pair::new_or_skip(1500, 2)?,
            datapath,
            network,
            folder: tempfile::tempdir().expect("a folder"),
        })
    }

    fn run(&self, end: &End, words: &[String], name: &str) -> Ours {
        let capture = self.capture(name);
        let mut environment = vec![("ROCE_DATAPATH", self.datapath)];
        if self.network == Network::Lossy {
            environment.push(("ROCE_FAULTS", "loss=1%,seed=1"));
            environment.push(("ROCE_PCAP", capture.to_str().expect("text")));
        }
        let namespace = |program: &Path| end.command(program);
        Ours::start(
            &namespace,
            words,
            &environment,
            self.folder.path().join(name),
        )
    }

    /// Where an end's first program captures its packets.
    fn capture(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.pcapng"))
    }

    /// Asserts that packets were lost on their way to the first programs.
    fn check_losses(&self) {
        if self.network == Network::Good {
            return;
        }
        let is_lost = |packet: &&Value| packet["comments"].to_string().contains("fault: lost");
        let lost = ["client", "server"].map(|name| {
            let packets = decode(&self.capture(name));
            packets.iter().filter(is_lost).count()
        });
        println!("lost on the way to the client, and to the server: {lost:?}");
        assert!(lost.iter().sum::<usize>() > 0);
    }
}

/// Datagrams of both families, over both datapaths, without and with loss.
#[test]
fn udpong_sends_datagrams() {
    if !is_installed_or_skip("udpong") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 2) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    for (datapath, more) in [
        ("udp", &[][..]),
        ("xdp", &[]),
        ("udp", &[("ROCE_FAULTS", "loss=1%,seed=1")]),
        ("xdp", &[("ROCE_FAULTS", "loss=1%,seed=1")]),
    ] {
        let environment = [&[("ROCE_DATAPATH", datapath)][..], more].concat();
        let run = |end: &End, words: &[&str], name: &str| {
            let namespace = |program: &Path| end.command(program);
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Ours::start(&namespace, &words, &environment, folder.path().join(name))
        };
        for is_ipv6 in [false, true] {
            let at = pair.far.address(is_ipv6).to_string();
            let server = run(&pair.far, &["udpong", "-b", &at], "server");
            server.wait_until_it_has_udp_port(7174);
            // The server answers after all have been sent, again and again until it is heard.
            let words = ["udpong", "-s", &at, "-T", "b", "-S", "900", "-C", "500"];
            let said = run(&pair.near, &words, "client").finish();
            let said = said.unwrap_or_else(|told| panic!("{environment:?}, {at}: {told}"));
            let line = said.lines().find(|line| line.starts_with("custom "));
            let received = line.and_then(|line| line.split_whitespace().nth(2));
            let few = received.is_none_or(|received| received == "0");
            assert!(!few, "{environment:?}, {at}: {said}");
        }
    }
}
