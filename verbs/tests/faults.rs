//! Data arrives intact through real sockets, whatever faults are injected.

mod support;

use roce_verbs::completion::{Completion, WcStatus};
use roce_verbs::faults::{CompletionFault, Faults, Injection, Operation};
use roce_verbs::observation::Stat;
use roce_verbs::settings::OpenOptions;
use roce_verbs::{Device, SendOp, SendRequest};
use support::{End, LEN};

fn bytes(end: &End) -> Vec<u8> {
    let mut out = vec![0; LEN];
    end.region.read(0, &mut out).expect("in range");
    out
}

fn counted(end: &End, name: &str) -> u64 {
    let counters = end.context.port_counters();
    let counter = counters.into_iter().find(|(label, _)| *label == name);
    counter.expect("a counter of this name").1
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..LEN)
        .map(|i| (i.wrapping_mul(31) >> 3) as u8 ^ seed)
        .collect()
}

/// Writes and reads back until enough faults have been injected.
fn moves_data_through(faults: &str, last: u8, counters: &[&str]) {
    let options = OpenOptions::new().faults(faults.parse().expect("well-formed"));
    let (a, b) = (End::open(last, &options), End::open(last + 1, &options));
    a.connect(&b);
    b.connect(&a);
    let mut round = 0_u8;
    loop {
        a.region.write(0, &pattern(round)).expect("in range");
        a.run(SendOp::Write(b.region.remote(0)));
        assert!(bytes(&b) == pattern(round), "WRITE, {faults}");
        a.region.write(0, &pattern(!round)).expect("in range");
        a.run(SendOp::Read(b.region.remote(0)));
        assert!(bytes(&a) == pattern(round), "READ, {faults}");
        let injected = |name: &&str| counted(&a, name) + counted(&b, name) >= 3;
        if round >= 4 && counters.iter().all(injected) {
            break;
        }
        round = round
            .checked_add(1)
            .expect("each fault was injected by now");
    }
    let dropped = a.context.counters().total_drops() + b.context.counters().total_drops();
    let retransmitted = a.context.counters().stat(Stat::Retransmitted);
    println!("{faults}: {round} rounds, {dropped} dropped, {retransmitted} retransmitted");
}

#[test]
fn data_survives_loss_and_reordering() {
    let faults = "loss=1%,dup=1%,reorder=1%:50us,seed=1";
    let counters = ["fault_lost", "fault_duplicated", "fault_reordered"];
    moves_data_through(faults, 201, &counters);
}

#[test]
fn delayed_packets_arrive_without_calls_by_the_application() {
    // Only the target's background thread drives its NIC.
    moves_data_through("delay=200us..300us,seed=1", 211, &["fault_received"]);
}

#[test]
fn the_context_reports_its_faults() {
    let options = OpenOptions::new().faults("loss=1%".parse().expect("well-formed"));
    let end = End::open(221, &options);
    let faults = end.context.faults().expect("faults are on");
    let seed = faults.network().seed;
    assert!(seed.is_some(), "{faults}");
    assert_eq!(
        faults.to_string().split_once(','),
        Some(("loss=1%", &*format!("seed={}", seed.unwrap_or_default())))
    );
    let quiet = End::open(222, &OpenOptions::new());
    assert_eq!(quiet.context.faults(), None);
}

/// How a WRITE of 8 bytes ends.
fn outcome_of_write(from: &End, to: &End) -> Completion {
    let element = from.region.slice(0, 8).expect("in range");
    let request = SendRequest::write(element, to.region.remote(0));
    from.qp.post_send(&request).expect("posted");
    from.cq.wait_polling().expect("no overrun")
}

/// Injections of a context, built in Rust, strike its own completions, and not those of others.
#[test]
fn injections_strike_the_completions_of_their_context() {
    let failure = CompletionFault::Status(WcStatus::RemoteOperationError);
    let faults = Faults::new().inject(
        Injection::completion(Operation::Write, failure)
            .at(2)
            .of_qp(1),
    );
    let injected = End::open(223, &OpenOptions::new().faults(faults.clone()));
    let other = End::open(224, &OpenOptions::new());
    injected.connect(&other);
    other.connect(&injected);
    assert_eq!(
        injected.context.faults().map(|all| all.injections().len()),
        Some(1)
    );
    for _ in 0..3 {
        other.run(SendOp::Write(injected.region.remote(0)));
    }
    injected.run(SendOp::Write(other.region.remote(0)));
    let failed = outcome_of_write(&injected, &other);
    assert_eq!(failed.status, WcStatus::RemoteOperationError);
    let why = injected
        .context
        .why(injected.qp.qpn())
        .expect("it has failed");
    assert_eq!(why.failure.cause.code(), 0x530, "{why}");
}

/// While the link is down, nothing arrives.
#[test]
fn a_peer_behind_a_link_that_is_down_does_not_answer() {
    let down: Faults = "port:down@0s".parse().expect("well-formed");
    let injected = End::open(225, &OpenOptions::new().faults(down));
    let other = End::open(226, &OpenOptions::new());
    injected.connect(&other);
    other.connect(&injected);
    let failed = outcome_of_write(&injected, &other);
    assert_eq!(failed.status, WcStatus::RetryExceeded);
    assert!(injected.context.is_cut_off());
    assert!(counted(&injected, "fault_unplugged") > 0);
    let why = injected
        .context
        .why(injected.qp.qpn())
        .expect("it has failed");
    let why = why.to_string();
    assert!(
        why.contains("likely    the faults that ROCE_FAULTS asks for"),
        "{why}"
    );
}

#[test]
fn a_device_stops_when_it_is_ordered_to() {
    let fatal: Faults = "device:fatal@1ms".parse().expect("well-formed");
    let loopback = Device::named("roce_lo").expect("it is there");
    let options = OpenOptions::new().faults(fatal);
    let context = options.open(&loopback).expect("opened");
    while context.failure().is_none() {
        context.drive();
    }
    let why = context.failure().expect("it has stopped");
    assert_eq!(why, "ROCE_FAULTS stopped it");
}

#[test]
fn a_region_whose_memory_vanishes_fails_requests() {
    let faults: Faults = "region:fault@1".parse().expect("well-formed");
    let injected = End::open(228, &OpenOptions::new().faults(faults));
    let other = End::open(229, &OpenOptions::new());
    injected.connect(&other);
    other.connect(&injected);
    let failed = outcome_of_write(&injected, &other);
    assert_eq!(failed.status, WcStatus::LocalProtectionError);
    let why = injected
        .context
        .why(injected.qp.qpn())
        .expect("it has failed");
    assert_eq!(why.failure.cause.code(), 0x117, "{why}");
}
