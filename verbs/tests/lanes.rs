//! Packets between devices of one host take lanes: rings in shared memory.

mod support;

use roce_verbs::qp::{QpAttributes, QpState};
use roce_verbs::settings::OpenOptions;
use roce_verbs::{SendOp, SendRequest, WcStatus};
use std::time::Duration;
use support::{End, LEN, sockets_only};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The value of a counter of an end's port; 0 if the port does not have it.
fn counter(end: &End, name: &str) -> u64 {
    let counters = end.context.port_counters();
    let found = counters.iter().find(|(counter, _)| *counter == name);
    found.map_or(0, |(_, count)| *count)
}

fn pair(first: u8, options: [&OpenOptions; 2]) -> [End; 2] {
    let ends = [0, 1].map(|which| End::open(first + which, options[usize::from(which)]));
    ends[0].connect(&ends[1]);
    ends[1].connect(&ends[0]);
    ends
}

/// Moves data in both directions, and compares it.
fn exchange(a: &End, b: &End) {
    for (round, op) in [(1, false), (2, true), (3, false)] {
        let sent = [round; 256];
        let (from, to) = if op { (b, a) } else { (a, b) };
        from.region.write(0, &sent).expect("in range");
        to.region.write(0, &[0; 256]).expect("in range");
        a.run(match op {
            false => SendOp::Write(b.region.remote(0)),
            true => SendOp::Read(b.region.remote(0)),
        });
        let mut got = [0; 256];
        to.region.read(0, &mut got).expect("in range");
        assert_eq!(got, sent);
    }
}

#[test]
fn packets_between_devices_of_one_host_pass_no_socket() {
    let options = OpenOptions::new();
    let [a, b] = &pair(21, [&options, &options]);
    exchange(a, b);
    for end in [a, b] {
        assert!(counter(end, "tx_lane_packets") > (LEN as u64) / 4096);
        assert_eq!(counter(end, "tx_lane_packets"), counter(end, "tx_packets"));
        assert_eq!(counter(end, "rx_lane_packets"), counter(end, "rx_packets"));
        assert_eq!(counter(end, "tx_datagrams"), 0);
        assert_eq!(
            [counter(end, "lanes_opened"), counter(end, "lanes_accepted")],
            [1, 1]
        );
    }
}

/// The options of one end are enough, as the other one's are another user's, or of another program.
#[test]
fn packets_take_sockets_if_one_end_asks_for_them() {
    for (first, options) in [
        (23, [&OpenOptions::new(), &sockets_only()]),
        (25, [&sockets_only(), &OpenOptions::new()]),
    ] {
        let [a, b] = &pair(first, options);
        exchange(a, b);
        assert!(counter(a, "tx_datagrams") > 0 && counter(b, "tx_datagrams") > 0);
        assert_eq!(
            counter(a, "tx_lane_packets") + counter(b, "tx_lane_packets"),
            0
        );
    }
}

/// A new device draws its QPNs from the part of the one that is gone, and has its address.
#[test]
fn packets_to_the_successor_of_a_device_arrive() {
    let options = OpenOptions::new();
    let a = End::open(27, &options);
    for opened in 1..=3 {
        let b = End::open(28, &options);
        a.connect(&b);
        b.connect(&a);
        exchange(&a, &b);
        assert_eq!(counter(&a, "lanes_opened"), opened);
        assert_eq!(counter(&a, "tx_datagrams"), 0);
        let reset = QpAttributes {
            state: Some(QpState::Reset),
            ..QpAttributes::default()
        };
        a.qp.modify(&reset).expect("RESET");
    }
}

/// The device that sends has a lane to itself.
#[test]
fn a_device_sends_to_itself() {
    let a = End::open(33, &OpenOptions::new());
    a.connect(&a);
    a.run(SendOp::Read(a.region.remote(0)));
    assert!(counter(&a, "rx_lane_packets") > (LEN as u64) / 4096);
    assert_eq!(counter(&a, "tx_datagrams"), 0);
}

/// The receiver polls nothing: its background thread sleeps, and is woken up.
#[test]
fn a_device_whose_program_sleeps_answers() {
    let options = OpenOptions::new();
    let [a, b] = &pair(35, [&options, &options]);
    for _ in 0..50 {
        let sge = a.region.slice(0, 8).expect("in range");
        let write = SendRequest::write(sge, b.region.remote(0));
        a.qp.post_send(&write).expect("posted");
        let done = a.cq.poll_for(TIMEOUT).expect("no overrun");
        assert_eq!(done.expect("completed").status, WcStatus::Success);
    }
    assert!(counter(a, "lane_wake_ups") > 0, "it slept before the first");
}
