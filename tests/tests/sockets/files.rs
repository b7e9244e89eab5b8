//! Files that rcopy copies between rdma-core's rsockets, in the guest, and ours.

use std::fs;

use roce_tests::lab::{Direction, Drops, GUEST_IP4, HOST_IP4, Lab};
use roce_tests::programs::is_installed_or_skip;

use super::TIMEOUT;
use super::ours::until_accepted;
use super::soft_roce::{Family, Guest, Run, Server};
use roce_tests::random;

#[test]
fn rcopy_copies_files_to_and_from_rdma_core() {
    copies(Drops::None, 3_000_001);
}

#[test]
fn rcopy_copies_files_to_and_from_rdma_core_although_one_percent_is_lost() {
    copies(Drops::PerMille(10), 1_000_003);
}

fn copies(drops: Drops, len: usize) {
    if !is_installed_or_skip("rcopy") {
        return;
    }
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for direction in [Direction::ToGuest, Direction::ToHost] {
        lab.set_loss(direction, drops).unwrap();
    }
    let folder = lab.directory().canonicalize().expect("a full path");
    let from = folder.join(format!("from-{len}"));
    fs::write(&from, random::bytes(len)).expect("a file");
    let sum = random::sha256(&from);
    assert_eq!(to_guest(&lab, from.to_str().expect("text")), sum);
    let to = folder.join(format!("to-{len}"));
    // Our server's last acknowledgement must arrive, as in `EARLY_LOSS`.
    let mut lost = lab.loss_counters().unwrap();
    lab.set_loss(Direction::ToGuest, Drops::None).unwrap();
    from_guest(&lab, &lab.guest_path(&from), to.to_str().expect("text"));
    assert_eq!(random::sha256(&to), sum);
    lost.to_host = lab.loss_counters().unwrap().to_host;
    println!("{lost:?}");
    if drops != Drops::None {
        assert!(
            lost.to_guest.dropped > 0 && lost.to_host.dropped > 0,
            "{lost:?}"
        );
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Our rcopy copies a file to the guest's. Returns the sum of the copy, from the guest.
fn to_guest(lab: &Lab, from: &str) -> String {
    const TO: &str = "/tmp/copied";
    let run = Run {
        lab,
        family: Family::V4,
        server: Server::Theirs,
    };
    // It serves until it is killed, as it is when dropped.
    let server = Guest::start(lab, &words(&["rcopy"]));
    server.wait_until_it_listens().expect("it listens");
    let client = words(&["rcopy", from, &format!("{GUEST_IP4}:{TO}")]);
    let said = run.ours(&client, "client").finish();
    said.unwrap_or_else(|told| panic!("{told}; {}", run.keep_capture()));
    let sum = lab.guest(["sha256sum", TO]).output(TIMEOUT).unwrap();
    let sum = sum.success().unwrap().stdout_text();
    sum.split_whitespace().next().unwrap_or_default().to_owned()
}

/// The guest's rcopy copies a file to ours.
fn from_guest(lab: &Lab, from: &str, to: &str) {
    let run = Run {
        lab,
        family: Family::V4,
        server: Server::Ours,
    };
    let mut server = run.ours(&words(&["rcopy"]), "server");
    server.wait_until_bound().expect("it listens");
    let client = words(&["rcopy", from, &format!("{HOST_IP4}:{to}")]);
    let said = until_accepted(|| Guest::start(lab, &client).finish());
    said.unwrap_or_else(|told| panic!("{told}; {}; {}", server.said(), run.keep_capture()));
    assert!(server.runs());
}
