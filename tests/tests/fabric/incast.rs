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

/// Periods and rates for links of 50 Mbit/s, as in docs/fabric.md.
const DCQCN: &str = "dcqcn,dce_tcp_rtt=20ms,rpg_time_reset=20ms,min_time_between_cnps=18ms,\
                     rpg_ai_rate=1,rpg_hai_rate=5,rpg_min_rate=1,rpg_max_rate=50,start_rate=50";

/// What h1 said, and the packets that the switch marked and dropped on the way to h1.
struct Incast {
    ran: Ran,
    marked: u64,
    dropped: u64,
}

fn incast(congestion_control: &str) -> Option<Incast> {
    if !can_or_skip(User::Ordinary) {
        return None;
    }
    let folder = shared_folder();
    let folder = folder.path().join("report");
    let folder_name = folder.to_str().expect("text");
    let script = include_str!("scripts/storage_incast.sh");
    // All hosts have the variables of the command that makes the cluster.
    let output = command(
        User::Ordinary,
        &[&OPTIONS[..], &[folder_name]].concat(),
        script,
    )
    .env("NVME", built("nvme-rdma-under-test"))
    .env("ROCE_CC", congestion_control)
    .output();
    let ran = Ran::of(&output.expect("roce runs"));
    let report = fs::read_to_string(folder.join("report.md")).expect("a report");
    let row = report.lines().find(|line| line.starts_with("| s1 to h1 |"));
    let row = row.unwrap_or_else(|| panic!("no s1 to h1 in {report}"));
    println!("ROCE_CC={congestion_control}\n{row}\n{}", ran.text);
    let cell = |index| row.split('|').nth(index)?.trim().parse().ok();
    Some(Incast {
        ran,
        marked: cell(6).expect("packets marked"),
        dropped: cell(7).expect("packets dropped"),
    })
}

#[test]
fn eight_targets_answer_a_host_at_once() {
    let Some(with) = incast(DCQCN) else { return };
    with.ran.ends_with(0).says("8 of 8 parts are read");
    assert!(with.marked > 0);
    // Some reads fail, or none: retries may be used up.
    let Some(without) = incast("none") else {
        return;
    };
    without.ran.ends_with(0).says("of 8 parts are read");
    assert!(with.dropped < without.dropped);
}
