//! Many QPs, each at a rate of its own.

use super::many::Many;
use roce_stack::{CongestionControl, DcqcnParameters, Duration};
use roce_wire::Opcode;

/// What a packet takes of a link: payload and what goes with it on an Ethernet.
const BITS: u64 = (1024 + 62) * 8;

/// Rates that stay as they are once they are set by a first CNP.
fn fixed(mbps: u32) -> CongestionControl {
    CongestionControl::Dcqcn(DcqcnParameters {
        rate_to_set_on_first_cnp: mbps,
        rpg_min_rate: 1,
        rpg_byte_reset: 0,
        rpg_time_reset: Duration::from_secs(1000),
        ..DcqcnParameters::PAPER
    })
}

/// Each has, over a second, what its rate gives it, within 2 percent. With
/// `ROCE_PACER_QPS=10000` for as many as that; that takes ten times as long.
#[test]
fn each_of_many_keeps_to_its_rate() {
    let qps = std::env::var("ROCE_PACER_QPS").map_or(Ok(1000), |text| text.parse());
    let qps: usize = qps.expect("ROCE_PACER_QPS is a number");
    let hosts: Vec<u8> = (0..qps).map(|n| 2 + (n % 100) as u8).collect();
    let mut many = Many::new(fixed(1), &hosts, 1 << 20);
    let rate = |index: usize| 1 + (index * 7 % 6) as u64;
    for (index, host) in hosts.iter().enumerate() {
        let control = fixed(u32::try_from(rate(index)).expect("small"));
        many.node.nic.set_congestion_control(control);
        many.deliver(index, Opcode::CNP, 0, *host, 0);
        assert_eq!(many.told(index).rate, Some(rate(index) as f64 * 1e6));
        many.post(index);
    }
    let begun = many.now;
    many.run_until(begun + Duration::from_secs(1));
    for (index, sent) in many.sent.iter().enumerate() {
        let bits = sent * BITS;
        let expected = rate(index) * 1_000_000;
        let off = bits.abs_diff(expected);
        assert!(off * 50 <= expected, "{index}: {bits} for {expected}");
    }
}

/// A cut bites in the middle of a message: no packet that was allowed at the rate before
/// leaves later than that.
#[test]
fn a_cut_bites_in_mid_message() {
    let mut many = Many::new(fixed(100), &[2], 1 << 20);
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
