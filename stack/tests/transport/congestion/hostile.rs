//! Peers, and strangers, that abuse congestion control.

use super::many::Many;
use roce_stack::{CongestionControl, DcqcnParameters, DropReason, Duration, Stat};
use roce_wire::Opcode;

const PACKETS: u64 = 64;
const MARKED: u8 = 3;

/// QPs whose peers are hosts 2, 3 and 2.
fn three(parameters: DcqcnParameters) -> Many {
    let control = CongestionControl::Dcqcn(parameters);
    Many::new(control, &[2, 3, 2], PACKETS as usize * 1024)
}

/// Sends `cnps` CNPs to the first QP, one each microsecond.
fn flood(many: &mut Many, cnps: u64, from: u8) {
    for _ in 0..cnps {
        many.now = many.now + Duration::from_micros(1);
        many.deliver(0, Opcode::CNP, 0, from, 0);
    }
}

/// A flood reduces its own QP to the lowest rate, at which it continues, and affects no other QP. A
/// QP to the same peer that starts later is no slower than that, and recovers.
// trap: hostile-packets
#[test]
fn a_flood_of_cnps_costs_nobody_else() {
    for parameters in [DcqcnParameters::PAPER, DcqcnParameters::CONNECT_X] {
        let mut many = three(parameters);
        flood(&mut many, 20_000, 2);
        let lowest = f64::from(parameters.rpg_min_rate) * 1e6;
        assert_eq!(many.told(0).rate, Some(lowest));
        assert_eq!(many.told(0).cnps_received, 20_000);
        assert_eq!(many.told(1).rate, None);
        (0..3).for_each(|index| many.post(index));
        many.send();
        assert_eq!(many.sent[1], PACKETS, "all of it, at once");
        assert!(many.told(2).rate >= Some(lowest));
        let end = many.now + Duration::from_nanos(PACKETS * 1086 * 8 * 1000);
        many.run_until(end);
        assert_eq!(many.sent, [PACKETS; 3]);
        // The flood is over.
        many.now = many.now + Duration::from_secs(10);
        assert_eq!([0, 1, 2].map(|index| many.told(index).rate), [None; 3]);
    }
}

/// CNPs from addresses other than the peer's are ignored.
// trap: hostile-packets
#[test]
fn a_stranger_slows_nobody() {
    let mut many = three(DcqcnParameters::PAPER);
    // The peer of another QP, and a host that is no peer.
    flood(&mut many, 100, 3);
    flood(&mut many, 100, 9);
    assert_eq!(many.node.nic.counters().drops(DropReason::WrongPeer), 200);
    assert_eq!(many.node.nic.counters().stat(Stat::CnpsReceived), 0);
    (0..3).for_each(|index| many.post(index));
    many.send();
    assert_eq!(many.sent, [PACKETS; 3]);
}

/// A peer, or a switch before it, marks every packet. The QP answers them no more often than usual.
/// The peer also sends CNPs for every packet that it gets, for ever: the QP slows down to the
/// lowest rate. Neither affects other QPs.
// trap: hostile-packets
#[test]
fn marks_on_everything_cost_nobody_else() {
    let parameters = DcqcnParameters::PAPER;
    let mut many = three(parameters);
    let mut notices = 0;
    for n in 0..10_000 {
        many.now = many.now + Duration::from_micros(1);
        many.deliver(0, Opcode::UC_SEND_ONLY, n, 2, MARKED);
        notices += many.send();
        if n % 50 == 0 {
            many.deliver(0, Opcode::CNP, 0, 2, 0);
        }
    }
    assert_eq!(notices, 200, "one in 50 us, for 10 ms");
    let told = many.told(0);
    assert_eq!((told.ecn_marked, told.cnps_sent), (10_000, 200));
    assert_eq!(told.cnps_suppressed, 9_800);
    let lowest = f64::from(parameters.rpg_min_rate) * 1e6;
    let rate = told.rate.expect("limited");
    assert!((lowest..2.0 * lowest).contains(&rate), "{rate}");
    assert_eq!(many.told(1).cnps_sent, 0);
    many.post(1);
    many.send();
    assert_eq!(many.sent[1], PACKETS);
}
