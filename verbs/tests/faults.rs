//! Data arrives intact through real sockets, whatever faults are injected.

mod support;

use roce_verbs::SendOp;
use roce_verbs::observation::Stat;
use roce_verbs::settings::OpenOptions;
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
