//! This stack and the kernel's Soft-RoCE move data to each other over a link that
//! loses, reorders, duplicates and corrupts.

mod silent;

use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

use roce_tests::ends::{End, Options, Ours, Theirs, connect, mix};
use roce_tests::lab::{Counters, Direction, Drops, Lab};
use roce_tests::peer::GidIndex;
use roce_tests::wire::Frames;
use roce_verbs::observation::{DropReason, Stat};

use crate::programs::stall::describe;

const DIRECTIONS: [Direction; 2] = [Direction::ToGuest, Direction::ToHost];

/// The program in the guest that has Soft-RoCE's QPs.
const PEER: &str = "python3";

/// Requests of either end in a run.
const REQUESTS: u32 = 100;

/// The local ACK timeout, 33 ms: an emulated guest on a busy machine is slow, and rxe has no
/// back-off.
const TIMEOUT: u8 = 13;

/// How often the mix is run again if Soft-RoCE falls silent.
const REPETITIONS: usize = 2;

/// How often the mix is run without loss until no timeout expires.
const RUNS_WITHOUT_LOSS: u64 = 5;

/// No netem.
const NONE: &str = "";

/// Connects both ends, and then has these options of netem in both directions. Netem damages all
/// frames, and Soft-RoCE fails to connect if it does not find our Ethernet address within a second.
fn connect_before_netem(lab: &Lab, options: &Options, netem: &str) -> (Ours, Theirs) {
    let set = |netem| {
        for direction in DIRECTIONS {
            lab.set_netem(direction, netem).unwrap();
        }
    };
    if netem == NONE {
        return connect(lab, options);
    }
    set(NONE);
    let ends = connect(lab, options);
    set(netem);
    ends
}

/// Runs the mix, with these options of netem, and prints its duration.
fn run(lab: &Lab, gid: GidIndex, netem: &str, seed: u64) -> Ours {
    let options = Options {
        gid,
        length: mix::REGION,
        timeout: TIMEOUT,
        ..Options::default()
    };
    let mut start = Instant::now();
    let (mut ours, mut theirs) = connect_before_netem(lab, &options, netem);
    for repetition in 0.. {
        let mixed = panic::catch_unwind(AssertUnwindSafe(|| {
            mix::run(&mut ours, &mut theirs, REQUESTS, seed);
        }));
        let Err(failure) = mixed else { break };
        if repetition == REPETITIONS || !silent::is_silent(&ours, &mut theirs) {
            println!("{}", describe(lab, PEER));
            println!("{:?}; {:?}", ours.qp.query(), ours.context.counters());
            panic::resume_unwind(failure);
        }
        println!("Soft-RoCE waits for an acknowledgement that it has seen; once more");
        drop((ours, theirs));
        start = Instant::now();
        (ours, theirs) = connect_before_netem(lab, &options, netem);
    }
    let counters = ours.context.counters();
    println!(
        "{REQUESTS} requests each way in {:.1?}: {} retransmitted, {} timeouts of ours; {:?}",
        start.elapsed(),
        counters.stat(Stat::Retransmitted),
        counters.stat(Stat::Timeouts),
        lab.loss_counters().unwrap(),
    );
    assert_eq!((ours.state(), theirs.state()), ("RTS".into(), "RTS".into()));
    ours
}

#[test]
fn nothing_is_retransmitted_without_loss() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for direction in DIRECTIONS {
        lab.set_loss(direction, Drops::None).unwrap();
    }
    // The guest may get no processor for so long that a timeout expires, which is no loss but looks
    // like one.
    let mut runs = (1..=RUNS_WITHOUT_LOSS).map(|seed| {
        let ours = run(&lab, GidIndex::Ip4, NONE, seed);
        let counters = ours.context.counters();
        assert_eq!(counters.stat(Stat::SequenceNaksReceived), 0);
        counters
    });
    let in_time = runs.find(|counters| counters.stat(Stat::Timeouts) == 0);
    let counters = in_time.expect("a run without a timeout");
    // Exceptions are probes for late answers, which an emulated guest can cause, with at most two
    // packets each.
    let questions = 2 * counters.stat(Stat::LateAnswers);
    let again = counters.stat(Stat::Retransmitted);
    assert!(
        again <= questions,
        "{again} packets retransmitted, but at most {questions} by probes"
    );
}

#[test]
fn all_arrives_when_one_percent_is_lost() {
    for gid in [GidIndex::Ip4, GidIndex::LinkLocal6] {
        all_arrives_although(gid, Drops::PerMille(10));
    }
}

#[test]
fn all_arrives_when_five_percent_are_lost() {
    for gid in [GidIndex::Ip4, GidIndex::LinkLocal6] {
        all_arrives_although(gid, Drops::PerMille(50));
    }
}

fn all_arrives_although(gid: GidIndex, drops: Drops) {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for direction in DIRECTIONS {
        lab.set_loss(direction, drops).unwrap();
    }
    let ours = run(&lab, gid, NONE, 2);
    let lost = lab.loss_counters().unwrap();
    for Counters { seen, dropped } in [lost.to_guest, lost.to_host] {
        assert!(dropped > 0, "nothing was dropped of {seen}");
    }
    assert!(ours.context.counters().stat(Stat::Retransmitted) > 0);
}

#[test]
fn all_arrives_when_packets_are_reordered_duplicated_and_corrupted() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    // Every tenth packet leaves at once, before those that wait for a millisecond.
    let netem = "delay 1ms reorder 10% duplicate 2% corrupt 2%";
    let ours = run(&lab, GidIndex::Ip4, netem, 3);
    let counters = ours.context.counters();
    // The network checks IP headers and UDP checksums; for packets without the latter, only the
    // ICRC detects corruption.
    println!(
        "{:?}",
        counters.iter().filter(|c| c.1 > 0).collect::<Vec<_>>()
    );
    assert!(counters.drops(DropReason::BadIcrc) > 0);
    let early = counters.stat(Stat::OutOfOrderKept) + counters.drops(DropReason::OutOfSequence);
    assert!(early > 0);
    assert!(counters.stat(Stat::DuplicateRequests) > 0);
}

#[test]
fn retransmitted_packets_are_well_formed() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    for direction in DIRECTIONS {
        lab.set_loss(direction, Drops::PerMille(50)).unwrap();
    }
    let capture = lab.capture_start().unwrap();
    run(&lab, GidIndex::Ip4, NONE, 4);
    let files = capture.stop().unwrap();
    for file in [&files.outside, &files.guest] {
        Frames::read(file).assert_icrcs();
    }
}
