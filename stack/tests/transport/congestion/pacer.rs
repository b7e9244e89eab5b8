//! Many QPs, each at its own rate.

use super::many::Many;
use roce_stack::{CongestionControl, DcqcnParameters, Duration};
use roce_wire::Opcode;

/// The bits that a packet occupies on an Ethernet, payload included.
const BITS: u64 = (1024 + 62) * 8;

/// Rates that are constant once a first CNP has set them. Another CNP reduces them by `cut` / 2048.
fn fixed(mbps: u32, cut: u16) -> CongestionControl {
    CongestionControl::Dcqcn(DcqcnParameters {
        dce_tcp_g: cut,
        rate_to_set_on_first_cnp: mbps,
        rpg_min_rate: 1,
        rpg_byte_reset: 0,
        rpg_time_reset: Duration::from_secs(1000),
        ..DcqcnParameters::PAPER
    })
}

/// Ten thousand QPs, each at another rate from 1 to 6 Mbit/s: in a second, each sends what its rate
/// allows, within 2 percent. `ROCE_PACER_QPS` sets another number.
#[test]
fn each_of_many_keeps_to_its_rate() {
    let qps = std::env::var("ROCE_PACER_QPS").map_or(Ok(10_000), |text| text.parse());
    let qps: usize = qps.expect("ROCE_PACER_QPS is a number");
    let hosts: Vec<u8> = (0..qps).map(|n| 2 + (n % 100) as u8).collect();
    let mut many = Many::new(fixed(1, 0), &hosts, 1 << 20);
    let mut rates = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let (first, cut) = (2 + (index % 5) as u32, (index / 5 % 1000) as u16);
        many.node.nic.set_congestion_control(fixed(first, cut));
        many.deliver(index, Opcode::CNP, 0, *host, 0);
        // Alpha is updated once: from all to `cut` / 1024.
        many.now = many.now + DcqcnParameters::PAPER.dce_tcp_rtt;
        many.deliver(index, Opcode::CNP, 0, *host, 0);
        let rate = many.told(index).rate.expect("limited");
        let expected = f64::from(first) * 1e6 * (1.0 - f64::from(cut) / 2048.0);
        assert!((rate - expected).abs() < 1.0, "{index}: {rate}, {expected}");
        rates.push(rate);
        many.post(index);
    }
    // Those that waited for the others have credit for a burst.
    many.run_until(many.now + Duration::from_millis(1));
    let before = many.sent.clone();
    many.run_until(many.now + Duration::from_secs(1));
    for (index, rate) in rates.iter().enumerate() {
        let bits = ((many.sent[index] - before[index]) * BITS) as f64;
        assert!(
            (bits - rate).abs() <= rate / 50.0,
            "{index}: {bits} for {rate}"
        );
    }
}

/// A QP that is destroyed takes its timer with it.
#[test]
fn who_goes_is_not_waited_for() {
    let mut many = Many::new(fixed(1, 0), &[2, 2], 1 << 20);
    for index in 0..2 {
        many.deliver(index, Opcode::CNP, 0, 2, 0);
        many.post(index);
    }
    many.send();
    assert!(many.node.nic.next_timeout().is_some(), "both pause");
    many.destroy(0);
    assert!(many.node.nic.next_timeout().is_some(), "the other one does");
    many.destroy(1);
    assert_eq!(many.node.nic.next_timeout(), None);
}

/// A cut takes effect in the middle of a message: no packet leaves earlier than the new rate
/// allows.
#[test]
fn a_cut_bites_in_mid_message() {
    let mut many = Many::new(fixed(100, DcqcnParameters::PAPER.dce_tcp_g), &[2], 1 << 20);
    many.deliver(0, Opcode::CNP, 0, 2, 0);
    many.post(0);
    let begun = many.now;
    many.run_until(begun + Duration::from_millis(10));
    let before = many.sent[0];
    assert!((before * BITS).abs_diff(1_000_000) < 2 * BITS, "{before}");
    many.deliver(0, Opcode::CNP, 0, 2, 0);
    let rate = many.told(0).rate.expect("limited");
    assert!(rate < 80e6, "{rate}");
    many.run_until(begun + Duration::from_millis(20));
    let after = many.sent[0] - before;
    let expected = rate / 100.0;
    assert!(
        ((after * BITS) as f64 - expected).abs() < 2.0 * BITS as f64,
        "{after}"
    );
}
