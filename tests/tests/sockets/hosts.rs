//! Ours to ours, between two hosts: over UDP sockets and over AF_XDP, IPv4 and IPv6.

use std::fs;
use std::path::Path;
use std::time::Instant;

use roce_tests::programs::is_installed_or_skip;
use roce_tests::veth::{End, Pair};
use tempfile::TempDir;

use super::case::Case;
use super::ours::{Ours, until_accepted};
use super::random;

/// Loss of what arrives, at each end. The seed is fixed, so that something is lost in each run.
const LOSS: (&str, &str) = ("ROCE_FAULTS", "loss=1%,seed=1");

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

#[test]
fn programs_verify_their_data_over_udp_sockets() {
    all_verify("udp", &[]);
}

#[test]
fn programs_verify_their_data_over_af_xdp() {
    all_verify("xdp", &[]);
}

#[test]
fn programs_verify_their_data_over_udp_sockets_although_one_percent_is_lost() {
    all_verify("udp", &[LOSS]);
}

#[test]
fn programs_verify_their_data_over_af_xdp_although_one_percent_is_lost() {
    all_verify("xdp", &[LOSS]);
}

fn all_verify(datapath: &str, environment: &[(&str, &str)]) {
    if !is_installed_or_skip("rstream") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 2) else {
        return;
    };
    let mut environment = environment.to_vec();
    environment.push(("ROCE_DATAPATH", datapath));
    let folder = tempfile::tempdir().expect("a folder");
    for (index, case) in CASES.iter().enumerate() {
        let began = Instant::now();
        let at = pair.far.address(index % 2 == 1).to_string();
        let run = |end: &End, words: &[String], name: &str| {
            let namespace = |program: &Path| end.command(program);
            Ours::start(&namespace, words, &environment, folder.path().join(name))
        };
        let mut server = run(&pair.far, &case.server(&at), "server");
        server.wait_until_bound().expect("it listens");
        let client = || run(&pair.near, &case.client(&at), "client").finish();
        let said = [until_accepted(client), server.finish()];
        println!("{:.1?}: {datapath}, {at}: {case:?}", began.elapsed());
        for said in said {
            let said = said.unwrap_or_else(|told| panic!("{datapath}, {at}: {case:?}: {told}"));
            assert!(case.has_result(&said), "{case:?}: {said}");
        }
    }
}

#[test]
fn rcopy_copies_a_file_over_udp_sockets() {
    rcopy("udp", &[]);
}

#[test]
fn rcopy_copies_a_file_over_af_xdp_although_one_percent_is_lost() {
    rcopy("xdp", &[LOSS]);
}

fn rcopy(datapath: &str, environment: &[(&str, &str)]) {
    if !is_installed_or_skip("rcopy") {
        return;
    }
    let Some(pair) = Pair::new_or_skip(1500, 2) else {
        return;
    };
    let mut environment = environment.to_vec();
    environment.push(("ROCE_DATAPATH", datapath));
    let folder: TempDir = tempfile::tempdir().expect("a folder");
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    fs::write(&from, random::bytes(5_000_001)).expect("a file");
    let run = |end: &End, words: &[String], name: &str| {
        let namespace = |program: &Path| end.command(program);
        Ours::start(&namespace, words, &environment, folder.path().join(name))
    };
    let mut server = run(&pair.far, &["rcopy".to_owned()], "server");
    server.wait_until_bound().expect("it listens");
    let words = ["rcopy", from.to_str().expect("text")].map(str::to_owned);
    let target = format!("{}:{}", pair.far.ip4, to.display());
    let words = [&words[..], &[target]].concat();
    let said = until_accepted(|| run(&pair.near, &words, "client").finish());
    assert!(said.is_ok(), "{said:?}; {}", server.said());
    // The server goes on to serve. It closes the file after it has answered the client.
    assert!(server.runs());
    assert_eq!(
        random::sha256(&from),
        random::sha256(&to),
        "{}",
        server.said()
    );
}
