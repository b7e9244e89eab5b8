//! Changes while the fabric runs.

use super::*;

#[test]
fn a_slower_cable_takes_longer_from_the_next_packet_on() {
    let (mut fabric, ends, cable) = two();
    // BTH, RETH, data, ICRC and the wire overhead, at 10 Gbit/s, and the delay.
    let bits = (12 + 16 + 64 + 4 + 66) * 8;
    for (rate, expected) in [(None, bits / 10), (Some(1_000_000_000), bits)] {
        if let Some(rate) = rate {
            fabric.set_rate(cable, rate);
        }
        let before = fabric.now().as_nanos();
        ends[0].post_write(&mut fabric, &ends[1], 1, 64);
        fabric.drive(ends[0].host);
        run(&mut fabric);
        assert_eq!(fabric.now().as_nanos() - before, expected + 1000);
    }
}

#[test]
fn faults_of_one_direction_leave_the_other_alone() {
    let (mut fabric, ends, cable) = two();
    let loss = "loss=100%".parse().expect("well-formed");
    assert!(fabric.set_faults_from(cable, ends[0].host, loss));
    assert!(!fabric.set_faults_from(cable, SwitchId(0), loss));
    for [from, to] in [[0, 1], [1, 0]] {
        ends[from].post_write(&mut fabric, &ends[to], 1, 64);
        fabric.drive(ends[from].host);
        run(&mut fabric);
    }
    let Counters {
        lost, delivered, ..
    } = fabric.counters();
    assert_eq!((lost, delivered), (1, 1));
}
