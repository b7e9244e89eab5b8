//! A host reads from eight others at once, with congestion control and without.

use crate::running::{Ran, User, can_or_skip, command, shared_folder};
use roce_tests::programs::built;
use std::fs;

const OPTIONS: [&str; 7] = [
    "--hosts",
    "9",
    "--rate",
    "50M",
    "--ecn",
    "20K:80K:10%",
    "--report",
];

/// What h1 said, and the packets that the switch marked and dropped on the way to h1.
struct Incast {
    ran: Ran,
    marked: u64,
    dropped: u64,
}

/// `congestion_control` is `ROCE_CC`; without it, hosts have what fits their links.
fn incast(congestion_control: Option<&str>) -> Option<Incast> {
    if !can_or_skip(User::Ordinary) {
        return None;
    }
    let folder = shared_folder();
    let folder = folder.path().join("report");
    let folder_name = folder.to_str().expect("text");
    let script = include_str!("scripts/storage_incast.sh");
    // All hosts have the variables of the command that makes the cluster.
    let options = [&OPTIONS[..], &[folder_name]].concat();
    let mut command = command(User::Ordinary, &options, script);
    command.env("NVME", built("nvme-rdma-under-test"));
    match congestion_control {
        Some(settings) => command.env("ROCE_CC", settings),
        None => command.env_remove("ROCE_CC"),
    };
    let ran = Ran::of(&command.output().expect("roce runs"));
    let report = fs::read_to_string(folder.join("report.md")).expect("a report");
    let row = report.lines().find(|line| line.starts_with("| s1 to h1 |"));
    let row = row.unwrap_or_else(|| panic!("no s1 to h1 in {report}"));
    println!("ROCE_CC: {congestion_control:?}\n{row}\n{}", ran.text);
    let cell = |index| row.split('|').nth(index)?.trim().parse().ok();
    Some(Incast {
        ran,
        marked: cell(6).expect("packets marked"),
        dropped: cell(7).expect("packets dropped"),
    })
}

#[test]
fn eight_targets_answer_a_host_at_once() {
    let Some(with) = incast(None) else { return };
    with.ran.ends_with(0).says("8 of 8 parts are read");
    assert!(with.marked > 0);
    // Some reads fail, or none: retries may be used up.
    let Some(without) = incast(Some("none")) else {
        return;
    };
    without.ran.ends_with(0).says("of 8 parts are read");
    assert!(with.dropped < without.dropped);
}
