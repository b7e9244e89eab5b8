//! Frames of hosts that are outside of the fabric.

use super::*;
use roce_stack::{IpCovered, RxMeta};
use std::collections::BTreeSet;

/// The headers of Ethernet, IPv4 and UDP.
const HEADERS: usize = 42;

/// Three hosts that are outside, at a switch; all links have the same rate.
fn three(switch: SwitchSpec, queue_bytes: usize) -> (Fabric, Vec<CableId>) {
    let mut builder = FabricBuilder::new();
    let middle = builder.switch(switch);
    let spec = LinkSpec {
        queue_bytes,
        ..LinkSpec::default()
    };
    let cables = (1..=3).map(|seed| {
        let host = builder.host(HostSpec {
            seed,
            outside: true,
            ..HostSpec::default()
        });
        builder.cable(host, middle, spec)
    });
    let cables = cables.collect();
    (builder.build(1), cables)
}

/// Sends a frame to the last host, which may be marked.
fn send(fabric: &mut Fabric, from: usize, bytes: &[u8]) {
    let meta = RxMeta {
        src: fabric.address(HostId(from)),
        dst: fabric.address(HostId(2)),
        src_port: 1,
        traffic_class: 2,
        ip: IpCovered::V4Hidden,
    };
    let frame = Frame {
        bytes,
        headers: HEADERS,
        meta,
    };
    fabric.send(HostId(from), &frame);
}

/// Runs until nothing is left. Returns the frames that arrive.
fn arrivals(fabric: &mut Fabric) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let end = fabric.now() + Duration::from_secs(100);
    while let Some(step) = fabric.step(end) {
        if let Step::Host(host) = step {
            while fabric.take(host, |bytes| frames.push(bytes.to_vec())) {}
        }
    }
    assert_eq!(fabric.in_flight(), (0, 0));
    frames
}

#[test]
fn a_short_frame_has_the_space_of_the_shortest_in_a_queue_and_its_own_length_on_the_wire() {
    for (len, queued, wire) in [
        (6, 18, 66),
        (42, 18, 66),
        (44, 18, 68),
        (60, 18, 84),
        (61, 19, 85),
        (1500, 1458, 1524),
    ] {
        let (mut fabric, cables) = three(SwitchSpec::default(), 4000);
        let bytes = vec![0; len];
        // The first does not wait.
        send(&mut fabric, 0, &bytes);
        send(&mut fabric, 0, &bytes);
        let meter = fabric.meter(cables[0], HostId(0)).expect("its port");
        assert_eq!((meter.queue_bytes, meter.wire_bytes), (queued, wire));
        assert_eq!(arrivals(&mut fabric).len(), 2);
        let meter = fabric.meter(cables[0], HostId(0)).expect("its port");
        assert_eq!((meter.queue_bytes, meter.wire_bytes), (0, 2 * wire));
    }
}

#[test]
fn a_host_that_sends_nothing_but_headers_faster_than_its_link_finds_its_queue_full() {
    let (mut fabric, _) = three(SwitchSpec::default(), 1800);
    for _ in 0..1000 {
        send(&mut fabric, 0, &[0; HEADERS]);
    }
    // One is being sent, and a hundred wait.
    let counters = fabric.counters();
    assert_eq!((counters.sent, counters.dropped), (101, 899));
    assert!(!fabric.has_space(HostId(0), 18));
    assert_eq!(arrivals(&mut fabric).len(), 101);
    assert!(fabric.has_space(HostId(0), 18));
}

#[test]
fn a_switch_marks_pauses_and_drops_frames_that_are_nothing_but_headers() {
    let incast = |switch: SwitchSpec| {
        let (mut fabric, cables) = three(switch, 18_000);
        fabric.set_rate(cables[2], 1_000_000_000);
        for _ in 0..1000 {
            for from in [0, 1] {
                send(&mut fabric, from, &[0; HEADERS]);
            }
        }
        let counters = fabric.counters();
        let arrived = arrivals(&mut fabric).len() as u64;
        let after = fabric.counters();
        let lost = after.dropped - counters.dropped;
        assert_eq!(arrived + lost, counters.sent);
        (lost, after.marked, after.pauses)
    };
    let ecn = Some(EcnSpec {
        kmin_bytes: 1800,
        kmax_bytes: 3600,
        pmax_percent: 50,
    });
    let pfc = Some(PfcSpec {
        pause_bytes: 1800,
        resume_bytes: 900,
    });
    let buffer = Some(BufferSpec {
        bytes: 9000,
        headroom_bytes: 0,
        hysteresis_bytes: 0,
    });
    let usual = SwitchSpec::default();
    let (lost, marked, pauses) = incast(usual);
    assert!(lost > 500, "{lost}");
    assert_eq!((marked, pauses), (0, 0));
    let (_, marked, _) = incast(SwitchSpec { ecn, ..usual });
    assert!(marked > 500, "{marked}");
    for paused in [SwitchSpec { pfc, ..usual }, SwitchSpec { buffer, ..usual }] {
        let (lost, _, pauses) = incast(paused);
        assert_eq!(lost, 0);
        assert!(pauses > 2, "{pauses}");
    }
}

#[test]
fn a_damaged_frame_has_a_wrong_bit_behind_its_headers() {
    let (mut fabric, cables) = three(SwitchSpec::default(), 1 << 20);
    fabric.set_faults(cables[2], "corrupt=100%".parse().expect("well-formed"));
    for _ in 0..1000 {
        send(&mut fabric, 0, &[0; 60]);
    }
    let mut damaged = BTreeSet::new();
    for frame in arrivals(&mut fabric) {
        let wrong = |at: &usize| frame[*at] != 0;
        let wrong: Vec<usize> = (0..frame.len()).filter(wrong).collect();
        assert_eq!(wrong.len(), 1, "{frame:?}");
        assert_eq!(frame[wrong[0]].count_ones(), 1, "{frame:?}");
        damaged.insert(wrong[0]);
    }
    assert_eq!(damaged, (HEADERS..60).collect());
    assert_eq!(fabric.counters().corrupted, 1000);
}

#[test]
fn a_frame_that_is_nothing_but_headers_is_not_damaged() {
    let (mut fabric, cables) = three(SwitchSpec::default(), 1 << 20);
    fabric.set_faults(cables[2], "corrupt=100%".parse().expect("well-formed"));
    for len in 6..=HEADERS {
        send(&mut fabric, 0, &vec![0; len]);
    }
    let expected: Vec<_> = (6..=HEADERS).map(|len| vec![0; len]).collect();
    assert_eq!(arrivals(&mut fabric), expected);
    assert_eq!(fabric.counters().corrupted, 0);
}
