use super::*;

fn switch(spec: SwitchSpec) -> Switch {
    Switch::new(spec, Dice::new(1))
}

/// The probability of a mark in the DCQCN paper: 0 up to Kmin, then a linear rise to Pmax at Kmax,
/// and 1 from Kmax on.
#[test]
fn marks_follow_the_formula_of_the_paper() {
    let ecn = EcnSpec {
        kmin_bytes: 5_000,
        kmax_bytes: 200_000,
        pmax_percent: 1,
    };
    let mut switch = switch(SwitchSpec {
        ecn: Some(ecn),
        ..SwitchSpec::default()
    });
    const PACKETS: u32 = 1_000_000;
    for (queued_bytes, chance) in [
        (0, 0.0),
        (5_000, 0.0),
        (53_750, 0.0025),
        (102_500, 0.005),
        (199_999, 0.01),
        (200_000, 1.0),
        (300_000, 1.0),
    ] {
        let marked = (0..PACKETS)
            .filter(|_| switch.should_mark(queued_bytes))
            .count() as f64;
        let expected = f64::from(PACKETS) * chance;
        // Five standard deviations of that many draws.
        let slack = 5.0 * (expected * (1.0 - chance)).sqrt();
        assert!(
            (marked - expected).abs() <= slack,
            "{queued_bytes}: {marked}"
        );
    }
}

/// The more bytes are queued, the earlier a link is paused. A paused link also resumes when bytes
/// of other links have left.
#[test]
fn a_shared_buffer_pauses_links_by_its_free_bytes() {
    let mut switch = switch(SwitchSpec {
        buffer: Some(BufferSpec {
            bytes: 10_000,
            headroom_bytes: 2_000,
            hysteresis_bytes: 500,
        }),
        ..SwitchSpec::default()
    });
    let [a, b] = [EgressId(0), EgressId(2)];
    // 4000 of the 8000 shared bytes are queued and 4000 are free, which does not exceed the limit.
    assert!(!switch.packet_queued(a, 4_000));
    assert!(!switch.packet_queued(b, 1_000));
    assert!(switch.packet_queued(a, 1_000));
    assert!(
        !switch.packet_queued(a, 1_000),
        "the link is paused already"
    );
    assert!(switch.has_space(3_000));
    assert!(!switch.has_space(3_001));
    switch.packet_left(b, 1_000);
    assert_eq!(switch.resume(), None, "6000 wait, 2000 are free");
    switch.packet_left(a, 2_000);
    assert_eq!(
        switch.resume(),
        None,
        "4000 bytes are queued, the limit is 3500"
    );
    switch.packet_left(a, 500);
    assert_eq!(switch.resume(), Some(a));
    assert_eq!(switch.resume(), None);
    switch.packet_left(a, 3_500);
    assert_eq!(switch.queued_bytes(), 0);
}

#[test]
fn a_paused_link_without_queued_packets_resumes() {
    let mut switch = switch(SwitchSpec {
        pfc: Some(PfcSpec {
            pause_bytes: 100,
            resume_bytes: 0,
        }),
        ..SwitchSpec::default()
    });
    assert!(switch.packet_queued(EgressId(0), 200));
    assert_eq!(switch.resume(), None);
    switch.packet_left(EgressId(0), 200);
    assert_eq!(switch.resume(), Some(EgressId(0)));
}
