//! Two senders, one link, and a switch that marks.

use super::*;
use roce_stack::{CongestionControl, DcqcnParameters, DelayParameters, Stat};

/// The results from 10 ms to 30 ms.
#[derive(Debug)]
struct Outcome {
    /// Bytes of each sender that were acknowledged.
    bytes: [u64; 2],
    dropped: u64,
    cnps: [u64; 2],
}

fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

/// The first sender sends all the time, the second from 5 ms on. The switch holds fewer bytes than
/// both may have in flight.
fn run_two_senders(control: CongestionControl) -> Outcome {
    let marks = matches!(control, CongestionControl::Dcqcn(_));
    let ecn = EcnSpec {
        kmin_bytes: 20 << 10,
        kmax_bytes: 100 << 10,
        pmax_percent: 10,
    };
    let spec = SwitchSpec {
        ecn: marks.then_some(ecn),
        ..SwitchSpec::default()
    };
    let (mut fabric, ends, _) = incast(spec, 300 << 10, 1);
    for host in 0..3 {
        fabric.nic(HostId(host)).set_congestion_control(control);
    }
    let begin = |fabric: &mut Fabric, pair: &[End]| {
        for wr_id in 0..4 {
            pair[0].write_to(fabric, &pair[1], wr_id);
        }
    };
    begin(&mut fabric, &ends[..2]);
    fabric.call_at(ms(5), 0);
    let mut bytes = [0; 2];
    let mut before = None;
    while let Some(step) = fabric.step(ms(30)) {
        if matches!(step, Step::Call(_)) {
            begin(&mut fabric, &ends[2..]);
        }
        let measured = fabric.now() >= ms(10);
        if measured && before.is_none() {
            before = Some(fabric.counters().dropped);
        }
        for (pair, bytes) in ends.chunks(2).zip(&mut bytes) {
            for status in pair[0].statuses() {
                assert_eq!(status, WcStatus::Success);
                *bytes += u64::from(measured) * LEN as u64;
                pair[0].write_to(&mut fabric, &pair[1], 1);
            }
        }
    }
    let dropped = fabric.counters().dropped - before.expect("measured");
    let cnps = [0, 1].map(|n| fabric.nic(HostId(n)).counters().stat(Stat::CnpsReceived));
    Outcome {
        bytes,
        dropped,
        cnps,
    }
}

#[test]
fn two_flows_with_dcqcn_share_a_link() {
    for parameters in [DcqcnParameters::PAPER, DcqcnParameters::CONNECT_X] {
        let outcome = run_two_senders(CongestionControl::Dcqcn(parameters));
        let [a, b] = outcome.bytes;
        // A link of 10 Gbit/s carries 22.5 MB of payload in 20 ms.
        assert!(a + b > 15_000_000, "{outcome:?}");
        assert!(a.min(b) * 2 > a.max(b), "{outcome:?}");
        assert!(outcome.cnps.iter().all(|&n| n > 0), "{outcome:?}");
    }
}

/// Delay-based control needs no marks: the two flows share the link, and the switch drops nothing.
#[test]
fn two_flows_with_delay_based_control_share_a_link() {
    let outcome = run_two_senders(CongestionControl::Delay(DelayParameters::DEFAULT));
    let [a, b] = outcome.bytes;
    assert!(a + b > 20_000_000, "{outcome:?}");
    assert!(a.min(b) * 5 > a.max(b) * 4, "{outcome:?}");
    assert_eq!(outcome.dropped, 0, "{outcome:?}");
}

/// The default avoids the drops at the switch that happen without congestion control.
#[test]
fn congestion_control_prevents_drops_at_the_switch() {
    let outcome = run_two_senders(CongestionControl::default());
    assert_eq!(outcome.dropped, 0, "{outcome:?}");
    let outcome = run_two_senders(CongestionControl::None);
    assert!(outcome.dropped > 0, "{outcome:?}");
}
